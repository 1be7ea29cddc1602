"""What a run knows about its noise: the champion's level and how it drifts, the variance of one run, and how much of
it challenger and champion share on a seed.

All values are oriented (larger is better). Variances of estimates are in units of the variance of one run.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from overnight.loop.judge.terms import BASELINE_SEEDS
from overnight.loop.judge.track import Track

# Ways the level may move, from still to restless: standard deviation of its own step and of its slope's step from one
# measurement to the next, prior standard deviation of the slope, all in noise units, and prior weight. The first is
# "as good as none": it forgets over about 300 measurements.
_DRIFTS = (
    (0.003, 0.0, 0.0, 0.60),
    (0.003, 1e-5, 0.01, 0.05),
    (0.01, 0.0, 0.0, 0.15),
    (0.003, 1e-4, 0.03, 0.05),
    (0.03, 0.0, 0.0, 0.08),
    (0.1, 0.0, 0.0, 0.05),
    (0.3, 0.0, 0.0, 0.02),
)
# A drift is believed at this quantile of its posterior: too much costs a little power, too little costs false keeps.
_CAUTION = 0.8
# Champion runs that the rank test compares with, at most, and how far the level may have moved since (noise units²).
_RECENT, STALE = 40, 0.25
# Surprises of champion runs, across champions, from which the shape of the noise is read.
_REMEMBERED = 100
# A champion run this many typical deviations off counts as that far: one outlier would blind the run for a night.
_OUTLIER = 5.0
# Median of |z| for normal z.
_MEDIAN = 0.6745
# Upper 95 and 99.99 % points of chi-square on one degree: the least noise that one repeated pair is compatible with.
# The second holds once champion runs are many: an outlier in that pair would else blind the judge for a whole run.
_CHI2_95, _CHI2_9999, _MANY = 3.841, 15.137, 20


class Hypothesis:
    """The champion's level under one kind of drift, and how well that kind explains its runs.

    Attributes:
        track: the level.
        squares: sum of squared standardised surprises, an estimate of `degrees` noise variances.
    """

    def __init__(self, step: float, bend: float, slope: float, weight: float) -> None:
        self.track = Track(step * step, bend * bend, slope * slope)
        self.squares = 0.0
        self.degrees = 0
        self._logs = math.log(weight)

    def add(self, value: float, tick: int, most: float) -> float | None:
        """Take in one champion run, whose square counts as `most` at most.

        Returns:
            Its standardised surprise, metric units; None from the first run of a champion.
        """
        known = self.track.level_variance < math.inf
        surprise, spread = self.track.observe(value, tick, 1.0, 0.0, 1.0)
        if known:
            self.squares += min(surprise * surprise / spread, most)
            self._logs -= 0.5 * math.log(spread)
            self.degrees += 1
            return surprise / math.sqrt(spread)
        return None

    def score(self) -> float:
        """Log posterior, up to a constant, with the noise variance profiled out."""
        return self._logs - 0.5 * self.degrees * math.log(self.squares)


@dataclass
class PairSums:
    """Sums over pairs of runs on one seed, within examinations.

    Attributes:
        challenger: squares of the challenger's runs, less the mean of those in the examination's pairs.
        champion: likewise the champion's.
        product: products of the two.
        degrees: pairs, less one for each examination.
    """

    challenger: float = 0.0
    champion: float = 0.0
    product: float = 0.0
    degrees: int = 0

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> "PairSums":
        """Those of one examination's pairs, (challenger, champion)."""
        if len(pairs) < 2:
            return cls()
        ours = sum(one for one, _ in pairs) / len(pairs)
        theirs = sum(other for _, other in pairs) / len(pairs)
        return cls(
            sum((one - ours) ** 2 for one, _ in pairs),
            sum((other - theirs) ** 2 for _, other in pairs),
            sum((one - ours) * (other - theirs) for one, other in pairs),
            len(pairs) - 1,
        )

    def add(self, other: "PairSums") -> None:
        """Take in another examination's."""
        self.challenger += other.challenger
        self.champion += other.champion
        self.product += other.product
        self.degrees += other.degrees


@dataclass(frozen=True)
class Hint:
    """What a champion's own examination says about its level: flattered by selection, so for screens only.

    Attributes:
        value: mean of its runs.
        runs: how many those are.
        tick: when it became champion.
    """

    value: float
    runs: int
    tick: int


