"""The test of one challenger where measurements are noisy: a screen that drops it early, looks that may keep it.

Champion runs are bought late: none for a first run, which is compared with what is known already; then for challengers
that passed the screen; and at a look as many as may decide it.
"""

import math

from overnight.loop.judge.effect import Effect
from overnight.loop.judge.noise import STALE, Noise, PairSums
from overnight.loop.judge.ranks import rank_p
from overnight.loop.judge.spending import QUICK, alpha_at, looks, z_of, z_to_t
from overnight.loop.judge.standing import Standing
from overnight.loop.judge.terms import BASELINE_SEEDS, JudgeSettings
from overnight.loop.judge.track import Track

# Champion runs before a first comparison where nothing is known of it, those that the challengers' runs bring with
# them, and the number they should be worth before a last look.
POOL_FIRST, POOL_HALF, POOL_FULL = 3, 16, 32
# Challenger runs of the screen, which are made alone; from then on each has a champion run beside it, on its seed,
# until there are enough.
SCREEN = 2
# The champion is measured again after so many measurements without it, to notice drift.
WATCH_EVERY = 10
# Champion runs asked for at once, and at a look before the last, at most.
_AT_ONCE, _EARLY = 8, 4
# A champion's own examination flatters it by about this much (noise units); with fresh runs enough it is forgotten.
_FLATTERY, _FORGOTTEN = 0.5, 8
# The screen asks whether the challenger may still be one that the last look keeps with this many sigma to spare …
_TARGET = 2.0
# … and drops it when it lies this many standard errors below; sooner where pairs double the price of a run.
_PATIENCE, _PATIENCE_PAIRED = 2.85, 2.0
# A scout needs a first run this many sigma better, less by one for every so many measurements of the run, at least so
# much: what looks good is come back to, and only what stands out is worth eight runs. With noise of 5 and 20 % of the
# start's loss, 60 evaluations of benchmarks/searching's functions gained 0.86 and 0.73 of what there was with scouts,
# 0.63 and 0.48 without.
_SCOUT, _SCOUT_FADES, _SCOUT_LEAST, _SCOUT_RUNS = 3.5, 80, 1.0, 3
# Degrees of freedom below which the screen does not reckon: too few of them would let everything through.
_LEAST_DEGREES = 8
# Where champion runs are still to be bought, a keep needs this many times its bound: buying until it is met would
# spend the error several times over.
_BEYOND = 1.25
# At the last look champion runs are bought unless this many standard errors of the champion's level are missing.
_STILL = 2.0
# The rank test guards the t test; alone it may err this many times as often.
_LENIENCE = 6.0
# Pairs: used once the correlation is surely above, looked for while it may be above.
_PAIRS_PAY, _PAIRS_MAY, _PAIRS_LEARN = 0.4, 0.5, 40
# A challenger varies suspiciously little at this share of the noise variance, seen in so many runs; one with the usual
# noise does by chance in 1 of 70 cases at four runs, where it costs an early keep, and 1 of 3,000 at eight.
_FROZEN, _FROZEN_RUNS = 0.05, 2
# Degrees of freedom that the run's pooled variance counts for against the challenger's own.
_PRIOR = 12.0
# From this ratio of variances on a challenger is a noisier program, known by as many degrees as its own variance has.
_NOISIER = 1.5
# Two runs say nothing of a challenger's own noise: its variance may be this many times the pool's.
_UNKNOWN = 4.0


