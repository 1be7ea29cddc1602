"""A quick look at a text that tells which searches of it are worth their cost.

Most text hides nothing, and every search of it takes ten microseconds a kilobyte and more. `bytes.translate` takes one:
it makes every character of a class the same, or leaves it out, and what a finder needs at least is then a short text to
look for. A look never says no where there is something to find; of text that is not ASCII it says yes to everything.
"""

import re
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
# Quotes, what joins two literals (line breaks too), letters that may stand before a quote.
_KINDS: Final = dict.fromkeys(b"\"'`", 0x71) | dict.fromkeys(b"\n+.&|\\", 0x6F) | dict.fromkeys(b"rbfu", 0x70)
_JOINTS: Final = bytes(_KINDS.get(code, 0x78) for code in range(256))
_JOINED: Final = re.compile(rb"qo+p?q")
_BRACKETS: Final = bytes.maketrans(b"({<)]}>ADOT", b"[[[[[[[adot")
_SIGNS: Final = (b"[at[", b"[@[", b"[dot[")
_DIGIT: Final = re.compile(r"[0-9]")
_CAPITALS: Final = _classes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"A", b"x")


class Glance:
    """What a look at a text says.

    Attributes:
        text: the text, folded.
        lower: the same in lower case, character by character.
        words: its words of `decode.SHORTEST` characters and more: what is encoded hides in none shorter.
        long_words: the same in one text.
        longer_words: those of `tokens.SHORTEST` characters and more, in one text.
        random: whether something without blanks may look drawn at random: it is long and has a digit.
        capitals: whether there is a capital letter.
        spelt: whether three characters in a row may stand with gaps around each.
    """

    __slots__ = (
        "_digits", "_octets", "capitals", "long_words", "longer_words", "lower", "random", "spelt", "text", "words",
    )  # fmt: skip

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = text.lower()
        if text.isascii():
            octets: bytes | None = text.encode("ascii")
            assert octets is not None
            self.words = _long(text, octets.translate(_WORDS))
            self.capitals = b"A" in octets.translate(_CAPITALS)
            self.spelt = _SPELT.search(octets.translate(_GAPS)) is not None
            self._digits: bytes | None = octets.translate(_DIGITS, _BETWEEN_DIGITS)
        else:
            octets = self._digits = None
            self.words = [word for word in text.split() if len(word) >= SHORTEST]
            self.capitals = self.spelt = True
            if len(self.lower) != len(text):
                self.lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
        self._octets = octets
        self.long_words = " ".join(self.words)
        self.longer_words = " ".join([word for word in self.words if len(word) >= SHORTEST_TOKEN])
        # Quotes may hold a tab.
        self.random = octets is None or "\t" in text or _DIGIT.search(self.longer_words) is not None

    @property
    def concatenated(self) -> bool:
        """Whether two literals may be joined."""
        return self._octets is None or _JOINED.search(self._octets.translate(_JOINTS, b" \t\r\x0b\x0c")) is not None

    @property
    def signs(self) -> bool:
        """Whether an address's signs may be spelt out in brackets."""
        if self._octets is None:
            return True
        shape = self._octets.translate(_BRACKETS, b" ")
        return any(sign in shape for sign in _SIGNS)

    def digits(self, count: int) -> bool:
        """Whether so many digits may follow each other with separators at most between them."""
        return self._digits is None or b"0" * count in self._digits

    def hexadecimal(self, count: int) -> bool:
        """The same of hexadecimal digits."""
        return self._octets is None or b"0" * count in self._octets.translate(_HEX, _BETWEEN_HEX)


def _long(text: str, shape: bytes) -> list[str]:
    found = []
    at = shape.find(_LONG)
    while at >= 0:
        end = shape.find(b" ", at)
        if end < 0:
            end = len(shape)
        found.append(text[at:end])
        at = shape.find(_LONG, end)
    return found
