"""Where the test of one challenger stands."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """Where a test stands. Oriented metric units.

    Attributes:
        keep: None while undecided.
        champions: runs of the champion that are needed before the challenger's next.
        effect: estimated improvement over the champion.
        error: its standard error.
        degrees: degrees of freedom behind `error`.
        own_sd: standard deviation of one challenger run that was reckoned with.
        bound: what `effect` has to exceed the threshold by at this look; inf where no keep is possible yet.
        p_rank: of the rank test, where it was asked.
    """

    keep: bool | None
    champions: int
    effect: float
    error: float
    degrees: float
    own_sd: float
    bound: float
    p_rank: float | None
