"""Tier 0: what the workspace knows of itself, and how Overnight is used: from its record and from templates."""

import re
import tomllib
from functools import lru_cache
from importlib import resources
from typing import Final, Literal, cast, get_args

from overnight.models.rules.rules import Answered, Situation

Topic = Literal["best", "champion", "counts", "running", "status", "arenas", "models", "spend", "settings", "findings"]
TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)

_RUN: Final = (
    r"(?:(?:in|of|from|by) )?(?:(?:the|this|our|my) )?(?:current |latest |last |newest )?(?:run|night(?:'s run)?)"
)
_Facts = list[tuple[Topic, re.Pattern[str]]]
_Templates = list[tuple[re.Pattern[str], str]]


@lru_cache(maxsize=1)
def _known() -> tuple[_Facts, _Templates]:
    raw = tomllib.loads((resources.files("overnight.models") / "data" / "rules.toml").read_text("utf-8"))
    facts: _Facts = []
    for item in raw["fact"]:
        assert item["topic"] in TOPICS, f"rules.toml: no topic {item['topic']!r}"
        topic = cast(Topic, item["topic"])
        facts += [(topic, re.compile(pattern.replace("RUN", _RUN), re.I)) for pattern in item["patterns"]]
    return facts, [(re.compile(item["pattern"], re.I), item["text"]) for item in raw["template"]]


def facts(prompt: str, situation: Situation) -> Answered | None:
    """Answer what the workspace knows; None if it doesn't, or if the prompt asks for anything else."""
    known, templates = _known()
    for topic, pattern in known:
        if pattern.fullmatch(prompt):
            found = situation.facts.fact(topic)
            return None if found is None else Answered(found, f"fact:{topic}", "from this workspace's record")
    for pattern, text in templates:
        if pattern.fullmatch(prompt):
            return Answered(text, "template", "how Overnight is used")
    return None
