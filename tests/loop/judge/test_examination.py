"""Examinations, driven as the loop drives them."""

import itertools
import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import pytest

from overnight.core.errors import UsageError
from overnight.loop.judge import Ask, Examination, Judge, Verdict

Measure = Callable[[Ask], float]


class Bench(Protocol):
    """What the fixture `bench` makes."""

    judge: Judge
    sign: float
    log: list[tuple[int, Ask, float]]

    def baseline(self, measure: Measure) -> None: ...
    def examine(self, n: int, measure: Measure, *, simpler: bool = False) -> Verdict: ...
    def keep(self, verdict: Verdict) -> None: ...


MakeBench = Callable[..., Bench]
Gaussian = Callable[..., Measure]


def _exact(challenger: float, champion: float = 1.0) -> Measure:
    return lambda ask: challenger if ask.side == "challenger" else champion


# --- deterministic mode


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_an_exact_improvement_is_kept_after_it_repeats(bench: MakeBench, direction: str) -> None:
    made = bench(direction=direction)
    made.baseline(_exact(0))
    verdict = made.examine(1, _exact(1.25))
    assert verdict.keep
    assert (verdict.delta, verdict.low, verdict.high) == (0.25, 0.25, 0.25)
    assert verdict.metric == made.sign * 1.25
    assert [ask.stage for _, ask, _ in made.log] == ["screen", "again"]
    assert len({ask.seed_index for _, ask, _ in made.log}) == 2
    made.keep(verdict)
    assert not made.examine(2, _exact(1.25, champion=1.25)).keep
    assert made.examine(3, _exact(1.5, champion=1.25)).keep
    assert made.judge.mode == "deterministic"


def test_a_saturated_metric_reads_as_equal_not_as_worse(bench: MakeBench) -> None:
    made = bench()
    made.baseline(_exact(1.0))
    verdict = made.examine(1, _exact(1.0))
    assert not verdict.keep
    assert verdict.delta == 0
    assert "equal to the champion" in verdict.reason


def test_an_exact_gain_has_to_exceed_min_effect(bench: MakeBench) -> None:
    made = bench(min_effect=0.5)
    made.baseline(_exact(1.0))
    verdict = made.examine(1, _exact(1.5))
    assert not verdict.keep
    assert "min_effect" in verdict.reason
    assert made.examine(2, _exact(1.75)).keep


def test_a_simpler_program_may_be_a_little_worse(bench: MakeBench) -> None:
    made = bench(simpler_within=0.25)
    made.baseline(_exact(1.0))
    assert made.examine(1, _exact(0.75), simpler=True).keep
    assert made.examine(2, _exact(1.0), simpler=True).keep
    assert not made.examine(3, _exact(0.5), simpler=True).keep
    assert not made.examine(4, _exact(0.75)).keep
    never = bench()
    never.baseline(_exact(1.0))
    assert not never.examine(1, _exact(1.0), simpler=True).keep


