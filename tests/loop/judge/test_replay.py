"""The same measurements give the same verdicts: mirrored, in other units, and after an interruption."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.loop.judge import Ask, Judge, JudgeSettings, Verdict
from overnight.loop.record.experiment import Direction

_STEPS = st.lists(st.sampled_from([-2.0, 0.0, 0.0, 1.0, 4.0]), min_size=1, max_size=8)


def _night(
    direction: Direction, effects: list[float], seed: int, scale: float = 1.0, shift: float = 0.0
) -> list[Verdict]:
    rng = np.random.default_rng(seed)
    sign = 1.0 if direction == "maximize" else -1.0
    judge = Judge(JudgeSettings(direction))
    level = 0.0

    def value(effect: float) -> float:
        return sign * (shift + scale * (level + effect + float(rng.standard_normal())))

    for ask in judge.baseline_plan():
        judge.add_baseline(ask, value(0))
    verdicts = []
    for n, effect in enumerate(effects, start=1):
        examination = judge.open(n)
        while isinstance(asks := examination.next(), list):
            for ask in asks:
                examination.add(ask, value(effect if ask.side == "challenger" else 0))
        verdicts.append(asks)
        if asks.keep:
            assert asks.metric is not None
            judge.champion_changed(asks.metric)
            level += effect
    return verdicts


def _same(one: list[Verdict], other: list[Verdict], scale: float = 1.0) -> None:
    assert [verdict.keep for verdict in one] == [verdict.keep for verdict in other]
    assert [verdict.evidence["runs"] for verdict in one] == [verdict.evidence["runs"] for verdict in other]
    for a, b in zip(one, other, strict=True):
        assert a.delta is not None and b.delta is not None
        assert b.delta == pytest.approx(scale * a.delta, rel=1e-3, abs=1e-3 * scale)


@settings(max_examples=10, deadline=None)
@given(_STEPS, st.integers(0, 99))
def test_minimising_mirrors_maximising(effects: list[float], seed: int) -> None:
    _same(_night("maximize", effects, seed), _night("minimize", effects, seed))


@settings(max_examples=10, deadline=None)
@given(_STEPS, st.integers(0, 99), st.sampled_from([1e-6, 0.25, 1024.0]), st.sampled_from([-64.0, 0.0, 1.0]))
def test_units_do_not_matter(effects: list[float], seed: int, scale: float, shift: float) -> None:
    _same(_night("maximize", effects, seed), _night("maximize", effects, seed, scale, shift * scale), scale)


@settings(max_examples=10, deadline=None)
@given(_STEPS, st.integers(0, 99))
def test_a_replayed_run_goes_on_as_if_nothing_had_happened(effects: list[float], seed: int) -> None:
    """All but the last experiment are replayed from their measurements; the last one from half of them."""
    rng = np.random.default_rng(seed)
    log: list[tuple[int, Ask, float]] = []
    judge = Judge(JudgeSettings("maximize"))
    for ask in judge.baseline_plan():
        log.append((0, ask, float(rng.standard_normal())))
        judge.add_baseline(ask, log[-1][2])
    keeps: dict[int, float] = {}
    live: list[list[Ask] | Verdict] = []
    for n, effect in enumerate(effects, start=1):
        examination = judge.open(n)
        while isinstance(asks := examination.next(), list):
            live.append(asks)
            for ask in asks:
                log.append((n, ask, float(rng.standard_normal()) + (effect if ask.side == "challenger" else 0)))
                examination.add(ask, log[-1][2])
        live.append(asks)
        if asks.keep and asks.metric is not None:
            keeps[n] = asks.metric
            judge.champion_changed(asks.metric)

    again = Judge(JudgeSettings("maximize"))
    replayed: list[list[Ask] | Verdict] = []
    for n, group in itertools.groupby(log, key=lambda entry: entry[0]):
        if n == 0:
            for _, ask, value in group:
                again.add_baseline(ask, value)
            continue
        examination = again.open(n)
        for _, ask, value in group:
            # The record knows side and seed; what stage it was does not matter.
            examination.add(Ask(ask.side, ask.seed_index, "confirm"), value)
        replayed.append(examination.next())
        if n in keeps:
            again.champion_changed(keeps[n])
    assert replayed == [item for item in live if isinstance(item, Verdict)]
    assert again.noise() == judge.noise()
