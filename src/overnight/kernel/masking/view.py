"""A text as it looks after some disguise was taken off, which still knows where each character came from.

Views stack: folding, decoding and joining each make a new one from the last, and a span found in any of them is
carried back, edit by edit, to the characters of the original that must be hidden. Nothing is computed for text in which
nothing is found: a view keeps its edits only, and looks them up by bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

Edit = tuple[int, int, str]
"""Replace the characters `start:end` by the text; edits of one view are sorted and do not overlap."""


@dataclass(frozen=True, slots=True)
class View:
    """One reading of the original text.

    Attributes:
        text: what to search.
        parent: the view it was made from; None for the original.
        backwards: `text` is the parent's, reversed; there are no edits then.
    """

    text: str
    parent: "View | None" = None
    backwards: bool = False
    # Per edit: where its replacement starts and ends here, and what it replaced in the parent.
    _new_starts: list[int] = field(default_factory=list)
    _new_ends: list[int] = field(default_factory=list)
    _old_starts: list[int] = field(default_factory=list)
    _old_ends: list[int] = field(default_factory=list)

    def edited(self, edits: Iterable[Edit]) -> "View":
        """This view with `edits` applied; characters that merely change in place need no edit of their own."""
        pieces: list[str] = []
        news: tuple[list[int], list[int]] = ([], [])
        olds: tuple[list[int], list[int]] = ([], [])
        done = length = 0
        for start, end, replacement in edits:
            assert done <= start <= end, "edits are sorted and apart"
            pieces += (self.text[done:start], replacement)
            length += start - done
            news[0].append(length)
            length += len(replacement)
            news[1].append(length)
            olds[0].append(start)
            olds[1].append(end)
            done = end
        pieces.append(self.text[done:])
        return View("".join(pieces), self, False, news[0], news[1], olds[0], olds[1])

    def reversed(self) -> "View":
        """This view read from its end."""
        return View(self.text[::-1], self, backwards=True)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The stretch of the original text that the characters `start:end` of this view stand for.

        A span that touches a replacement stands for all of what was replaced.
        """
        view: View | None = self
        while view is not None and view.parent is not None:
            if view.backwards:
                start, end = len(view.text) - end, len(view.text) - start
            elif view._new_starts:
                start, end = view._before(start), view._after(end)
            view = view.parent
        return start, end

    def cuts(self, start: int, end: int) -> list[int]:
        """Where, strictly inside `start:end`, something was taken out."""
        first, last = bisect_right(self._new_starts, start), bisect_left(self._new_starts, end)
        return self._new_starts[first:last]

    def _before(self, start: int) -> int:
        # The last edit whose replacement begins at or before `start`; one that ends there is passed.
        at = bisect_right(self._new_starts, start) - 1
        if at < 0:
            return start
        if start < self._new_ends[at]:
            return self._old_starts[at]
        return self._old_ends[at] + start - self._new_ends[at]

    def _after(self, end: int) -> int:
        # The last edit whose replacement begins before `end`.
        at = bisect_left(self._new_starts, end) - 1
        if at < 0:
            return end
        if end <= self._new_ends[at]:
            return self._old_ends[at]
        return self._old_ends[at] + end - self._new_ends[at]
