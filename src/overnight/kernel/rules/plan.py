"""The tools a task needs, named before anything untrusted is read; calls outside the plan are `ask`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from overnight.kernel.flow.tokens import tokens_of
from overnight.kernel.rules.matrix import pattern_names_tool
from overnight.kernel.tool.spec import ToolSpec

_STEM = re.compile(r"(?:ing|ed|es|s|e)$")


class Planner(Protocol):
    """Names the tools a request needs. Called once per session, before its first call, by the gate.

    It must see nothing but the request and the tools' own descriptions. It may raise; the session then does not open.
    """

    def plan(self, request: str, tools: Sequence[ToolSpec]) -> Sequence[str]:
        """Ids or patterns of the tools that `request` needs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was planned.

    Attributes:
        tools: ids or patterns.
    """

    tools: tuple[str, ...]

    def covers(self, spec: ToolSpec) -> bool:
        """Whether the tool is part of it."""
        return any(pattern_names_tool(pattern, spec) for pattern in self.tools)


class WordPlanner:
    """A planner without a model: a tool with words is planned if the request has one of them, any other always is.

    Inflections are folded ("booking", "booked" → "book"). It over-plans rather than understands; what it is for is
    that a task that never speaks of deleting does not delete.
    """

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        """`words` per tool id or pattern."""
        self._words = {pattern: frozenset(map(_stem, listed)) for pattern, listed in words.items()}

    def plan(self, request: str, tools: Sequence[ToolSpec]) -> Sequence[str]:
        """The ids of the tools that `request` speaks of, and of all that have no words."""
        said = {_stem(part) for token in tokens_of(request) for part in (token.text, *re.split(r"\W+", token.text))}
        planned = []
        for spec in tools:
            needed = [words for pattern, words in self._words.items() if pattern_names_tool(pattern, spec)]
            if not needed or any(words & said for words in needed):
                planned.append(spec.id)
        return planned


def _stem(word: str) -> str:
    word = word.casefold()
    return _STEM.sub("", word) if len(word) > 4 else word
