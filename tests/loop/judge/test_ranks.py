import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.loop.judge.ranks import rank_p

_FEW = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


@settings(deadline=None, max_examples=50)
@given(_FEW, _FEW)
def test_the_p_value_is_that_of_all_permutations_ties_included(challenger: list[float], pool: list[float]) -> None:
    values = [*challenger, *pool]
    ranks = [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]
    observed = sum(ranks[: len(challenger)])
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(challenger))]
    expected = sum(total >= observed - 1e-9 for total in sums) / len(sums)
    assert rank_p(challenger, pool, 0) == pytest.approx(expected)


@pytest.mark.slow
def test_it_agrees_with_an_independent_implementation() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    challenger, pool = rng.normal(1, 1, 8).tolist(), rng.normal(0, 1, 40).tolist()
    expected = stats.mannwhitneyu(challenger, pool, alternative="greater", method="exact").pvalue
    assert rank_p(challenger, pool, 1) == pytest.approx(expected)


def test_a_gap_beyond_all_champion_runs_counts_by_its_size() -> None:
    pool = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    separated = 1 / math.comb(9, 3)
    assert rank_p([0.6, 0.7, 0.8], pool, 0) == pytest.approx(separated)
    assert rank_p([2.5, 2.6, 2.7], pool, 1) == pytest.approx(separated * math.exp(-3 * 2))
    assert rank_p([0.5, 2.6, 2.7], pool, 1) > separated


def test_p_values_of_nulls_are_uniform_or_larger_for_exponential_noise() -> None:
    rng = np.random.default_rng(2)
    found = [rank_p(rng.exponential(size=3).tolist(), rng.exponential(size=6).tolist(), 1.0) for _ in range(2000)]
    for level in (0.001, 0.01, 0.1):
        expected = level * len(found)
        assert sum(p <= level for p in found) <= expected + 3.5 * math.sqrt(expected)


@settings(deadline=None, max_examples=50)
@given(_FEW, _FEW, st.floats(-100, 100))
def test_a_shift_of_everything_changes_nothing(challenger: list[float], pool: list[float], by: float) -> None:
    shifted = rank_p([value + round(by) for value in challenger], [value + round(by) for value in pool], 0)
    assert shifted == pytest.approx(rank_p(challenger, pool, 0))


def test_nothing_to_compare_is_no_evidence() -> None:
    assert rank_p([], [1.0], 1) == 1
    assert rank_p([1.0], [], 1) == 1
