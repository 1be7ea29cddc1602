"""The test of one challenger where measurements are noisy: a screen that drops it early, looks that may keep it."""

import math
from dataclasses import dataclass

from overnight.loop.judge.effect import Effect
from overnight.loop.judge.noise import STALE, Noise, PairSums
from overnight.loop.judge.ranks import rank_p
from overnight.loop.judge.spending import alpha_at, looks, z_of, z_to_t
from overnight.loop.judge.terms import BASELINE_SEEDS, JudgeSettings

# Champion runs before a first comparison, and the number they should be worth before a last one.
POOL_FIRST, POOL_FULL = 3, 32
# Challenger runs of the screen; from then on each has a champion run beside it, on its seed.
SCREEN = 2
# One experiment in so many measures the champion too, to notice drift, once the pool is full.
WATCH_EVERY = 4
# Champion runs asked for with one challenger run, at most.
_CATCH_UP = 5
# The screen asks whether the challenger may still be one that the last look keeps with this many sigma to spare …
_TARGET = 2.0
# … and drops it when it lies this many standard errors below; sooner where pairs double the price of a run.
_PATIENCE, _PATIENCE_PAIRED = 3.0, 2.6
# The rank test guards the t test; alone it may err this many times as often.
_LENIENCE = 6.0
# Pairs: used once the correlation is surely above, looked for while it may be above.
_PAIRS_PAY, _PAIRS_MAY, _PAIRS_LEARN = 0.4, 0.5, 40
# A challenger varies suspiciously little at this share of the noise variance, seen in so many runs; one with the usual
# noise does by chance in 1 of 70 cases at four runs, where it costs an early keep, and 1 of 3,000 at eight.
_FROZEN, _FROZEN_RUNS = 0.05, 3
# Degrees of freedom that the run's pooled variance counts for against the challenger's own.
_PRIOR = 12.0
# From this ratio of variances on a challenger is a noisier program, known by as many degrees as its own variance has.
_NOISIER = 1.5


@dataclass(frozen=True)
class Standing:
    """Where a test stands. Oriented metric units.

    Attributes:
        keep: None while undecided.
        effect: estimated improvement over the champion.
        error: its standard error.
        degrees: degrees of freedom behind `error`.
        own_sd: standard deviation of one challenger run that was reckoned with.
        bound: what `effect` has to exceed the threshold by at this look; inf where no keep is possible yet.
        p_rank: of the rank test, where it was asked.
    """

    keep: bool | None
    effect: float
    error: float
    degrees: float
    own_sd: float
    bound: float
    p_rank: float | None


