"""The ledger: the one place where money, tokens, calls and bytes are counted, before they are spent.

    reserve → (the call runs) → settle with what it really took, or refund when it did not run

Every reservation is one transaction of the workspace's database that either fits into *all* limits or changes nothing:
any number of threads and processes overshoot by nothing, and counts survive restarts. What a process had reserved when
it died stays spent, as it may have been.
"""

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overnight.kernel.ledger.accounts import Accounts, Amounts, Exceeded, scaled, slot_ms
from overnight.kernel.ledger.book import reclaim
from overnight.kernel.ledger.clock import LedgerClock
from overnight.kernel.ledger.limits import SCALE, Limit, Subject, Unit
from overnight.store.database import Database

__all__ = ["Amounts", "Entry", "Exceeded", "Ledger", "Reservation", "Usage"]


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
        self._accounts = Accounts(database, LedgerClock(database) if clock is None else clock)
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
        whole = scaled(amounts)
        wanted: list[tuple[Limit, str, int]] = []
        for limit in (*self._limits, *more):
            amount = 1 if limit.unit == "concurrent" else whole.get(limit.unit, 0)
            if amount:
                wanted += [(limit, account, amount) for account in limit.accounts(subject)]
        reservation_id = secrets.token_hex(12)
        if not wanted:
            return Reservation(reservation_id, ())
        now_ms = self._accounts.clock.now_ms()
        with self._turn, self._database.transaction():
            for limit, account, amount in wanted:
                used = self._accounts.used(limit, account, now_ms)
                if used + amount > limit.scaled and reclaim(self._accounts, account):
                    used = self._accounts.used(limit, account, now_ms)
                if used + amount > limit.scaled:
                    return self._accounts.exceeded(limit, account, used, amount, now_ms)
            entries = []
            for limit, account, amount in wanted:
                entries.append(Entry(limit, account, slot_ms(limit, now_ms), amount))
                if limit.unit == "concurrent":
                    self._accounts.hold(account, reservation_id)
                else:
                    self._accounts.add(limit, account, entries[-1].slot_ms, amount)
        return Reservation(reservation_id, tuple(entries))

    def settle(self, reservation: Reservation, actual: Amounts) -> None:
        """Replace what was set aside by what the call took; units not named took what was set aside.

        More than was set aside is counted too: it has happened.

        Raises:
            UsageError: see `reserve`.
            StoreError: it cannot be counted; the reservation then stays counted in full.
        """
        self._close(reservation, scaled(actual))

    def refund(self, reservation: Reservation) -> None:
        """Give everything back: the call did not run.

        Raises:
            StoreError: it cannot be counted; the reservation then stays counted in full.
        """
        self._close(reservation, dict.fromkeys(SCALE, 0))

    def usage(self) -> list[Usage]:
        """Every account that has something counted now, by limit."""
        now_ms = self._accounts.clock.now_ms()
        found = []
        for limit in self._limits:
            table = "ledger_holds" if limit.unit == "concurrent" else "ledger_used"
            rows = self._database.rows(
                f"SELECT DISTINCT account FROM {table} WHERE account = ? OR account LIKE ? ORDER BY account",
                (limit.id, f"{limit.id} %"),
            )
            for row in rows:
                used = self._accounts.used(limit, row["account"], now_ms)
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
                    self._accounts.let_go(reservation.id)
                for entry, change in changes:
                    self._accounts.add(entry.limit, entry.account, entry.slot_ms, change)
        except BaseException:
            reservation._open.release()
            raise
