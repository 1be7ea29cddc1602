"""The running estimate against generalised least squares, solved at once by numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.loop.judge.effect import Effect
from overnight.loop.judge.track import Track

_VALUES = st.floats(-5, 5)


def _least_squares(runs: list[tuple[bool, float, int, int]], drift: float, rho: float) -> tuple[float, float]:
    """Effect and its variance for runs (challenger, value, tick, seed)."""
    count = len(runs)
    covariance = np.eye(count)
    for i, (side, _, tick, seed) in enumerate(runs):
        for j, (other_side, _, other_tick, other_seed) in enumerate(runs):
            covariance[i, j] += drift * min(tick, other_tick)
            if seed == other_seed and side != other_side:
                covariance[i, j] += rho
    design = np.array([[1.0, float(side)] for side, *_ in runs])
    weight = np.linalg.inv(covariance)
    variance = np.linalg.inv(design.T @ weight @ design)
    estimate = variance @ design.T @ weight @ np.array([value for _, value, *_ in runs])
    return float(estimate[1]), float(variance[1, 1])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(_VALUES, _VALUES), min_size=1, max_size=8),
    st.lists(_VALUES, max_size=6),
    st.sampled_from([(0.0, 0.0), (0.01, 0.0), (0.3, 0.0), (0.0, 0.5), (0.0, 0.9)]),
)
def test_the_estimate_is_the_best_linear_unbiased_one(
    pairs: list[tuple[float, float]], pool: list[float], kind: tuple[float, float]
) -> None:
    drift, rho = kind
    runs = [(False, value, tick, -tick) for tick, value in enumerate(pool, start=1)]
    for seed, (champion, challenger) in enumerate(pairs):
        runs.append((False, champion, len(runs) + 1, seed))
        runs.append((True, challenger, len(runs) + 1, seed))
    # Values far from zero show that nothing pulls towards it.
    effect = Effect(Track(drift, 0.0, 0.0), rho)
    for side, value, tick, seed in runs:
        effect.add(side, 1000 + value, tick, seed)
    estimate, variance = _least_squares(runs, drift, rho)
    assert effect.track.effect == pytest.approx(estimate, abs=2e-4)
    assert effect.track.effect_variance == pytest.approx(variance, rel=1e-4)


def test_without_drift_and_pairs_it_is_the_difference_of_means() -> None:
    effect = Effect(Track(0.0, 0.0, 0.0), 0.0)
    for tick, value in enumerate([1.0, 2.0, 3.0, 6.0], start=1):
        effect.add(False, value, tick, None)
    for tick, value in enumerate([10.0, 12.0], start=5):
        effect.add(True, value, tick, None)
    assert effect.track.effect == pytest.approx(8.0)
    assert effect.track.effect_variance == pytest.approx(1 / 4 + 1 / 2)
    assert effect.squares == pytest.approx(2.0)
    assert effect.degrees == 1


def test_a_line_under_the_noise_is_followed() -> None:
    track = Track(0.0, 0.0, 1.0)
    for tick in range(1, 30):
        track.observe(5 + 0.3 * tick, tick, 1.0, 0.0, 1.0)
    effect = Effect(track, 0.0)
    for tick in range(40, 44):
        effect.add(True, 5 + 0.3 * tick + 2, tick, None)
    assert effect.track.effect == pytest.approx(2.0, abs=0.01)


def test_before_both_sides_ran_nothing_is_known() -> None:
    effect = Effect(Track(0.0, 0.0, 0.0), 0.0)
    effect.add(True, 3.0, 1, 1)
    assert effect.track.effect_variance == np.inf
    effect.add(False, 1.0, 2, 1)
    assert effect.track.effect == pytest.approx(2.0)
    assert effect.track.effect_variance == pytest.approx(2.0)