class NoisyTest:
    """One challenger against the champion of one epoch."""

    def __init__(self, noise: Noise, settings: JudgeSettings, n: int, threshold: float) -> None:
        self._noise = noise
        self._n = n
        self.threshold = threshold
        self.confirm = settings.confirm
        self._looks = looks(settings.confirm)
        self.alpha = alpha_at(n, settings.error_per_night, settings.night)
        self._z_last = z_of(self.alpha * self._looks[settings.confirm])
        level = noise.level()
        self.noise_variance, self.noise_degrees = noise.variance(level)
        low, high, pairs = noise.shared()
        self.rho = low if low > _PAIRS_PAY else 0.0
        self._explore = pairs < _PAIRS_LEARN and high > _PAIRS_MAY
        self.epoch = noise.epoch
        self.inherited = False
        self.champion_runs = noise.pool_size
        self._topped_up = False
        self._effect = Effect(level.track, self.rho)
        self.track = self._effect.track
        self._runs: list[tuple[int, int, float]] = []
        self._champions: dict[int, float] = {}

    @property
    def values(self) -> list[float]:
        """The challenger's runs, in order."""
        return [value for _, _, value in self._runs]

    @property
    def runs(self) -> int:
        """How many runs the challenger has."""
        return len(self._runs)

    def add_challenger(self, value: float, seed: int) -> None:
        """A run of the challenger at the noise's present tick."""
        self._runs.append((self._noise.ticks, seed, value))
        self._effect.add(True, value, self._noise.ticks, seed)

    def add_champion(self, value: float, seed: int | None) -> None:
        """A champion run, `seed` None if made for another examination."""
        self.champion_runs += 1
        if seed is not None:
            self._champions[seed] = value
        self._effect.add(False, value, self._noise.ticks, seed)

    def inherit(self, other: "NoisyTest") -> None:
        """Take over the challenger's runs from a test against an earlier champion, as far as drift left them valid."""
        for tick, seed, value in other._runs:
            if self.track.wander(self._noise.ticks - tick) <= STALE:
                self.add_challenger(value, seed)
        self.inherited = True

    def champions_first(self) -> int:
        """Champion runs needed before the challenger's runs so far can be compared with anything."""
        if not self.runs:
            return 0
        missing = self._first() - self._noise.pool_size
        if missing <= 0 and self.inherited and self.runs >= self.confirm and not self._topped_up:
            self._topped_up = True
            missing = math.ceil(POOL_FULL - self._worth())
        return max(0, missing)

    def _first(self) -> int:
        return POOL_FIRST if self.noise_degrees >= POOL_FIRST else BASELINE_SEEDS

    def _worth(self) -> float:
        """How many fresh champion runs the present knowledge of its level equals."""
        variance = self.track.level_variance
        return 1 / variance if variance > 0 else math.inf

    def champions_wanted(self) -> tuple[bool, int]:
        """Whether the next challenger run needs a partner on its seed, and champion runs on other seeds."""
        if self._noise.pool_size < self._first():
            return True, self._first() - self._noise.pool_size - 1
        missing = POOL_FULL - self._worth()
        watch = self.runs < 1 and self._n % WATCH_EVERY == 0
        partner = missing > 0 or self.runs >= SCREEN or watch or bool(self.rho) or self._explore
        if missing <= 0 or self.runs < SCREEN:
            return partner, 0
        if self._noise.pool_size >= POOL_FULL:
            # Runs there are enough, drift has aged them: only runs made now help, and they pay where a keep is near.
            return partner, int(missing > POOL_FULL / 2 and 2 * self.runs >= self.confirm)
        each = math.ceil(missing / (self.confirm - self.runs))
        return partner, min(_CATCH_UP, each) - 1

    def standing(self) -> Standing:
        """What the runs so far say."""
        runs = self.runs
        variance, degrees, own = self._spread()
        error = math.sqrt(variance)
        distance = self.track.effect - self.threshold
        share = self._looks.get(runs, 0.0)
        bound = math.inf
        p_rank: float | None = None
        keep: bool | None = None
        if share and degrees:
            spent = self.alpha * share
            bound = z_to_t(z_of(spent), degrees) * error
            if distance > 0 and distance > bound:
                p_rank = self._guard()
                if p_rank is None or p_rank <= _LENIENCE * spent:
                    keep = True
        if keep is None and (runs >= self.confirm or (degrees and self._hopeless(distance, degrees, error))):
            keep = False
        return Standing(keep, self.track.effect, error, degrees, math.sqrt(own), bound, p_rank)

    def _hopeless(self, distance: float, degrees: float, error: float) -> bool:
        final = math.sqrt(self.noise_variance * self._final_variance())
        patience = _PATIENCE_PAIRED if self.rho else _PATIENCE
        return distance <= (self._z_last + _TARGET) * final - z_to_t(patience, degrees) * error

    def close(self) -> None:
        """Pool what was learnt about the noise."""
        both = [(value, self._champions[seed]) for _, seed, value in self._runs if seed in self._champions]
        self._noise.absorb(self._effect.squares, self._effect.degrees, PairSums.of(both))

    def _spread(self) -> tuple[float, float, float]:
        """Variance of the effect, its degrees of freedom, and the variance of one challenger run."""
        base = self.noise_variance
        effect = self.track.effect_variance
        own_degrees = self._effect.degrees
        degrees = float(self.noise_degrees + own_degrees)
        if degrees:
            base = (self.noise_degrees * base + self._effect.squares) / degrees
        own = base
        if own_degrees:
            moderated = (_PRIOR * self.noise_variance + self._effect.squares) / (_PRIOR + own_degrees)
            own = max(self.noise_variance, moderated)
            if own > _NOISIER * self.noise_variance:
                degrees = min(degrees, _PRIOR + own_degrees)
        variance = self.noise_variance * effect + (own - self.noise_variance) * (1 - self.rho**2) / max(1, self.runs)
        if self.frozen():
            variance += self.noise_variance
        return variance, degrees, own

    def frozen(self) -> bool:
        """Whether the challenger hardly varies over seeds on which the champion does: it may have fixed a lucky one.

        All its runs together then are as good as one.
        """
        if self.runs < _FROZEN_RUNS or self._noise.discrete():
            return False
        mean = sum(self.values) / self.runs
        squares = sum((value - mean) ** 2 for value in self.values)
        return squares < _FROZEN * self.noise_variance * (self.runs - 1)

    def _final_variance(self) -> float:
        level = min(self.track.level_variance, 1 / 16)
        return (1 - self.rho**2) / self.confirm + (1 - self.rho) ** 2 * level

    def _guard(self) -> float | None:
        # Differences of pairs are symmetric when nothing changed, and sharper than ranks among unpaired runs.
        if self.rho:
            return None
        now, slope = self._noise.ticks, self.track.slope
        pool = [value + slope * (now - tick) for tick, value in self._noise.recent(self.track)]
        own = [value + slope * (now - tick) - self.threshold for tick, _, value in self._runs]
        return rank_p(own, pool, math.sqrt(self.noise_variance))
