"""Budgets of model calls, in the kernel's ledger: the most a call can cost is set aside before it is made.

Money is set aside for the worst case (every byte a token, all of it written to the provider's cache, the answer as long
as allowed), so that a budget is never passed; tokens for what is to be expected, since a limit of tokens a minute that
took every byte for one would refuse prompts that fit.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from overnight.core.errors import StoreError
from overnight.kernel.ledger.accounts import Amounts, Exceeded
from overnight.kernel.ledger.lease import IDLE_MS, Leases
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.ledger.pool import Lease, Wanted, accounts_of
from overnight.models.gateway.keys import Key
from overnight.models.prices import Price
from overnight.models.usage import Size, Usage
from overnight.store.database import Database

T = TypeVar("T")
_KNOWN: Final = 4096


class Apart(Protocol):
    """Does work on the database without keeping the event loop waiting; see `Recorder.apart`."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """The work's result."""


@dataclass(frozen=True, slots=True)
class Held:
    """What was set aside for one attempt.

    Attributes:
        lease: in the ledger.
        price: of what is called.
        usd: set aside.
    """

    lease: Lease
    price: Price
    usd: float


class Budget:
    """The budgets of a gateway. One event loop's own."""

    def __init__(self, database: Database, apart: Apart) -> None:
        self._leases = Leases(database)
        self._apart = apart
        self._loop = asyncio.get_running_loop()
        self._known: dict[tuple[str, str], tuple[Sequence[Limit], Sequence[Limit], Wanted]] = {}
        self._tidying: asyncio.Task[None] | None = None
        self._untidy = False
        self._resting: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def hold(
        self,
        limits: Sequence[Limit],
        key: Key,
        release: str,
        price: Price,
        size: Size,
        answer_tokens: int,
        *,
        first: bool,
    ) -> Held | Exceeded:
        """Set aside what an attempt may take.

        Args:
            limits: that apply, beside those of the key.
            key: whose call it is.
            release: that was asked for.
            price: of what is called.
            size: of the request.
            answer_tokens: the most the answer may have.
            first: the call itself is counted too; retries and fallbacks are the same call.

        Raises:
            StoreError: it cannot be counted; the call must not be made.
        """
        usd = price.most_usd(size.most(price.context, price.rounds), answer_tokens)
        wanted = self._wanted(limits, key, release)
        if not wanted:
            return Held(Lease(), price, usd)
        amounts: Amounts = {"usd": usd, "tokens": size.expected + answer_tokens, "calls": 1 if first else 0}
        found = self._leases.take(wanted, amounts) or await self._reserve(wanted, amounts)
        if self._resting is None:
            self._resting = self._loop.call_later(IDLE_MS / 1000, self._rest)
        return found if isinstance(found, Exceeded) else Held(found, price, usd)

    def settle(self, held: Held, usage: Usage) -> None:
        """Count what was used instead."""
        self._settle(held.lease, {"usd": held.price.cost_usd(usage), "tokens": usage.total})

    def keep(self, held: Held) -> None:
        """Count all that was set aside: nobody knows how much of it was used."""
        self._settle(held.lease, {})

    def give_back(self, held: Held) -> None:
        """Count no money and no tokens; that there was a call stays counted."""
        self._settle(held.lease, {"usd": 0, "tokens": 0})

    async def settled(self) -> None:
        """Wait until everybody can rely on what was settled.

        Raises:
            StoreError: it cannot be counted; more stays counted than was used.
        """
        if self._tidying is not None:
            await asyncio.shield(self._tidying)

    async def close(self) -> None:
        """Give back what is leased and not used.

        Raises:
            StoreError: it cannot be counted; the next gateway gives it back.
        """
        if self._resting is not None:
            self._resting.cancel()
        while self._running:
            await asyncio.wait(self._running)
        await self._apart(self._leases.close)

    async def _reserve(self, wanted: Wanted, amounts: Amounts) -> Lease | Exceeded:
        reserving = asyncio.ensure_future(self._apart(lambda: self._leases.reserve(wanted, amounts)))
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            # The client went away while the database was waited for: nothing will be called.
            reserving.add_done_callback(self._unwanted)
            raise

    def _unwanted(self, reserving: "asyncio.Future[Lease | Exceeded]") -> None:
        if not reserving.cancelled() and reserving.exception() is None and isinstance(reserving.result(), Lease):
            lease = reserving.result()
            assert isinstance(lease, Lease)
            self._settle(lease, {"usd": 0, "tokens": 0, "calls": 0})

    def _settle(self, lease: Lease, actual: Amounts) -> None:
        if self._leases.settle(lease, actual):
            self._untidy = True
            if self._tidying is None:
                self._tidying = self._start(self._tidy())

    async def _tidy(self) -> None:
        try:
            while self._untidy:
                self._untidy = False
                await self._apart(self._leases.tidy)
        finally:
            self._tidying = None

    def _rest(self) -> None:
        self._start(self._give_back_idle())

    async def _give_back_idle(self) -> None:
        self._resting = None
        more = True
        try:
            more = await self._apart(self._leases.rest)
        except StoreError as problem:
            print(f"overnight gateway: {problem}", file=sys.stderr)
        if more and self._resting is None:
            self._resting = self._loop.call_later(IDLE_MS / 1000, self._rest)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ran)
        return task

    def _ran(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            print(f"overnight gateway: {problem}", file=sys.stderr)

    def _wanted(self, limits: Sequence[Limit], key: Key, release: str) -> Wanted:
        known = self._known.get((key.id, release))
        if known is not None and known[0] is limits and known[1] == key.limits:
            return known[2]
        if len(self._known) >= _KNOWN:
            self._known.clear()
        wanted = accounts_of((*limits, *key.limits), key.subject(release))
        self._known[key.id, release] = (limits, key.limits, wanted)
        return wanted
