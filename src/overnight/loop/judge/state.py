"""What judge and examinations of one run share."""

import math

from overnight.loop.judge.noise import Noise
from overnight.loop.judge.noisy import NoisyTest
from overnight.loop.judge.terms import JudgeSettings
from overnight.loop.record.experiment import Mode


class RunState:
    """Mode, noise, the champion's exact value, and the noisy tests that are open.

    Attributes:
        sign: oriented value = sign · metric; larger is better inside.
        mode: see `Judge.mode`.
        champion: oriented value of the champion in deterministic mode.
        noise: of the whole run.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.sign = 1.0 if settings.direction == "maximize" else -1.0
        self.mode: Mode = "noise"
        self.champion = 0.0
        self.noise = Noise()
        self._tests: list[NoisyTest] = []
        self._ended: tuple[float, ...] = ()

    def begin_test(self, n: int, threshold: float, scout: bool) -> NoisyTest:
        """A test against the present champion; it hears of every champion run until `end_test`."""
        test = NoisyTest(self.noise, self.settings, n, threshold, scout)
        self._tests.append(test)
        return test

    def end_test(self, test: NoisyTest, *, learn: bool) -> None:
        """Drop `test`; `learn` pools what it says about the noise."""
        self._tests.remove(test)
        if learn:
            test.close()

    def add_champion(self, value: float, owner: NoisyTest | None = None, seed: int | None = None) -> None:
        """A champion run, made for `owner` on `seed`; every open test learns from it."""
        self.noise.ticks += 1
        self.noise.add_champion(value)
        for test in self._tests:
            test.add_champion(value, seed if test is owner else None)

    def ended(self, values: tuple[float, ...]) -> None:
        """An examination ended with these runs of its challenger, which may be the next champion."""
        self._ended = values

    def succeed(self, value: float) -> None:
        """The challenger that ended last is the champion; `value` is the mean of its runs."""
        self.champion = value
        runs = self._ended
        own = bool(runs) and math.isclose(math.fsum(runs) / len(runs), value, rel_tol=1e-9, abs_tol=1e-12)
        self.noise.restart_pool(value, len(runs) if own else 1)

    def turn_noisy(self, first: float, second: float) -> None:
        """One program gave two values on what looked like a deterministic metric: begin anew in noise mode."""
        self.mode = "noise"
        self.noise.forget()
        self.noise.add_repeat(first, second)
