"""What a run looks like from outside at one moment, for whoever draws it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overnight.loop.record.experiment import Direction, Experiment, Mode


@dataclass(frozen=True)
class Progress:
    """A snapshot of a run.

    Attributes:
        phase: `baseline`, `experiments` or `final`.
        recent: experiments that have ended, oldest first, at most the last twenty.
        counts: how many ended, by status.
        running: one line for each experiment that has no verdict yet.
        evaluations: measurements made in this stretch.
        elapsed_s: wall clock of the run, earlier stretches included.
        for_s: the limit on it; None is none.
        limit: how many experiments at most; None is no limit.
    """

    run: str
    phase: str
    metric: str
    direction: Direction
    mode: Mode
    baseline: float | None
    champion: Experiment | None
    recent: Sequence[Experiment]
    counts: Mapping[str, int]
    running: Sequence[str]
    evaluations: int
    elapsed_s: float
    for_s: float | None
    limit: int | None

    @property
    def ended(self) -> int:
        """Experiments with a verdict."""
        return sum(count for status, count in self.counts.items() if status != "baseline")


Watch = Callable[[Progress], None]


def count(experiments: Sequence[Experiment]) -> Mapping[str, int]:
    """How many experiments ended with each status, the baseline left out."""
    return Counter(item.status for item in experiments if item.status != "baseline")
