"""Budgets of model calls, in the kernel's ledger: the most a call can cost is set aside before it is made.

Money is set aside for the worst case (every byte a token, all of it written to the provider's cache, the answer as long
as allowed), so that a budget is never passed; tokens for what is to be expected, since a limit of tokens a minute that
took every byte for one would refuse prompts that fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from overnight.kernel.ledger import Exceeded, Ledger, Reservation
from overnight.kernel.ledger_clock import LedgerClock
from overnight.kernel.limits import Limit, Subject
from overnight.models.prices import Price
from overnight.models.usage import Size, Usage
from overnight.store.database import Database


@dataclass(frozen=True)
class Held:
    """What was set aside for one attempt.

    Attributes:
        ledger: where.
        reservation: of the ledger.
        price: of what is called.
        usd: set aside.
        tokens: set aside.
    """

    ledger: Ledger
    reservation: Reservation
    price: Price
    usd: float
    tokens: int

    def settle(self, usage: Usage) -> float:
        """Count what was used instead; what that cost, in US dollars."""
        cost = self.price.cost_usd(usage)
        self.ledger.settle(self.reservation, {"usd": cost, "tokens": usage.total})
        return cost

    def keep(self) -> float:
        """Count all that was set aside: nobody knows how much of it was used."""
        self.ledger.settle(self.reservation, {})
        return self.usd

    def give_back(self) -> None:
        """Count no money and no tokens; that there was a call stays counted."""
        self.ledger.settle(self.reservation, {"usd": 0, "tokens": 0})


class Budget:
    """The ledgers of a gateway: one for each set of limits, over the same counts. For one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = LedgerClock(database)
        self._ledgers: dict[tuple[Limit, ...], Ledger] = {}

    def hold(
        self, limits: Sequence[Limit], subject: Subject, price: Price, size: Size, answer_tokens: int, *, first: bool
    ) -> Held | Exceeded:
        """Set aside what an attempt may take.

        Args:
            limits: that apply.
            subject: whom it is charged to.
            price: of what is called.
            size: of the request.
            answer_tokens: the most the answer may have.
            first: the call itself is counted too; retries and fallbacks are the same call.
        """
        usd, tokens = price.most_usd(size.most, answer_tokens), size.expected + answer_tokens
        ledger = self._ledger(tuple(limits))
        reservation = ledger.reserve(subject, {"usd": usd, "tokens": tokens, "calls": 1 if first else 0})
        if isinstance(reservation, Exceeded):
            return reservation
        return Held(ledger, reservation, price, usd, tokens)

    def _ledger(self, limits: tuple[Limit, ...]) -> Ledger:
        ledger = self._ledgers.get(limits)
        if ledger is None:
            if len(self._ledgers) > 1024:
                self._ledgers.clear()
            ledger = self._ledgers[limits] = Ledger(self._database, limits, clock=self._clock)
        return ledger
