from collections.abc import Callable

import numpy as np
import pytest

from overnight.core.errors import UsageError
from overnight.loop.judge import JudgeSettings, claim, detectable_effect, final_plan

_COUNT = 600


def _exponential(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_exponential(final_plan("noise"))


def _normal(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(final_plan("noise"))


def _discrete(rng: np.random.Generator) -> np.ndarray:
    return rng.binomial(10, 0.7, final_plan("noise")) / 1.45


def _heavy(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(4, final_plan("noise"))


@pytest.mark.parametrize("noise", [_normal, _exponential, _discrete, _heavy])
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_the_interval_covers_the_true_gain(noise: Callable[[np.random.Generator], np.ndarray], shared: float) -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(_COUNT):
        seeds = shared * noise(rng)
        before, after = 9 + seeds + noise(rng), 7 + seeds + noise(rng)
        made = claim(before.tolist(), after.tolist(), direction="minimize", mode="noise")
        covered += made.low <= 2 <= made.high
    # 93–97 %, and 2.5 standard errors of this many claims.
    assert 0.908 <= covered / _COUNT <= 0.992


def test_in_deterministic_mode_one_pair_is_the_whole_truth() -> None:
    made = claim([3.0], [2.5], direction="minimize", mode="deterministic")
    assert (made.gain, made.low, made.high, made.pairs) == (0.5, 0.5, 0.5, 1)


def test_equal_pairs_still_have_the_noise_of_the_run() -> None:
    made = claim([1.0] * 4, [2.0] * 4, direction="maximize", mode="noise", sd=0.5)
    assert made.low < 1 < made.high
    assert made.gain == 1


@pytest.mark.parametrize(
    ("before", "after"), [([], []), ([1.0], [2.0]), ([1.0, 2.0], [1.0]), ([1.0, float("nan")], [1.0, 2.0])]
)
def test_what_makes_no_claim_is_refused(before: list[float], after: list[float]) -> None:
    with pytest.raises(UsageError):
        claim(before, after, direction="maximize", mode="noise")


def test_the_detectable_effect_grows_with_noise_power_and_fewer_runs() -> None:
    settings = JudgeSettings("minimize")
    effect = detectable_effect(1.0, settings)
    assert 1.3 < effect < 1.8
    assert detectable_effect(2.0, settings) == pytest.approx(2 * effect)
    assert detectable_effect(1.0, settings, power=0.95) > effect
    assert detectable_effect(1.0, JudgeSettings("minimize", confirm=4)) > effect
    assert detectable_effect(0.0, JudgeSettings("minimize", min_effect=0.2)) == 0.2
