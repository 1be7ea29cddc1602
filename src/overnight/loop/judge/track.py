"""A Kalman filter for what lies under the noise: the champion's level, its slope, and a challenger's effect.

Level: a random walk with a slope (the local linear trend of Harvey 1989, ch. 2). A champion run is level + noise, a
challenger run level + effect + noise. Everything is linear, so the estimates are the best linear unbiased ones:
without drift the effect is the difference of two means, with much drift it leans on the runs made around it.
"""

import copy
import math

# "Unknown": large against any difference in noise units, small enough for doubles.
_DIFFUSE = 1e9


class Track:
    """State and covariance. Variances are in units of the variance of one run.

    Attributes:
        drift: variance of the level's own step from one measurement of the run to the next.
        bend: variance of the slope's step.
        level: estimate, oriented metric units.
        slope: change of the level per measurement.
        effect: of the challenger on the level.
    """

    def __init__(self, drift: float, bend: float, slope_variance: float) -> None:
        self.drift = drift
        self.bend = bend
        self.level = self.slope = self.effect = 0.0
        self._tick = 0
        self._seen = False
        self._known = False
        self._ll, self._ss, self._ee = _DIFFUSE, slope_variance, 0.0
        self._ls = self._le = self._se = 0.0

    @property
    def level_variance(self) -> float:
        """Of the level's estimate; inf before a champion run."""
        return self._ll if self._known else math.inf

    @property
    def effect_variance(self) -> float:
        """Of the effect's estimate; inf before a run of either side."""
        return self._ee if self._known and self._ee < _DIFFUSE / 2 else math.inf

    def fork(self) -> "Track":
        """A copy that follows a challenger whose effect is unknown."""
        other = copy.copy(self)
        other.effect, other._ee, other._le, other._se = 0.0, _DIFFUSE, 0.0, 0.0
        return other

    def restart_level(self) -> None:
        """The level is that of another program now; the slope is the machine's and stays."""
        self._seen = self._known = False
        self._ll, self._ls = _DIFFUSE, 0.0

    def wander(self, age: int) -> float:
        """Variance by which the level has left its line after `age` measurements."""
        return self.drift * age + self.bend * age**3 / 3

    def observe(self, value: float, tick: int, on_level: float, on_effect: float, noise: float) -> tuple[float, float]:
        """Take in one observation, made as measurement number `tick`.

        Returns:
            The surprise and its variance.
        """
        elapsed = tick - self._tick
        if elapsed:
            self._advance(elapsed)
            self._tick = tick
        if not self._seen:
            # Close to the truth, so that the vague prior around it pulls nowhere.
            self.level, self._seen = value, True
        ll, ls, le, ss, se, ee = self._ll, self._ls, self._le, self._ss, self._se, self._ee
        to_level = ll * on_level + le * on_effect
        to_slope = ls * on_level + se * on_effect
        to_effect = le * on_level + ee * on_effect
        spread = to_level * on_level + to_effect * on_effect + noise
        surprise = value - on_level * self.level - on_effect * self.effect
        gain_level, gain_slope, gain_effect = to_level / spread, to_slope / spread, to_effect / spread
        self.level += gain_level * surprise
        self.slope += gain_slope * surprise
        self.effect += gain_effect * surprise
        self._ll = ll - gain_level * to_level
        self._ls = ls - gain_level * to_slope
        self._le = le - gain_level * to_effect
        self._ss = ss - gain_slope * to_slope
        self._se = se - gain_slope * to_effect
        self._ee = ee - gain_effect * to_effect
        if on_effect <= 0:
            self._known = True
        return surprise, spread

    def _advance(self, elapsed: int) -> None:
        self._ll += self.drift * elapsed
        if self._ss or self.bend:
            self.level += self.slope * elapsed
            self._ll += elapsed * (2 * self._ls + elapsed * self._ss) + self.bend * elapsed**3 / 3
            self._ls += elapsed * self._ss + self.bend * elapsed**2 / 2
            self._le += elapsed * self._se
            self._ss += self.bend * elapsed
