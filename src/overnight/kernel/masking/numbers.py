"""Numbers in groups of digits: payment cards and everything else that is recognised by its digits.

A run is a stretch of digits with at most two separators between neighbours. Numbers stand beside each other in tables
and sentences, so each window of neighbouring groups is looked at, of at most `_GROUPS` groups: the work is linear in
the length of the text.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from overnight.kernel.masking import checksums
from overnight.kernel.masking.kinds import Span

_RUN: Final = re.compile(r"\d(?:[ \t\n.,:/_\-]{0,2}\d){5,}")
LONG_RUN: Final = re.compile(r"\d(?:[ .,:/_\-]{0,2}\d){11,}")
"""Twelve digits or more: an IBAN or a card may be written backwards here."""
_GROUP: Final = re.compile(r"\d+")
_HEX: Final = re.compile(r"[0-9a-fA-F]")
# A 19-digit card in groups of two is ten groups.
_GROUPS: Final = 10

_CARD_CONTEXT: Final = re.compile(
    r"card|visa|master|amex|american express|maestro|diners|discover|jcb|unionpay|mir\b|pan\b|credit|debit|payment|"
    r"karte|carte|tarjeta|carta|kaart|kort",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring groups of digits.

    Attributes:
        start: first digit, in the view.
        end: one past the last digit.
        layout: lengths of the groups, `(4, 4, 4, 4)`.
        digits: all of them, without separators.
        separators: what stands between the groups.
    """

    start: int
    end: int
    layout: tuple[int, ...]
    digits: str
    separators: tuple[str, ...]

    @property
    def even(self) -> bool:
        """Whether all separators are the same."""
        return len(set(self.separators)) <= 1


def runs(text: str) -> Iterator[list[tuple[int, int]]]:
    """The groups of every run of six digits or more, as start and end."""
    for run in _RUN.finditer(text):
        yield [group.span() for group in _GROUP.finditer(text, run.start(), run.end())]


def windows(text: str, groups: list[tuple[int, int]], layouts: Container[tuple[int, ...]]) -> Iterator[Window]:
    """The windows over neighbouring `groups` that could be a card or have one of `layouts`, longest first."""
    # A table of numbers is one run with a card's length at every place; its layout is no card's.
    told = _CARD_CONTEXT.search(text, max(0, groups[0][0] - 60), groups[0][0]) is not None
    sizes = [end - start for start, end in groups]
    for first in range(len(groups)):
        total = 0
        found: list[tuple[int, ...]] = []
        for last in range(first, min(first + _GROUPS, len(groups))):
            total += sizes[last]
            if total > 22:
                break
            layout = tuple(sizes[first : last + 1])
            if (13 <= total <= 19 and (told or _usual(layout))) or layout in layouts:
                found.append(layout)
        for layout in reversed(found):
            window = groups[first : first + len(layout)]
            yield Window(
                window[0][0],
                window[-1][1],
                layout,
                "".join([text[begin:end] for begin, end in window]),
                tuple([text[a:b] for (_, a), (b, _) in pairwise(window)]),
            )


def issuer(digits: str) -> str | None:
    """The card network that `digits` could belong to by its first digits and length (ISO/IEC 7812, network tables)."""
    two, three, four, length = int(digits[:2]), int(digits[:3]), int(digits[:4]), len(digits)
    six = int(digits[:6])
    if digits[0] == "4":
        return "visa" if length in (13, 16, 19) else None
    if length == 16 and (51 <= two <= 55 or 2221 <= four <= 2720):
        return "mastercard"
    if two in (34, 37):
        return "amex" if length == 15 else None
    if 14 <= length <= 19 and (300 <= three <= 305 or four == 3095 or two in (36, 38, 39)):
        return "diners"
    if 16 <= length <= 19:
        if four == 6011 or 622126 <= six <= 622925 or 644 <= three <= 649 or two == 65:
            return "discover"
        if 3528 <= four <= 3589:
            return "jcb"
        if two in (62, 81):
            return "unionpay"
        if 2200 <= four <= 2204:
            return "mir"
        if four == 9792:
            return "troy"
        if six == 606282 or six in (636368, 438935, 504175, 451416, 636297) or three == 508 or two == 82:
            return "regional"
    if (two == 50 or 56 <= two <= 69) and 13 <= length <= 19:
        return "maestro"
    return None


def _usual(layout: tuple[int, ...]) -> bool:
    return len(layout) == 1 or all(3 <= size <= 7 for size in layout[:-1])


def card(text: str, window: Window) -> Span | None:
    """The window as a payment card number, if it is one.

    Luhn and a network are needed; so is a layout that people write: one group, or groups of two to seven digits with
    the same separator throughout. A network and length that other numbers share, and odd layouts, need a word such as
    "card" nearby.
    """
    digits = window.digits
    if not 13 <= len(digits) <= 19 or len(set(digits)) == 1:
        return None
    network = issuer(digits)
    if network is None and digits[0] != "0":
        network = "unknown"
    if network is None or not checksums.luhn(digits):
        return None
    usual = _usual(window.layout) and window.even
    certain = usual and network != "unknown" and (network != "maestro" or len(digits) in (16, 18, 19))
    if not certain and _CARD_CONTEXT.search(text, max(0, window.start - 60), window.start) is None:
        return None
    return Span(window.start, window.end, "card", network, digits)


def in_hex(text: str, start: int, end: int) -> bool:
    """Whether the digits are a part of a longer hexadecimal number, such as a digest."""
    before = 0
    while before < 8 and start - before > 0 and _HEX.match(text[start - before - 1]):
        before += 1
    after = 0
    while after < 8 and end + after < len(text) and _HEX.match(text[end + after]):
        after += 1
    return before + after >= 6
