"""One evaluation: a fresh checkout, the arena's commands inside the sandbox, the number out.

Two steps (`produce`, `score`): the artifact runs where the scorer's files do not exist; what it hands over is moved,
as data, into a second sandbox that is read-only and does not contain the artifact. One step (`evaluate`): artifact and
evaluator share a sandbox, and the record says so.
"""

import itertools
import json
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path, PurePosixPath

from overnight.core.errors import ArenaError
from overnight.loop import metrics
from overnight.loop.arena import Arena, Paths
from overnight.loop.commands import arguments
from overnight.loop.experiment import Outcome
from overnight.sandbox import Command, Finished, Limits, Mount, Sandbox
from overnight.store.git import Files, Repository
from overnight.store.git_checkout import checkout

INSIDE = "/arena"
RESULTS = "/overnight"
OUTPUT_LIMIT_BYTES = 512 * 1024 * 1024
ERROR_TAIL_CHARACTERS = 2000


@dataclass(frozen=True)
class Measured:
    """What became of one evaluation.

    Attributes:
        value: the metric, finite; None unless `outcome` is ok.
        error: tail of the artifact's own output where it failed; shown to authors.
        scorer_error: what the scorer said where it failed; for the person only.
        mendable: the artifact failed in a way that an author may repair (syntax, import).
        seconds: wall clock of all steps.
        memory_bytes: peak of the hungriest step, page cache included; 0 if the kernel does not say.
    """

    outcome: Outcome
    value: float | None = None
    secondary: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    scorer_error: str = ""
    mendable: bool = False
    seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Environment:
    """The Python (and whatever else) that commands find first.

    Attributes:
        bin: folder put at the front of PATH.
        mounts: what has to be visible, read-only, for it to work.
    """

    bin: Path
    mounts: tuple[Mount, ...] = ()

    @classmethod
    def own(cls) -> "Environment":
        """The environment Overnight itself runs in; every sandbox shows it already."""
        return cls(Path(sys.executable).parent)


class Evaluator:
    """Measures states of one arena. `measure` may be called from several threads, each with its own slot."""

    def __init__(
        self,
        arena: Arena,
        repository: Repository,
        base: Files,
        sandbox: Sandbox,
        folder: Path,
        environment: Environment,
        cpus: Sequence[frozenset[int] | None] = (None,),
    ) -> None:
        """Pin the scorer.

        Args:
            arena: what is measured.
            repository: where the content of files lies.
            base: the snapshot the run started from; all that is not editable comes from it, whatever a state says.
            sandbox: where commands run.
            folder: a folder of the run's own for checkouts, emptied here.
            environment: the Python of the commands.
            cpus: the processors of each worker slot.
        """
        self.arena = arena
        self._repository = repository
        self._sandbox = sandbox
        self._folder = folder
        self._environment = environment
        self._cpus = cpus
        self._editable, self._hidden, self._data = arena.editable, arena.hidden, arena.data
        self._fixed = {path: entry for path, entry in base.items() if path not in self._editable}
        self._counter = itertools.count()
        shutil.rmtree(folder, ignore_errors=True)
        self._pinned = folder / "pinned"
        self._pinned.mkdir(parents=True)
        self._pin()

    def measure(
        self,
        files: Files,
        seed: int | None,
        slot: int,
        cancel: threading.Event | None = None,
        command: str | None = None,
    ) -> Measured:
        """Evaluate the state `files` (path → git entry).

        Args:
            files: the whole arena folder in that state; only its editable files are taken.
            seed: for $OVERNIGHT_SEED.
            slot: the worker slot, which decides the processors.
            cancel: set to stop early; the outcome is then `crash` with error "cancelled".
            command: instead of `score` or `evaluate`; for the holdout.
        """
        place = self._folder / f"{slot}-{next(self._counter)}"
        try:
            place.mkdir()
            state = {**self._fixed, **{path: entry for path, entry in files.items() if path in self._editable}}
            runner = _Runner(self, state, place, seed, slot, cancel)
            if self.arena.front.score:
                return runner.two_steps(command or self.arena.front.score)
            return runner.one_step(command or self.arena.front.evaluate or "")
        finally:
            _remove(place)

    def check(self, files: Files, command: str, slot: int, cancel: threading.Event | None = None) -> str:
        """Run one of the arena's `checks` on a state; what it said if it failed, "" if it passed."""
        place = self._folder / f"{slot}-{next(self._counter)}"
        try:
            place.mkdir()
            state = {**self._fixed, **{path: entry for path, entry in files.items() if path in self._editable}}
            return _Runner(self, state, place, None, slot, cancel).check(command)
        finally:
            _remove(place)

    def close(self) -> None:
        """Remove all checkouts."""
        _remove(self._folder)

    def _pin(self) -> None:
        # The scorer's files are written once and only ever mounted read-only; their change marks are what is compared.
        # data is an input of produce and is mounted from where it lies.
        checkout(self._repository, self._fixed, self._pinned, lambda path: path not in self._data)
        self._mark = _marks(self._pinned)


