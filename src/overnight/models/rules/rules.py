"""Tier 0: requests that need no model. Each rule answers what it fully understands and leaves the rest alone.

A rule that guesses is worse than none, because nobody checks an answer that cost nothing. So every rule matches the
whole prompt, from its first word to its last, and abstains on whatever is left over or can be read in two ways.
"""

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

LONGEST_CHARACTERS: Final = 4000
"""Longer prompts are left to models: what rules can answer is short."""


@dataclass(frozen=True)
class Answered:
    """What a rule says.

    Attributes:
        text: the answer.
        rule: which one.
        reason: how it was understood, for whoever checks.
        confidence: from 0 to 1; below 1 where an assumption was made, which `reason` names.
    """

    text: str
    rule: str
    reason: str
    confidence: float = 1.0


class Facts(Protocol):
    """What is known of the workspace without asking a model. May read the record; never writes."""

    def fact(self, topic: str) -> str | None:
        """A sentence on a topic of `rules.facts.TOPICS`; None where nothing is known of it."""


class NoFacts:
    """Outside a workspace nothing is known."""

    def fact(self, topic: str) -> str | None:
        """None."""
        return None


@dataclass(frozen=True)
class Situation:
    """What rules may know beside the prompt.

    Attributes:
        now: local time.
        facts: of the workspace.
    """

    now: datetime.datetime
    facts: Facts


Rule = Callable[[str, Situation], Answered | None]
"""Takes the prompt as `tidied` leaves it. Never raises, whatever the prompt."""

_COURTESY = re.compile(
    r"^(?:(?:hi|hello|hey|please|pls|ok(?:ay)?|so|quick question)\b[\s,:!.-]*)+"
    r"|(?:[\s,]*\b(?:please|pls|thanks|thank you))+$",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"^(?:can|could|would|will) you (?:please )?(?:tell me |give me )?"
    r"|^(?:tell|give|show) me (?=what|how|when|which|the\b)"
    r"|^i(?:'d| would) like to know |^do you know ",
    re.IGNORECASE,
)

# "5!" is a factorial.
_FINAL = re.compile(r"(?:[ ?.]|(?<![\d)])!)+$")


def tidied(prompt: str) -> str:
    """`prompt` on one line, without courtesies and its final punctuation."""
    text = " ".join(prompt.replace("’", "'").split())
    text = _FINAL.sub("", text)
    text = _COURTESY.sub("", text).strip()
    text = _ASKING.sub("", text).strip()
    return _FINAL.sub("", text).rstrip(",")


def answer(prompt: str, situation: Situation) -> Answered | None:
    """The answer of the first rule that understands the whole prompt; None if none does."""
    if len(prompt) > LONGEST_CHARACTERS:
        return None
    # Imported here: `rules_*` use the types of this module.
    from overnight.models.rules.arithmetic import arithmetic
    from overnight.models.rules.dates import dates
    from overnight.models.rules.facts import facts
    from overnight.models.rules.text import text
    from overnight.models.rules.units import units

    tidy = tidied(prompt)
    if not tidy:
        return None
    rules: tuple[Rule, ...] = (arithmetic, units, dates, facts)
    for rule in rules:
        if (found := rule(tidy, situation)) is not None:
            return found
    # What is quoted must reach this one as it was written.
    return text(prompt.strip(), situation)
