"""What the record says about settings of the champion's code, taken in as the record grows."""

import math
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from overnight.loop.authors.base import Brief, KnobValue, Past

# How much of the record the models see: the best and the newest, half each. Keeps a proposal flat in time.
WINDOW = 48
_FAILED = ("crash", "timeout", "rejected")
_NOBODY: frozenset[int] = frozenset()


class Result(NamedTuple):
    """An experiment as values of knobs, its loss (lower is better, infinite if it failed), and its measurements."""

    values: Mapping[str, KnobValue]
    loss: float
    runs: int
    key: Hashable


def key(values: Mapping[str, KnobValue]) -> Hashable:
    """Equal for equal settings."""
    return frozenset(values.items())


class Reading(NamedTuple):
    """All results in the order they came, and the keys of their settings."""

    results: Sequence[Result]
    tried: frozenset[Hashable]


class Results:
    """Reads a growing record, each experiment once. What it says depends on the brief only; safe for several threads.

    Other authors' changes count only where they are part of the champion; what was measured before such a change is
    credited with its gain, so that old and new results can be compared.
    """

    def __init__(self, author: str) -> None:
        self._author = author
        self._lock = Lock()
        self._restart()

    def _restart(self) -> None:
        self._read: list[Past] = []
        self._lineages: dict[int, frozenset[int]] = {}
        self._gains: dict[int, float] = {}
        self._bare = False
        self._view: tuple[object, ...] = ()
        self._viewed = 0
        self._results: list[Result] = []
        self._keys: set[Hashable] = set()

    def read(self, brief: Brief, here: Mapping[str, KnobValue]) -> Reading:
        """Results for the champion of `brief`, whose knobs stand at `here`."""
        with self._lock:
            history = brief.history
            known = len(self._read)
            if known > len(history) or (known and (self._read[0], self._read[-1]) != (history[0], history[known - 1])):
                self._restart()
                known = 0
            for past in history[known:] if known else history:
                self._learn(past)
            # Only other authors' keeps, and experiments without knobs, look different from another champion.
            view: tuple[object, ...] = (brief.direction,)
            if self._gains or self._bare:
                view += (brief.champion_n, len(self._gains), key(here))
            if view != self._view:
                self._view, self._viewed, self._results, self._keys = view, 0, [], set()
            for past in self._read[self._viewed :]:
                self._add(past, brief, here)
            self._viewed = len(self._read)
            return Reading(tuple(self._results), frozenset(self._keys))

    def _learn(self, past: Past) -> None:
        stranger = past.status == "keep" and past.author != self._author
        before = self._lineages.get(past.parent_n, _NOBODY) if past.parent_n is not None else _NOBODY
        self._lineages[past.n] = before | {past.n} if stranger else before
        if stranger:
            self._gains[past.n] = past.delta or 0.0
        self._bare = self._bare or not past.knobs
        self._read.append(past)

    def _add(self, past: Past, brief: Brief, here: Mapping[str, KnobValue]) -> None:
        ours, theirs = self._lineages.get(brief.champion_n, _NOBODY), self._lineages[past.n]
        values = past.knobs or (here if past.n == brief.champion_n else {})
        if not values or not (past.author == self._author or past.n == 0 or past.n in ours) or not theirs <= ours:
            return
        if past.status in _FAILED:
            result = Result(values, math.inf, 1, key(values))
        elif past.metric is not None:
            loss = past.metric if brief.direction == "minimize" else -past.metric
            result = Result(
                values, loss - math.fsum(self._gains[n] for n in ours - theirs), past.runs or 1, key(values)
            )
        else:
            return
        self._results.append(result)
        self._keys.add(result.key)


def window(results: Sequence[Result]) -> Sequence[Result]:
    """The best and the newest results, oldest first."""
    if len(results) <= WINDOW:
        return results
    half = WINDOW // 2
    losses = [result.loss for result in results[:-half]]
    best = sorted(range(len(losses)), key=losses.__getitem__)[:half]
    return [*(results[i] for i in sorted(best)), *results[-half:]]
