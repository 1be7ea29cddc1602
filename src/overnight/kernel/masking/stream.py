"""Masking and un-masking of text that arrives in pieces, wherever the pieces are cut."""

import re
from collections.abc import Callable
from typing import Final

from overnight.kernel.masking.kinds import Finding
from overnight.kernel.masking.masker import Masker, Sink, Unmasked
from overnight.kernel.masking.vault import LONGEST

HOLD: Final = 512
"""Characters held back at least, so that what follows can complete a finding or be its context."""
STEP: Final = 512
"""Characters gathered before another look, so that the work stays linear when every piece is one character; where
nothing could be given out, twice what was looked at."""
HOLD_MOST: Final = 65_536
"""Characters held back at most: an unbroken run or a finding without an end longer than this is let go, masked as far
as it is known."""
_CONTEXT: Final = 512

_OPEN: Final = "-----BEGIN PRIVATE KEY-----\n"
_PARTIAL: Final = re.compile(r"M(?:ASKED|ASKE|ASK|AS|A)?\Z|MASKED_[A-Za-z0-9_]{0,40}\Z")


class MaskStream:
    """Masks a text as it arrives: `feed` gives out what is certain, `finish` the rest.

    The pieces put together, un-masked, are the text that was fed. Between 512 and 1,024 characters are held back, more
    inside a run without blanks or an open PEM block, and never over `HOLD_MOST`.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._context = ""
        self._waiting: list[str] = []
        self._length = 0
        self._looked_at = 0
        self.findings: list[Finding] = []
        """What was masked so far; places count in all that was fed."""
        self._emitted = 0

    def feed(self, piece: str) -> str:
        """Take in `piece`; give out what can be given, masked."""
        self._waiting.append(piece)
        self._length += len(piece)
        if self._length < max(HOLD + STEP, 2 * self._looked_at):
            return ""
        return self._advance(last=False)

    def finish(self) -> str:
        """Give out the rest, masked; the stream is spent then."""
        return self._advance(last=True)

    def _advance(self, *, last: bool) -> str:
        text = "".join(self._waiting)
        whole = self._context + text
        start = len(self._context)
        masked = self._masker.masked_from(whole, start)
        cut = len(whole) if last else self._cut(whole, start, masked.findings)
        if cut <= start:
            self._waiting, self._looked_at = [text], self._length
            return ""
        pieces: list[str] = []
        done = start
        for finding in masked.findings:
            if finding.start >= cut:
                break
            pieces += (whole[done : finding.start], finding.placeholder)
            done = finding.end
            at = self._emitted - start
            self.findings.append(
                Finding(finding.kind, finding.rule, finding.start + at, finding.end + at, finding.placeholder)
            )
        cut = max(cut, done)
        pieces.append(whole[done:cut])
        self._emitted += cut - start
        # A private key that was let go before its end goes on in what follows.
        goes_on = not last and cut == len(whole) == done and masked.findings[-1].kind == "private_key"
        self._context = _OPEN if goes_on else whole[max(0, cut - _CONTEXT) : cut]
        rest = whole[cut:]
        self._waiting, self._length, self._looked_at = [rest], len(rest), 0
        return "".join(pieces)

    def _cut(self, whole: str, start: int, findings: tuple[Finding, ...]) -> int:
        """Where what is certain ends: after a blank, `HOLD` before the end, outside every finding."""
        latest = len(whole) - HOLD
        cut = latest
        while cut > start and not (whole[cut - 1].isspace() and not whole[cut : cut + 1].isspace()):
            cut -= 1
        forced = len(whole) - start > HOLD_MOST
        if cut <= start and forced:
            cut = latest
        for finding in findings:
            if finding.start < cut < finding.end or (finding.start < cut and finding.end > latest):
                # The text to come may make it longer; with too much held back it ends where it is known to.
                cut = finding.end if forced else finding.start
        return max(cut, start)


class UnmaskStream:
    """Un-masks a text as it arrives, for one sink; holds back at most the length of a placeholder."""

    def __init__(self, masker: Masker, sink: Sink) -> None:
        """A stream to `sink`.

        Raises:
            Refused: the sink acts for another tenant, principal or session.
        """
        masker.unmask("", sink)
        self._unmask: Callable[[str], Unmasked] = lambda text: masker.unmask(text, sink)
        self._waiting = ""

    def feed(self, piece: str) -> str:
        """Take in `piece`; give out what can't be the beginning of a placeholder, un-masked."""
        text = self._waiting + piece
        tail = max(0, len(text) - LONGEST)
        partial = _PARTIAL.search(text, tail)
        cut = partial.start() if partial else len(text)
        self._waiting = text[cut:]
        return self._unmask(text[:cut]).text

    def finish(self) -> str:
        """Give out the rest; the stream is spent then."""
        text, self._waiting = self._waiting, ""
        return self._unmask(text).text
