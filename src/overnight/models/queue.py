"""Time-sharing of a scarce model: who is next, fairly, and for how long at most.

Start-time fair queueing (Goyal, Vin, Cheng, 1996) among agents within a priority: a request starts, in virtual time,
where the agent's last one ended, and takes its tokens divided by the agent's share; the least start is next. While two
agents both have requests waiting, what they got differs by no more than one request of each. An agent that was idle
starts at the present: idleness earns no credit.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from overnight.core.errors import OvernightError

Priority = Literal["interactive", "batch"]
"""`interactive`: somebody waits; `batch`: a night's work."""

PATIENCE_S: Final = 120.0
"""A batch request that has waited so long counts as interactive: many questions must not stop a night for good."""


class Preempted(OvernightError):
    """A generation held the model longer than its limit, and was ended."""


@dataclass(frozen=True)
class Ticket:
    """A request in the queue.

    Attributes:
        number: in the order of arrival.
        agent: who is charged.
        priority: as it was asked for.
        cost: tokens it is expected to take.
        start: virtual time at which it begins.
        arrived_s: on the queue's clock.
    """

    number: int
    agent: str
    priority: Priority
    cost: float
    start: float
    arrived_s: float


class FairQueue:
    """The order of waiting requests; no waiting of its own. For one thread."""

    def __init__(self, shares: Mapping[str, float] | None = None, patience_s: float = PATIENCE_S) -> None:
        """Begin empty.

        Args:
            shares: agent → weight, above 0; 1 for those not named.
            patience_s: after which a batch request counts as interactive.
        """
        self._shares = dict(shares or {})
        assert all(share > 0 for share in self._shares.values())
        self._patience_s = patience_s
        self._waiting: dict[int, Ticket] = {}
        self._ends: dict[str, float] = {}
        self._now = 0.0
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, agent: str, priority: Priority, cost: float, at_s: float) -> Ticket:
        """Join the queue.

        Args:
            agent: whose share it counts against.
            priority: of it.
            cost: expected tokens, above 0.
            at_s: the present, on any clock that only grows.
        """
        assert cost > 0
        start = max(self._now, self._ends.get(agent, 0.0))
        self._ends[agent] = start + cost / self._share(agent)
        ticket = Ticket(next(self._numbers), agent, priority, cost, start, at_s)
        self._waiting[ticket.number] = ticket
        return ticket

    def pop(self, at_s: float) -> Ticket | None:
        """Take the next request out; None if nobody waits."""
        if not self._waiting:
            return None
        ticket = min(self._waiting.values(), key=lambda item: (not self._urgent(item, at_s), item.start, item.number))
        del self._waiting[ticket.number]
        self._now = max(self._now, ticket.start)
        if not self._waiting:
            # Nobody is owed anything; agents that have gone must not be kept for ever.
            self._ends = {agent: end for agent, end in self._ends.items() if end > self._now}
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give up waiting; what it would have cost is given back."""
        if self._waiting.pop(ticket.number, None) is not None:
            self.settle(ticket, 0.0)

    def settle(self, ticket: Ticket, cost: float) -> None:
        """Count what a request really took instead of what was expected."""
        end = self._ends.get(ticket.agent, self._now)
        self._ends[ticket.agent] = max(0.0, end + (cost - ticket.cost) / self._share(ticket.agent))

    def _share(self, agent: str) -> float:
        return self._shares.get(agent, 1.0)

    def _urgent(self, ticket: Ticket, at_s: float) -> bool:
        return ticket.priority == "interactive" or at_s - ticket.arrived_s >= self._patience_s


@dataclass
class Turn:
    """A stretch in which a request has the model; set `used` to the tokens it took, where they are known."""

    ticket: Ticket
    used: float | None = None


@dataclass
class TimeSharing:
    """A model that serves `slots` requests at a time. One event loop's own.

    Attributes:
        slots: requests at a time.
        queue: their order.
        clock: monotonic seconds.
    """

    slots: int = 1
    queue: FairQueue = field(default_factory=FairQueue)
    clock: Callable[[], float] = time.monotonic
    _running: int = 0
    _waiters: dict[int, "asyncio.Future[None]"] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self.queue)

    @contextlib.asynccontextmanager
    async def turn(self, agent: str, priority: Priority, cost: float, limit_s: float) -> AsyncIterator[Turn]:
        """Wait for a turn, then have the model for the block, for `limit_s` at most.

        Raises:
            Preempted: the block took longer; it was cancelled, and the next request has the model.
        """
        ticket = self.queue.push(agent, priority, cost, self.clock())
        await self._admitted(ticket)
        turn = Turn(ticket)
        try:
            try:
                async with asyncio.timeout(limit_s) as limit:
                    yield turn
            except TimeoutError:
                # One of the block's own goes on as it is.
                if not limit.expired():
                    raise
                raise Preempted(f"it held the model for {limit_s:g} s, as long as it may") from None
        finally:
            if turn.used is not None:
                self.queue.settle(ticket, turn.used)
            self._running -= 1
            self._admit()

    async def _admitted(self, ticket: Ticket) -> None:
        waiter = self._waiters[ticket.number] = asyncio.get_running_loop().create_future()
        self._admit()
        try:
            await waiter
        except asyncio.CancelledError:
            # Admitted in the very moment in which it gave up: the turn goes on to the next.
            if waiter.done() and not waiter.cancelled():
                self._running -= 1
            else:
                self.queue.leave(ticket)
            self._admit()
            raise
        finally:
            self._waiters.pop(ticket.number, None)

    def _admit(self) -> None:
        while self._running < self.slots and (ticket := self.queue.pop(self.clock())) is not None:
            waiter = self._waiters[ticket.number]
            if waiter.done():
                continue
            self._running += 1
            waiter.set_result(None)