class NoisyTest:
    """One challenger against the champion of one epoch."""

    def __init__(self, noise: Noise, settings: JudgeSettings, n: int, threshold: float, scout: bool = False) -> None:
        self._noise = noise
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
        self._effect = Effect(level.track, self.rho)
        self._hint = noise.hint if noise.pool_size < _FORGOTTEN else None
        self._screen = Effect(self._hinted(level.track), self.rho) if self._hint else self._effect
        self.bar = max(_SCOUT_LEAST, _SCOUT - noise.ticks / _SCOUT_FADES) if scout else None
        self._unpairable: set[int] = set()
        self._runs: list[tuple[int, int, float]] = []
        self._champions: dict[int, float] = {}

    def _hinted(self, track: Track) -> Track:
        """What is known of the level if the champion's own examination counts."""
        hint = self._hint
        assert hint is not None
        hinted, age = track.fork(), self._noise.ticks - hint.tick
        variance = 1 / hint.runs + _FLATTERY**2 + hinted.wander(age)
        hinted.observe(hint.value + hinted.slope * age, self._noise.ticks, 1.0, 0.0, variance)
        return hinted

    @property
    def track(self) -> Track:
        """Level and effect, from fresh runs of the champion only; before any, as the screen sees them."""
        return self._effect.track if self._effect.track.effect_variance < math.inf else self._screen.track

    @property
    def prior_runs(self) -> int:
        """Runs of the champion's own examination that the screen reckons with."""
        return self._hint.runs if self._hint else 0

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
        self._take(True, value, seed)

    def add_champion(self, value: float, seed: int | None) -> None:
        """A champion run, `seed` None if made for another examination."""
        self.champion_runs += 1
        if seed is not None:
            self._champions[seed] = value
        self._take(False, value, seed)

    def _take(self, challenger: bool, value: float, seed: int | None) -> None:
        for effect in {id(each): each for each in (self._effect, self._screen)}.values():
            effect.add(challenger, value, self._noise.ticks, seed)

    def inherit(self, other: "NoisyTest") -> None:
        """Take over the challenger's runs from a test against an earlier champion, as far as drift left them valid."""
        for tick, seed, value in other._runs:
            if self.track.wander(self._noise.ticks - tick) <= STALE:
                self.add_challenger(value, seed)
        self.inherited = True

    def champions_first(self) -> int:
        """Champion runs needed before anything can be compared."""
        if self._hint is not None:
            return 0
        first = POOL_FIRST if self.noise_degrees >= POOL_FIRST else BASELINE_SEEDS
        return max(0, first - self._noise.pool_size)

    def unpaired(self) -> list[int]:
        """Seeds on which the champion is still to be measured, where noise is shared and the screen was passed."""
        if not self.rho:
            return []
        return [seed for _, seed, _ in self._runs if seed not in self._champions and seed not in self._unpairable]

    def unpairable(self, seed: int) -> None:
        """The champion crashes on this seed."""
        self._unpairable.add(seed)

    def partner_wanted(self) -> bool:
        """Whether the next challenger run needs a champion run on its seed."""
        if not self.runs:
            return self._noise.unwatched >= WATCH_EVERY
        if self.rho or self._explore or 2 * self.runs >= self.confirm:
            return True
        return self.runs >= SCREEN and self._worth() < POOL_HALF

    def _worth(self) -> float:
        """How many fresh champion runs the present knowledge of its level equals."""
        variance = self._effect.track.level_variance
        return 1 / variance if variance > 0 else math.inf

    def standing(self) -> Standing:
        """What the runs so far say."""
        runs, track = self.runs, self.track
        variance, degrees, own = self._spread(track)
        error = math.sqrt(variance)
        distance = track.effect - self.threshold
        share = self._looks.get(runs, 0.0)
        bound = math.inf
        p_rank: float | None = None
        keep: bool | None = None
        champions = 0
        if degrees and self._hopeless(degrees):
            keep = False
        elif share and degrees:
            z = z_to_t(z_of(self.alpha * share), degrees)
            champions = self._lacking(distance, z, own)
            if self._noise.pool_size:
                doubt = (_UNKNOWN - 1) * own / runs if self._quick() else 0.0
                bound = z * math.sqrt(variance + doubt)
                if distance > max(0.0, bound * (_BEYOND if champions else 1.0)):
                    p_rank = self._guard()
                    if p_rank is None or p_rank <= _LENIENCE * self.alpha * share:
                        keep, champions = True, 0
        if keep is None and runs >= self.confirm and not champions:
            keep = False
        return Standing(keep, champions, track.effect, error, degrees, math.sqrt(own), bound, p_rank)

    def _quick(self) -> bool:
        return self.runs == QUICK < self.confirm

    def _lacking(self, distance: float, z: float, own: float) -> int:
        """Champion runs worth having at this look before the challenger's next run, or its end."""
        worth, base = self._worth(), self.noise_variance
        if worth >= POOL_FULL or len(self._champions) >= POOL_FULL + self.confirm:
            return 0
        fixed = own * (1 - self.rho**2) / self.runs
        shared = base * (1 - self.rho) ** 2
        if self.runs >= self.confirm:
            known = shared / max(worth, 1e-9)
            full = z * math.sqrt(fixed + shared / POOL_FULL)
            if distance + _STILL * math.sqrt(max(0.0, known - shared / POOL_FULL)) < full:
                return 0
            return min(_AT_ONCE, math.ceil(POOL_FULL - worth))
        room = (distance / z) ** 2 - fixed * (_UNKNOWN if self._quick() else 1.0)
        if distance <= 0 or room <= 0:
            return 0
        lacking = math.ceil(shared / room - worth)
        return lacking if 0 < lacking <= _EARLY else 0

    def _hopeless(self, degrees: float) -> bool:
        """Whether a challenger of some sigma to spare would hardly have stood so low."""
        track = self._screen.track
        variance, _, _ = self._spread(track)
        final = math.sqrt(self.noise_variance * self._final_variance())
        patience = z_to_t(_PATIENCE_PAIRED if self.rho else _PATIENCE, max(degrees, _LEAST_DEGREES))
        reach = patience * math.sqrt(variance)
        if self.dull():
            return True
        if self.runs == 1:  # with tails, one run may lie further off than any standard error says
            reach = max(reach, self._noise.worst())
        return track.effect - self.threshold <= (self._z_last + _TARGET) * final - reach

    def dull(self) -> bool:
        """Whether a scout does not stand out so far."""
        if self.bar is None or self.runs > _SCOUT_RUNS:
            return False
        stands_at = self._screen.track.effect - self.threshold
        return stands_at <= self.bar * math.sqrt(self.noise_variance / self.runs)

    def close(self) -> None:
        """Pool what was learnt about the noise."""
        both = [(value, self._champions[seed]) for _, seed, value in self._runs if seed in self._champions]
        self._noise.absorb(self._effect.squares, self._effect.degrees, PairSums.of(both))

    def _spread(self, track: Track) -> tuple[float, float, float]:
        """Variance of the effect, its degrees of freedom, and the variance of one challenger run."""
        base = self.noise_variance
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
        apart = (own - self.noise_variance) * (1 - self.rho**2) / max(1, self.runs)
        variance = self.noise_variance * track.effect_variance + apart
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
        usual = min(self.noise_variance, self._noise.typical_variance())
        return squares < _FROZEN * usual * (self.runs - 1)

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
