"""The rule that turns measurements into verdicts.

One `Judge` per run. It does no I/O and reads no clock or random source: the same calls in the same order give the same
verdicts. A run is resumed by replaying its measurements in order of `seq`:

- the baseline: `add_baseline(ask, value)`, the asks being those of `baseline_plan()` in order;
- an experiment: `open(n, simpler=…, scout=…)` before its first measurement, then `add(Ask(side, seed_index, stage),
  value)` for each challenger and champion run made for it, or `crashed(ask)` or `skip(ask)`; its stage is ignored;
- its end: `next()` yields the verdict again, or `close()` where the record already has one;
- a keep: `champion_changed(metric)` right after.

An experiment that was in flight goes on with `next()`. Not thread-safe: the caller holds one lock around every call,
those to `Examination` included.
"""

import math
from dataclasses import dataclass

from overnight.core.errors import UsageError
from overnight.loop.judge.examination import Examination
from overnight.loop.judge.state import RunState
from overnight.loop.judge.terms import BASELINE_SEEDS, Ask, JudgeSettings, seed_index
from overnight.loop.record.experiment import Mode


@dataclass(frozen=True)
class NoiseReport:
    """What is known about the noise, for `arena check` and the report. Metric units.

    Attributes:
        sd: standard deviation of one run; 0 in deterministic mode.
        degrees: degrees of freedom behind it.
        repeats: whether one seed, measured twice (A/A), gave one value.
        shared: correlation of two programs on one seed, one standard error below its estimate; 0 without evidence.
        drift_sd: standard deviation of the level's step per measurement that is reckoned with; below 0.5 % of `sd`
            there is no sign of drift.
        champion_runs: runs of the present champion that comparisons use.
    """

    sd: float
    degrees: int
    repeats: bool
    shared: float
    drift_sd: float
    champion_runs: int


class Judge:
    """The judge of one run."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._state = RunState(settings)
        self._baseline: list[float] = []

    @property
    def mode(self) -> Mode:
        """`deterministic` once all baseline runs agreed to the last bit and until any run disagrees; else `noise`."""
        return self._state.mode

    def baseline_plan(self) -> list[Ask]:
        """What to measure first: five seeds, and the first one again (A/A), which must give the same value twice."""
        seeds = [*range(BASELINE_SEEDS), 0]
        return [Ask("champion", seed_index(0, seed), "screen") for seed in seeds]

    def add_baseline(self, ask: Ask, value: float) -> None:
        """Take in the next measurement of `baseline_plan`, metric units. The mode is known after the last.

        A baseline that crashes is no arena to improve: the loop stops there.

        Raises:
            UsageError: `value` is NaN or infinite, or `ask` is not the next one.
        """
        plan = self.baseline_plan()
        position = len(self._baseline)
        if position >= len(plan) or plan[position].seed_index != ask.seed_index:
            raise UsageError(f"{ask} is not the next baseline run", hint="measure baseline_plan() in its order")
        if not math.isfinite(value):
            raise UsageError(f"the baseline measured {value!r}", hint="a baseline has to give a finite number")
        oriented = self._state.sign * value
        self._baseline.append(oriented)
        if len(self._baseline) < len(plan):
            self._state.add_champion(oriented)
            return
        # The repeated seed says how exactly a run repeats; it is no sixth independent run.
        self._state.noise.ticks += 1
        self._state.noise.add_repeat(self._baseline[0], oriented)
        self._state.champion = self._baseline[0]
        self._state.mode = "deterministic" if len(set(self._baseline)) == 1 else "noise"

    def open(self, n: int, *, simpler: bool = False, scout: bool = False) -> Examination:
        """Begin to examine the challenger of experiment `n` ≥ 1; several may be open at once.

        Args:
            n: number of the experiment; it sets the error it may spend and its seeds.
            simpler: the change makes the program simpler, so that `simpler_within` applies.
            scout: its author proposes many and comes back to what looked good, so it is dropped in noise unless it
                stands out at once. A keep needs as much as any other.

        Raises:
            UsageError: the baseline is not complete, or `n` is below 1.
        """
        if len(self._baseline) <= BASELINE_SEEDS:
            raise UsageError(f"experiment {n} has no complete baseline", hint="measure baseline_plan() first")
        if n < 1:
            raise UsageError(f"experiment {n} cannot be examined", hint="experiments count from 1; 0 is the baseline")
        return Examination(self._state, n, simpler, scout)

    def champion_changed(self, metric: float) -> None:
        """The challenger whose verdict was a keep is the champion from here on; `metric` is its `Verdict.metric`.

        Its own runs were selected for being good, so the pool of champion runs starts empty; until there are fresh
        ones they serve the screen, never a keep. Open examinations go on against the new champion.
        """
        self._state.succeed(self._state.sign * metric)

    def noise(self) -> NoiseReport:
        """What is known about the noise so far."""
        noise = self._state.noise
        level = noise.level()
        variance, degrees = noise.variance(level)
        sd = 0.0 if self.mode == "deterministic" else math.sqrt(variance)
        shared = max(0.0, noise.shared()[0])
        repeats = len(self._baseline) > BASELINE_SEEDS and self._baseline[-1] == self._baseline[0]
        return NoiseReport(sd, degrees, repeats, shared, sd * math.sqrt(level.track.drift), noise.pool_size)