class _Runner:
    """One evaluation in progress."""

    def __init__(
        self,
        evaluator: Evaluator,
        state: Files,
        place: Path,
        seed: int | None,
        slot: int,
        cancel: threading.Event | None,
    ) -> None:
        self.evaluator, self.state, self.place, self.cancel = evaluator, state, place, cancel
        self.arena = evaluator.arena
        self.remaps = evaluator._sandbox.remaps
        self.cpus = evaluator._cpus[slot % len(evaluator._cpus)]
        self.seconds = 0.0
        self.memory_bytes = 0
        threads = str(len(self.cpus) if self.cpus else os.cpu_count() or 1)
        self.environment = {
            "PATH": f"{evaluator._environment.bin}:/usr/local/bin:/usr/bin:/bin",
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

    def two_steps(self, score: str) -> Measured:
        folder = self.place / "produce"
        visible = {path: e for path, e in self.state.items() if path not in self.evaluator._hidden}
        handed: list[str]
        if self.arena.front.produce:
            mounts = self._check_out(visible, folder)
            done = self._run(self.arena.front.produce, folder, mounts)
            if done.killed or done.exit_code != 0:
                return self._failed(done)
            handed = list(self._outputs(folder))
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
            folder.mkdir()
            handed = [path for path in visible if path in Paths(self.arena.outputs)]
            checkout(self.evaluator._repository, {path: self.state[path] for path in handed}, folder)
        size = sum((folder / path).stat().st_size for path in handed)
        if size > OUTPUT_LIMIT_BYTES:
            return self._result(
                "crash", error=f"the outputs have {size:,} bytes; at most {OUTPUT_LIMIT_BYTES:,} are taken"
            )
        return self._score(score, folder, handed)

    def one_step(self, evaluate: str) -> Measured:
        folder = self.place / "evaluate"
        results = self._results()
        mounts = self._check_out(self.state, folder)
        artifact = next((path for path in self.state if path in self.evaluator._editable), "")
        before = _marks(folder, self.evaluator._editable)
        function = self.arena.evaluate_function() if evaluate == self.arena.front.evaluate else None
        argv = None
        if function:
            argv = ("python", "-c", _call_evaluator(), *function, artifact)
        inside = RESULTS if self.remaps else str(results)
        done = self._run(
            evaluate,
            folder,
            (*mounts, Mount(results, inside, writable=True)),
            argv=argv,
            extra={"OVERNIGHT_RESULT": f"{inside}/result.json"},
            values={"artifact": artifact, "results": inside},
        )
        after = _marks(folder, self.evaluator._editable)
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
        folder = self.place / "check"
        visible = {path: e for path, e in self.state.items() if path not in self.evaluator._hidden}
        done = self._run(command, folder, self._check_out(visible, folder))
        if done.killed:
            return "cancelled" if done.killed == "cancelled" else f"killed: {done.killed}"
        return "" if done.exit_code == 0 else (_tail(done) or f"exit code {done.exit_code}")

    def _score(self, score: str, produced: Path, handed: Sequence[str]) -> Measured:
        pinned, results = self.evaluator._pinned, self._results()
        folder = self.place / "score"
        folder.mkdir()
        mounts = [*self._assemble(pinned, folder, handed)]
        for path in handed:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            os.rename(produced / path, target)
        if (pinned_now := _marks(pinned)) != self.evaluator._mark:
            return self._tampered(pinned_now)
        mounts += self._data_mounts(folder)
        inside = RESULTS if self.remaps else str(results)
        done = self._run(
            score,
            folder,
            (*mounts, Mount(results, inside, writable=True)),
            writable=False,
            network=False,
            extra={"OVERNIGHT_RESULT": f"{inside}/result.json"},
            values={"results": inside},
        )
        if (pinned_now := _marks(pinned)) != self.evaluator._mark:
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
        checkout(self.evaluator._repository, files, folder, lambda path: path not in self.evaluator._data)
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

    def _results(self) -> Path:
        results = self.place / "results"
        results.mkdir()
        return results

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
        inside = INSIDE if self.remaps else str(folder)
        finished = self.evaluator._sandbox.run(
            Command(
                argv=argv or arguments(command, values or {}),
                cwd=inside,
                env={**self.environment, **(extra or {})},
                mounts=(Mount(folder, inside, writable), *self.evaluator._environment.mounts, *mounts),
                limits=Limits(wall_s=self.arena.timeout_s),
                network=self.arena.front.network if network is None else network,
                cpus=self.cpus,
            ),
            self.cancel,
        )
        self.seconds += finished.seconds
        self.memory_bytes = max(self.memory_bytes, finished.memory_bytes or 0)
        return finished

    def _outputs(self, folder: Path) -> Iterator[str]:
        wanted = Paths(self.arena.outputs)
        for inner, _, names in os.walk(folder, followlinks=False):
            for name in names:
                path = str(PurePosixPath(os.path.relpath(os.path.join(inner, name), folder)))
                if path in wanted and stat.S_ISREG(os.lstat(folder / path).st_mode):
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
        before = self.evaluator._mark
        changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        shutil.rmtree(self.evaluator._pinned, ignore_errors=True)
        self.evaluator._pinned.mkdir()
        self.evaluator._pin()
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


def _marks(folder: Path, leave_out: Paths | None = None) -> dict[str, tuple[int, ...]]:
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
    return (resources.files("overnight.loop") / "call_evaluator.py").read_text("utf-8")


def _remove(folder: Path) -> None:
    def force(_: object, path: str, __: object) -> None:
        # A candidate may have taken its own write permission away.
        os.chmod(os.path.dirname(path), 0o700)
        os.unlink(path) if not os.path.isdir(path) or os.path.islink(path) else os.rmdir(path)

    try:
        shutil.rmtree(folder, onerror=force)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def describe(measured: Measured) -> str:
    """One measurement as JSON, for messages about a baseline that cannot be measured."""
    return json.dumps({"outcome": measured.outcome, "value": measured.value, "error": measured.error[-300:]})
