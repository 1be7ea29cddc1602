"""Group commit: many threads hand in entries, one thread writes all that wait and flushes the disk once for them."""

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence

from overnight.core.errors import OvernightError, StoreError

LOSS_WINDOW_S = 0.05
"""Longest time an entry handed in with `durable=False` stays in memory: what a kill -9 can lose."""

BACKLOG = 4096
"""So many entries may wait; who hands in more, waits too."""

LINGER_S = 0.001
"""How long a commit waits for as many callers as the last one served. Callers that a commit has just released come back
one after the other; without this the first one's entry is flushed alone, which halved what 64 threads got through."""

_BATCH = 2048

Row = tuple[int, str, str, str, str, str, str, int, str]
"""at_us, kind, action, session, tenant, agent, tool, objects, body: the columns before seq and hash are known."""


class Receipt:
    """The promise that entries are in the journal; `first` and `last` are their places, once they are."""

    __slots__ = ("_blocked", "_done", "_error", "_first", "durable", "rows")

    def __init__(self, rows: Sequence[Row], *, durable: bool, blocked: Callable[[], bool] | None = None) -> None:
        """A promise for `rows`; `blocked` says whether who waits now would keep the writer from writing."""
        self._blocked = blocked
        self.rows = rows
        self.durable = durable
        self._first = 0
        self._error: OvernightError | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def wait(self) -> "Receipt":
        """Return when the entries are on the disk.

        Raises:
            StoreError: they could not be written, or not flushed to the disk; or this thread holds a transaction.
        """
        if self._blocked is not None and self._done.locked() and self._blocked():
            raise waits_for_itself("waiting for an entry")
        with self._done:
            pass
        if self._error is not None:
            raise type(self._error)(self._error.message, hint=self._error.hint) from self._error
        return self

    @property
    def first(self) -> int:
        """Place of the first entry; waits for it."""
        return self.wait()._first

    @property
    def last(self) -> int:
        """Place of the last entry; waits for it."""
        return self.wait()._first + len(self.rows) - 1

    def settle(self, first: int) -> None:
        """Say where the entries went. For the writer."""
        self._first = first
        self._done.release()

    def fail(self, error: OvernightError) -> None:
        """Say that they went nowhere. For the writer."""
        self._error = error
        self._done.release()


def waits_for_itself(what: str) -> StoreError:
    """Why a thread that holds a transaction is refused: another thread writes, and it can't before that has ended."""
    return StoreError(
        f"{what} within a transaction of the same thread would wait for that transaction to end",
        hint="append after the transaction, or with durable=False",
    )


class GroupCommit:
    """Runs `commit` on its own thread for whatever waits. Any thread may hand in; order of handing in is kept."""

    def __init__(self, commit: Callable[[Sequence[Receipt]], None]) -> None:
        """`commit` settles or fails every receipt it is given, or raises and has written none of them."""
        self._commit = commit
        self._queue: deque[Receipt] = deque()
        self._waiting = 0
        self._callers = 0
        self._expected = 1
        self._due_s = 0.0
        self._closing = False
        self._broken: OvernightError | None = None
        self._wake = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._unregister = _flush_at_exit(self)

    def submit(self, receipt: Receipt, *, patient: bool = True) -> None:
        """Queue entries. Those that are not durable are written within LOSS_WINDOW_S.

        Args:
            receipt: the entries.
            patient: may wait while too many wait already; not for a thread that the writer itself waits for.

        Raises:
            StoreError: the journal is closed, or entries accepted earlier still could not be written.
        """
        if os.getpid() != self._pid:
            raise StoreError("this journal was opened before the process forked", hint="open it again in the new one")
        with self._wake:
            if self._closing:
                raise StoreError("the journal is closed", hint="open it again")
            if self._broken is not None and not receipt.durable:
                raise StoreError(f"the journal cannot be written: {self._broken.message}", hint=self._broken.hint)
            was_idle = not self._queue
            if was_idle and not receipt.durable:
                self._due_s = time.monotonic() + LOSS_WINDOW_S
            self._queue.append(receipt)
            self._waiting += len(receipt.rows)
            self._callers += receipt.durable
            full = self._waiting > BACKLOG
            if was_idle or full or (receipt.durable and (self._callers == 1 or self._callers >= self._expected)):
                self._wake.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
                self._thread.start()
        if full and patient and not receipt.durable:
            receipt.wait()

    def close(self) -> None:
        """Write what waits and stop; idempotent.

        Raises:
            StoreError: accepted entries could not be written; the message says how many.
        """
        with self._wake:
            self._closing = True
            self._wake.notify()
            thread = self._thread
        if thread is not None and self._pid == os.getpid():
            thread.join()
        self._unregister()
        if self._queue and self._broken is not None:
            lost, self._queue = sum(len(receipt.rows) for receipt in self._queue), deque()
            raise StoreError(f"{lost} entries could not be written: {self._broken.message}", hint=self._broken.hint)

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wait_for_work()
                if not self._queue:
                    return
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
                self._waiting -= sum(len(receipt.rows) for receipt in batch)
                served = sum(receipt.durable for receipt in batch)
                self._callers -= served
                self._expected = max(served, 1)
            try:
                self._commit(batch)
                self._broken = None
            except OvernightError as problem:
                self._refuse(batch, problem)
            except Exception as problem:
                # A bug or an exhausted machine: whoever waits must hear of it rather than wait for ever.
                self._refuse(batch, StoreError(f"the journal's writer failed: {type(problem).__name__}: {problem}"))
            with self._wake:
                if self._closing and (self._broken is not None or not self._queue):
                    return

    def _wait_for_work(self) -> None:
        """Return when there is a batch to write, or when closing; holds the lock."""
        patience_s = LINGER_S
        while not self._closing and self._waiting <= BACKLOG:
            if not self._queue:
                self._wake.wait()
                continue
            if self._callers >= self._expected or patience_s <= 0:
                return
            rest_s = self._due_s - time.monotonic()
            if self._callers:
                began_s = time.monotonic()
                self._wake.wait(patience_s)
                patience_s -= time.monotonic() - began_s
            elif rest_s <= 0:
                return
            else:
                self._wake.wait(rest_s)

    def _refuse(self, batch: Sequence[Receipt], problem: OvernightError) -> None:
        """Durable entries fail at their callers; the others were accepted, so they stay queued for the next try."""
        kept = [receipt for receipt in batch if not receipt.durable]
        with self._wake:
            self._broken = problem
            self._queue.extendleft(reversed(kept))
            self._waiting += sum(len(receipt.rows) for receipt in kept)
            self._due_s = time.monotonic() + LOSS_WINDOW_S
        for receipt in batch:
            if receipt.durable:
                receipt.fail(problem)


def _flush_at_exit(writer: GroupCommit) -> Callable[[], None]:
    """A process that ends without closing its journal still writes what it had accepted."""
    reference = weakref.ref(writer)

    def flush() -> None:
        found = reference()
        if found is not None and found._pid == os.getpid():
            found.close()

    atexit.register(flush)
    return lambda: atexit.unregister(flush)
