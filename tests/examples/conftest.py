"""The shipped arenas, each in a throw-away copy, run by hand as their program.md says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from overnight.core.errors import IsolationMissing
from overnight.loop.arena.arena import load
from overnight.sandbox import Command, Finished, Limits, Mount, open_sandbox

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Copy:
    """A copy of an arena, to run and to spoil."""

    folder: Path

    def run(self, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program, *rest = shlex.split(command)
        return subprocess.run(
            [sys.executable if program == "python" else program, *rest],
            cwd=self.folder,
            env={**os.environ, "OVERNIGHT_BUDGET_S": "0.4", "OVERNIGHT_SEED": "1", **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def produce(self, **environment: str) -> None:
        command = load(self.folder).front.produce
        assert command is not None
        done = self.run(command, **environment)
        assert done.returncode == 0, done.stderr

    def score(self, *, holdout: bool = False, **environment: str) -> float:
        arena = load(self.folder)
        command = arena.front.holdout if holdout else arena.front.score
        assert command is not None
        done = self.run(command, **environment)
        assert done.returncode == 0, done.stderr
        found = re.findall(rf"^METRIC {arena.metric}=(\S+)$", done.stdout, re.MULTILINE)
        assert len(found) == 1, done.stdout
        return float(found[0])

    def refusal(self, **environment: str) -> str:
        """What the scorer says, having refused: it must end with an error and name no number."""
        command = load(self.folder).front.score
        assert command is not None
        done = self.run(command, **environment)
        assert done.returncode != 0, done.stdout
        assert "METRIC" not in done.stdout
        said = done.stderr.splitlines()[-1]
        assert said.startswith("refused: "), done.stderr
        return said

    def refused(self, pattern: str, *values: str, code: str = "") -> list[str]:
        """Which of the files are refused when the scorer loads them; one process for all of them, to be quick."""
        code = code or f"score.load(path, {', '.join(values)})"
        script = (
            "import glob, score\n"
            f"for path in sorted(glob.glob({pattern!r})):\n"
            f"    try: {code}\n"
            "    except score.Refused: print(path)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def run_isolated(self, command: str) -> Finished:
        """As Overnight runs the scorer: in its sandbox, the folder read-only."""
        try:
            sandbox = open_sandbox()
        except IsolationMissing as problem:
            pytest.skip(str(problem))
        inside = "/arena" if sandbox.remaps else str(self.folder)
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "OVERNIGHT_SEED": "1"}
        mounts = (Mount(self.folder, inside),)
        return sandbox.run(Command(tuple(shlex.split(command)), inside, environment, mounts, Limits(wall_s=30)))

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text("utf-8")
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Copy]:
    """Copies a shipped arena."""

    def copy(name: str) -> Copy:
        ignore = shutil.ignore_patterns("__pycache__", ".overnight", "MEMORY.md")
        return Copy(Path(shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=ignore)))

    return copy
