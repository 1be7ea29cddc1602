"""Time-sharing of a scarce model: who is next, fairly.

Start-time fair queueing (Goyal, Vin, Cheng, 1996) among agents within a priority: a request starts, in virtual time,
where the agent's last one ended, and takes its tokens divided by the agent's share; the least start is next. While two
agents both have requests waiting, what they got differs by no more than one request of each. An agent that was idle
starts at the present: idleness earns no credit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Priority = Literal["interactive", "batch"]
"""`interactive`: somebody waits; `batch`: a night's work."""

PRIORITY_HEADER: Final = "x-overnight-priority"
"""`batch` lets others go first; everything else is `interactive`. A caller can only step back, or stay where it is."""

PATIENCE_S: Final = 120.0
"""A batch request that has waited so long counts as interactive: many questions must not stop a night for good."""


@dataclass(frozen=True)
class Ticket:
    """A request in the queue.

    Attributes:
        number: in the order of arrival; unique among those that wait.
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
    """The order of waiting requests; no waiting of its own. For one thread.

    Attributes:
        ends: agent → virtual time at which its last request ends.
        now: virtual time.
        last: number of the newest ticket.
    """

    def __init__(
        self,
        shares: Mapping[str, float] | None = None,
        patience_s: float = PATIENCE_S,
        *,
        waiting: Sequence[Ticket] = (),
        ends: Mapping[str, float] | None = None,
        now: float = 0.0,
        last: int = 0,
    ) -> None:
        """Begin empty, or where an earlier queue was left.

        Args:
            shares: agent → weight, above 0; 1 for those not named.
            patience_s: after which a batch request counts as interactive.
            waiting: who waits already.
            ends: `ends` of the earlier queue.
            now: `now` of it.
            last: `last` of it.
        """
        self._shares = dict(shares or {})
        assert all(share > 0 for share in self._shares.values())
        self._patience_s = patience_s
        self._waiting = {ticket.number: ticket for ticket in waiting}
        self.ends = dict(ends or {})
        self.now = now
        self.last = last

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
        start = max(self.now, self.ends.get(agent, 0.0))
        self.ends[agent] = start + cost / self._share(agent)
        self.last += 1
        ticket = Ticket(self.last, agent, priority, cost, start, at_s)
        self._waiting[ticket.number] = ticket
        return ticket

    def pop(self, at_s: float) -> Ticket | None:
        """Take the next request out; None if nobody waits."""
        if not self._waiting:
            return None
        ticket = min(self._waiting.values(), key=lambda item: (not self._urgent(item, at_s), item.start, item.number))
        del self._waiting[ticket.number]
        self.now = max(self.now, ticket.start)
        if not self._waiting:
            # Nobody is owed anything; agents that have gone must not be kept for ever.
            self.ends = {agent: end for agent, end in self.ends.items() if end > self.now}
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give up waiting; what it would have cost is given back."""
        if self._waiting.pop(ticket.number, None) is not None:
            self.settle(ticket, 0.0)

    def settle(self, ticket: Ticket, cost: float) -> None:
        """Count what a request really took instead of what was expected."""
        end = self.ends.get(ticket.agent, self.now)
        self.ends[ticket.agent] = max(0.0, end + (cost - ticket.cost) / self._share(ticket.agent))

    def _share(self, agent: str) -> float:
        return self._shares.get(agent, 1.0)

    def _urgent(self, ticket: Ticket, at_s: float) -> bool:
        return ticket.priority == "interactive" or at_s - ticket.arrived_s >= self._patience_s
