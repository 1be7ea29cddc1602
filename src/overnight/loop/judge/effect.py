"""How much better the challenger is: the best estimate from all runs so far, one run at a time."""

from overnight.loop.judge.track import Track


class Effect:
    """A challenger's effect on the champion's level, with pairs.

    The two runs of a pair share noise with correlation `rho`: the second is taken in as its difference from rho times
    the first, which is independent of the first. (Drift between the two, made right after one another, is left out: at
    a step of 0.1 sigma that is 1 % of the variance.) With pairs only, the estimate is that of the paired differences;
    with a pool beside them, the best mixture.

    Attributes:
        track: level and effect.
        rho: correlation of challenger and champion on one seed.
        squares: sum of squared standardised surprises of challenger runs, but for the first.
        degrees: how many those are.
    """

    def __init__(self, track: Track, rho: float) -> None:
        """Start from what is known about the champion; `track` is not changed."""
        self.track = track.fork()
        self.rho = rho
        self.squares = 0.0
        self.degrees = 0
        self._first = True
        self._waiting: dict[int, tuple[float, float]] = {}

    def add(self, challenger: bool, value: float, tick: int, seed: int | None) -> None:
        """Take in one run, measurement number `tick`; `seed` if its partner on that seed may be in here too."""
        effect, on_level, on_effect, noise = float(challenger), 1.0, float(challenger), 1.0
        if self.rho and seed is not None:
            partner = self._waiting.pop(seed, None)
            if partner is None:
                self._waiting[seed] = (effect, value)
            elif partner[0] != effect:
                value -= self.rho * partner[1]
                on_level -= self.rho
                on_effect -= self.rho * partner[0]
                noise -= self.rho * self.rho
        surprise, spread = self.track.observe(value, tick, on_level, on_effect, noise)
        if challenger:
            if not self._first:
                self.squares += surprise * surprise / spread
                self.degrees += 1
            self._first = False
