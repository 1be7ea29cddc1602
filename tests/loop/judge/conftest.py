"""A made-up arena to judge: what the loop does, without the loop."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from overnight.loop.judge import Ask, Judge, JudgeSettings, Verdict

# Oriented so that larger is better: what one run gives, by ask.
Measure = Callable[[Ask], float]


@dataclass
class Bench:
    """A judge, and a log of all that was measured for it."""

    judge: Judge
    sign: float = 1.0
    log: list[tuple[int, Ask, float]] = field(default_factory=list)

    def baseline(self, measure: Measure) -> None:
        for ask in self.judge.baseline_plan():
            self.judge.add_baseline(ask, self.sign * measure(ask))

    def examine(self, n: int, measure: Measure, *, simpler: bool = False) -> Verdict:
        examination = self.judge.open(n, simpler=simpler)
        while isinstance(asks := examination.next(), list):
            assert asks
            for ask in asks:
                value = self.sign * measure(ask)
                self.log.append((n, ask, value))
                examination.add(ask, value)
        return asks

    def keep(self, verdict: Verdict) -> None:
        assert verdict.metric is not None
        self.judge.champion_changed(verdict.metric)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    def make(**settings: object) -> Bench:
        direction = settings.setdefault("direction", "maximize")
        made = JudgeSettings(**settings)  # type: ignore[arg-type]  # a test's own keyword arguments
        return Bench(Judge(made), 1.0 if direction == "maximize" else -1.0)

    return make


@pytest.fixture
def gaussian() -> Callable[..., Measure]:
    """Runs with normal noise of standard deviation `sd`, the challenger better by `effect`."""

    def make(seed: int, effect: float = 0.0, sd: float = 1.0, level: float = 0.0) -> Measure:
        rng = np.random.default_rng(seed)

        def measure(ask: Ask) -> float:
            return level + (effect if ask.side == "challenger" else 0.0) + sd * float(rng.standard_normal())

        return measure

    return make
