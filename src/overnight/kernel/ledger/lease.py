"""The ledger for many calls a second: a process leases room in every account, and spends it without asking again.

    reserve → out of the lease, in memory; only where that is not enough it is extended, in one transaction
    settle  → back into the lease, in memory

A lease is counted in the accounts like any reservation: all processes together overshoot by nothing, and reports count
it as used. It holds at most a quarter of what is left, and nothing where little is left: there every call is reserved
and settled in the accounts themselves. What is not needed goes back after a tenth of a second.

What a process that died had leased is given back by the next that comes across it, less what it had reserved and spent
by its book (`ledger.book`). What was admitted is never forgotten.
"""

import secrets
import threading
from collections.abc import Mapping
from typing import Final

from overnight.kernel.ledger.accounts import Accounts, Amounts, Exceeded, scaled, slot_ms
from overnight.kernel.ledger.book import reclaim, sweep
from overnight.kernel.ledger.clock import LedgerClock
from overnight.kernel.ledger.limits import Limit, Unit
from overnight.kernel.ledger.pool import Lease, Pool, Pools, Wanted
from overnight.store.database import Database

IDLE_MS: Final = 100
"""Leases that were not touched for so long are given back."""


class Leases:
    """What one process has leased from one workspace's ledger. Thread-safe."""

    def __init__(self, database: Database, *, clock: LedgerClock | None = None) -> None:
        """Begin with nothing, and give back what dead processes left.

        Raises:
            StoreError: it cannot be counted.
        """
        self._accounts = Accounts(database, LedgerClock(database) if clock is None else clock)
        with database.transaction():
            reclaim(self._accounts)
            books = database.rows("SELECT DISTINCT book FROM ledger_leases")
        sweep(database.path, frozenset(row["book"] for row in books))
        self._pools = Pools(self._accounts)
        self._due: set[Pool] = set()
        self._ended: list[str] = []
        self._closed = False
        self._turn = threading.Lock()  # held through a transaction, as the pools' own lock is not

    def take(self, wanted: Wanted, amounts: Amounts) -> Lease | None:
        """Room for a call out of what is leased already; None if that is not enough. Waits for nothing.

        Raises:
            UsageError: an amount is negative, not a number, or of an unknown unit.
        """
        return self._take(wanted, scaled(amounts), self._accounts.clock.now_ms())

    def reserve(self, wanted: Wanted, amounts: Amounts) -> Lease | Exceeded:
        """Room for a call that is about to run. Not to be called within a transaction of the database.

        Args:
            wanted: where it is counted.
            amounts: the most it may take.

        Raises:
            UsageError: see `take`.
            StoreError: it cannot be counted; the call must not run.
        """
        whole = scaled(amounts)
        with self._turn:
            now_ms = self._accounts.clock.now_ms()
            return self._take(wanted, whole, now_ms) or self._extend(wanted, whole, now_ms)

    def settle(self, lease: Lease, actual: Amounts) -> bool:
        """Replace what was set aside by what the call took; units not named took what was set aside.

        A second time does nothing. More than was set aside is counted too: it has happened.

        Returns:
            whether others can rely on it only after `tidy`.

        Raises:
            UsageError: see `take`.
        """
        whole = scaled(actual)
        with self._pools.lock:
            if lease.closed or self._closed:
                return False
            lease.closed = True
            if lease.id:
                self._ended.append(lease.id)
            for pool, amount in lease.parts:
                pool.open -= 1
                self._pools.use(pool, whole.get(pool.limit.unit, amount) - amount)
                if not 0 <= pool.unused <= 2 * pool.headroom:
                    self._due.add(pool)
            return bool(self._due or self._ended)

    def tidy(self) -> None:
        """Bring into the accounts what `settle` left to be done there.

        Raises:
            StoreError: it cannot be counted; what was to be given back stays counted until the next time.
        """
        with self._turn:
            with self._pools.lock:
                due, ended = self._due, self._ended
                self._due, self._ended = set(), []
                keep = {pool: pool.headroom for pool in due}
            try:
                self._change(keep, ended)
            except BaseException:
                with self._pools.lock:
                    self._due |= due
                    self._ended = ended + self._ended
                raise

    def rest(self) -> bool:
        """Give back what has not been touched for a while; whether anything is still leased.

        Raises:
            StoreError: see `tidy`.
        """
        with self._turn:
            since_ms = self._accounts.clock.now_ms() - IDLE_MS
            with self._pools.lock:
                idle = [pool for pool in self._pools.current.values() if pool.touched_ms <= since_ms]
                keep = dict.fromkeys((*idle, *self._pools.old), 0)
            self._change(keep, [])
            return bool(self._pools.current or self._pools.old)

    def close(self) -> None:
        """Give back everything that is not used, and stop. What was not settled by then stays counted in full.

        Raises:
            StoreError: it cannot be counted; the next process gives it back.
        """
        with self._turn:
            with self._pools.lock:
                self._closed = True
                pools = [*self._pools.current.values(), *self._pools.old]
                for pool in pools:
                    pool.open = 0
            self._change(dict.fromkeys(pools, 0), self._ended)
            self._pools.close()

    def _take(self, wanted: Wanted, whole: Mapping[Unit, int], now_ms: int) -> Lease | None:
        lease = Lease()
        with self._pools.lock:
            for limit, account in wanted:
                if limit.unit == "concurrent" or self._closed:
                    return None
                amount = whole.get(limit.unit, 0)
                if not amount:
                    continue
                pool = self._pools.current.get(account)
                if pool is None or pool.unused < amount or pool.slot_ms != slot_ms(limit, now_ms):
                    return None
                if pool.limit is not limit:
                    # Another amount for the same account: what was leased under the old one is not lent on.
                    if pool.limit != limit:
                        return None
                    pool.limit = limit
                lease.parts.append((pool, amount))
            for pool, amount in lease.parts:
                self._enter(pool, amount, amount, now_ms)
        return lease

    def _extend(self, wanted: Wanted, whole: Mapping[Unit, int], now_ms: int) -> Lease | Exceeded:
        assert not self._closed
        lease, running = Lease(), []
        needed: list[tuple[Pool, int, int]] = []
        refused: Exceeded | None = None
        try:
            with self._pools.transaction():
                for limit, account in wanted:
                    amount = 1 if limit.unit == "concurrent" else whole.get(limit.unit, 0)
                    if not amount:
                        continue
                    own = 0
                    if limit.unit != "concurrent":
                        pool, own = self._own(lease, limit, account, amount, now_ms)
                        if own == amount:
                            continue
                    left = self._left(limit, account, amount, own, now_ms)
                    if isinstance(left, Exceeded):
                        refused = left
                        self._leave(lease)
                        break
                    if limit.unit == "concurrent":
                        running.append(account)
                        continue
                    with self._pools.lock:
                        # Before it is lent: nobody else may take it in the meantime.
                        self._pools.use(pool, amount - own)
                    lease.parts[-1] = (pool, amount)
                    needed.append((pool, amount - own, left))
                if refused is None:
                    for pool, need, left in needed:
                        pool.rest = left
                        more = min(left, pool.headroom)
                        pool.rest -= more
                        self._pools.lend(pool, need + more)
                    lease.id = secrets.token_hex(12) if running else ""
                    for account in running:
                        self._accounts.hold(account, lease.id)
        except BaseException:
            self._leave(lease)
            raise
        return refused or lease

    def _own(self, lease: Lease, limit: Limit, account: str, amount: int, now_ms: int) -> tuple[Pool, int]:
        """Take what the pool has, up to `amount`."""
        pool = self._pools.begin(limit, account, now_ms)
        with self._pools.lock:
            own = min(max(0, pool.unused), amount)
            self._enter(pool, own, amount, now_ms)
            lease.parts.append((pool, own))
        return pool, own

    def _left(self, limit: Limit, account: str, amount: int, own: int, now_ms: int) -> int | Exceeded:
        used = self._accounts.used(limit, account, now_ms)
        if used + amount - own > limit.scaled and reclaim(self._accounts, account):
            used = self._accounts.used(limit, account, now_ms)
        left = limit.scaled - used - (amount - own)
        return left if left >= 0 else self._accounts.exceeded(limit, account, used - own, amount, now_ms)

    def _enter(self, pool: Pool, amount: int, call: int, now_ms: int) -> None:
        pool.open += 1
        pool.call = call
        pool.touched_ms = now_ms
        self._pools.use(pool, amount)

    def _leave(self, lease: Lease) -> None:
        with self._pools.lock:
            for pool, amount in lease.parts:
                pool.open -= 1
                self._pools.use(pool, -amount)
            lease.parts.clear()

    def _change(self, keep: Mapping[Pool, int], ended: list[str]) -> None:
        with self._pools.lock:
            keep = {
                pool: most for pool, most in keep.items() if not pool.gone and (pool.unused != most or not pool.open)
            }
        if not (keep or ended):
            return
        with self._pools.transaction():
            for lease_id in ended:
                self._accounts.let_go(lease_id)
            for pool, most in keep.items():
                if pool.unused < 0:
                    self._pools.lend(pool, -pool.unused)
                self._pools.give(pool, most)
