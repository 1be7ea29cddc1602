"""Where evaluations run: the seam for other machines, and the one that is this machine."""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from overnight.loop.evaluation.evaluate import Evaluator
from overnight.loop.evaluation.measured import Measured
from overnight.store.git.repository import Files


@dataclass(frozen=True)
class Task:
    """One evaluation to make.

    Attributes:
        tree: git tree of the state.
        files: the whole arena folder in that state.
        seed: for $OVERNIGHT_SEED.
        command: instead of the arena's own; None for that.
        kind: `measure` for a number, `check` for a command that has to pass.
    """

    tree: str
    files: Files
    seed: int | None
    command: str | None = None
    kind: Literal["measure", "check"] = "measure"


@dataclass(frozen=True)
class Batch:
    """Tasks that run one after the other on the same slot; the first failure of a task ends the batch."""

    id: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Done:
    """What became of a batch: one result for each task that was begun, or the harness's own failure."""

    id: int
    slot: int
    results: tuple[Measured, ...]
    failure: Exception | None = None


class Engine(Protocol):
    """Runs batches on `slots` places at a time; results come in the order they end.

    Called from one thread only, `wake` aside. A batch that was submitted is collected exactly once, cancelled or not.
    The engine owns no record: whoever dies with it submits again.
    """

    slots: int

    def submit(self, batch: Batch) -> None:
        """Queue a batch; never blocks."""
        ...

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Batches that have ended since the last call; waits up to `timeout_s` for the first, or for `wake`."""
        ...

    def wake(self) -> None:
        """Make a `collect` that waits return now; may be called from any thread."""
        ...

    def cancel(self) -> None:
        """Stop everything queued or running; all of it is then collected soon."""
        ...

    def close(self) -> None:
        """Cancel, and give up all resources."""
        ...


class LocalEngine:
    """Worker threads of this process, one a slot. Each lives as long as the engine: its children are killed with it."""

    def __init__(self, evaluator: Evaluator, slots: int) -> None:
        self.slots = slots
        self._evaluator = evaluator
        self._waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Done | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"slot-{slot}", daemon=True) for slot in range(slots)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, batch: Batch) -> None:
        """Queue a batch; never blocks."""
        self._waiting.put(batch)

    def collect(self, timeout_s: float) -> Sequence[Done]:
        """Batches that have ended since the last call; waits up to `timeout_s` for the first."""
        ended: list[Done | None] = []
        try:
            ended.append(self._ended.get(timeout=timeout_s) if timeout_s > 0 else self._ended.get_nowait())
            while True:
                ended.append(self._ended.get_nowait())
        except queue.Empty:
            return [done for done in ended if done is not None]

    def wake(self) -> None:
        """Make a `collect` that waits return now; may be called from any thread."""
        self._ended.put(None)

    def cancel(self) -> None:
        """Stop everything queued or running; all of it is then collected soon."""
        self._stop.set()

    def close(self) -> None:
        """Cancel, and give up all resources."""
        self._stop.set()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._evaluator.close()

    def _work(self, slot: int) -> None:
        while (batch := self._waiting.get()) is not None:
            results: list[Measured] = []
            failure: Exception | None = None
            try:
                for task in batch.tasks:
                    if self._stop.is_set():
                        break
                    results.append(self._do(task, slot))
                    if results[-1].outcome != "ok":
                        break
            except Exception as problem:  # the coordinator decides what a failure of the harness means
                failure = problem
            self._ended.put(Done(batch.id, slot, tuple(results), failure))
            self._evaluator.tidy(slot)

    def _do(self, task: Task, slot: int) -> Measured:
        if task.kind == "check":
            said = self._evaluator.check(task.files, task.command or "", slot, self._stop)
            return Measured("crash" if said else "ok", error=said)
        return self._evaluator.measure(task.files, task.seed, slot, self._stop, task.command)
