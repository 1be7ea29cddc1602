"""A quick look at a text that tells which searches of it are worth their cost.

Most text hides nothing, and every search of it takes ten microseconds a kilobyte and more. `bytes.translate` takes one:
it makes every character of a class the same, or leaves it out, and what a finder needs at least is then a short text to
look for. A look never says no where there is something to find; of text that is not ASCII it says yes to everything.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from overnight.kernel.masking.decode import SHORTEST
from overnight.kernel.masking.tokens import SHORTEST as SHORTEST_TOKEN

_BLANKS: Final = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"


def _classes(members: bytes, name: bytes, other: bytes) -> bytes:
    return bytes(name[0] if code in members else other[0] for code in range(256))


_WORDS: Final = _classes(_BLANKS, b" ", b"x")
_LONG: Final = b"x" * SHORTEST
_DIGITS: Final = _classes(b"0123456789", b"0", b"x")
# All that may stand between the digits of a number, or between the numbers of a list of codes.
_BETWEEN_DIGITS: Final = b" \t\n.,:;/_-"
_HEX: Final = _classes(b"0123456789abcdefABCDEF", b"0", b"z")
_BETWEEN_HEX: Final = b" :,;-xX"
_GAPS: Final = _classes(b" -_.|,*~", b" ", b"x")
_SPELT: Final = re.compile(rb" x {1,2}x {1,2}x ")
_CAPITALS: Final = _classes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"A", b"x")


@dataclass(frozen=True)
class Glance:
    """What a look at `text` says.

    Attributes:
        text: a folded one.
        octets: the same as bytes; None if it is not ASCII.
    """

    text: str
    octets: bytes | None

    @classmethod
    def of(cls, text: str) -> "Glance":
        """A look at a folded text."""
        return cls(text, text.encode("ascii") if text.isascii() else None)

    @cached_property
    def lower(self) -> str:
        """The text in lower case, character by character."""
        lower = self.text.lower()
        if len(lower) != len(self.text):
            lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in self.text)
        return lower

    @cached_property
    def words(self) -> list[str]:
        """The words of `decode.SHORTEST` characters and more: what is encoded hides in none shorter."""
        if self.octets is None:
            return [word for word in self.text.split() if len(word) >= SHORTEST]
        found = []
        shape = self.octets.translate(_WORDS)
        at = shape.find(_LONG)
        while at >= 0:
            end = shape.find(b" ", at)
            if end < 0:
                end = len(shape)
            found.append(self.text[at:end])
            at = shape.find(_LONG, end)
        return found

    @cached_property
    def long_words(self) -> str:
        """`words` in one text."""
        return " ".join(self.words)

    @cached_property
    def longer_words(self) -> str:
        """Those of `tokens.SHORTEST` characters and more, in one text."""
        return " ".join([word for word in self.words if len(word) >= SHORTEST_TOKEN])

    @cached_property
    def random(self) -> bool:
        """Whether something without blanks may look drawn at random: it is long and has a digit."""
        # Quotes may hold a tab.
        return "\t" in self.text or self.octets is None or any(char.isdigit() for char in self.longer_words)

    def digits(self, count: int) -> bool:
        """Whether so many digits may follow each other with separators at most between them."""
        return self._digits is None or b"0" * count in self._digits

    @cached_property
    def _digits(self) -> bytes | None:
        return None if self.octets is None else self.octets.translate(_DIGITS, _BETWEEN_DIGITS)

    def hexadecimal(self, count: int) -> bool:
        """The same of hexadecimal digits."""
        return self.octets is None or b"0" * count in self.octets.translate(_HEX, _BETWEEN_HEX)

    @property
    def spelt(self) -> bool:
        """Whether three characters in a row may stand with gaps around each."""
        return self.octets is None or _SPELT.search(self.octets.translate(_GAPS)) is not None

    @property
    def capitals(self) -> bool:
        """Whether there is a capital letter."""
        return self.octets is None or b"A" in self.octets.translate(_CAPITALS)
