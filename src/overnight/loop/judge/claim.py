"""What may be claimed at the end, and what could be found at all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from overnight.core.errors import UsageError
from overnight.loop.judge.noisy import POOL_FULL
from overnight.loop.judge.spending import NORMAL, alpha_at, looks, z_of, z_to_t
from overnight.loop.judge.terms import JudgeSettings
from overnight.loop.record.experiment import Direction, Mode

# Pairs measured for the claim: t on 11 degrees, an interval 12 % wider than with the noise known.
_FINAL_PAIRS = 12
_Z95 = 1.959964


@dataclass(frozen=True)
class Claim:
    """The gain of a run, measured afresh. Metric units; positive is better, whatever the direction.

    Attributes:
        gain: champion against baseline.
        low: lower end of the 95 % interval.
        high: upper end.
        pairs: pairs of runs behind it.
    """

    gain: float
    low: float
    high: float
    pairs: int


def final_plan(mode: Mode) -> int:
    """How many pairs (baseline, champion), each pair on one seed that nobody used, to measure for `claim`."""
    return 1 if mode == "deterministic" else _FINAL_PAIRS


def claim(
    baseline: Sequence[float], champion: Sequence[float], *, direction: Direction, mode: Mode, sd: float = 0.0
) -> Claim:
    """The gain and its 95 % interval, from pairs measured for this purpose only.

    Paired Student's t. Pairs are right whatever noise the two share on a seed, and their differences are far more
    symmetric than the runs, so that skew and discreteness hardly move the coverage.

    Args:
        baseline: runs of the baseline, metric units.
        champion: runs of the champion on the same seeds, in the same order.
        direction: which way the metric improves.
        mode: of the judge; in deterministic mode one pair is the whole truth.
        sd: standard deviation of one run as the judge knows it, used where the pairs happen to be all equal.

    Raises:
        UsageError: lengths differ, too few pairs (1 in deterministic mode, else 2), or a value is not finite.
    """
    least = 1 if mode == "deterministic" else 2
    if len(baseline) != len(champion) or len(baseline) < least:
        raise UsageError(
            f"{len(baseline)} baseline and {len(champion)} champion runs make no claim",
            hint=f"measure both on the same seeds, at least {least}",
        )
    if not all(map(math.isfinite, [*baseline, *champion])):
        raise UsageError("a final run is not finite", hint="leave crashed pairs out")
    sign = 1.0 if direction == "maximize" else -1.0
    gains = [sign * (after - before) for before, after in zip(baseline, champion, strict=True)]
    pairs = len(gains)
    gain = math.fsum(gains) / pairs
    if mode == "deterministic" and len(set(gains)) == 1:
        return Claim(gain, gain, gain, pairs)
    variance = math.fsum((value - gain) ** 2 for value in gains) / (pairs - 1)
    if variance == 0:
        variance = 2 * sd * sd
    half = z_to_t(_Z95, pairs - 1) * math.sqrt(variance / pairs)
    return Claim(gain, gain - half, gain + half, pairs)


def detectable_effect(sd: float, settings: JudgeSettings, *, power: float = 0.8, n: int = 1) -> float:
    """The smallest true improvement, metric units, that experiment `n` is kept for with chance `power`.

    For noise of standard deviation `sd` that challenger and champion do not share, after the champion's pool is full.
    The screen is counted as costing nothing, which holds within 2 % of power (docs/judge.md).
    """
    shares = looks(settings.confirm)
    z = z_of(alpha_at(n, settings.error_per_night, settings.night) * shares[settings.confirm]) + NORMAL.inv_cdf(power)
    return settings.min_effect + z * sd * math.sqrt(1 / settings.confirm + 1 / POOL_FULL)
