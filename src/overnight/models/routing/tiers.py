"""The vocabulary of tiers: how much model a request needs, and what it asks for."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

Tier = Literal[0, 1, 2, 3]
"""0 no model · 1 tiny · 2 local · 3 cloud."""

TIER_NAMES: Final[Mapping[Tier, str]] = {0: "no model", 1: "tiny", 2: "local", 3: "cloud"}

Label = Literal[
    "arithmetic", "lookup", "extract", "classify", "rewrite", "summarise", "code", "reason", "plan", "write"
]
"""What a prompt asks for."""

LABELS: Final[tuple[Label, ...]] = get_args(Label)

LOWEST: Final[Mapping[Label, Tier]] = {
    "arithmetic": 2,
    "lookup": 2,
    "extract": 2,
    "classify": 1,
    "rewrite": 2,
    "summarise": 2,
    "code": 3,
    "reason": 3,
    "plan": 3,
    "write": 2,
}
"""The lowest tier of model that a request of each kind is tried at, where the settings don't say otherwise: a tiny
model chooses among named labels and no more; code, reasoning and plans are where small models are wrong and sound
right. What rules can answer they have answered before."""
