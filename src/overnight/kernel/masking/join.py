"""Secrets that were taken apart: wrapped over lines, joined by operators, spelt with gaps, or written backwards."""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from overnight.kernel.masking.decode import near
from overnight.kernel.masking.kinds import Span
from overnight.kernel.masking.tokens import WORDY, Format, split_token
from overnight.kernel.masking.view import Edit, View

_SEAM: Final = re.compile(r"[\"'`]\s*(?:\+|\.|&|\|\||\\|,|\.\.)?\s*[rbfu]?[\"'`]|[ \t]*\\?\r?\n[ \t>|#*]*|[ \t]+")
_CONCATENATION: Final = re.compile(r"[\"'`]\s{0,20}(?:(?:\+|\.{1,2}|&|\|\||\\)\s{0,20}|\n\s{0,40})[rbfu]?[\"'`]")
# What `_SEAM` may take out; without it a mark shows that was split. Building the view costs ten times this look.
_GLUE: Final = " \t\r\n\"'`+&|,>#*\\"
_GLUE_BYTES: Final = _GLUE.encode("ascii")
_SPELT: Final = re.compile(r"(?<!\S)[^\s](?:[ \-_.|,*~]{1,2}[^\s]){9,}(?!\S)")
# Longer tokens than this are not put together.
_LONGEST: Final = 1024
# Three single letters with gaps around them: begins with the rarer character.
_GAPS: Final = re.compile(r"[ \-_.|,*~]\w[ \-_.|,*~]{1,2}\w[ \-_.|,*~]{1,2}\w[ \-_.|,*~]")
_SEPARATOR: Final = re.compile(r"(?<=[^\s])[ \-_.|,*~]{1,2}(?=[^\s])")


def joined(view: View, formats: Iterable[Format]) -> View | None:
    """`view` without quotes between operators, line breaks and blanks; None if there is no token that was split.

    Only known formats are worth a search in it, since all words of a text run together.

    Args:
        view: what to put together.
        formats: those whose mark was seen in it, whole: only what follows those marks is put together. A mark that was
            split itself is looked for.
    """
    text = view.text
    marks = [mark for each in formats if each.name not in WORDY for mark in each.marks]
    if not marks:
        # Through bytes, which takes a tenth of the time.
        ascii_ = text.isascii()
        bare = text.encode("ascii").translate(None, _GLUE_BYTES).decode("ascii") if ascii_ else "".join(text.split())
        if len(bare) == len(text) or not split_token(bare):
            return None
        return view.edited((seam.start(), seam.end(), "") for seam in _SEAM.finditer(text))
    seams: dict[int, Edit] = {}
    for mark in marks:
        at = text.find(mark)
        while at >= 0:
            for seam in _SEAM.finditer(text, max(0, at - 16), at + _LONGEST):
                seams[seam.start()] = (seam.start(), seam.end(), "")
            at = text.find(mark, at + _LONGEST // 2)
    return view.edited(near(list(seams.values()), len(text))) if seams else None


def concatenated(view: View) -> View | None:
    """What stands around string literals that an operator or nothing joins, as one literal; None without any."""
    found: list[Edit] = [(seam.start(), seam.end(), "") for seam in _CONCATENATION.finditer(view.text)]
    return view.edited(near(found, len(view.text))) if found else None


def spelt(view: View) -> View | None:
    """`view` with words that are spelt out letter by letter (`A-K-I-A …`) put together; None without any."""
    edits: list[Edit] = []
    done = 0
    for gap in _GAPS.finditer(view.text):
        if gap.start() < done:
            continue
        # The gap is the first one, or the one before the first letter.
        run = _SPELT.match(view.text, gap.start() - 1) or _SPELT.match(view.text, gap.start() + 1)
        if run:
            edits += [(part.start(), part.end(), "") for part in _SEPARATOR.finditer(view.text, run.start(), run.end())]
            done = run.end()
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
