"""How the gateway changes the database: all that one turn of the event loop brings, in one transaction.

A transaction takes a fraction of a millisecond, and handing it to another thread costs more than that: so it is written
where it comes up, unless another process holds the database's write lock. Then it, and what comes after it, waits for
the lock in a thread, while the event loop goes on. Checkpoints, which wait for the disk, are always made in a thread.

Of several pieces of work in one transaction each stands behind a savepoint, so that one's failure is its own.
"""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from overnight.core.errors import OvernightError, StoreError
from overnight.store.database import Database

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_Result = tuple["asyncio.Future[Any]", Any, BaseException | None]
CHECKPOINT_S: Final = 1.0


class Recorder:
    """Does work within transactions, in the order of submission. Used from the event loop's thread only.

    Attributes:
        database: a connection of its own: work has to go through this one.
    """

    def __init__(self, path: Path) -> None:
        self.database = Database(path)
        # Of this thread's connection alone; the thread that waits for the lock has the usual patience.
        self.database.execute("PRAGMA busy_timeout = 0")
        self.database.execute("PRAGMA wal_autocheckpoint = 0")
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Work] = []
        self._scheduled = False
        self._elsewhere: asyncio.Future[list[_Result]] | None = None
        self._thread = ThreadPoolExecutor(1, "overnight-recorder")
        self._written = False
        self._closed = threading.Event()
        self._checkpoints = threading.Thread(target=self._checkpoint, name="overnight-checkpoints", daemon=True)
        self._checkpoints.start()

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Have `work` done; its result, once it is committed.

        The future fails with what `work` raised, or with `DatabaseError` if the transaction could not be committed;
        nothing of it has been written then. It need not be awaited: the work is done all the same.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(_retrieved)
        self._waiting.append((work, future))
        self._schedule()
        return future

    async def close(self) -> None:
        """Do what was submitted, then stop."""
        while self._waiting or self._elsewhere is not None:
            if self._elsewhere is not None:
                await asyncio.wait([self._elsewhere])
            await asyncio.sleep(0)
        self._closed.set()
        await asyncio.to_thread(self._checkpoints.join)
        self._thread.shutdown()
        self.database.close()

    def _schedule(self) -> None:
        if not self._scheduled and self._elsewhere is None and self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        batch, self._waiting = self._waiting, []
        self._written = True
        try:
            results = self._write(batch)
        except _Locked:
            self._elsewhere = self._loop.run_in_executor(self._thread, self._write_patiently, batch)
            self._elsewhere.add_done_callback(self._back)
            return
        _deliver(results)

    def _back(self, done: "asyncio.Future[list[_Result]]") -> None:
        self._elsewhere = None
        _deliver(done.result())
        self._schedule()

    def _write(self, batch: list[_Work]) -> list[_Result]:
        results: list[_Result] = []
        try:
            with self.database.transaction():
                if len(batch) == 1:
                    ((work, future),) = batch
                    results.append((future, work(), None))
                else:
                    results += [self._guarded(work, future) for work, future in batch]
        except OvernightError as problem:
            if not results and _is_lock(problem):
                raise _Locked from problem
            return [(future, None, problem) for _, future in batch]
        except Exception as problem:
            # A defect in one piece of work must not hang all others.
            return [(future, None, StoreError(f"recording failed: {problem!r}")) for _, future in batch]
        return results

    def _write_patiently(self, batch: list[_Work]) -> list[_Result]:
        try:
            return self._write(batch)
        except _Locked as problem:
            assert isinstance(problem.__cause__, StoreError)
            return [(future, None, problem.__cause__) for _, future in batch]

    def _guarded(self, work: Callable[[], Any], future: "asyncio.Future[Any]") -> _Result:
        self.database.execute("SAVEPOINT work")
        try:
            result: _Result = (future, work(), None)
        except OvernightError as problem:
            self.database.execute("ROLLBACK TO work")
            result = (future, None, problem)
        self.database.execute("RELEASE work")
        return result

    def _checkpoint(self) -> None:
        while not self._closed.wait(CHECKPOINT_S):
            if self._written:
                self._written = False
                try:
                    self.database.execute("PRAGMA wal_checkpoint(PASSIVE)")
                except StoreError as problem:
                    print(f"overnight gateway: {problem}", file=sys.stderr)


class _Locked(Exception):
    """Another process is writing."""


def _is_lock(problem: OvernightError) -> bool:
    cause = problem.__cause__
    return isinstance(cause, sqlite3.OperationalError) and cause.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _deliver(results: list[_Result]) -> None:
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
