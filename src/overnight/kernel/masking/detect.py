"""Everything that must not be shown in a text: each reading of it searched by each finder."""

from collections.abc import Iterator
from typing import Final

from overnight.kernel.masking import contact, context, decode, join, letter_ids, national_ids, numbers, tokens
from overnight.kernel.masking.fold import fold, smuggled
from overnight.kernel.masking.glance import Glance
from overnight.kernel.masking.kinds import SECRETS, SEVERITY, Kind, Span
from overnight.kernel.masking.names import Gazetteer
from overnight.kernel.masking.view import View

# How many encodings are taken off what was taken apart. Each reading costs a search of its own.
_APART_DEPTH: Final = 2


def detect(text: str, kinds: frozenset[Kind], names: Gazetteer) -> list[Span]:
    """Spans of `text` to hide, apart from each other and in order.

    Overlapping finds become one span, named after a secret before personal data, then after the longer one: an encoded
    blob that holds an address and a key is one key, an IBAN that holds a card's number is an IBAN.
    """
    spans = [
        Span(*view.origin(span.start, span.end), span.kind, span.rule, span.value)
        for view, span in _search(text, names)
        if span.kind in kinds
    ]
    spans.sort(key=lambda span: (span.start, -span.end))
    apart: list[Span] = []
    for span in spans:
        if apart and span.start < apart[-1].end:
            apart[-1] = _union(apart[-1], span, text)
        else:
            apart.append(span)
    return apart


def _search(text: str, names: Gazetteer) -> Iterator[tuple[View, Span]]:
    plain = fold(View(text))
    views = [plain]
    hidden = None if text.isascii() else smuggled(View(text))
    if hidden is not None:
        views.append(hidden)
    for view in views:
        layer: View | None = view
        for depth in range(decode.DEPTH + 1):
            if layer is None:
                break
            layer = layer if depth == 0 else fold(layer)
            glance = Glance(layer.text)
            formats = tokens.marked_in(glance.longer_words)
            for span in _finds(glance, formats, names):
                yield layer, span
            for other in _taken_apart(layer, glance) if depth < _APART_DEPTH else ():
                for span in _fixed(other.text):
                    yield other, span
            for span in _backwards(layer.text) if glance.digits(12) else ():
                yield layer, span
            together = join.joined(layer, formats) if depth < _APART_DEPTH else None
            if together is not None:
                for span in join.whole(together, tokens.tokens(together.text, tokens.marked_in(together.text))):
                    yield together, span
            layer = decode.decoded(layer, glance.long_words, glance.digits(16), glance.hexadecimal(12))


def _finds(glance: Glance, formats: list[tokens.Format], names: Gazetteer) -> Iterator[Span]:
    text = glance.text
    yield from tokens.private_keys(text)
    yield from tokens.tokens(text, formats, glance.long_words)
    yield from context.contextual(text, glance.lower, random=glance.random)
    yield from contact.emails(text, glance.lower, signs=glance.signs)
    if glance.digits(6):
        yield from _digits(text)
    yield from letter_ids.birth_codes(text, glance.long_words)
    yield from names.names(text, capitals=glance.capitals)


def _digits(text: str) -> Iterator[Span]:
    for groups in numbers.runs(text):
        for window in numbers.windows(text, groups, national_ids.BY_LAYOUT):
            span = numbers.card(text, window) or national_ids.national_number(text, window)
            if span and not (len(window.layout) == 1 and numbers.in_hex(text, span.start, span.end)):
                yield span
        yield from contact.phones(text, groups)
        # Letters may part the first digits of a number from the run.
        first, last = max(0, groups[0][0] - 40), groups[-1][1]
        yield from letter_ids.ibans(text, first, last)
        yield from letter_ids.lettered_ids(text, max(0, groups[0][0] - 12), last)


def _fixed(text: str) -> Iterator[Span]:
    """What is proven by format or checksum alone, whatever stands around it."""
    yield from tokens.private_keys(text)
    yield from tokens.tokens(text, tokens.marked_in(text))
    yield from _proven(text)


def _proven(text: str) -> Iterator[Span]:
    for groups in numbers.runs(text):
        for window in numbers.windows(text, groups, ()):
            span = numbers.card(text, window)
            if span and not numbers.in_hex(text, span.start, span.end):
                yield span
    yield from letter_ids.ibans(text)


def _backwards(text: str) -> Iterator[Span]:
    for run in numbers.LONG_RUN.finditer(text):
        # The letters of an IBAN stand around its digits.
        first, last = max(0, run.start() - 36), run.end() + 36
        piece = text[first:last]
        for span in _proven(piece[::-1]):
            end = first + len(piece) - span.start
            yield Span(end - (span.end - span.start), end, span.kind, span.rule, span.value)


def _taken_apart(view: View, glance: Glance) -> Iterator[View]:
    if tokens.reversed_marks(view.text, glance.longer_words):
        yield view.reversed()
    for other in (join.spelt(view) if glance.spelt else None, join.concatenated(view) if glance.concatenated else None):
        if other is not None:
            yield other


def _union(first: Span, second: Span, text: str) -> Span:
    # Two finds in one encoded blob both stand for all of it; what they say tells the longer one.
    worse = max(
        first,
        second,
        key=lambda span: (span.kind in SECRETS, span.end - span.start, len(span.value), SEVERITY[span.kind]),
    )
    start, end = first.start, max(first.end, second.end)
    value = worse.value if (worse.start, worse.end) == (start, end) else text[start:end]
    return Span(start, end, worse.kind, worse.rule, value)
