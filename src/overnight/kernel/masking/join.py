"""Secrets that were taken apart: wrapped over lines, joined by operators, spelt with gaps, or written backwards."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from overnight.kernel.masking.kinds import Span
from overnight.kernel.masking.tokens import splittable
from overnight.kernel.masking.view import Edit, View

_SEAM: Final = re.compile(r"[\"'`]\s*(?:\+|\.|&|\|\||\\|,|\.\.)?\s*(?:[rbfu]?[\"'`])|[ \t]*\\?\r?\n[ \t>|#*]*|[ \t]+")
# What `_SEAM` may take out; without it a mark shows that was split. Building the view costs ten times this look.
_GLUE: Final = dict.fromkeys(map(ord, " \t\r\n\"'`+&|,>#*\\"))
_SPELT: Final = re.compile(r"(?<!\S)[^\s](?:[ \-_.|,*~]{1,2}[^\s]){9,}(?!\S)")
# Three single letters with gaps around them: begins with the rarer character.
_GAPS: Final = re.compile(r"[ \-_.|,*~]\w[ \-_.|,*~]{1,2}\w[ \-_.|,*~]{1,2}\w[ \-_.|,*~]")
_SEPARATOR: Final = re.compile(r"(?<=[^\s])[ \-_.|,*~]{1,2}(?=[^\s])")


def joined(view: View) -> View | None:
    """`view` without quotes between operators, line breaks and blanks; None if no mark comes to light by that.

    Only known formats are worth a search in it, since all words of a text run together.
    """
    bare = view.text.translate(_GLUE)
    if len(bare) == len(view.text) or not splittable(bare):
        return None
    return view.edited((seam.start(), seam.end(), "") for seam in _SEAM.finditer(view.text))


def spelt(view: View) -> View | None:
    """`view` with words that are spelt out letter by letter (`A-K-I-A …`) put together; None without any."""
    if _GAPS.search(view.text) is None:
        return None
    edits: list[Edit] = []
    for run in _SPELT.finditer(view.text):
        # The run's letters stand on every second or third place; what lies between them goes.
        edits += [(gap.start(), gap.end(), "") for gap in _SEPARATOR.finditer(view.text, run.start(), run.end())]
    return view.edited(edits) if edits else None


def whole(view: View, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans of a `joined` view that are one secret and not a token with the words after it run together.

    Pieces at the end that are plain words are dropped; a plain word in the middle means that it is prose.
    """
    for span in spans:
        cuts = [span.start, *view.cuts(span.start, span.end), span.end]
        pieces = [view.text[a:b] for a, b in itertools.pairwise(cuts)]
        while len(pieces) > 1 and _wordlike(pieces[-1]):
            pieces.pop()
        if len(pieces) > 1 and not any(_wordlike(piece) and len(piece) > 2 for piece in pieces):
            end = span.start + sum(map(len, pieces))
            yield Span(span.start, end, span.kind, span.rule, view.text[span.start : end])


def _wordlike(piece: str) -> bool:
    core = piece.strip(".,;:!?()[]{}\"'-_=")
    return not core or (core.isalpha() and (core.islower() or core.istitle()))