class Noise:
    """Fed with every measurement of a run in order; asked at the start of each examination."""

    def __init__(self) -> None:
        self.ticks = 0
        self.epoch = 0
        self._drifts = [Hypothesis(*drift) for drift in _DRIFTS]
        self._pool: deque[tuple[int, float]] = deque(maxlen=_RECENT)
        self._repeat = 0.0
        self._squares = 0.0
        self._degrees = 0
        self._pairs = PairSums()
        self._surprises: deque[float] = deque(maxlen=_REMEMBERED)
        self.hint: Hint | None = None
        self._last_champion = 0

    @property
    def unwatched(self) -> int:
        """Measurements since the champion was last measured."""
        return self.ticks - self._last_champion

    @property
    def pool_size(self) -> int:
        """Champion runs since it became champion, at most the last 40."""
        return len(self._pool)

    def add_champion(self, value: float) -> None:
        """Take in a run of the present champion at the present tick."""
        most = _OUTLIER**2 * self.typical_variance() or math.inf
        surprises = [drift.add(value, self.ticks, most) for drift in self._drifts]
        if surprises[0] is not None:
            self._surprises.append(surprises[0])
        self._pool.append((self.ticks, value))
        self._last_champion = self.ticks

    def add_repeat(self, first: float, second: float) -> None:
        """Take in one seed measured twice (A/A): what is left when nothing was changed is a floor of the noise."""
        self._repeat = max(self._repeat, (first - second) ** 2 / 2)

    def absorb(self, squares: float, degrees: int, pairs: "PairSums") -> None:
        """Pool what a finished examination says about variance and about noise shared on a seed."""
        self._squares += squares
        self._degrees += degrees
        self._pairs.add(pairs)

    def restart_pool(self, value: float, runs: int) -> None:
        """A new champion, whose `runs` own runs had the mean `value`: what is known about the noise stays."""
        self._clear()
        self.hint = Hint(value, runs, self.ticks)

    def _clear(self) -> None:
        self.epoch += 1
        self.hint = None
        self._pool.clear()
        for drift in self._drifts:
            drift.track.restart_level()

    def forget(self) -> None:
        """All measurements so far came from a program that looked deterministic and is not: they say nothing."""
        self._clear()
        self._drifts = [Hypothesis(*drift) for drift in _DRIFTS]
        self._squares, self._degrees, self._pairs = 0.0, 0, PairSums()
        self._surprises.clear()

    def level(self) -> Hypothesis:
        """The filter of the drift to reckon with."""
        drifts = self._drifts
        if drifts[0].squares <= 0:
            return drifts[0]
        scores = [drift.score() for drift in drifts]
        best = max(scores)
        weights = [math.exp(score - best) for score in scores]
        wanted = _CAUTION * sum(weights)
        for drift, weight in zip(drifts, weights, strict=True):
            wanted -= weight
            if wanted <= 1e-12:
                return drift
        return drifts[-1]

    def variance(self, level: Hypothesis) -> tuple[float, int]:
        """Variance of one run and its degrees of freedom, pooled over champion and past challengers."""
        degrees = level.degrees + self._degrees
        floor = self._repeat / min(_CHI2_9999, _CHI2_95 * max(1.0, degrees / _MANY))
        return (max((level.squares + self._squares) / degrees, floor) if degrees else floor), degrees

    def shared(self) -> tuple[float, float, int]:
        """Correlation of challenger and champion on a seed: one standard error of Fisher's z to both sides, degrees."""
        pairs = self._pairs
        scale = math.sqrt(pairs.challenger * pairs.champion)
        if pairs.degrees < 4 or scale <= 0:
            return 0.0, 1.0, pairs.degrees
        z = math.atanh(max(-0.9999, min(0.9999, pairs.product / scale)))
        error = 1 / math.sqrt(pairs.degrees - 2)
        return math.tanh(z - error), math.tanh(z + error), pairs.degrees

    def typical_variance(self) -> float:
        """Variance of a normal noise with the same median deviation: what outliers do not move."""
        if len(self._surprises) < BASELINE_SEEDS - 1:
            return math.inf
        return (median(map(abs, self._surprises)) / _MEDIAN) ** 2

    def worst(self) -> float:
        """How far below its level the champion was ever seen lately."""
        return -min(self._surprises, default=0.0)

    def discrete(self) -> bool:
        """Whether the champion's recent runs gave one value twice: equal runs are nothing odd then."""
        return len({value for _, value in self._pool}) < len(self._pool)

    def recent(self, track: Track) -> list[tuple[int, float]]:
        """Tick and value of champion runs near enough in time to stand for the present level, but for its slope."""
        return [run for run in self._pool if track.wander(self.ticks - run[0]) <= STALE]
