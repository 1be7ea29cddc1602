"""Verdicts in words and numbers."""

import math
from collections.abc import Sequence

from overnight.loop.judge.exact import ExactTest
from overnight.loop.judge.noisy import NoisyTest
from overnight.loop.judge.spending import z_to_t
from overnight.loop.judge.standing import Standing
from overnight.loop.judge.terms import Evidence, Verdict

SCHEDULE = "alpha-spending ~ 1/(1+n/2N)^2 (Foster & Stine 2008), union bound over looks"
_Z95 = 1.959964


def exact_verdict(test: ExactTest, keep: bool, champion: float, sign: float) -> Verdict:
    """The verdict of a deterministic test."""
    value = test.values[0]
    delta = value - champion
    settings = test.settings
    shown = f"{sign * value:.6g} against {sign * champion:.6g}"
    if keep and delta > 0:
        reason = f"better by {delta:.4g}: {shown}, and the same when measured again"
    elif keep:
        reason = (
            f"simpler and within {settings.simpler_within:g} of the champion: {shown}, the same when measured again"
        )
    elif delta == 0:
        reason = f"equal to the champion: {shown}"
    elif delta > 0:
        reason = f"better by {delta:.4g}, which is not more than min_effect {settings.min_effect:g}: {shown}"
    else:
        reason = f"worse by {-delta:.4g}: {shown}"
    evidence: Evidence = {
        "method": "exact, a keep measured twice",
        "runs": len(test.values),
        "champion_runs": 0,
        "sd": 0.0,
    }
    return Verdict(keep, reason, sign * value, delta, delta, delta, evidence)


def noisy_verdict(test: NoisyTest, standing: Standing, sign: float) -> Verdict:
    """The verdict of a noisy test."""
    assert standing.keep is not None
    half = z_to_t(_Z95, standing.degrees) * standing.error if standing.degrees else math.inf
    low, high = standing.effect - half, standing.effect + half
    runs = f"{test.runs} run{'s' * (test.runs != 1)}"
    shown = f"{standing.effect:+.4g} (95 % interval {low:+.4g} to {high:+.4g}) over {runs}"
    frozen = test.frozen()
    if frozen and not standing.keep:
        reason = f"hardly varies with the seed, so that all its runs count as one lucky run: {shown}"
    elif standing.keep:
        beyond = f" by more than {test.threshold:g}" if test.threshold > 0 else ""
        goal = f"not worse by more than {-test.threshold:g}" if test.threshold < 0 else f"better{beyond}"
        reason = f"{goal}: {shown}, where {test.threshold + standing.bound:+.4g} was needed"
    elif test.dull():
        reason = f"does not stand out enough to be measured again: {shown}"
    elif test.runs >= test.confirm:
        reason = f"not shown to be better within {test.confirm} runs: {shown}"
    elif standing.effect == 0:
        reason = f"equal to the champion: {shown}"
    else:
        reason = f"too little hope of an improvement: {shown}"
    metric = sign * sum(test.values) / test.runs
    evidence: Evidence = {
        "method": "pairs and pool, local level (BLUE), group-sequential, rank test",
        "schedule": SCHEDULE,
        "runs": test.runs,
        "champion_runs": test.champion_runs,
        "screen_prior_runs": test.prior_runs,
        "scout_bar": test.bar * math.sqrt(test.noise_variance) if test.bar is not None else None,
        "alpha": test.alpha,
        "threshold": test.threshold,
        "bound": standing.bound if math.isfinite(standing.bound) else None,
        "p_rank": standing.p_rank,
        "standard_error": standing.error if math.isfinite(standing.error) else None,
        "degrees": standing.degrees,
        "sd": math.sqrt(test.noise_variance),
        "own_sd": standing.own_sd,
        "pair_correlation": test.rho,
        "drift_step": math.sqrt(test.track.drift * test.noise_variance),
        "drift_slope": sign * test.track.slope,
        "inherited": test.inherited,
        "frozen": frozen,
    }
    return Verdict(standing.keep, reason, metric, standing.effect, low, high, evidence)


def given_up(reason: str, values: Sequence[float]) -> Verdict:
    """The verdict on an examination that could not be finished."""
    metric = sum(values) / len(values) if values else None
    return Verdict(False, reason, metric, None, None, None, {"method": "given up", "runs": len(values)})
