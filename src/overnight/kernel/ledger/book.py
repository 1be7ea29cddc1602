"""What a process uses of its leases, where `kill -9` cannot take it along: a small file that is mapped into memory.

Writing a number into it costs no system call, and the system keeps it when the process dies. Whoever finds the process
dead gives back what it had leased and not used. After a power cut (another boot) the file may be older than the
database, so nothing is given back then: leases stay spent.
"""

import contextlib
import fcntl
import mmap
import os
import secrets
import time
from pathlib import Path
from typing import Final

from overnight.core.errors import StoreError
from overnight.kernel.ledger.accounts import Accounts
from overnight.kernel.ledger.owner import alive

PLACES: Final = 16_384
_BYTES: Final = 8 * PLACES
_YOUNG_S: Final = 60.0


class Book:
    """The book of one process: numbers by their places. For one thread at a time."""

    def __init__(self, database: Path) -> None:
        """Begin an empty one beside the database.

        Raises:
            StoreError: it cannot be made.
        """
        self.id = secrets.token_hex(8)
        self._path = path_of(database, self.id)
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                # Locked for as long as it is mapped: the mapping keeps a copy of the descriptor.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.posix_fallocate(descriptor, 0, _BYTES)  # a full disk must not show itself as a signal later
                self._map = mmap.mmap(descriptor, _BYTES)
            finally:
                os.close(descriptor)
        except OSError as problem:
            raise StoreError(f"cannot make {self._path}: {problem.strerror}", hint="free some disk space") from problem
        # Native 8-byte items are stored by one instruction: a number is never half written.
        self._numbers = memoryview(self._map).cast("q")
        self._free: list[int] = []
        self._next = 0

    def take(self) -> int:
        """A place for a number, which is 0.

        Raises:
            StoreError: none is left.
        """
        if self._free:
            place = self._free.pop()
        elif self._next < PLACES:
            place, self._next = self._next, self._next + 1
        else:
            raise StoreError(f"more than {PLACES} accounts of the ledger are in use at the same time")
        self._numbers[place] = 0
        return place

    def write(self, place: int, number: int) -> None:
        """Put down a number."""
        self._numbers[place] = number

    def give(self, place: int) -> None:
        """A place that is not needed any more."""
        self._free.append(place)

    def close(self) -> None:
        """Remove it."""
        self._numbers.release()
        self._map.close()
        self._path.unlink(missing_ok=True)


def path_of(database: Path, book_id: str) -> Path:
    """The file of a book."""
    return database.with_name(f"{database.name}-leases-{book_id}")


def sweep(database: Path, known: frozenset[str]) -> None:
    """Remove the books of dead processes that had leased nothing.

    Args:
        database: whose.
        known: ids of books that are in it.
    """
    for path in database.parent.glob(f"{database.name}-leases-*"):
        if path.name.rpartition("-")[2] in known:
            continue
        with contextlib.suppress(OSError), path.open("rb") as file:
            # One that is being made isn't locked yet.
            if time.time() - os.fstat(file.fileno()).st_mtime > _YOUNG_S:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def reclaim(accounts: Accounts, account: str | None = None) -> bool:
    """Give back what dead processes had leased and not used; within the caller's transaction.

    Args:
        accounts: the ledger's.
        account: only books in which it occurs; None: all.

    Returns:
        whether there were any.
    """
    database = accounts.database
    books = database.rows(
        "SELECT DISTINCT book, owner FROM ledger_leases WHERE account = COALESCE(?, account)", (account,)
    )
    gone = [row for row in books if not alive(row["owner"], accounts.clock.boot)]
    for row in gone:
        path = path_of(database.path, row["book"])
        used = _read(path) if row["owner"].startswith(f"{accounts.clock.boot} ") else None
        for lease in database.rows("SELECT * FROM ledger_leases WHERE book = ?", (row["book"],)):
            rest = 0 if used is None else lease["amount"] - used[lease["place"]]
            database.execute(
                "UPDATE ledger_used SET amount = amount - ? WHERE account = ? AND slot_ms = ?",
                (rest, lease["account"], lease["slot_ms"]),
            )
        database.execute("DELETE FROM ledger_leases WHERE book = ?", (row["book"],))
        with contextlib.suppress(OSError):
            path.unlink()
    return bool(gone)


def _read(path: Path) -> memoryview | None:
    """The numbers of a book; None if it is not whole, and then all that was leased counts as used."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return memoryview(content).cast("q") if len(content) == _BYTES else None
