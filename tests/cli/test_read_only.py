"""A workspace that can only be read: a backup, another person's, a full archive."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = {
    "program.md": "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\n",
    "art.py": "X = 3.0  # knob: 0..10\n",
    "evaluate.py": "import art\nprint('score:', -abs(art.X - 7))\n",
}


def read_only(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`overnight` where the workspace is mounted read-only, which stops root too."""
    bound = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(folder), str(folder), "--chdir", str(folder)]
    command = [*bound, sys.executable, "-m", "overnight", *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_is_recorded_can_be_read(write: Callable[..., Path], killed: bool) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    arena = write(FILES)
    run = [sys.executable, "-m", "overnight", "run", str(arena), "--experiments", "3", "--run", "one"]
    subprocess.run(run, check=True, capture_output=True)
    if killed:
        # What a process that died wrote last stands in the log alone.
        script = "import os, sys, sqlite3; c = sqlite3.connect(sys.argv[1]); c.execute('UPDATE runs SET name = name')"
        script = script.replace("UPDATE runs SET name = name", "CREATE TABLE left_behind (a)")
        database = str(arena / ".overnight" / "overnight.db")
        subprocess.run([sys.executable, "-c", f"{script}; c.commit(); os.kill(os.getpid(), 9)", database], check=False)
        assert os.path.getsize(f"{database}-wal") > 0
    status = read_only(arena, "status", "--json")
    assert status.returncode == 0, status.stderr
    assert json.loads(status.stdout)["runs"][0]["experiments"] == 3
    report = read_only(arena, "report", "--json")
    assert json.loads(report.stdout)["path"] is None and "read-only" in report.stderr
    for command in (["log"], ["show", "one", "1"], ["trace", "list"], ["usage"], ["config"], ["gc"], ["audit", "log"]):
        done = read_only(arena, *command)
        assert done.returncode == 0 and done.stdout, (command, done.stderr)
    refused = read_only(arena, "run", ".", "--experiments", "1")
    assert refused.returncode == 1 and "cannot be written" in refused.stderr and "Traceback" not in refused.stderr
