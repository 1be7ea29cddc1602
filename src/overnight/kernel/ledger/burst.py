"""How fast is too fast, by tool family: what the breaker watches for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from overnight.core.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Burst:
    """Too fast for too long: `calls_per_s` calls a second, on average over `sustained_s` seconds."""

    calls_per_s: float
    sustained_s: float

    def __post_init__(self) -> None:
        if not (0 < self.calls_per_s < 1e5 and 0 < self.sustained_s < 1e5 and self.calls > 1):
            raise SettingsError(
                f"{self.calls_per_s:g} calls a second for {self.sustained_s:g}s is no burst",
                hint="that must be at least two calls",
            )

    @property
    def calls(self) -> int:
        """So many calls within `sustained_s` are a burst."""
        return math.ceil(self.calls_per_s * self.sustained_s)

    def __str__(self) -> str:
        return f"{self.calls} calls within {self.sustained_s:g}s"


MACHINE_SPEED = Burst(calls_per_s=5, sustained_s=10)
"""No person watches fifty calls in ten seconds."""


@dataclass(frozen=True)
class Bursts:
    """What the rules in force say about speed.

    Attributes:
        default: for families that are not named; None leaves it at what the program says.
        families: by tool family; None never stops it.
    """

    default: Burst | None = None
    families: Mapping[str, Burst | None] = field(default_factory=dict)
