"""The queue of a provider, kept in the workspace's database: all processes of the workspace stand in the same one.

Every change is a transaction that takes the queue up from its rows, changes it, and writes it back. Whoever is served
or waits has a holder, a file that its process keeps locked as long as it lives: when a process dies, the system
lets go of the lock, and the next look by anybody else frees what it held.
"""

import contextlib
import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from overnight.core.errors import StoreError
from overnight.models.queue.queue import FairQueue, Priority, Ticket
from overnight.store.database import Database

_GRACE_S: Final = 5.0
"""A process ends its own generations at their limit; one that hangs loses its turn so much later."""

_FRESH_S: Final = 60.0
"""A file so young may belong to a process that has not locked it yet."""


class Holder:
    """This process as others see it."""

    def __init__(self, folder: Path) -> None:
        """Make the file in `folder` and lock it.

        Raises:
            StoreError: it cannot be made.
        """
        self.folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(folder / self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as problem:
            raise StoreError(f"cannot lock a file in {folder}: {problem.strerror}") from problem
        self._sweep()

    def _sweep(self) -> None:
        """Remove what processes left that were killed. A fresh file may be about to be locked."""
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _FRESH_S and not alive(self.folder, path.name):
                    path.unlink()

    def close(self) -> None:
        """Let go; what it still held is freed."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / self.name).unlink()
        os.close(self._file)


def alive(folder: Path, holder: str) -> bool:
    """Whether the process of a holder lives."""
    try:
        file = os.open(folder / holder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def waiting(database: Database, provider: str) -> int:
    """How many requests of living processes wait for a provider."""
    rows = database.rows("SELECT holder FROM model_turns WHERE provider = ? AND since_s IS NULL", (provider,))
    folder = holders(database)
    living = {holder for holder in {row["holder"] for row in rows} if alive(folder, holder)}
    return sum(row["holder"] in living for row in rows)


def holders(database: Database) -> Path:
    """Where the holders of a workspace are."""
    return database.path.parent / "queue"


class SharedQueue:
    """One provider's queue, as one process uses it. For one thread; many processes may have it open.

    Attributes:
        slots: requests that the provider serves at a time.
        shares: agent → weight, above 0; 1 for those not named.
    """

    def __init__(self, database: Database, provider: str, holder: Holder) -> None:
        self.slots = 1
        self.shares: Mapping[str, float] = {}
        self._database = database
        self._provider = provider
        self._holder = holder

    def push(self, agent: str, priority: Priority, cost: float, limit_s: float) -> Ticket:
        """Join the queue; see `FairQueue.push`."""
        with self._changed() as queue:
            ticket = queue.push(agent, priority, cost, time.monotonic())
            self._database.execute(
                "INSERT INTO model_turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    self._provider,
                    ticket.number,
                    agent,
                    priority,
                    cost,
                    ticket.start,
                    ticket.arrived_s,
                    self._holder.name,
                    limit_s,
                ),
            )
        return ticket

    def admit(self) -> set[int]:
        """Give free slots to whoever is next, of any process; the numbers of ours that have a turn."""
        if self._free(self._rows()):
            with self._changed() as queue:
                now_s = time.monotonic()
                running = len(self._rows()) - len(queue)
                while running < self.slots and (ticket := queue.pop(now_s)) is not None:
                    running += 1
                    self._database.execute(
                        "UPDATE model_turns SET since_s = ? WHERE provider = ? AND number = ?",
                        (now_s, self._provider, ticket.number),
                    )
        mine = self._holder.name
        return {row["number"] for row in self._rows() if row["holder"] == mine and row["since_s"] is not None}

    def end(self, ticket: Ticket, used: float | None) -> None:
        """The request has left the queue or the provider.

        Args:
            ticket: of it.
            used: tokens it took; None: as many as were expected; nothing is charged if it never had a turn.
        """
        with self._changed() as queue:
            row = self._database.row(
                "SELECT since_s FROM model_turns WHERE provider = ? AND number = ?", (self._provider, ticket.number)
            )
            if row is None:
                return  # it hung, and was taken out
            if row["since_s"] is None:
                queue.leave(ticket)
            elif used is not None:
                queue.settle(ticket, used)
            self._remove([ticket.number])

    def _rows(self) -> list[sqlite3.Row]:
        return self._database.rows("SELECT * FROM model_turns WHERE provider = ? ORDER BY number", (self._provider,))

    def _free(self, rows: Sequence[sqlite3.Row]) -> bool:
        """Whether there may be something to give: looked at before the database is locked for writing."""
        running = sum(row["since_s"] is not None for row in rows)
        return bool(self._gone(rows)) or (running < self.slots and running < len(rows))

    def _gone(self, rows: Sequence[sqlite3.Row]) -> list[sqlite3.Row]:
        """Turns of processes that died, or that hang beyond their limit."""
        now_s, mine = time.monotonic(), self._holder.name
        others = {row["holder"] for row in rows} - {mine}
        dead = {name for name in others if not alive(self._holder.folder, name)}
        return [
            row
            for row in rows
            if row["holder"] in dead
            or (
                row["since_s"] is not None and not row["since_s"] <= now_s <= row["since_s"] + row["limit_s"] + _GRACE_S
            )
        ]

    @contextlib.contextmanager
    def _changed(self) -> Iterator[FairQueue]:
        """The queue, written back at the end; what the dead held is freed first."""
        with self._database.transaction():
            state = self._database.row("SELECT * FROM model_queues WHERE provider = ?", (self._provider,))
            rows = self._rows()
            queue = FairQueue(
                self.shares,
                waiting=[_ticket(row) for row in rows if row["since_s"] is None],
                ends=json.loads(state["ends"]) if state else None,
                now=state["now"] if state else 0.0,
                last=state["last"] if state else 0,
            )
            for row in (gone := self._gone(rows)):
                queue.leave(_ticket(row))
                if row["holder"] != self._holder.name:
                    with contextlib.suppress(OSError):
                        (self._holder.folder / row["holder"]).unlink()
            self._remove([row["number"] for row in gone])
            yield queue
            self._database.execute(
                "INSERT OR REPLACE INTO model_queues VALUES (?, ?, ?, ?)",
                (self._provider, queue.now, queue.last, json.dumps(queue.ends)),
            )

    def _remove(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._database.execute(
                "DELETE FROM model_turns WHERE provider = ? AND number = ?", (self._provider, number)
            )


def _ticket(row: sqlite3.Row) -> Ticket:
    return Ticket(row["number"], row["agent"], row["priority"], row["cost"], row["start"], row["arrived_s"])
