"""The ledger's rows: what is counted in which account, in which slice of its window."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from overnight.core.errors import UsageError
from overnight.kernel.ledger.clock import LedgerClock
from overnight.kernel.ledger.limits import SCALE, SLICES, WINDOW_MS, Limit, Unit
from overnight.kernel.ledger.owner import alive, this_process
from overnight.store.database import Database

Amounts = Mapping[Unit, float]
"""US dollars, tokens, calls, bytes, from 0. `concurrent` is never given: each reservation is one until it is closed."""


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


class Accounts:
    """The rows of one ledger. Its methods run within the caller's transaction."""

    def __init__(self, database: Database, clock: LedgerClock) -> None:
        self.database = database
        self.clock = clock
        self.owner = this_process(clock.boot)

    def used(self, limit: Limit, account: str, now_ms: int) -> int:
        """What is counted in the window that ends now."""
        if limit.unit == "concurrent":
            return self._held(limit, account)
        since_ms = -1 if limit.window == "total" else slot_ms(limit, now_ms) - WINDOW_MS[limit.window] - 1
        row = self.database.row(
            "SELECT SUM(amount) AS used FROM ledger_used WHERE account = ? AND slot_ms > ?", (account, since_ms)
        )
        return 0 if row is None or row["used"] is None else int(row["used"])

    def add(self, limit: Limit, account: str, slot_ms: int, amount: int) -> None:
        """Count `amount` more, or less, in a slice."""
        changed = self.database.execute(
            "UPDATE ledger_used SET amount = amount + ? WHERE account = ? AND slot_ms = ?", (amount, account, slot_ms)
        )
        if changed.rowcount or amount <= 0:
            return
        if limit.window != "total":
            # A new slice: the moment to forget those that no window reaches any more.
            self.database.execute(
                "DELETE FROM ledger_used WHERE account = ? AND slot_ms < ?",
                (account, slot_ms - 2 * WINDOW_MS[limit.window]),
            )
        self.database.execute(
            "INSERT INTO ledger_used (account, slot_ms, amount) VALUES (?, ?, ?)", (account, slot_ms, amount)
        )

    def hold(self, account: str, reservation_id: str) -> None:
        """Count a call that runs."""
        self.database.execute(
            "INSERT INTO ledger_holds (id, account, owner) VALUES (?, ?, ?)", (reservation_id, account, self.owner)
        )

    def let_go(self, reservation_id: str) -> None:
        """It has ended."""
        self.database.execute("DELETE FROM ledger_holds WHERE id = ?", (reservation_id,))

    def exceeded(self, limit: Limit, account: str, used: int, amount: int, now_ms: int) -> Exceeded:
        """Why `amount` more does not fit."""
        scale = SCALE[limit.unit]
        wait_s = None
        if limit.window != "total" and amount <= limit.scaled:
            excess = used + amount - limit.scaled
            rows = self.database.rows(
                "SELECT slot_ms, amount FROM ledger_used WHERE account = ? AND slot_ms > ? ORDER BY slot_ms",
                (account, slot_ms(limit, now_ms) - WINDOW_MS[limit.window] - 1),
            )
            for row in rows:
                excess -= row["amount"]
                if excess <= 0:
                    slice_ms = WINDOW_MS[limit.window] // SLICES[limit.window]
                    wait_s = (row["slot_ms"] + WINDOW_MS[limit.window] + slice_ms - now_ms) / 1000
                    break
        return Exceeded(limit, account, used / scale, amount / scale, wait_s)

    def _held(self, limit: Limit, account: str) -> int:
        rows = self.database.rows("SELECT id, owner FROM ledger_holds WHERE account = ?", (account,))
        if len(rows) < limit.scaled:
            return len(rows)
        # Full: only now is it worth a look whether some of the processes have died.
        gone = [row for row in rows if not alive(row["owner"], self.clock.boot)]
        for row in gone:
            self.database.execute("DELETE FROM ledger_holds WHERE account = ? AND id = ?", (account, row["id"]))
        return len(rows) - len(gone)


def slot_ms(limit: Limit, now_ms: int) -> int:
    """Start of the slice of the limit's window that `now_ms` is in; 0 for totals."""
    if limit.window == "total":
        return 0
    slice_ms = WINDOW_MS[limit.window] // SLICES[limit.window]
    return now_ms // slice_ms * slice_ms


def scaled(amounts: Amounts) -> dict[Unit, int]:
    """Amounts as the ledger keeps them.

    Raises:
        UsageError: one is negative, not a number, or of an unknown unit.
    """
    found: dict[Unit, int] = {}
    for unit, amount in amounts.items():
        if unit not in SCALE or unit == "concurrent":
            raise UsageError(f"{unit!r} cannot be charged", hint="charge calls, usd, tokens or bytes")
        if not (math.isfinite(amount) and amount >= 0):
            raise UsageError(f"{amount} {unit} cannot be charged", hint="charge a number from 0")
        # Up: many small charges must not add up to nothing.
        found[unit] = math.ceil(amount * SCALE[unit])
    return found
