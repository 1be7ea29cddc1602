"""What a process has leased, account by account, and how that moves between its memory and the database."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from overnight.kernel.ledger.accounts import Accounts, slot_ms
from overnight.kernel.ledger.book import Book
from overnight.kernel.ledger.limits import Limit, Subject

_CALLS: Final = 32
_EXACT_BELOW: Final = 16
_SHARE: Final = 4


@dataclass(slots=True, eq=False)
class Pool:
    """A lease of one slice of one account. Amounts are scaled.

    Attributes:
        limit: of the account.
        account: whose.
        slot_ms: the slice.
        place: in the book.
        leased: counted in the account.
        used: of that, reserved and spent.
        open: reservations in it.
        call: what the last call asked for.
        rest: left in the account when it was last looked at.
        touched_ms: when it was last used, in the ledger's time.
        lent: whether the database knows of it.
        gone: given back for good.
    """

    limit: Limit
    account: str
    slot_ms: int
    place: int
    leased: int = 0
    used: int = 0
    open: int = 0
    call: int = 0
    rest: int = 0
    touched_ms: int = 0
    lent: bool = False
    gone: bool = False

    @property
    def unused(self) -> int:
        """Room for further calls; below 0 where a call took more than was set aside for it."""
        return self.leased - self.used

    @property
    def headroom(self) -> int:
        """How much room may lie here: for 32 calls, a quarter of what is left, none where not even 16 calls fit."""
        left = self.rest + max(0, self.unused)
        return 0 if left < _EXACT_BELOW * self.call else min(left // _SHARE, _CALLS * self.call)


@dataclass(slots=True, eq=False)
class Lease:
    """Room for one call.

    Attributes:
        id: unique where the call is counted as running, else empty.
        parts: how much of which pool.
        closed: whether it was settled.
    """

    id: str = ""
    parts: list[tuple[Pool, int]] = field(default_factory=list)
    closed: bool = False


Wanted = Sequence[tuple[Limit, str]]
"""Accounts that a call is counted in."""


def accounts_of(limits: Sequence[Limit], subject: Subject) -> Wanted:
    """The accounts that a call of `subject` is counted in, each once, by its strictest limit."""
    found: dict[str, Limit] = {}
    for limit in limits:
        for account in limit.accounts(subject):
            if account not in found or limit.scaled < found[account].scaled:
                found[account] = limit
    return [(limit, account) for account, limit in found.items()]


class Pools:
    """All that one process has leased. Whoever changes it holds `lock`; one transaction at a time.

    Attributes:
        lock: guards all numbers; held for moments only.
        current: the pools for calls that begin now, by account.
        old: those of earlier slices, in which calls are open, or that have not been given back.
    """

    def __init__(self, accounts: Accounts) -> None:
        self.lock = threading.Lock()
        self.current: dict[str, Pool] = {}
        self.old: set[Pool] = set()
        self._accounts = accounts
        self._book = Book(accounts.database.path)
        self._given: list[tuple[Pool, int]] = []
        self._lent: list[tuple[Pool, int]] = []
        self._finished: set[Pool] = set()

    def use(self, pool: Pool, amount: int) -> None:
        """Count so much more, or less, as used. `lock` is held."""
        pool.used += amount
        self._book.write(pool.place, pool.used)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction of the database around `begin`, `lend` and `give`.

        What is given back leaves the pools before it is committed, and what is lent comes into them after that: at no
        moment do pools hold what the accounts have not counted.
        """
        self._given, self._lent, self._finished = [], [], set()
        try:
            with self._accounts.database.transaction():
                yield
        except BaseException:
            with self.lock:
                for pool, amount in self._given:
                    pool.leased += amount
                    pool.rest -= amount
            raise
        with self.lock:
            for pool, amount in self._lent:
                pool.leased += amount
                pool.lent = True
            for pool in self._finished:
                self.old.discard(pool)
                pool.gone = True
                self._book.give(pool.place)

    def begin(self, limit: Limit, account: str, now_ms: int) -> Pool:
        """The pool for calls that begin now, an empty one if need be; those before it give back what is unused."""
        slot = slot_ms(limit, now_ms)
        with self.lock:
            pool = self.current.get(account)
            if pool is None or pool.slot_ms != slot or pool.limit != limit:
                if pool is not None:
                    self.old.add(pool)
                pool = self.current[account] = Pool(limit, account, slot, self._book.take())
            before = [old for old in self.old if old.account == account]
        for old in before:
            self.give(old, 0)
        return pool

    def lend(self, pool: Pool, amount: int) -> None:
        """Count so much more in the account for this pool."""
        self._accounts.add(pool.limit, pool.account, pool.slot_ms, amount)
        self._lent.append((pool, amount))
        if pool.lent:
            self._note(pool, amount)
        else:
            self._accounts.database.execute(
                "INSERT INTO ledger_leases (book, place, owner, account, slot_ms, amount) VALUES (?, ?, ?, ?, ?, ?)",
                (self._book.id, pool.place, self._accounts.owner, pool.account, pool.slot_ms, amount),
            )

    def give(self, pool: Pool, keep: int) -> None:
        """Give back what is unused beyond `keep`; the pool itself, where nothing is kept and no call is open."""
        with self.lock:
            amount = max(0, pool.unused - keep)
            pool.leased -= amount
            pool.rest += amount
            self._given.append((pool, amount))
            finished = not (pool.open or keep)
            if finished:
                self._finished.add(pool)
                self.old.add(pool)
                if self.current.get(pool.account) is pool:
                    del self.current[pool.account]
        if amount:
            self._accounts.add(pool.limit, pool.account, pool.slot_ms, -amount)
        if finished and pool.lent:
            self._accounts.database.execute(
                "DELETE FROM ledger_leases WHERE book = ? AND place = ?", (self._book.id, pool.place)
            )
        elif amount:
            self._note(pool, -amount)

    def close(self) -> None:
        """Nothing is leased any more."""
        self._book.close()

    def _note(self, pool: Pool, amount: int) -> None:
        self._accounts.database.execute(
            "UPDATE ledger_leases SET amount = amount + ? WHERE book = ? AND place = ?",
            (amount, self._book.id, pool.place),
        )
