"""The `command` author: any program, a script or a coding agent's command line, in a sandboxed checkout.

The checkout has no `.git` and nothing that is hidden. `$OVERNIGHT_CONTEXT` names a JSON file outside of it, and
`$OVERNIGHT_HYPOTHESIS` a file that the program may write. Whatever it changed in the checkout is the change.
"""

import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from overnight.core.escape import visible
from overnight.loop import scope
from overnight.loop.arena.arena import Paths
from overnight.loop.arena.programs import advice, search_path
from overnight.loop.authors.base import Brief, Proposal
from overnight.loop.authors.settings import CommandSettings
from overnight.loop.evaluation.commands import arguments
from overnight.loop.evaluation.measured import INSIDE, Environment
from overnight.loop.evaluation.telling import telling_line
from overnight.sandbox import Command, Finished, Limits, Mount, Sandbox
from overnight.store.git.checkout import remove

CONTEXT = "/overnight"
RECENT = 40
_HYPOTHESIS_CHARACTERS = 2000
_SAID_CHARACTERS = 1000


class CommandAuthor:
    """Runs a program for every proposal; see `Author` for the contract."""

    def __init__(
        self,
        name: str,
        settings: CommandSettings,
        sandbox: Sandbox,
        folder: Path,
        editable: Paths,
        hidden: Paths,
        environment: Environment | None = None,
        cancel: threading.Event | None = None,
        permit: Callable[[str, CommandSettings], str] | None = None,
    ) -> None:
        self.name = name
        self._settings = settings
        self._sandbox = sandbox
        self._folder = folder
        self._editable = editable
        self._hidden = hidden
        self._environment = environment or Environment.own()
        self._cancel = cancel
        self._permit = permit

    def propose(self, brief: Brief) -> Proposal:
        """One change to the champion, made by the program."""
        return self._run(brief, {}, {})

    def repair(self, brief: Brief, proposal: Proposal, error: str) -> Proposal | None:
        """The program again, in the checkout as it left it, with the error in its context."""
        return self._run(brief, proposal.files, {"repair": {"error": error, "hypothesis": proposal.hypothesis}})

    def _run(self, brief: Brief, changed: Mapping[str, bytes | None], more: Mapping[str, Any]) -> Proposal:
        refusal = self._permit(self.name, self._settings) if self._permit is not None else ""
        if refusal:
            return Proposal({}, f"{self.name} was not started", problem=refusal, problem_status="rejected")
        self._folder.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f"author-{brief.n}-", dir=self._folder))
        try:
            checkout, outside = place / "checkout", place / "context"
            outside.mkdir()
            checkout.mkdir()
            for path, content in brief.visible.items():
                target = checkout / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                target.chmod(0o755 if path in brief.executable else 0o644)
            modes = {path: "100755" if path in brief.executable else "100644" for path in brief.visible}
            for path, replaced in changed.items():
                target = checkout / path
                target.unlink(missing_ok=True)
                if replaced is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(replaced)
            (outside / "context.json").write_text(json.dumps({**context(brief), **more}, indent=1), "utf-8")
            (outside / "hypothesis.txt").touch()
            done = self._execute(checkout, outside)
            change = scope.compare(checkout, brief.visible, modes, self._editable, self._hidden)
            return self._proposal(done, change, _hypothesis(outside / "hypothesis.txt"))
        finally:
            remove(place)

    def _execute(self, checkout: Path, outside: Path) -> Finished:
        settings = self._settings
        remaps = self._sandbox.remaps
        inside, context_folder = (INSIDE, CONTEXT) if remaps else (str(checkout), str(outside))
        return self._sandbox.run(
            Command(
                argv=arguments(settings.command, {}),
                cwd=inside,
                env={
                    "PATH": search_path(self._environment.bin),
                    "HOME": "/tmp",
                    "LANG": "C.UTF-8",
                    **{name: os.environ[name] for name in settings.environment if name in os.environ},
                    "OVERNIGHT_CONTEXT": f"{context_folder}/context.json",
                    "OVERNIGHT_HYPOTHESIS": f"{context_folder}/hypothesis.txt",
                },
                mounts=(
                    Mount(checkout, inside, writable=True),
                    Mount(outside, context_folder),
                    Mount(outside / "hypothesis.txt", f"{context_folder}/hypothesis.txt", writable=True),
                    *self._environment.mounts,
                    *(Mount(Path(path).expanduser(), str(Path(path).expanduser())) for path in settings.mounts),
                ),
                limits=Limits(wall_s=settings.timeout, memory_bytes=settings.memory_bytes, pids=1024, grace_s=2.0),
                network=settings.network,
                hosts=settings.hosts,
            ),
            self._cancel,
        )

    def _proposal(self, done: Finished, change: scope.Change, hypothesis: str) -> Proposal:
        notes = (
            [f"left behind by the author's tools and ignored: {', '.join(change.ignored)}"] if change.ignored else []
        )
        if done.refused_hosts:
            notes.append(f"hosts it asked for in vain: {', '.join(done.refused_hosts)}")
        problem, status = "", "crash"
        if change.violations:
            problem, status = "; ".join(change.violations[:4]), "rejected"
        elif done.killed == "wall":
            problem, status = f"the author was killed after {self._settings.timeout:g} s", "timeout"
        elif not done.ok:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            what = telling_line(said) or "it said nothing"
            problem = f"the author failed ({done.describe()}): {what}"
            if done.exit_code == 127:
                problem += f"; {advice(arguments(self._settings.command, {})[0], search_path(self._environment.bin))}"
            if said not in ("", what):
                notes.append(f"the end of what it said: {said[-_SAID_CHARACTERS:]}")
        return Proposal(
            change.files,
            hypothesis or f"{self.name} changed {', '.join(sorted(change.files)[:3]) or 'nothing'}",
            notes=tuple(notes),
            problem=problem,
            problem_status="rejected" if status == "rejected" else "timeout" if status == "timeout" else "crash",
        )


def context(brief: Brief) -> dict[str, Any]:
    """What an outside author is told, as JSON: nothing of the scorer's but the metric and the named numbers."""
    past = [item for item in brief.history if item.n != 0]
    champion = next((item for item in brief.history if item.n == brief.champion_n), None)
    return {
        "experiment": brief.n,
        "seed": brief.seed,
        "metric": brief.metric,
        "direction": brief.direction,
        "instructions": brief.instructions,
        "editable": sorted(brief.champion),
        "champion": _past(champion) if champion else None,
        "baseline": _past(brief.history[0]) if brief.history else None,
        "recent": [_past(item) for item in past[-RECENT:]],
        "kept": [_past(item) for item in past if item.status == "keep"],
        "findings": list(brief.findings),
        "noise": brief.noise,
        "budget_left": dict(brief.budget),
    }


def _past(item: Any) -> dict[str, Any]:
    return {
        "n": item.n,
        "status": item.status,
        "author": item.author,
        "hypothesis": item.hypothesis,
        "reason": item.reason,
        "metric": item.metric,
        "delta": item.delta,
        "secondary": dict(item.secondary),
        "error": item.error,
    }


def _hypothesis(path: Path) -> str:
    with open(path, "rb") as file:
        text = file.read(_HYPOTHESIS_CHARACTERS * 4).decode("utf-8", "replace")
    return visible(" ".join(text.split()), limit=_HYPOTHESIS_CHARACTERS)
