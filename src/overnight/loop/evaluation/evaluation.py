"""One evaluation in progress: its checkout, its commands in the sandbox, and what came of them."""

import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from overnight.core.errors import ArenaError
from overnight.loop.arena.arena import Paths
from overnight.loop.arena.programs import search_path
from overnight.loop.evaluation import metrics
from overnight.loop.evaluation.commands import arguments
from overnight.loop.evaluation.measured import INSIDE, Measured
from overnight.loop.record.experiment import Outcome
from overnight.sandbox import Command, Finished, Limits, Mount
from overnight.store.git.checkout import checkout
from overnight.store.git.repository import Files

if TYPE_CHECKING:
    from overnight.loop.evaluation.evaluate import Evaluator

RESULTS = "/overnight"
OUTPUT_LIMIT_BYTES = 512 * 1024 * 1024
ERROR_TAIL_CHARACTERS = 2000

# An artifact that hands over a folder for a file, or takes our permissions away, has failed; a full disk is no fault.
_UNUSABLE = (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


class Evaluation:
    """One evaluation in progress."""

    def __init__(
        self,
        evaluator: "Evaluator",
        state: Files,
        place: Path,
        seed: int | None,
        slot: int,
        cancel: threading.Event | None,
    ) -> None:
        self.evaluator, self.state, self.place, self.cancel = evaluator, state, place, cancel
        self.arena = evaluator.arena
        self.remaps = evaluator.sandbox.remaps
        self.cpus = evaluator.cpus[slot % len(evaluator.cpus)]
        self.folder = place / ("produce" if self.arena.front.score else "evaluate")
        self.seconds = 0.0
        self.memory_bytes = 0
        threads = str(len(self.cpus) if self.cpus else os.cpu_count() or 1)
        self.environment = {
            "PATH": search_path(evaluator.environment.bin),
            "HOME": "/tmp" if self.remaps else str(place),
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OVERNIGHT_BUDGET_S": f"{self.arena.front.budget:g}",
        }
        if seed is not None:
            self.environment["OVERNIGHT_SEED"] = str(seed)

    def first(self) -> Command:
        """The evaluation's first command, but for program and environment, which its content does not change."""
        self.folder.mkdir()
        mounts = tuple(self._data_mounts(self.folder)) if self.remaps else ()
        if not self.arena.front.score:
            results, inside = self._results()
            mounts = (*mounts, Mount(results, inside, writable=True))
        return self._command((), self.folder, mounts)

    def two_steps(self, score: str) -> Measured:
        """Run the artifact, hand over its outputs, and run `score` where the artifact is not."""
        folder = self.folder
        visible = {path: e for path, e in self.state.items() if path not in self.evaluator.hidden}
        handed: list[str]
        if self.arena.front.produce:
            mounts = self._check_out(visible, folder)
            done = self._run(self.arena.front.produce, folder, mounts)
            if done.killed or done.exit_code != 0:
                return self._failed(done)
            try:
                handed = list(self._outputs(folder))
            except _UNUSABLE as problem:
                return self._result("crash", error=f"the outputs cannot be taken: {problem.strerror}")
            # The scorer may hold the artifact to its budget; this figure is ours, not the artifact's.
            self.environment |= {
                "OVERNIGHT_PRODUCE_S": f"{done.seconds:.3f}",
                "OVERNIGHT_PRODUCE_CPU_S": f"{done.cpu_s or 0.0:.3f}",
            }
            missing = [name for name in self.arena.outputs if not any(path in Paths([name]) for path in handed)]
            if missing:
                said = _tail(done)
                return self._result("crash", error=f"produce did not hand over {', '.join(missing)}\n{said}".strip())
        else:
            folder.mkdir(exist_ok=True)
            handed = [path for path in visible if path in Paths(self.arena.outputs)]
            checkout(self.evaluator.repository, {path: self.state[path] for path in handed}, folder)
        size = sum((folder / path).stat().st_size for path in handed)
        if size > OUTPUT_LIMIT_BYTES:
            return self._result(
                "crash", error=f"the outputs have {size:,} bytes; at most {OUTPUT_LIMIT_BYTES:,} are taken"
            )
        return self._score(score, folder, handed)

    def one_step(self, evaluate: str) -> Measured:
        """Run artifact and evaluator together."""
        folder = self.folder
        results, inside = self._results()
        mounts = self._check_out(self.state, folder)
        artifact = next((path for path in self.state if path in self.evaluator.editable), "")
        before = marks(folder, self.evaluator.editable)
        function = self.arena.evaluate_function() if evaluate == self.arena.front.evaluate else None
        argv = None
        if function:
            argv = ("python", "-c", _call_evaluator(), *function, artifact)
        done = self._run(
            evaluate,
            folder,
            (*mounts, Mount(results, inside, writable=True)),
            argv=argv,
            extra={"OVERNIGHT_RESULT": f"{inside}/result.json"},
            values={"artifact": artifact, "results": inside},
        )
        after = marks(folder, self.evaluator.editable)
        if any(after.get(path) != mark for path, mark in before.items()):
            changed = sorted(path for path, mark in before.items() if after.get(path) != mark)
            return self._result(
                "rejected", error=f"the evaluation changed {', '.join(changed[:3])}, which is read-only"
            )
        if done.killed or done.exit_code != 0:
            return self._failed(done, shared=True)
        if "{results}" in evaluate and not function:
            reading = metrics.read_shinka(
                self.arena.metric, _read(results / "metrics.json"), _read(results / "correct.json")
            )
        else:
            reading = metrics.read(self.arena.metric, _text(done.stdout), _read(results / "result.json"))
        if reading.value is None:
            return self._result("crash", secondary=reading.secondary, scorer_error=f"{reading.problem}\n{_tail(done)}")
        return self._result("ok", reading.value, reading.secondary)

    def check(self, command: str) -> str:
        """Run a check on the state; what it said if it failed."""
        folder = self.place / "check"
        visible = {path: e for path, e in self.state.items() if path not in self.evaluator.hidden}
        done = self._run(command, folder, self._check_out(visible, folder))
        if done.killed:
            return "cancelled" if done.killed == "cancelled" else f"killed: {done.killed}"
        return "" if done.exit_code == 0 else (_tail(done) or f"exit code {done.exit_code}")

    def _score(self, score: str, produced: Path, handed: Sequence[str]) -> Measured:
        pinned = self.evaluator.pinned
        results, inside = self._results()
        folder = self.place / "score"
        folder.mkdir()
        mounts = [*self._assemble(pinned, folder, handed)]
        for path in handed:
            target = folder / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                os.rename(produced / path, target)
            except _UNUSABLE as problem:
                return self._result("crash", error=f"the output {path} cannot be taken: {problem.strerror}")
        if (pinned_now := marks(pinned)) != self.evaluator.mark:
            return self._tampered(pinned_now)
        mounts += self._data_mounts(folder)
        done = self._run(
            score,
            folder,
            (*mounts, Mount(results, inside, writable=True)),
            writable=False,
            network=False,
            extra={"OVERNIGHT_RESULT": f"{inside}/result.json"},
            values={"results": inside},
        )
        if (pinned_now := marks(pinned)) != self.evaluator.mark:
            return self._tampered(pinned_now)
        if done.killed or done.exit_code != 0:
            how = f"was killed: {done.killed}" if done.killed else f"ended with exit code {done.exit_code}"
            return self._result("crash", scorer_error=f"the scorer {how}\n{_tail(done)}".strip())
        reading = metrics.read(self.arena.metric, _text(done.stdout), _read(results / "result.json"))
        if reading.value is None:
            return self._result("crash", secondary=reading.secondary, scorer_error=f"{reading.problem}\n{_tail(done)}")
        return self._result("ok", reading.value, reading.secondary)

    def _assemble(self, pinned: Path, folder: Path, handed: Sequence[str]) -> Iterator[Mount]:
        """The scorer's files in `folder`, mounted where that is possible; the outputs' own folders are copied."""
        for entry in os.scandir(pinned):
            target = folder / entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            if any(path == entry.name or path.startswith(f"{entry.name}/") for path in handed):
                if is_dir:
                    shutil.copytree(entry.path, target, symlinks=True)
            elif self.remaps:
                target.mkdir() if is_dir else target.touch()
                yield Mount(Path(entry.path), f"{INSIDE}/{entry.name}")
            elif is_dir:
                target.symlink_to(entry.path)
                yield Mount(Path(entry.path), entry.path)
            else:
                shutil.copy2(entry.path, target, follow_symlinks=False)

    def _check_out(self, files: Files, folder: Path) -> tuple[Mount, ...]:
        checkout(self.evaluator.repository, files, folder, lambda path: path not in self.evaluator.data)
        return tuple(self._data_mounts(folder))

    def _data_mounts(self, folder: Path) -> Iterator[Mount]:
        for name in self.arena.front.data:
            source = self.arena.folder / name
            if not source.exists():
                raise ArenaError(f"data {name!r} is not in {self.arena.folder}", hint="make it, or correct `data`")
            target = folder / name.rstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not self.remaps:
                target.symlink_to(source)
                yield Mount(source, str(source))
                continue
            target.mkdir(exist_ok=True) if source.is_dir() else target.touch()
            yield Mount(source, f"{INSIDE}/{name.rstrip('/')}")

    def _results(self) -> tuple[Path, str]:
        """A folder for results, and where the command sees it."""
        results = self.place / "results"
        results.mkdir(exist_ok=True)
        return results, RESULTS if self.remaps else str(results)

    def _run(
        self,
        command: str,
        folder: Path,
        mounts: Sequence[Mount],
        *,
        argv: tuple[str, ...] | None = None,
        writable: bool = True,
        network: bool | None = None,
        extra: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Finished:
        known = self._command(argv or arguments(command, values or {}), folder, mounts, writable, network)
        finished = self.evaluator.sandbox.run(replace(known, env={**self.environment, **(extra or {})}), self.cancel)
        self.seconds += finished.seconds
        self.memory_bytes = max(self.memory_bytes, finished.memory_bytes or 0)
        return finished

    def _command(
        self,
        argv: tuple[str, ...],
        folder: Path,
        mounts: Sequence[Mount],
        writable: bool = True,
        network: bool | None = None,
    ) -> Command:
        inside = INSIDE if self.remaps else str(folder)
        return Command(
            argv=argv,
            cwd=inside,
            env={},
            mounts=(Mount(folder, inside, writable), *self.evaluator.environment.mounts, *mounts),
            limits=Limits(wall_s=self.arena.timeout_s),
            network=self.arena.front.network if network is None else network,
            cpus=self.cpus,
        )

    def _outputs(self, folder: Path) -> Iterator[str]:
        wanted = Paths(self.arena.outputs)
        for inner, _, names in os.walk(folder, followlinks=False):
            for name in names:
                path = str(PurePosixPath(os.path.relpath(os.path.join(inner, name), folder)))
                # However wide a pattern is, the artifact never replaces what only the scorer sees.
                taken = path in wanted and path not in self.evaluator.hidden
                if taken and stat.S_ISREG(os.lstat(folder / path).st_mode):
                    yield path

    def _failed(self, done: Finished, shared: bool = False) -> Measured:
        said = _tail(done)
        if done.killed == "wall":
            return self._result("timeout", error=f"killed after {self.arena.timeout_s:g} s")
        if done.killed:
            return self._result("crash", error="cancelled" if done.killed == "cancelled" else f"killed: {done.killed}")
        how = f"exit code {done.exit_code}" if done.signal is None else f"signal {done.signal}"
        kind = _mendable(said)
        if shared:
            # The process also held the evaluator: authors learn no more than the kind of a failure they can mend.
            return self._result("crash", error=kind, scorer_error=f"{how}\n{said}", mendable=bool(kind))
        return self._result("crash", error=f"{how}\n{said}".strip(), mendable=bool(kind))

    def _tampered(self, now: Mapping[str, tuple[int, ...]]) -> Measured:
        before = self.evaluator.mark
        changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        shutil.rmtree(self.evaluator.pinned, ignore_errors=True)
        self.evaluator.pinned.mkdir()
        self.evaluator.pin()
        return self._result("rejected", error=f"the evaluator's files changed during the run: {', '.join(changed[:3])}")

    def _result(
        self,
        outcome: Outcome,
        value: float | None = None,
        secondary: Mapping[str, float] | None = None,
        error: str = "",
        scorer_error: str = "",
        mendable: bool = False,
    ) -> Measured:
        return Measured(outcome, value, secondary or {}, error, scorer_error, mendable, self.seconds, self.memory_bytes)


def _mendable(said: str) -> str:
    found = re.findall(
        r"^(?:SyntaxError|IndentationError|TabError|ImportError|ModuleNotFoundError|NameError): .*$", said, re.MULTILINE
    )
    return found[-1] if found and said.rstrip().endswith(found[-1].rstrip()) else ""


def marks(folder: Path, leave_out: Paths | None = None) -> dict[str, tuple[int, ...]]:
    """Path → what changes when a file's content does. The change time cannot be set back from inside a sandbox."""
    marks: dict[str, tuple[int, ...]] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        for entry in os.scandir(folder / prefix):
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                pending.append(f"{path}/")
            elif leave_out is None or path not in leave_out:
                found = entry.stat(follow_symlinks=False)
                marks[path] = (found.st_ino, found.st_size, found.st_mode, found.st_ctime_ns)
    return marks


def _read(path: Path, limit: int = 16 * 1024 * 1024) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(limit) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def _tail(done: Finished) -> str:
    said = _text(done.stderr).strip() or _text(done.stdout).strip()
    return said[-ERROR_TAIL_CHARACTERS:]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _call_evaluator() -> str:
    return (resources.files("overnight.loop.evaluation") / "call_evaluator.py").read_text("utf-8")
