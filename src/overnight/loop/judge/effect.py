"""How much better the challenger is: the best linear unbiased estimate from all runs so far, one run at a time."""

import math

# "Unknown": large against any difference in noise units, small enough for doubles.
_DIFFUSE = 1e9


class EffectFilter:
    """A Kalman filter over the champion's level and the challenger's effect on it.

    Level: a random walk with step variance `drift`. Champion run: level + noise. Challenger run: level + effect +
    noise. The two runs of a pair share noise with correlation `rho`; the second is taken in as its difference from
    rho times the first, which is independent of the first. Without drift and pairs the estimate is the difference of
    the means; with pairs only, that of the paired differences; in between, the best mixture (Henderson's BLUE).

    Attributes:
        squares: sum of squared standardised innovations of challenger runs, but for the first.
        degrees: how many those are.
    """

    def __init__(self, mean: float, variance: float, drift: float, rho: float, tick: int) -> None:
        """Start from the champion's level; `variance` inf means not measured yet."""
        self._mean = mean
        self._known = variance < math.inf
        self._a = variance if self._known else _DIFFUSE
        self._b = _DIFFUSE
        self._c = 0.0
        self._drift = drift
        self._rho = rho
        self._tick = tick
        self._effect = 0.0
        self._runs = 0
        self._waiting: dict[int, tuple[bool, float]] = {}
        self.squares = 0.0
        self.degrees = 0

    @property
    def effect(self) -> float:
        """Estimate, oriented metric units."""
        return self._effect

    @property
    def effect_variance(self) -> float:
        """Of the estimate, in units of the variance of one run; inf until both sides were measured."""
        return self._b if self._known and self._runs else math.inf

    @property
    def level_variance(self) -> float:
        """Of the champion's level, likewise."""
        return self._a if self._known else math.inf

    def add(self, challenger: bool, value: float, tick: int, seed: int | None) -> None:
        """Take in one run, the measurement number `tick`; `seed` if its partner on that seed may be in here too."""
        self._a += self._drift * (tick - self._tick)
        self._tick = tick
        if not self._known and not self._runs:
            self._mean = value
        on_level, on_effect, noise = 1.0, float(challenger), 1.0
        observed = value
        if self._rho and seed is not None:
            partner = self._waiting.pop(seed, None)
            if partner is None:
                self._waiting[seed] = (challenger, value)
            elif partner[0] != challenger:
                observed -= self._rho * partner[1]
                on_level -= self._rho
                on_effect -= self._rho * float(partner[0])
                noise -= self._rho * self._rho
        a, b, c = self._a, self._b, self._c
        with_level = a * on_level + c * on_effect
        with_effect = c * on_level + b * on_effect
        spread = with_level * on_level + with_effect * on_effect + noise
        surprise = observed - on_level * self._mean - on_effect * self._effect
        gain_level, gain_effect = with_level / spread, with_effect / spread
        self._mean += gain_level * surprise
        self._effect += gain_effect * surprise
        self._a = a - gain_level * with_level
        self._b = b - gain_effect * with_effect
        self._c = c - gain_level * with_effect
        if challenger:
            if self._runs:
                self.squares += surprise * surprise / spread
                self.degrees += 1
            self._runs += 1
        else:
            self._known = True
