import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.loop.judge.spending import alpha_at, looks, t_to_z, z_of, z_to_t


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 2), st.integers(1, 400))
def test_error_spent_over_a_night_and_over_an_endless_run(error: float, night: int) -> None:
    spent = math.fsum(alpha_at(n, error, night) for n in range(1, night + 1))
    assert spent <= error
    # The sum lies below the integral by at most the first term.
    assert spent >= error - alpha_at(1, error, night)
    endless = math.fsum(alpha_at(n, error, night) for n in range(1, 10 * night))
    assert spent < endless < 3 * error


def test_the_last_challenger_of_a_night_meets_nearly_the_bar_of_the_first() -> None:
    assert z_of(alpha_at(300, 0.4, 300)) - z_of(alpha_at(1, 0.4, 300)) < 0.3


@settings(deadline=None)
@given(st.integers(2, 60))
def test_the_looks_spend_what_there_is_and_end_with_the_last_run(confirm: int) -> None:
    shares = looks(confirm)
    assert math.isclose(sum(shares.values()), 1)
    assert max(shares) == confirm
    assert min(shares.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("df", [4, 6, 12, 40, 300])
@pytest.mark.parametrize("t", [0.5, 2.0, 3.5, 5.0])
def test_t_to_z_agrees_with_an_independent_implementation(t: float, df: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert stats.norm.sf(t_to_z(t, df)) == pytest.approx(stats.t.sf(t, df), rel=0.07)


@settings(deadline=None)
@given(st.floats(-6, 6), st.floats(2, 1000))
def test_z_to_t_undoes_t_to_z(z: float, df: float) -> None:
    assert t_to_z(z_to_t(z, df), df) == pytest.approx(z, abs=1e-6)
