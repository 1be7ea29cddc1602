"""What the root AGENTS.md's permissions blocks set besides rules: masking, speed, limits, how many must approve.

[[masking]]
agents = ["builder"]
hide = "secrets"
names = ["Blue Heron"]

[[limit]]
amount = 100
unit = "calls"
window = "day"
per = ["agent"]
only = { tool = "mail.*" }

[breaker]
calls_per_s = 5
sustained = "10s"
fragments = "1h"
families.mail = { calls_per_s = 1, sustained = "5s" }
families.files = "never"

[approvals]
destructive = 2
ask_irreversible = "all"
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from overnight.core.clock import parse_duration_s
from overnight.core.errors import SettingsError, UsageError
from overnight.core.schema import build, parsed_by, suggest
from overnight.kernel.ledger.burst import MACHINE_SPEED, Burst, Bursts
from overnight.kernel.ledger.limits import DIMENSIONS, Limit, Unit, Window
from overnight.kernel.masking.hiding import Hide, HidingRule
from overnight.kernel.rollback.compensation import UndoRule, sources
from overnight.kernel.rules.checks import check_agents

AskIrreversible = Literal["destructive", "all"]
"""Which calls that cannot be undone always ask: those of destructive tools, or all that change or send something."""

NEVER = "never"
"""Stands for no threshold at all."""


def _burst(raw: Any) -> Burst | None:
    if raw == NEVER:
        return None
    if not isinstance(raw, Mapping):
        raise UsageError(
            f"expected a threshold, got {raw!r}", hint=f'{{ calls_per_s = 2, sustained = "5s" }} or "{NEVER}"'
        )
    text = build(_BurstText, raw, "threshold", SettingsError)
    return Burst(text.calls_per_s, text.sustained)


def _families(raw: Any) -> dict[str, Burst | None]:
    if not isinstance(raw, Mapping):
        raise UsageError(f"expected tool families, got {raw!r}", hint=f'families.files = "{NEVER}"')
    found = {}
    for family, threshold in raw.items():
        try:
            found[str(family)] = _burst(threshold)
        except UsageError as problem:
            raise UsageError(f"{family}: {problem.message}", hint=problem.hint) from None
    return found


def window_s(raw: Any) -> float:
    """A stretch of time in which things are taken together; 0 is none."""
    return 0.0 if raw == 0 and not isinstance(raw, bool) else parse_duration_s(raw)


def _only(raw: Any) -> tuple[tuple[Any, str], ...]:
    if not isinstance(raw, Mapping) or not all(isinstance(pattern, str) for pattern in raw.values()):
        raise UsageError(f"expected patterns, got {raw!r}", hint='only = { tool = "mail.*" }')
    for name in raw:
        if name not in DIMENSIONS:
            raise UsageError(f"unknown key {name!r}", hint=suggest(str(name), DIMENSIONS))
    return tuple(raw.items())


@dataclass(frozen=True)
class _BurstText:
    calls_per_s: float
    sustained: float = field(metadata=parsed_by(parse_duration_s))


@dataclass(frozen=True)
class BreakerText:
    """`[breaker]`."""

    calls_per_s: float = MACHINE_SPEED.calls_per_s
    sustained: float = field(default=MACHINE_SPEED.sustained_s, metadata=parsed_by(parse_duration_s))
    fragments: float | None = field(default=None, metadata=parsed_by(window_s))
    families: Mapping[str, Burst | None] = field(default_factory=dict, metadata=parsed_by(_families))


@dataclass(frozen=True)
class ApprovalsText:
    """`[approvals]`: how many different approvers a destructive call needs when it asks, and what always asks."""

    destructive: int = 1
    ask_irreversible: AskIrreversible = "destructive"


@dataclass(frozen=True)
class MaskingText:
    """One `[[masking]]` table."""

    hide: Hide
    agents: tuple[str, ...] = ("*",)
    tenants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LimitText:
    """One `[[limit]]` table."""

    amount: float
    unit: Unit
    window: Window = "total"
    per: tuple[Any, ...] = ()
    only: tuple[tuple[Any, str], ...] = field(default=(), metadata=parsed_by(_only))


@dataclass(frozen=True)
class UndoText:
    """One `[[undo]]` table."""

    tool: str
    with_: str
    arguments: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, metadata=parsed_by(sources))


@dataclass(frozen=True)
class RuleSettings:
    """What one file sets.

    Attributes:
        masking: from whom what is hidden.
        limits: of calls, bytes, tokens and money.
        bursts: what the breaker takes for machine speed.
        fragments_s: within which steps of a combination over a tenant's sessions ask; None is the default, 0 never.
        destructive_quorum: destructive calls that ask need two different approvers.
        undo: how calls of tools are made up for, by tool.
        ask_irreversible: which calls that no rollback can undo always ask first.
    """

    masking: tuple[HidingRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    bursts: Bursts = field(default_factory=Bursts)
    fragments_s: float | None = None
    destructive_quorum: bool = False
    undo: Mapping[str, UndoRule] = field(default_factory=dict)
    ask_irreversible: AskIrreversible = "destructive"


def hiding_rule(text: MaskingText, at: str) -> HidingRule:
    """The rule that a table sets.

    Raises:
        SettingsError: it can never hold.
    """
    check_agents(text.agents, at)
    if any(not name.strip() for name in text.names):
        raise SettingsError(f"{at}: names: an empty name would hide everything", hint="remove it")
    return HidingRule(text.hide, text.agents, text.tenants, text.names, at)


def limit(text: LimitText, at: str) -> Limit:
    """The limit that a table sets.

    Raises:
        SettingsError: it is none.
    """
    try:
        return Limit(text.unit, text.amount, text.window, text.per, text.only)
    except SettingsError as problem:
        raise SettingsError(f"{at}: {problem.message}", hint=problem.hint) from None


def bursts(text: BreakerText, at: str) -> Bursts:
    """What a table sets.

    Raises:
        SettingsError: it is no threshold.
    """
    try:
        default = Burst(text.calls_per_s, text.sustained)
    except SettingsError as problem:
        raise SettingsError(f"{at}: {problem.message}", hint=problem.hint) from None
    return Bursts(default, text.families)


def two_approvers(text: ApprovalsText, at: str) -> bool:
    """Whether a table asks for two.

    Raises:
        SettingsError: it asks for another number.
    """
    if text.destructive not in (1, 2):
        raise SettingsError(f"{at}: destructive = {text.destructive} is not possible", hint="one approver, or two")
    return text.destructive == 2
