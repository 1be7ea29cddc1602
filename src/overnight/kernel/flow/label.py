"""Where a value came from, and how far it may travel."""

from dataclasses import dataclass
from typing import Literal

from overnight.kernel.canonical import Json

Label = Literal["user", "system", "untrusted"]
"""`user`: typed by the person; `system`: asserted by the system (an id, a header's sender); `untrusted`: the rest."""

Integrity = Literal["any", "system", "user"]
"""What an argument needs: `system` is satisfied by `system` and `user`; `user` only by what the person typed."""

Confidentiality = Literal["public", "private", "secret"]
"""How far a value may travel: `private` stays with the workspace's people, `secret` with its holder."""

Kind = Literal[
    "text", "phrase", "message", "path", "recipient", "url", "account", "amount", "id", "password", "date", "command",
    "number", "flag",
]  # fmt: skip
"""What a value means. A value is only traced to one of the same meaning: a day of the month is never a file's id.

A `phrase` (a title) is traced word by word: each was typed by the person or belongs to a value the system asserted. A
`message` is text that people act on: it may say anything, but a link or an address in it needs what a `url` needs."""

CRITICAL_KINDS: frozenset[Kind] = frozenset(
    {"message", "path", "recipient", "url", "account", "amount", "id", "password"}
)
"""Kinds whose arguments need `system` integrity unless their declaration says otherwise."""

PROSE_KINDS: frozenset[Kind] = frozenset({"text", "phrase", "message", "command", "password"})
"""Kinds whose values can hold anything that a model has read."""

_TRUST: dict[Label, int] = {"untrusted": 0, "system": 1, "user": 2}
_NEEDS: dict[Integrity, int] = {"any": 0, "system": 1, "user": 2}
_SECRECY: dict[Confidentiality, int] = {"public": 0, "private": 1, "secret": 2}


def satisfies(label: Label, need: Integrity) -> bool:
    """Whether a value with `label` may stand where `need` is asked for."""
    return _TRUST[label] >= _NEEDS[need]


def weakest(*labels: Label) -> Label:
    """The label of a value made of values with these labels; `user` of none."""
    return min(labels, key=_TRUST.__getitem__, default="user")


def exceeds(carried: Confidentiality, allowed: Confidentiality) -> bool:
    """Whether a value is more confidential than its destination allows."""
    return _SECRECY[carried] > _SECRECY[allowed]


def highest(*levels: Confidentiality) -> Confidentiality:
    """The confidentiality of a value made of values with these; `public` of none."""
    return max(levels, key=_SECRECY.__getitem__, default="public")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one argument's value came from, as the kernel traced it.

    Attributes:
        label: the weakest label of its parts.
        confidentiality: the highest of its parts.
        source: for people: "your request", "mail.read *.sender (entry 41)", "not traced".
    """

    label: Label
    confidentiality: Confidentiality
    source: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """A value with its origin, as tool results hand it out."""

    value: Json
    origin: Origin
    kind: Kind = "text"
