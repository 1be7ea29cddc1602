"""Limits: how much of what, in which window, for whom."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from typing import Literal, get_args

from overnight.core.errors import SettingsError

Unit = Literal["calls", "usd", "tokens", "bytes", "concurrent"]
"""`concurrent` counts calls that run at this moment; it has no window."""

Window = Literal["second", "minute", "day", "total"]

Dimension = Literal["agent", "role", "tenant", "tool", "family", "key", "run"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

SCALE: Mapping[Unit, int] = {"calls": 1, "usd": 10**9, "tokens": 1, "bytes": 1, "concurrent": 1}
"""Amounts are kept as whole numbers: billionths of a US dollar, so that adding never rounds."""

WINDOW_MS: Mapping[Window, int] = {"second": 1000, "minute": 60_000, "day": 86_400_000}
SLICES: Mapping[Window, int] = {"second": 10, "minute": 60, "day": 96}
"""A window slides in so many slices. The slice that is only partly out still counts in full, so that no stretch of the
window's length ever holds more than the limit; at worst one slice's length is waited for longer than needed."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom and what a charge is for. `agent` and `tenant` are the verified grant's, never a caller's claim.

    Attributes:
        agent: after its parents: `researcher/scout`. A limit of `researcher` counts its sub-agents' charges too.
        tenant: who pays.
        roles: the agent's roles; each is charged.
        tool: canonical tool id.
        family: the tool's family.
        key: id of the provider's key that is used.
        run: run of the loop.
    """

    agent: str
    tenant: str = "default"
    roles: tuple[str, ...] = ()
    tool: str = ""
    family: str = ""
    key: str = ""
    run: str = ""


@dataclass(frozen=True)
class Limit:
    """At most `amount` of `unit` in any `window`, separately for each value of `per`.

    Attributes:
        unit: what is counted.
        amount: US dollars, calls, tokens or bytes; 0 allows none.
        window: any stretch of this length; `total` is for ever.
        per: each combination of these is counted apart; empty counts all that match together.
        only: patterns (`*` and `?`) a charge must match to be counted; a pattern for `agent` also takes its sub-agents.
    """

    unit: Unit
    amount: float
    window: Window = "total"
    per: tuple[Dimension, ...] = ()
    only: tuple[tuple[Dimension, str], ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.amount) and self.amount >= 0):
            raise SettingsError(f"a limit of {self.amount} {self.unit} is none", hint="give a number from 0")
        if self.unit not in SCALE or self.window not in (*WINDOW_MS, "total"):
            raise SettingsError(f"no limit of {self.unit!r} per {self.window!r}", hint=f"known: {', '.join(SCALE)}")
        if self.unit == "concurrent" and self.window != "total":
            raise SettingsError("concurrent calls are counted at this moment", hint="leave out the window")
        unknown = {*self.per, *(name for name, _ in self.only)} - set(DIMENSIONS)
        if unknown:
            raise SettingsError(f"a limit cannot be per {min(unknown)!r}", hint=f"known: {', '.join(DIMENSIONS)}")

    @cached_property
    def scaled(self) -> int:
        """The amount as the ledger keeps it, rounded down."""
        return math.floor(self.amount * SCALE[self.unit])

    @cached_property
    def id(self) -> str:
        """Names the account it is counted in; another amount keeps the count."""
        described = json.dumps([self.unit, self.window, sorted(self.per), sorted(self.only)])
        return f"{self.unit}.{self.window}.{hashlib.sha256(described.encode()).hexdigest()[:12]}"

    def accounts(self, subject: Subject) -> list[str]:
        """The accounts a charge for `subject` is counted in: none, one, or one for each agent and role it is under."""
        for name, pattern in self.only:
            if not any(fnmatchcase(value, pattern) for value in _values(subject, name)):
                return []
        if not self.per:
            return [self.id]
        names = sorted(self.per)
        return [
            _account(self.id, dict(zip(names, values, strict=True)))
            for values in product(*(_values(subject, name) for name in names))
        ]

    def __str__(self) -> str:
        each = f" per {' and '.join(self.per)}" if self.per else ""
        of = f" of {', '.join(f'{name} {pattern}' for name, pattern in self.only)}" if self.only else ""
        amount = f"{self.amount:g} {self.unit}"
        when = (
            "at a time" if self.unit == "concurrent" else "in total" if self.window == "total" else f"a {self.window}"
        )
        return f"{amount} {when}{each}{of}"


def _values(subject: Subject, name: Dimension) -> Sequence[str]:
    """What a charge counts as in one dimension: its agent and those above it, each of its roles, one of the others."""
    if name == "agent":
        parts = subject.agent.split("/")
        return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    if name == "role":
        return subject.roles or ("",)
    return (getattr(subject, name),)


def _account(limit: str, values: Mapping[str, str]) -> str:
    # JSON keeps two values from running into one another.
    return f"{limit} {json.dumps(values, sort_keys=True, separators=(',', ':'))}"
