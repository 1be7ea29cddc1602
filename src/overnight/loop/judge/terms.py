"""The words between the loop and its judge: settings, what to measure next, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from overnight.core.errors import UsageError
from overnight.loop.record.experiment import Direction

Side = Literal["challenger", "champion"]
Stage = Literal["screen", "confirm", "again"]
Evidence = Mapping[str, str | int | float | bool | None]

BASELINE_SEEDS = 5
# Room for every run one experiment can ask for, champion runs included.
SEEDS_PER_EXPERIMENT = 1000


@dataclass(frozen=True)
class JudgeSettings:
    """What counts as better in a run, and how much error it may spend.

    Attributes:
        direction: which way the metric improves.
        min_effect: smallest improvement worth keeping, metric units, ≥ 0; the lower bound must exceed it.
        simpler_within: an equal but simpler change may be worse by this much, metric units, ≥ 0; 0 = never.
        confirm: most runs one challenger gets, screen included, ≥ 2.
        error_per_night: false keeps expected among the first `night` experiments if no change helps, > 0.
        night: experiments over which `error_per_night` is spent; the schedule goes on for ever after (`alpha_at`).
    """

    direction: Direction
    min_effect: float = 0.0
    simpler_within: float = 0.0
    confirm: int = 8
    error_per_night: float = 0.5
    night: int = 300

    def __post_init__(self) -> None:
        for name, low in (("min_effect", 0), ("simpler_within", 0), ("confirm", 2), ("night", 1)):
            value = getattr(self, name)
            if not low <= value < float("inf"):
                raise UsageError(f"{name} is {value!r}", hint=f"it has to be a finite number of at least {low}")
        if not 0 < self.error_per_night < float("inf"):
            raise UsageError(f"error_per_night is {self.error_per_night!r}", hint="it has to be a positive number")


@dataclass(frozen=True)
class Ask:
    """One measurement the judge wants.

    Attributes:
        side: whose state to measure: the challenger's, or the present champion's.
        seed_index: which seed, from `seed_index`; challenger and champion share one where they make a pair.
        stage: `screen` is the first look, `confirm` what follows on fresh seeds, `again` the repetition of a keep in
            deterministic mode. For the record only.
    """

    side: Side
    seed_index: int
    stage: Stage


@dataclass(frozen=True)
class Verdict:
    """What became of a challenger.

    Attributes:
        keep: it replaces the champion.
        reason: one plain sentence with the numbers.
        metric: plain mean of the challenger's runs, metric units. A kept challenger was picked for a good one, so this
            flatters it a little; what the report claims is measured afresh (`claim`). None without any run.
        delta: estimated improvement over the champion, metric units; positive is better, whatever the direction.
            None, as are `low` and `high`, where a crash ended the examination.
        low: lower end of the 95 % interval of `delta`.
        high: upper end.
        evidence: flat JSON: runs, champion runs, method, error spent, noise used and where from, bounds.
    """

    keep: bool
    reason: str
    metric: float | None
    delta: float | None
    low: float | None
    high: float | None
    evidence: Evidence = field(default_factory=dict)


def seed_index(n: int, k: int) -> int:
    """The `k`-th seed of experiment `n`: no two experiments share one, so a lucky seed cannot be reused.

    The loop turns indices into $OVERNIGHT_SEED by a keyed hash. Experiment 0 is the baseline; final measurements use
    the loop's own domain, apart from these.
    """
    assert 0 <= k < SEEDS_PER_EXPERIMENT, f"experiment {n} asks for seed {k}"
    return n * SEEDS_PER_EXPERIMENT + k
