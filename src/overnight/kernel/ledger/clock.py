"""The ledger's own time: runs with the monotonic clock, goes on over restarts, and never goes back.

Within one boot of the machine it is the monotonic clock plus a fixed offset, shared by all processes through the
database, so that setting the wall clock moves no window. At a new boot (the monotonic clock starts anew) the offset is
chosen so that the time is the wall clock's, but never before anything already counted: a restart with the clock set
back does not reset a window; one with the clock set forward ends windows early, which is the price of having no other
clock.
"""

import secrets
import time
from pathlib import Path

from overnight.store.database import Database

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Names this boot of the machine; where the system doesn't say, a new one for each process."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return f"process-{secrets.token_hex(8)}"


class LedgerClock:
    """The time of one ledger, in milliseconds. Thread-safe."""

    def __init__(self, database: Database, boot: str | None = None) -> None:
        """`boot` names the boot; tests pass others to stand for restarts."""
        self.boot = boot_id() if boot is None else boot
        with database.transaction():
            row = database.row("SELECT offset_ms FROM ledger_boots WHERE boot = ?", (self.boot,))
            if row is None:
                latest = database.row("SELECT MAX(slot_ms) AS latest FROM ledger_used")
                counted_ms = 0 if latest is None or latest["latest"] is None else int(latest["latest"])
                offset = max(int(time.time() * 1000), counted_ms) - _monotonic_ms()
                database.execute("INSERT INTO ledger_boots (boot, offset_ms) VALUES (?, ?)", (self.boot, offset))
            else:
                offset = row["offset_ms"]
        self._offset_ms: int = offset

    def now_ms(self) -> int:
        """The present."""
        return _monotonic_ms() + self._offset_ms


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
