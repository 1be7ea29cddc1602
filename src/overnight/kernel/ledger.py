"""The ledger: the one place where money, tokens, calls and bytes are counted, before they are spent.

    reserve → (the call runs) → settle with what it really took, or refund when it did not run

Every reservation is one transaction of the workspace's database that either fits into *all* limits or changes nothing:
any number of threads and processes overshoot by nothing, and counts survive restarts. What a process had reserved when
it died stays spent, as it may have been.
"""

import math
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from overnight.core.errors import UsageError
from overnight.kernel.ledger_clock import LedgerClock
from overnight.kernel.limits import SCALE, SLICES, WINDOW_MS, Limit, Subject, Unit
from overnight.store.database import Database

Amounts = Mapping[Unit, float]
"""US dollars, tokens, calls, bytes, from 0. `concurrent` is never given: each reservation is one until it is closed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One account of a reservation: `amount` (scaled) was put into the slice that began at `slot_ms`."""

    limit: Limit
    account: str
    slot_ms: int
    amount: int


@dataclass(frozen=True)
class Reservation:
    """Room that was set aside. Settle or refund it once; a second time does nothing.

    Attributes:
        id: unique.
        entries: what was set aside where; empty when no limit applies.
    """

    id: str
    entries: tuple[Entry, ...]
    _open: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that leaves no room; nothing was set aside.

    Attributes:
        limit: which.
        account: whose.
        used: counted so far in the window, in the limit's unit.
        wanted: what was asked for.
        retry_after_s: when enough of the window will have passed, at the earliest; None if never by itself.
    """

    limit: Limit
    account: str
    used: float
    wanted: float
    retry_after_s: float | None

    @property
    def sentence(self) -> str:
        """For people."""
        unit = self.limit.unit
        text = f"limit of {self.limit}: {self.used:g} {unit} used, {self.wanted:g} more wanted"
        return text if self.retry_after_s is None else f"{text}; room in {self.retry_after_s:.1f}s at the earliest"


@dataclass(frozen=True, slots=True)
class Usage:
    """How far one account is: `used` of `limit.amount`."""

    limit: Limit
    account: str
    used: float


class Ledger:
    """One workspace's ledger. Thread-safe; several processes may have it open."""

    def __init__(self, database: Database, limits: Sequence[Limit], *, clock: LedgerClock | None = None) -> None:
        """Count against `limits`; what was counted earlier under a limit of the same kind still counts."""
        self._database = database
        self._limits = tuple(limits)
        self._clock = LedgerClock(database) if clock is None else clock
        self._owner = _this_process(self._clock.boot)
        # Threads queue here rather than in SQLite's busy loop, which sleeps a millisecond and more at a time.
        self._turn = threading.Lock()

    def reserve(self, subject: Subject, amounts: Amounts, more: Sequence[Limit] = ()) -> Reservation | Exceeded:
        """Set room aside for a call that is about to run. Not to be called within a transaction of the database.

        Args:
            subject: whom it is charged to.
            amounts: the most it may take.
            more: limits besides the ledger's own: those of the rules in force.

        Raises:
            UsageError: an amount is negative, not a number, or of an unknown unit.
            StoreError: it cannot be counted; the call must not run.
        """
        scaled = _scaled(amounts)
        wanted: list[tuple[Limit, str, int]] = []
        for limit in (*self._limits, *more):
            amount = 1 if limit.unit == "concurrent" else scaled.get(limit.unit, 0)
            if amount:
                wanted += [(limit, account, amount) for account in limit.accounts(subject)]
        reservation_id = secrets.token_hex(12)
        if not wanted:
            return Reservation(reservation_id, ())
        now_ms = self._clock.now_ms()
        with self._turn, self._database.transaction():
            for limit, account, amount in wanted:
                used = self._used(limit, account, now_ms)
                if used + amount > limit.scaled:
                    return self._exceeded(limit, account, used, amount, now_ms)
            entries = []
            for limit, account, amount in wanted:
                slot_ms = _slot_ms(limit, now_ms)
                entries.append(Entry(limit, account, slot_ms, amount))
                if limit.unit == "concurrent":
                    self._database.execute(
                        "INSERT INTO ledger_holds (id, account, owner) VALUES (?, ?, ?)",
                        (reservation_id, account, self._owner),
                    )
                else:
                    self._add(limit, account, slot_ms, amount)
        return Reservation(reservation_id, tuple(entries))

    def settle(self, reservation: Reservation, actual: Amounts) -> None:
        """Replace what was set aside by what the call took; units not named took what was set aside.

        More than was set aside is counted too: it has happened.

        Raises:
            UsageError: see `reserve`.
            StoreError: it cannot be counted; the reservation then stays counted in full.
        """
        self._close(reservation, _scaled(actual))

    def refund(self, reservation: Reservation) -> None:
        """Give everything back: the call did not run.

        Raises:
            StoreError: it cannot be counted; the reservation then stays counted in full.
        """
        self._close(reservation, dict.fromkeys(SCALE, 0))

    def usage(self) -> list[Usage]:
        """Every account that has something counted now, by limit."""
        now_ms = self._clock.now_ms()
        found = []
        for limit in self._limits:
            table = "ledger_holds" if limit.unit == "concurrent" else "ledger_used"
            rows = self._database.rows(
                f"SELECT DISTINCT account FROM {table} WHERE account = ? OR account LIKE ? ORDER BY account",
                (limit.id, f"{limit.id} %"),
            )
            for row in rows:
                used = self._used(limit, row["account"], now_ms)
                if used:
                    found.append(Usage(limit, row["account"], used / SCALE[limit.unit]))
        return found

    def _close(self, reservation: Reservation, actual: Mapping[Unit, int]) -> None:
        if not reservation._open.acquire(blocking=False):
            return
        changes = [
            (entry, actual.get(entry.limit.unit, entry.amount) - entry.amount)
            for entry in reservation.entries
            if entry.limit.unit != "concurrent"
        ]
        changes = [(entry, change) for entry, change in changes if change]
        held = any(entry.limit.unit == "concurrent" for entry in reservation.entries)
        if not changes and not held:
            return
        try:
            with self._turn, self._database.transaction():
                if held:
                    self._database.execute("DELETE FROM ledger_holds WHERE id = ?", (reservation.id,))
                for entry, change in changes:
                    self._add(entry.limit, entry.account, entry.slot_ms, change)
        except BaseException:
            reservation._open.release()
            raise

    def _used(self, limit: Limit, account: str, now_ms: int) -> int:
        if limit.unit == "concurrent":
            return self._held(limit, account)
        since_ms = -1 if limit.window == "total" else _slot_ms(limit, now_ms) - WINDOW_MS[limit.window] - 1
        row = self._database.row(
            "SELECT SUM(amount) AS used FROM ledger_used WHERE account = ? AND slot_ms > ?", (account, since_ms)
        )
        return 0 if row is None or row["used"] is None else int(row["used"])

    def _held(self, limit: Limit, account: str) -> int:
        rows = self._database.rows("SELECT id, owner FROM ledger_holds WHERE account = ?", (account,))
        if len(rows) < limit.scaled:
            return len(rows)
        # Full: only now is it worth a look whether some of the processes have died.
        gone = [row for row in rows if not _alive(row["owner"], self._clock.boot)]
        for row in gone:
            self._database.execute("DELETE FROM ledger_holds WHERE account = ? AND id = ?", (account, row["id"]))
        return len(rows) - len(gone)

    def _add(self, limit: Limit, account: str, slot_ms: int, amount: int) -> None:
        changed = self._database.execute(
            "UPDATE ledger_used SET amount = amount + ? WHERE account = ? AND slot_ms = ?", (amount, account, slot_ms)
        )
        if changed.rowcount or amount <= 0:
            return
        if limit.window != "total":
            # A new slice: the moment to forget those that no window reaches any more.
            self._database.execute(
                "DELETE FROM ledger_used WHERE account = ? AND slot_ms < ?",
                (account, slot_ms - 2 * WINDOW_MS[limit.window]),
            )
        self._database.execute(
            "INSERT INTO ledger_used (account, slot_ms, amount) VALUES (?, ?, ?)", (account, slot_ms, amount)
        )

    def _exceeded(self, limit: Limit, account: str, used: int, amount: int, now_ms: int) -> Exceeded:
        scale = SCALE[limit.unit]
        wait_s = None
        if limit.window != "total" and amount <= limit.scaled:
            excess = used + amount - limit.scaled
            rows = self._database.rows(
                "SELECT slot_ms, amount FROM ledger_used WHERE account = ? AND slot_ms > ? ORDER BY slot_ms",
                (account, _slot_ms(limit, now_ms) - WINDOW_MS[limit.window] - 1),
            )
            for row in rows:
                excess -= row["amount"]
                if excess <= 0:
                    slice_ms = WINDOW_MS[limit.window] // SLICES[limit.window]
                    wait_s = (row["slot_ms"] + WINDOW_MS[limit.window] + slice_ms - now_ms) / 1000
                    break
        return Exceeded(limit, account, used / scale, amount / scale, wait_s)


