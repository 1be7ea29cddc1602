"""How the gateway changes the database: all that one turn of the event loop brings, in one transaction.

A transaction takes a fraction of a millisecond, and handing it to another thread costs more than that: so it is written
where it comes up, unless another process holds the database's write lock. Then it, and what comes after it, waits for
the lock in a thread, while the event loop goes on. Checkpoints, which wait for the disk, are always made in a thread.

What cannot be written together is written piece by piece, so that one's failure is its own.
"""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from overnight.core.errors import OvernightError, StoreError
from overnight.store.database import Database

T = TypeVar("T")
Item = TypeVar("Item")
_Result = tuple["asyncio.Future[None]", BaseException | None]
CHECKPOINT_S: Final = 1.0


class Recorder(Generic[Item]):
    """Writes items in the order of handing in. Used from the event loop's thread only.

    Attributes:
        database: a connection of its own: whatever is written has to go through this one.
    """

    def __init__(self, path: Path, write: Callable[[Database, Sequence[Item]], None]) -> None:
        """`write` puts items into the database, all or none; it runs within a transaction."""
        self.database = Database(path)
        # Of this thread's connection alone; the thread that waits for the lock has the usual patience.
        self.database.execute("PRAGMA busy_timeout = 0")
        self.database.execute("PRAGMA wal_autocheckpoint = 0")
        self._put = write
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Item, asyncio.Future[None]]] = []
        self._scheduled = False
        self._elsewhere = 0
        self._thread = ThreadPoolExecutor(1, "overnight-recorder")
        self._written = False
        self._closed = threading.Event()
        self._checkpoints = threading.Thread(target=self._checkpoint, name="overnight-checkpoints", daemon=True)
        self._checkpoints.start()

    def record(self, item: Item) -> "asyncio.Future[None]":
        """Have an item written; done once it is committed.

        The future fails with `StoreError` or what writing the item raised; nothing of it has been written then. It need
        not be awaited: the item is written all the same.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        future.add_done_callback(_retrieved)
        self._waiting.append((item, future))
        self._schedule()
        return future

    async def apart(self, work: Callable[[], T]) -> T:
        """Do work that has transactions of its own: here, or in the thread where it would have to wait.

        `work` must leave everything as it was where it raises `DatabaseError`, and may then be done again. A caller
        that is cancelled does not stop it.
        """
        if not self._elsewhere:
            try:
                return work()
            except OvernightError as problem:
                if not _is_lock(problem):
                    raise
        self._elsewhere += 1
        done = self._loop.run_in_executor(self._thread, work)
        done.add_done_callback(self._back)
        return await asyncio.shield(done)

    async def close(self) -> None:
        """Write what was handed in, then stop."""
        while self._waiting or self._elsewhere:
            await asyncio.sleep(0.001)
        self._closed.set()
        await asyncio.to_thread(self._checkpoints.join)
        self._thread.shutdown()
        self.database.close()

    def _schedule(self) -> None:
        if not self._scheduled and not self._elsewhere and self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        if self._elsewhere:
            return
        batch, self._waiting = self._waiting, []
        self._written = True
        try:
            results = self._write(batch)
        except _Locked:
            self._elsewhere += 1
            waited = self._loop.run_in_executor(self._thread, self._write_patiently, batch)
            waited.add_done_callback(lambda done: _deliver(done.result()))
            waited.add_done_callback(self._back)
            return
        _deliver(results)

    def _back(self, _: "asyncio.Future[Any]") -> None:
        self._elsewhere -= 1
        self._schedule()

    def _write(self, batch: list[tuple[Item, "asyncio.Future[None]"]]) -> list[_Result]:
        begun = False
        try:
            with self.database.transaction():
                begun = True
                self._put(self.database, [item for item, _ in batch])
        except OvernightError as problem:
            if not begun and _is_lock(problem):
                raise _Locked from problem
            if len(batch) == 1:
                return [(batch[0][1], problem)]
        except Exception as problem:
            # A defect in one item must not hang all others.
            if len(batch) == 1:
                return [(batch[0][1], StoreError(f"recording failed: {problem!r}"))]
        else:
            return [(future, None) for _, future in batch]
        return [result for one in batch for result in self._write_patiently([one])]

    def _write_patiently(self, batch: list[tuple[Item, "asyncio.Future[None]"]]) -> list[_Result]:
        try:
            return self._write(batch)
        except _Locked as problem:
            assert isinstance(problem.__cause__, StoreError)
            return [(future, problem.__cause__) for _, future in batch]

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
    for future, problem in results:
        if future.done():
            continue
        if problem is None:
            future.set_result(None)
        else:
            future.set_exception(problem)


def _retrieved(future: "asyncio.Future[None]") -> None:
    # Calls of clients that have gone are awaited by nobody; that one failed has to be seen all the same.
    if not future.cancelled() and (problem := future.exception()) is not None and isinstance(problem, StoreError):
        print(f"overnight gateway: {problem}", file=sys.stderr)
