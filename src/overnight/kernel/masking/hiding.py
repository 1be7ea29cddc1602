"""From whom what is hidden: the `[[masking]]` tables of the rules in force, and what they say about one principal."""

from dataclasses import dataclass, field
from typing import Final, Literal

from overnight.kernel.masking.kinds import KINDS, SECRETS, Kind
from overnight.kernel.rules.rule import pattern_names_agent
from overnight.kernel.session import Principal

Hide = Literal["everything", "secrets", "record", "nothing"]
"""What a model does not see: secrets and personal data, or secrets alone; `record` hides nothing from the model, yet
everything from the journal and the inbox, as the first two do; `nothing` hides nothing from anybody."""

_STRICTNESS: Final[dict[Hide, int]] = {"nothing": 0, "record": 1, "secrets": 2, "everything": 3}
_FROM_MODELS: Final[dict[Hide, frozenset[Kind]]] = {
    "everything": frozenset(KINDS),
    "secrets": SECRETS,
    "record": frozenset(),
    "nothing": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Hiding:
    """What is hidden from one principal.

    Attributes:
        hide: how much.
        names: people and customers of this workspace, hidden beside the built-in lists.
    """

    hide: Hide
    names: tuple[str, ...] = ()

    @property
    def from_model(self) -> frozenset[Kind]:
        """Kinds of values that the model does not see."""
        return _FROM_MODELS[self.hide]

    @property
    def from_record(self) -> frozenset[Kind]:
        """Kinds of values that the journal and the inbox do not hold."""
        return frozenset() if self.hide == "nothing" else frozenset(KINDS)


@dataclass(frozen=True, slots=True)
class HidingRule:
    """One `[[masking]]` table.

    Attributes:
        hide: how much.
        agents: `name`, `name/*` or `*`; a sub-agent is also hidden from what its parents are.
        tenants: only for these; empty is all.
        names: hidden beside the built-in lists.
        where: where it stands.
    """

    hide: Hide
    agents: tuple[str, ...] = ("*",)
    tenants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    where: str = field(default="code", compare=False, repr=False)

    def speaks_of(self, principal: Principal) -> bool:
        """Whether it is about this agent or one above it."""
        if self.tenants and principal.tenant not in self.tenants:
            return False
        return any(pattern_names_agent(pattern, agent) for pattern in self.agents for agent in principal.lineage)


@dataclass(frozen=True)
class HidingPolicy:
    """What all `[[masking]]` tables say: the strictest that speaks of a principal holds, whatever their order.

    Attributes:
        rules: the tables.
        default: where none speaks of a principal.
    """

    rules: tuple[HidingRule, ...] = ()
    default: Hide = "nothing"

    def of(self, principal: Principal) -> Hiding:
        """What is hidden from a principal, and by which names."""
        found = [rule for rule in self.rules if rule.speaks_of(principal)]
        hide = max((rule.hide for rule in found), key=_STRICTNESS.__getitem__, default=self.default)
        return Hiding(hide, tuple(sorted({name for rule in found for name in rule.names})))
