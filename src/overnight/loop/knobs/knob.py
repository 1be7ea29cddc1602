"""What a knob is, where it stands in its file, and how a file is decoded so that it can be written back unchanged."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from overnight.core.errors import UsageError

Value = bool | int | float | str
Kind = Literal["float", "int", "bool", "choice"]
Scale = Literal["linear", "log", "logit"]
Source = Literal["annotated", "inferred", "literal"]


@dataclass(frozen=True)
class Knob:
    """One constant that `search` may turn.

    Attributes:
        id: file and dotted name, `train.py:LEARNING_RATE` or `config.toml:model.width`; edits elsewhere don't change
            it. A name's second occurrence in a file ends in `#2`; an unnamed literal is numbered within its function.
        path: the file, as it was handed in.
        value: what the file says now.
        kind: `bool` and `choice` pick one of `choices`; `int` and `float` lie between `low` and `high`, inclusive.
        low: in the knob's own units; 0 where there are choices.
        high: in the knob's own units; 0 where there are choices.
        scale: how distances count: `log` for what spans magnitudes (low > 0), `logit` for fractions in (0, 1).
        choices: all values, the present one included; empty for `int` and `float`.
        source: `annotated` by the person, `inferred` from name and value, or a bare `literal` inside a function.
        span: start and end of the literal, in characters of the decoded file.
        line: from 1.
    """

    id: str
    path: str
    value: Value
    kind: Kind
    low: float
    high: float
    scale: Scale
    choices: tuple[Value, ...]
    source: Source
    span: tuple[int, int]
    line: int

    @property
    def name(self) -> str:
        """The id without the file."""
        return self.id[len(self.path) + 1 :]

    @property
    def log(self) -> bool:
        """Whether magnitudes count rather than differences."""
        return self.scale == "log"

    def size(self) -> float:
        """How many values it can take; infinite for `float`."""
        if self.choices:
            return len(self.choices)
        return float("inf") if self.kind == "float" else int(self.high) - int(self.low) + 1


@dataclass(frozen=True)
class Leaf:
    """A scalar as a format's scanner found it, before any rule says whether it is a knob.

    Attributes:
        parts: the path to it; the last part is its name.
        value: as the format's own parser reads it.
        start: of the literal, in characters of the decoded text.
        end: one past the literal.
        line: where the literal ends, from 1.
        eligible: may become a knob without an annotation.
        bare: a numeric literal inside code, used only if nothing else is found.
        options: what a comment in the neighbourhood lists as its possible values.
    """

    parts: tuple[str, ...]
    value: Value | None
    start: int
    end: int
    line: int
    eligible: bool = True
    bare: bool = False
    options: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Scan:
    """All leaves of one file in their order, and the comment that ends each line that has one (without the `#`)."""

    leaves: tuple[Leaf, ...]
    comments: Mapping[int, str]


@dataclass(frozen=True)
class Text:
    """A decoded file that `encode` turns back into the same bytes."""

    text: str
    encoding: str
    bom: bytes

    def encode(self, text: str) -> bytes:
        """`text` in this file's encoding, behind its byte-order mark if it has one."""
        return self.bom + text.encode(self.encoding)


def decode(data: bytes, encoding: str = "utf-8") -> Text | None:
    """`data` as text, or None if it would not come back byte for byte."""
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        decoded = Text(data[len(bom) :].decode(encoding), encoding, bom)
        return decoded if decoded.encode(decoded.text) == data else None
    except (UnicodeError, LookupError):
        return None


def same(one: object, other: object) -> bool:
    """Equality that tells `True` from `1` and `1` from `1.0`."""
    return type(one) is type(other) and one == other


def fits(knob: Knob, value: object) -> bool:
    """Whether `value` is of the knob's type and among or between what it may take."""
    if knob.choices:
        return any(same(value, choice) for choice in knob.choices)
    if knob.kind == "int":
        return isinstance(value, int) and not isinstance(value, bool) and knob.low <= value <= knob.high
    return isinstance(value, float) and knob.low <= value <= knob.high


def unusable(knob_id: str, value: object, why: str) -> UsageError:
    """The error for a value that cannot be set."""
    return UsageError(f"{knob_id} cannot be set to {value!r}: {why}", hint="give a value of the constant's own type")
