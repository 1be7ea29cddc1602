"""What masking looks for, and what it found: the nouns of this package."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

Kind = Literal["private_key", "key", "password", "card", "iban", "national_id", "email", "phone", "name"]
"""What a masked value is. The first three are secrets, the rest is personal data; sinks are cleared by kind."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SECRETS: Final[frozenset[Kind]] = frozenset({"private_key", "key", "password"})
PERSONAL: Final[frozenset[Kind]] = frozenset(KINDS) - SECRETS

# Where two kinds claim the same characters, the first of these names the placeholder.
SEVERITY: Final[dict[Kind, int]] = {kind: len(KINDS) - place for place, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text that must not be shown.

    Attributes:
        start: first character, counted in the text that was searched.
        end: one past the last.
        kind: what it is.
        rule: which format or context gave it away, e.g. `github`, `luhn`, `es-dni`; fit for a report, holds no value.
        value: what it says once disguise is taken off; the same value in two spellings has one `value`.
    """

    start: int
    end: int
    kind: Kind
    rule: str
    value: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A span as it was replaced; carries no part of the value.

    `start` and `end` count in the original text, `placeholder` is what stands there now.
    """

    kind: Kind
    rule: str
    start: int
    end: int
    placeholder: str
