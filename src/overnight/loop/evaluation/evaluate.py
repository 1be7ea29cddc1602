"""One evaluation: a fresh checkout, the arena's commands inside the sandbox, the number out.

Two steps (`produce`, `score`): the artifact runs where the scorer's files do not exist; what it hands over is moved,
as data, into a second sandbox that is read-only and does not contain the artifact. One step (`evaluate`): artifact and
evaluator share a sandbox, and the record says so.
"""

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path

from overnight.loop.arena.arena import Arena
from overnight.loop.evaluation.evaluation import Evaluation, marks
from overnight.loop.evaluation.measured import Environment, Measured
from overnight.sandbox import Sandbox
from overnight.store.git.checkout import checkout, remove
from overnight.store.git.repository import Files, Repository


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
        self.repository = repository
        self.sandbox = sandbox
        self._folder = folder
        self.environment = environment
        self.cpus = cpus
        self.editable, self.hidden, self.data = arena.editable, arena.hidden, arena.data
        self.fixed = {path: entry for path, entry in base.items() if path not in self.editable}
        self._counter = itertools.count()
        self._places: dict[int, Path] = {}
        self._used: dict[int, Path] = {}
        remove(folder)
        self.pinned = folder / "pinned"
        self.pinned.mkdir(parents=True)
        self.pin()

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
        self.tidy(slot)
        place = self._places.pop(slot, None) or self._place(slot)
        self._used[slot] = place
        try:
            if not self.arena.front.exclusive:
                self._prepare(slot)
            state = {**self.fixed, **{path: entry for path, entry in files.items() if path in self.editable}}
            runner = Evaluation(self, state, place, seed, slot, cancel)
            if self.arena.front.score:
                return runner.two_steps(command or self.arena.front.score)
            return runner.one_step(command or self.arena.front.evaluate or "")
        finally:
            if self.arena.front.exclusive:
                self._prepare(slot)

    def tidy(self, slot: int) -> None:
        """Remove what the slot's last evaluation left; called by the slot's thread once its result is handed over."""
        if slot in self._used:
            remove(self._used.pop(slot))

    def _prepare(self, slot: int) -> None:
        """Have the sandbox of the slot's next evaluation set up in the background; not while an exclusive one runs."""
        if self.arena.front.score and not self.arena.front.produce:
            return
        place = self._place(slot)
        self.sandbox.prepare(Evaluation(self, {}, place, None, slot, None).first())
        self._places[slot] = place

    def check(self, files: Files, command: str, slot: int, cancel: threading.Event | None = None) -> str:
        """Run one of the arena's `checks` on a state; what it said if it failed, "" if it passed."""
        place = self._place(slot)
        try:
            state = {**self.fixed, **{path: entry for path, entry in files.items() if path in self.editable}}
            return Evaluation(self, state, place, None, slot, cancel).check(command)
        finally:
            remove(place)

    def close(self) -> None:
        """Remove all checkouts. Nothing may be being measured."""
        self.sandbox.close()
        self._places.clear()
        remove(self._folder)

    def _place(self, slot: int) -> Path:
        place = self._folder / f"{slot}-{next(self._counter)}"
        place.mkdir()
        return place

    def pin(self) -> None:
        """Write the scorer's files anew; they are only ever mounted read-only, and their change marks are compared.

        `data` is an input of produce and is mounted from where it lies.
        """
        checkout(self.repository, self.fixed, self.pinned, lambda path: path not in self.data)
        self.mark = marks(self.pinned)
