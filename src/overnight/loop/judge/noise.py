"""What a run knows about its noise: the champion's level and how it drifts, the variance of one run, and how much of
it challenger and champion share on a seed.

All values are oriented (larger is better). Variances of estimates are in units of the variance of one run.
"""

import math
from collections import deque
from dataclasses import dataclass

# Standard deviation of the level's step from one measurement to the next, in noise units, with prior weights. The
# first is "as good as none": it forgets over about 300 measurements. The rest cover a slow thermal drift to a level
# that moves by one sigma in ten measurements.
_DRIFTS = ((0.003, 0.60), (0.01, 0.20), (0.03, 0.10), (0.1, 0.07), (0.3, 0.03))
# A drift is believed at this quantile of its posterior: too much costs a little power, too little costs false keeps.
_CAUTION = 0.8
# Champion runs that the rank test compares with, at most, and how far the level may have moved since (noise units²).
_RECENT, STALE = 40, 0.25
# Upper 95 % point of chi-square on one degree: the least noise that one repeated pair is compatible with.
_CHI2_95 = 3.841


@dataclass
class LevelFilter:
    """The champion's level under one drift: a local-level model (Harvey 1989, ch. 2) and its fit.

    Attributes:
        drift: variance of one step of the level.
        mean: estimated level.
        variance: of that estimate.
        squares: sum of squared standardised innovations, an estimate of `degrees` noise variances.
    """

    drift: float
    weight: float
    mean: float = 0.0
    variance: float = math.inf
    squares: float = 0.0
    logs: float = 0.0
    degrees: int = 0

    def add(self, value: float, elapsed: int) -> None:
        """Take in one champion run, `elapsed` measurements after the last one."""
        if self.variance == math.inf:
            self.mean, self.variance = value, 1.0
            return
        before = self.variance + self.drift * elapsed
        spread = before + 1.0
        surprise = value - self.mean
        self.squares += surprise * surprise / spread
        self.logs += math.log(spread)
        self.degrees += 1
        self.mean += before / spread * surprise
        self.variance = before / spread

    def score(self) -> float:
        """Log posterior, up to a constant, with the noise variance profiled out."""
        return math.log(self.weight) - 0.5 * (self.degrees * math.log(self.squares) + self.logs)


class Noise:
    """Fed with every measurement of a run in order; asked at the start of each examination."""

    def __init__(self) -> None:
        self.ticks = 0
        self.epoch = 0
        self._filters = [LevelFilter(step * step, weight) for step, weight in _DRIFTS]
        self._pool: deque[tuple[int, float]] = deque(maxlen=_RECENT)
        self._last = 0
        self._floor = 0.0
        self._squares = 0.0
        self._degrees = 0
        self._products = 0.0
        self._pairs = 0.0

    @property
    def pool_size(self) -> int:
        """Champion runs since it became champion, at most the last 40."""
        return len(self._pool)

    def add_champion(self, value: float) -> None:
        """Take in a run of the present champion at the present tick."""
        for level in self._filters:
            level.add(value, self.ticks - self._last)
        self._last = self.ticks
        self._pool.append((self.ticks, value))

    def add_repeat(self, first: float, second: float) -> None:
        """Take in one seed measured twice (A/A): what is left when nothing was changed is a floor of the noise."""
        self._floor = max(self._floor, (first - second) ** 2 / 2 / _CHI2_95)

    def absorb(self, squares: float, degrees: int, products: float, pairs: float) -> None:
        """Pool what a finished examination says about variance and about noise shared on a seed."""
        self._squares += squares
        self._degrees += degrees
        self._products += products
        self._pairs += pairs

    def restart_pool(self) -> None:
        """A new champion: its level is unknown, what is known about the noise stays."""
        self.epoch += 1
        self._pool.clear()
        for level in self._filters:
            level.mean, level.variance = 0.0, math.inf

    def forget(self) -> None:
        """All measurements so far came from a program that looked deterministic and is not: they say nothing."""
        self.restart_pool()
        self._filters = [LevelFilter(step * step, weight) for step, weight in _DRIFTS]
        self._squares, self._degrees, self._products, self._pairs = 0.0, 0, 0.0, 0.0

    def level(self) -> LevelFilter:
        """The filter of the drift to reckon with."""
        filters = self._filters
        if filters[0].squares <= 0:
            return filters[0]
        scores = [level.score() for level in filters]
        best = max(scores)
        weights = [math.exp(score - best) for score in scores]
        wanted = _CAUTION * sum(weights)
        for level, weight in zip(filters, weights, strict=True):
            wanted -= weight
            if wanted <= 1e-12:
                return level
        return filters[-1]

    def variance(self, level: LevelFilter) -> tuple[float, int]:
        """Variance of one run and its degrees of freedom, pooled over champion and past challengers."""
        degrees = level.degrees + self._degrees
        if not degrees:
            return self._floor, 0
        return max((level.squares + self._squares) / degrees, self._floor), degrees

    def shared(self, variance: float) -> tuple[float, float]:
        """Correlation of challenger and champion on a seed: estimate and its standard error (inf before any pair)."""
        if self._pairs <= 0 or variance <= 0:
            return 0.0, math.inf
        estimate = max(-1.0, min(1.0, self._products / self._pairs / variance))
        return estimate, math.sqrt((1 + estimate * estimate) / self._pairs)

    def recent(self, drift: float) -> list[float]:
        """Champion runs near enough in time to stand for the present level."""
        return [value for tick, value in self._pool if drift * (self.ticks - tick) <= STALE]
