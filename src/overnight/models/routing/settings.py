"""`[router]` of overnight.toml: which kinds of request go where."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from overnight.core import schema
from overnight.core.errors import SettingsError
from overnight.models.routing.tiers import LABELS, LOWEST, Label, Tier

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(MB|GB|MiB|GiB)")
_SIZES: Final = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def _tiers(raw: Any) -> dict[str, int]:
    if not isinstance(raw, dict):
        raise SettingsError(f"expected a table, got {raw!r}", hint="write lowest = { code = 2 }")
    for label, tier in raw.items():
        _check_label(label)
        if tier not in (1, 2, 3) or isinstance(tier, bool):
            raise SettingsError(f"{label} = {tier!r} is not a tier of models", hint="1 tiny, 2 local, 3 cloud")
    return dict(raw)


def _preferred(raw: Any) -> dict[str, str]:
    if not isinstance(raw, dict) or not all(isinstance(name, str) for name in raw.values()):
        raise SettingsError(f"expected a table of names, got {raw!r}", hint='write prefer = { code = "author" }')
    for label in raw:
        _check_label(label)
    return dict(raw)


def _check_label(label: str) -> None:
    if label not in LABELS:
        raise SettingsError(f"there is no kind of request {label!r}", hint=schema.suggest(label, LABELS))


def _memory(raw: Any) -> dict[str, int]:
    if not isinstance(raw, dict):
        raise SettingsError(f"expected a table, got {raw!r}", hint='write memory = { worker = "9 GB" }')
    found = {}
    for name, size in raw.items():
        match = _SIZE.fullmatch(size) if isinstance(size, str) else None
        if match is None:
            raise SettingsError(f"{name} = {size!r} is not a size", hint='write it like "9 GB"')
        found[name] = int(float(match[1]) * _SIZES[match[2]])
    return found


@dataclass(frozen=True)
class RouterSettings:
    """`[router]`.

    Attributes:
        lowest: kind of request → lowest tier that is tried; `models.tiers.LOWEST` where nothing is said.
        prefer: kind of request → model that is tried first among those of its tier.
        classifier: `embedded` takes a fifth of a millisecond; `local` asks the tiny model of the extra `[local]`, which
            takes seconds to load and a hundred times as long, and was right less often.
        unsure: lowest tier for requests whose kind is not clear; 3 by default.
        rules: confidence from which an answer of tier 0 is taken, 0 to 1; 0.8 by default; above 1 none is.
        tokens: mean probability of an answer's tokens below which the next higher model is asked, where the server
            reports it; 0.5 by default; 0 never asks another.
        memory: model of tier 1 or 2 on this machine → free memory it needs, as `"9 GB"`, in bytes in the end.
        most_load: running processes for each processor above which no local model is offered; 2.0 by default.
        least_tokens_s: measured tokens a second below which a local model is not offered; 2.0 by default.
        most_waiting: requests waiting for a local model above which it is not offered; 4 by default.
    """

    lowest: Mapping[str, int] = field(default_factory=dict, metadata=schema.parsed_by(_tiers))
    prefer: Mapping[str, str] = field(default_factory=dict, metadata=schema.parsed_by(_preferred))
    classifier: Literal["embedded", "local"] = "embedded"
    unsure: int = 3
    rules: float = 0.8
    tokens: float = 0.5
    memory: Mapping[str, int] = field(default_factory=dict, metadata=schema.parsed_by(_memory))
    most_load: float = 2.0
    least_tokens_s: float = 2.0
    most_waiting: int = 4

    def __post_init__(self) -> None:
        if self.unsure not in (1, 2, 3):
            raise SettingsError(f"unsure = {self.unsure} is not a tier of models", hint="1 tiny, 2 local, 3 cloud")

    def lowest_for(self, label: Label | None) -> Tier:
        """The lowest tier of model that a request of this kind is tried at; None is a kind that isn't clear."""
        found = self.unsure if label is None else self.lowest.get(label, LOWEST[label])
        return 1 if found == 1 else 2 if found == 2 else 3
