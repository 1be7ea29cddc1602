"""The gateway's writing thread: every change of the database, many to a transaction.

A call waits for its reservation and for its settlement, and the event loop for neither: another process may hold the
database's write lock, and a checkpoint takes as long as the disk does. What arrives while a transaction runs goes into
the next one together, each piece of work behind a savepoint, so that one's failure is its own.
"""

import asyncio
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from overnight.core.errors import OvernightError, StoreError
from overnight.store.database import Database

T = TypeVar("T")
_BATCH: Final = 64
_SWITCH_S: Final = 0.001
"""How long a thread keeps the interpreter when another waits: with Python's 5 ms each statement of a transaction could
wait as long for a busy event loop."""


class Recorder:
    """Runs work within transactions, in the order of submission. `submit` from the event loop's thread only."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._thread = threading.Thread(target=self._run, name="overnight-recorder", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Have `work` done; its result, once it is committed.

        The future fails with what `work` raised, or with `DatabaseError` if the transaction could not be committed;
        nothing of it has been written then. It need not be awaited: the work is done all the same.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(_retrieved)
        self._queue.put((work, future))
        return future

    def close(self) -> None:
        """Do what was submitted, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        closing = False
        while not closing:
            batch = []
            item = self._queue.get()
            while True:
                if item is None:
                    closing = True
                    break
                batch.append(item)
                if len(batch) >= _BATCH:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._write(batch)

    def _write(self, batch: list[tuple[Callable[[], Any], "asyncio.Future[Any]"]]) -> None:
        results: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            with self._database.transaction():
                for work, future in batch:
                    self._database.execute("SAVEPOINT work")
                    try:
                        results.append((future, work(), None))
                    except OvernightError as problem:
                        self._database.execute("ROLLBACK TO work")
                        results.append((future, None, problem))
                    self._database.execute("RELEASE work")
        except StoreError as problem:
            results = [(future, None, problem) for _, future in batch]
        except Exception as problem:
            # A defect in one piece of work must not end the thread that all others wait for.
            results = [(future, None, StoreError(f"recording failed: {problem!r}")) for _, future in batch]
        try:
            self._loop.call_soon_threadsafe(_deliver, results)
        except RuntimeError:
            return  # the loop has closed: nobody waits


def _deliver(results: list[tuple["asyncio.Future[Any]", Any, BaseException | None]]) -> None:
    for future, value, problem in results:
        if future.done():
            continue
        if problem is None:
            future.set_result(value)
        else:
            future.set_exception(problem)


def _retrieved(future: "asyncio.Future[Any]") -> None:
    # Settlements of callers that have gone are awaited by nobody; that one failed has to be seen all the same.
    if not future.cancelled() and (problem := future.exception()) is not None and isinstance(problem, StoreError):
        print(f"overnight gateway: {problem}", file=sys.stderr)
