"""The test of one challenger where measurements repeat exactly: one run, and one more before a keep."""

from dataclasses import dataclass, field

from overnight.loop.judge.terms import JudgeSettings

# One experiment in so many measures the champion too, to notice that it no longer gives its value.
WATCH_EVERY = 50


@dataclass
class ExactTest:
    """One challenger against a champion whose value is exact. Oriented metric units.

    Attributes:
        settings: the run's.
        simpler: the change makes the program simpler at (perhaps) equal value.
        values: the challenger's runs.
    """

    settings: JudgeSettings
    simpler: bool
    values: list[float] = field(default_factory=list)

    def good(self, champion: float) -> bool:
        """Whether the first run would be kept, if it repeats."""
        delta = self.values[0] - champion
        if self.simpler and self.settings.simpler_within > 0:
            return delta >= -self.settings.simpler_within
        return delta > self.settings.min_effect

    def disagrees(self) -> bool:
        """Whether the metric turned out noisy."""
        return any(value != self.values[0] for value in self.values)

    def decision(self, champion: float) -> bool | None:
        """Keep, discard, or None while another run is needed."""
        if not self.values:
            return None
        if not self.good(champion):
            return False
        return True if len(self.values) > 1 else None