def test_a_repetition_that_disagrees_moves_the_run_to_noise_mode(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(_exact(1.0))
    before = made.judge.mode
    noisy = gaussian(4)
    verdict = made.examine(1, lambda ask: 100.0 if ask.stage == "screen" and len(made.log) == 0 else noisy(ask))
    assert (before, made.judge.mode) == ("deterministic", "noise")
    assert not verdict.keep
    assert sum(ask.side == "champion" for _, ask, _ in made.log) >= 5
    assert made.judge.noise().sd > 0


def test_a_champion_that_no_longer_gives_its_value_moves_the_run_to_noise_mode(
    bench: MakeBench, gaussian: Gaussian
) -> None:
    made = bench()
    made.baseline(_exact(1.0))
    for n in range(1, 50):
        made.examine(n, _exact(0.5))
    assert len(made.log) == 49
    before = made.judge.mode
    made.examine(50, gaussian(5))
    assert (before, made.judge.mode) == ("deterministic", "noise")


# --- noise mode


def test_a_clear_improvement_is_kept_soon_and_a_clear_loss_dropped_at_once(
    bench: MakeBench, gaussian: Gaussian
) -> None:
    made = bench()
    made.baseline(gaussian(1))
    verdict = made.examine(1, gaussian(2, effect=8))
    assert verdict.keep
    assert verdict.evidence["runs"] == 4
    assert verdict.low is not None and verdict.high is not None and verdict.low < 8 < verdict.high
    made.keep(verdict)
    spent = len(made.log)
    worse = made.examine(2, gaussian(3, effect=-12, level=8))
    assert not worse.keep
    assert worse.evidence["screen_prior_runs"] == 4
    assert len(made.log) == spent + 1


def test_a_gain_of_many_sigma_is_kept_after_two_runs_and_a_champion_run(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    level = 0.0
    for n in range(1, 6):
        spent = len(made.log)
        verdict = made.examine(n, gaussian(n, effect=40, level=level))
        assert verdict.keep
        assert verdict.evidence["runs"] == 2
        assert 3 <= len(made.log) - spent <= 5
        made.keep(verdict)
        level += 40


@pytest.mark.parametrize("effect", [0.0, 2.0, 6.0, 40.0])
def test_nothing_is_kept_without_fresh_runs_of_the_champion(
    bench: MakeBench, gaussian: Gaussian, effect: float
) -> None:
    """What made it the champion flatters it: that serves the screen only."""
    made = bench()
    made.baseline(gaussian(1))
    level, kept = 0.0, 0
    for n in range(1, 20):
        spent = len(made.log)
        verdict = made.examine(n, gaussian(n, effect=effect, level=level))
        if not verdict.keep:
            continue
        kept += 1
        assert made.judge.noise().champion_runs >= 1
        assert kept == 1 or any(ask.side == "champion" for _, ask, _ in made.log[spent:])
        made.keep(verdict)
        assert made.judge.noise().champion_runs == 0
        level += effect
    assert kept == 0 if not effect else kept >= 12


def test_the_champion_is_measured_now_and_then_while_challengers_are_all_bad(
    bench: MakeBench, gaussian: Gaussian
) -> None:
    made = bench()
    made.baseline(gaussian(1))
    for n in range(1, 101):
        made.examine(n, gaussian(n, effect=-30))
    sides = [ask.side for _, ask, _ in made.log]
    assert sides.count("challenger") == 100
    assert 8 <= sides.count("champion") <= 12


def test_a_lucky_seed_is_not_a_win(bench: MakeBench) -> None:
    """A challenger that hard-codes the seed on which the champion does best repeats that value for ever; nothing more."""
    made = bench()
    rng = np.random.default_rng(6)
    by_seed: dict[int, float] = {}

    def champion(ask: Ask) -> float:
        return by_seed.setdefault(ask.seed_index, float(rng.standard_normal()))

    made.baseline(champion)
    kept = 0
    for n in range(1, 60):
        tuned = by_seed[n % 5]

        def measure(ask: Ask, tuned: float = tuned) -> float:
            return tuned if ask.side == "challenger" else champion(ask)

        kept += made.examine(n, measure).keep
    assert max(abs(by_seed[k]) for k in range(5)) > 0.5
    assert kept == 0


def test_no_challenger_meets_a_seed_of_another_one(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    for n in range(1, 40):
        made.examine(n, gaussian(n, effect=n % 3))
    seeds = [(ask.side, ask.seed_index) for _, ask, _ in made.log]
    assert len(set(seeds)) == len(seeds)
    by_experiment = {n: {ask.seed_index for m, ask, _ in made.log if m == n} for n in range(1, 40)}
    for one, other in itertools.combinations(by_experiment.values(), 2):
        assert not one & other


def test_never_more_runs_than_confirm(bench: MakeBench, gaussian: Gaussian) -> None:
    for confirm in (2, 3, 5, 8):
        made = bench(confirm=confirm)
        made.baseline(gaussian(1))
        for n in range(1, 30):
            verdict = made.examine(n, gaussian(n, effect=1.5))
            assert verdict.evidence["runs"] in range(1, confirm + 1)


def test_equal_values_are_never_kept_in_noise_mode(bench: MakeBench) -> None:
    made = bench()
    values = itertools.cycle([1.0, 1.0, 2.0])
    made.baseline(lambda _: next(values))
    for n in range(1, 30):
        assert not made.examine(n, _exact(1.0)).keep


def test_noise_that_baseline_did_not_show_is_judged_by_the_challengers_own(bench: MakeBench) -> None:
    """Nearly no noise in the champion, much in the challengers: pooled noise alone would keep many."""
    made = bench()
    rng = np.random.default_rng(7)
    kept = 0

    def measure(ask: Ask) -> float:
        return float(rng.standard_normal()) * (1.0 if ask.side == "challenger" else 0.01)

    made.baseline(measure)
    for n in range(1, 120):
        verdict = made.examine(n, measure)
        if verdict.keep:
            kept += 1
    assert kept <= 2


def test_min_effect_has_to_be_exceeded_beyond_doubt(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench(min_effect=3.0)
    made.baseline(gaussian(1))
    assert not made.examine(1, gaussian(2, effect=3)).keep
    assert made.examine(2, gaussian(3, effect=8)).keep


def test_in_noise_simpler_means_not_worse_by_more_than_the_margin(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench(simpler_within=4.0)
    made.baseline(gaussian(1))
    assert made.examine(1, gaussian(2), simpler=True).keep
    assert not made.examine(2, gaussian(3)).keep
    assert not made.examine(3, gaussian(4, effect=-5), simpler=True).keep


def test_a_scout_is_measured_again_only_if_it_stands_out(bench: MakeBench, gaussian: Gaussian) -> None:
    """It costs one evaluation otherwise; and it is kept for no less than any other."""
    made = bench()
    made.baseline(gaussian(1))
    spent, dropped = 0, 0
    for n in range(1, 21):
        examination = made.judge.open(n, scout=True)
        measure = gaussian(n, effect=0.5)
        while isinstance(asks := examination.next(), list):
            for ask in asks:
                spent += 1
                examination.add(ask, measure(ask))
        assert not asks.keep
        dropped += "does not stand out" in asks.reason and asks.evidence["scout_bar"] is not None
    assert dropped >= 15
    assert spent <= 30
    examination = made.judge.open(21, scout=True)
    measure = gaussian(21, effect=9)
    while isinstance(asks := examination.next(), list):
        for ask in asks:
            examination.add(ask, measure(ask))
    assert asks.keep
    assert asks.evidence["runs"] in range(2, 5)


# --- what goes wrong


def _first_ask(examination: Examination) -> Ask:
    asks = examination.next()
    assert isinstance(asks, list)
    return next(ask for ask in asks if ask.side == "challenger")


def test_a_challenger_that_crashes_is_discarded_with_the_reason(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    examination = made.judge.open(1)
    ask = _first_ask(examination)
    examination.add(ask, 50.0)
    examination.crashed(ask)
    verdict = examination.next()
    assert isinstance(verdict, Verdict)
    assert not verdict.keep
    assert "after 1 good run" in verdict.reason
    assert verdict.metric == 50.0
    assert verdict.delta is None


def test_a_champions_crash_is_not_held_against_the_challenger(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    examination = made.judge.open(1)
    measure = gaussian(2, effect=6)
    crashes = 0
    while isinstance(asks := examination.next(), list):
        for ask in asks:
            if ask.side == "champion" and crashes < 2:
                crashes += 1
                examination.crashed(ask)
            else:
                examination.add(ask, measure(ask))
    assert crashes == 2
    assert asks.keep


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_refused_and_changes_nothing(
    bench: MakeBench, gaussian: Gaussian, value: float
) -> None:
    made = bench()
    made.baseline(gaussian(1))
    examination = made.judge.open(1)
    before = examination.next()
    with pytest.raises(UsageError, match="not a measurement"):
        examination.add(_first_ask(examination), value)
    assert examination.next() == before


def test_after_the_verdict_nothing_is_taken(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    examination = made.judge.open(1)
    ask = _first_ask(examination)
    examination.crashed(ask)
    verdict = examination.next()
    with pytest.raises(UsageError, match="verdict already"):
        examination.add(ask, 1.0)
    with pytest.raises(UsageError, match="verdict already"):
        examination.crashed(ask)
    assert examination.next() is verdict


def test_a_run_of_a_former_champion_is_skipped_and_asked_for_again(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    examination = made.judge.open(1)
    measure = gaussian(2, effect=3)
    examination.add(_first_ask(examination), 3.0)
    asks = examination.next()
    assert isinstance(asks, list)
    in_flight = next(ask for ask in asks if ask.side == "champion")
    made.judge.champion_changed(3.0)
    examination.skip(in_flight)
    assert made.judge.noise().champion_runs == 0
    while isinstance(asks := examination.next(), list):
        for ask in asks:
            assert ask != in_flight
            examination.add(ask, 6.0 + measure(ask) if ask.side == "challenger" else measure(ask))
    assert asks.keep
    assert made.judge.noise().champion_runs >= 1


def test_a_closed_examination_takes_nothing_more(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    examination = made.judge.open(1)
    ask = _first_ask(examination)
    examination.close()
    with pytest.raises(UsageError):
        examination.add(ask, 1.0)


def test_a_seed_of_another_experiment_is_refused(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    with pytest.raises(UsageError, match="does not belong"):
        made.judge.open(2).add(_first_ask(made.judge.open(1)), 1.0)


# --- several at once


def test_open_examinations_go_on_against_the_new_champion(bench: MakeBench, gaussian: Gaussian) -> None:
    """The second is better than the old champion, not than the new one."""
    made = bench()
    made.baseline(gaussian(1))
    old, new = gaussian(2, effect=6), gaussian(3, effect=0, level=6)
    second = made.judge.open(2)
    for _ in range(3):
        asks = second.next()
        assert isinstance(asks, list)
        for ask in asks:
            second.add(ask, old(ask))
    first = made.examine(1, gaussian(4, effect=6))
    assert first.keep
    made.keep(first)
    while isinstance(asks := second.next(), list):
        for ask in asks:
            second.add(ask, new(ask))
    assert not asks.keep
    assert asks.evidence["inherited"]
    assert asks.low is not None and asks.high is not None and asks.low < 0 < asks.high
    assert asks.high < 5


def test_examinations_in_parallel_share_the_champions_runs(bench: MakeBench, gaussian: Gaussian) -> None:
    made = bench()
    made.baseline(gaussian(1))
    measure = gaussian(2, effect=5)
    examinations = [made.judge.open(n) for n in range(1, 5)]
    verdicts: dict[int, Verdict] = {}
    while len(verdicts) < 4:
        for examination in examinations:
            asks = examination.next()
            if isinstance(asks, Verdict):
                verdicts[examination.n] = asks
            else:
                examination.add(asks[0], measure(asks[0]))
    assert all(verdict.keep for verdict in verdicts.values())
    assert made.judge.noise().champion_runs > 8