def _slot_ms(limit: Limit, now_ms: int) -> int:
    if limit.window == "total":
        return 0
    slice_ms = WINDOW_MS[limit.window] // SLICES[limit.window]
    return now_ms // slice_ms * slice_ms


def _scaled(amounts: Amounts) -> dict[Unit, int]:
    scaled: dict[Unit, int] = {}
    for unit, amount in amounts.items():
        if unit not in SCALE or unit == "concurrent":
            raise UsageError(f"{unit!r} cannot be charged", hint="charge calls, usd, tokens or bytes")
        if not (math.isfinite(amount) and amount >= 0):
            raise UsageError(f"{amount} {unit} cannot be charged", hint="charge a number from 0")
        # Up: many small charges must not add up to nothing.
        scaled[unit] = math.ceil(amount * SCALE[unit])
    return scaled


def _this_process(boot: str) -> str:
    return f"{boot} {os.getpid()} {_started(os.getpid())}"


def _started(pid: int) -> str:
    """When a process began, in ticks since boot (proc(5), field 22 of stat); with the pid it names it for good."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "?"


def _alive(owner: str, boot: str) -> bool:
    try:
        their_boot, pid, started = owner.split(" ")
        number = int(pid)
    except ValueError:
        return False
    return their_boot == boot and _started(number) == started
