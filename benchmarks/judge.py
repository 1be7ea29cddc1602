"""How often the judge keeps nothing-changes, how often it finds real ones, and what that costs.

Drives the real `Judge` through simulated nights of 300 challengers. σ is the standard deviation of one measurement.

    python benchmarks/judge.py            1,000 nights per setting
    python benchmarks/judge.py --quick    100
    python benchmarks/judge.py --only t4  one setting

Every night starts with the baseline's six runs. All 300 challengers are null: the champion's own program again. At
four moments (experiment 5, 150, 150 just after a gain of 2 σ was kept, and 300) a copy of the judge also meets one
challenger of each of 1, 2 and 3 σ, which gives the power from just that state. A false keep changes the champion, as in
a run. `kept_at_2_sigma` says how the verdicts of challengers that are truly 2 σ better, and were kept, compare with the
truth; `claims` how often the 95 % interval of a claimed gain, from fresh pairs, covers it.
"""

import argparse
import copy
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from overnight.loop.judge import Ask, Judge, JudgeSettings, Verdict, claim, final_plan

NIGHT = 300
PROBES = {5: ("early",), 150: ("middle", "after a keep"), 300: ("late",)}
MOMENTS = [moment for moments in PROBES.values() for moment in moments]
EFFECTS = (1.0, 2.0, 3.0)
# The keep before the probe "after a keep": measured and selected as any other.
KEPT = 2.0
LOGNORMAL = 0.8


def normal(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.standard_normal(size)


def student4(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.standard_t(4, size) / math.sqrt(2)


def exponential(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.standard_exponential(size) - 1


def lognormal(rng: np.random.Generator, size: int) -> np.ndarray:
    mean = math.exp(LOGNORMAL**2 / 2)
    return (rng.lognormal(0, LOGNORMAL, size) - mean) / (mean * math.sqrt(math.expm1(LOGNORMAL**2)))


def discrete(rng: np.random.Generator, size: int) -> np.ndarray:
    """Correct answers out of ten, at 70 %."""
    return (rng.binomial(10, 0.7, size) - 7) / math.sqrt(2.1)


@dataclass(frozen=True)
class Setting:
    """One kind of night.

    `linear` and `walk` are per measurement, in σ; `noisy` is the share of challengers with twice the noise; `rho` the
    part of the variance that both sides share on a seed; `flip` turns the noise's long tail towards better. Where
    `gains` is not 0, one challenger in so many is 3 σ better and, once kept, the next champion; the others are null.
    """

    name: str
    noise: Callable[[np.random.Generator, int], np.ndarray]
    flip: bool = False
    noisy: float = 0.0
    linear: float = 0.0
    walk: float = 0.0
    rho: float = 0.0
    gains: int = 0


SETTINGS = (
    Setting("normal", normal),
    Setting("t4", student4),
    Setting("lognormal, tail to better", lognormal, flip=True),
    Setting("discrete", discrete),
    Setting("10 % at twice the noise", normal, noisy=0.1),
    Setting("linear drift 0.003", normal, linear=0.003),
    Setting("random walk 0.03", normal, walk=0.03),
    Setting("pairs, rho 0.5", normal, rho=0.5),
    Setting("pairs, rho 0.9", normal, rho=0.9),
    Setting("linear drift 0.01", normal, linear=0.01),
    Setting("random walk 0.1", normal, walk=0.1),
    Setting("exponential, tail to better", exponential, flip=True),
    Setting("lognormal, tail to worse", lognormal),
    Setting("pairs, rho 0.9, t4", student4, rho=0.9),
    Setting("normal, one in five a gain", normal, gains=5),
    Setting("random walk 0.03, one in five a gain", normal, walk=0.03, gains=5),
)


class World:
    """The arena of one night. The metric is minimised; the champion's true value is 100 plus drift."""

    def __init__(self, setting: Setting, rng: np.random.Generator) -> None:
        self.setting = setting
        self._noise = self._stream(rng)
        self.seeds: dict[int, float] = {}
        self._rng = rng
        self.level = 0.0
        self.measured = {"challenger": 0, "champion": 0}

    def measure(self, ask: Ask, effect: float, scale: float) -> float:
        setting = self.setting
        self.level += setting.linear
        if setting.walk:
            self.level += setting.walk * float(self._rng.standard_normal())
        noise = next(self._noise)
        if setting.rho:
            if ask.seed_index not in self.seeds:
                self.seeds[ask.seed_index] = next(self._noise)
            noise = math.sqrt(1 - setting.rho) * noise + math.sqrt(setting.rho) * self.seeds[ask.seed_index]
        self.measured[ask.side] += 1
        better = self.level + (effect + scale * noise if ask.side == "challenger" else noise)
        return 100.0 - better

    def _stream(self, rng: np.random.Generator) -> Iterator[float]:
        sign = 1.0 if self.setting.flip else -1.0
        while True:
            yield from (sign * self.setting.noise(rng, 500)).tolist()


@dataclass
class Night:
    """What one night showed."""

    false_keeps: float = 0  # per 300 nulls
    challenger_runs: float = 0  # per null
    champion_runs: float = 0
    most_runs: int = 0
    found: dict[tuple[str, float], bool] = field(default_factory=dict)
    kept: list[tuple[float, bool]] = field(default_factory=list)


def examine(judge: Judge, world: World, n: int, effect: float = 0.0, scale: float = 1.0) -> Verdict:
    examination = judge.open(n)
    while isinstance(asks := examination.next(), list):
        for ask in asks:
            examination.add(ask, world.measure(ask, effect, scale))
    return asks


def probe(judge: Judge, world: World, n: int, moment: str, effect: float, seen: Night) -> None:
    """One challenger that is `effect` better, met by a copy of `judge`; the world goes on as if nothing had been."""
    judge = copy.deepcopy(judge)
    measured, level = dict(world.measured), world.level
    if moment == "after a keep":
        while not (better := examine(judge, world, n, KEPT)).keep:
            world.seeds.clear()
        assert better.metric is not None
        judge.champion_changed(better.metric)
        world.level += KEPT
        world.seeds.clear()
    verdict = examine(judge, world, n, effect)
    seen.found[moment, effect] = verdict.keep
    seen.most_runs = max(seen.most_runs, int(verdict.evidence["runs"] or 0))
    if verdict.keep and effect == 2.0:
        assert verdict.delta is not None and verdict.low is not None and verdict.high is not None
        seen.kept.append((verdict.delta - effect, verdict.low <= effect <= verdict.high))
    world.measured, world.level = measured, level
    world.seeds.clear()


def night(job: tuple[int, int]) -> Night:
    setting = SETTINGS[job[0]]
    # The constants were chosen while watching other seeds than these.
    rng = np.random.default_rng([20261130, job[1], job[0]])
    world = World(setting, rng)
    judge = Judge(JudgeSettings("minimize"))
    for ask in judge.baseline_plan():
        judge.add_baseline(ask, world.measure(ask, 0, 1))
    world.measured = {"challenger": 0, "champion": 0}
    seen = Night()
    for n in range(1, NIGHT + 1):
        for moment in PROBES.get(n, ()):
            for effect in EFFECTS:
                probe(judge, world, n, moment, effect, seen)
        if setting.gains and n % setting.gains == 0:
            measured = dict(world.measured)
            verdict = examine(judge, world, n, 3.0)
            world.measured = measured
            if verdict.keep:
                assert verdict.metric is not None
                world.level += 3.0
                judge.champion_changed(verdict.metric)
            continue
        scale = 2.0 if setting.noisy and rng.random() < setting.noisy else 1.0
        verdict = examine(judge, world, n, 0.0, scale)
        seen.most_runs = max(seen.most_runs, int(verdict.evidence["runs"] or 0))
        if verdict.keep:
            assert verdict.metric is not None
            seen.false_keeps += 1
            judge.champion_changed(verdict.metric)
    nulls = NIGHT - (NIGHT // setting.gains if setting.gains else 0)
    seen.false_keeps *= NIGHT / nulls
    seen.challenger_runs = world.measured["challenger"] / nulls
    seen.champion_runs = world.measured["champion"] / nulls
    return seen


def mean(values: list[float]) -> tuple[float, float]:
    """Mean and its Monte-Carlo standard error."""
    data = np.asarray(values, float)
    return round(float(data.mean()), 4), round(float(data.std(ddof=1) / math.sqrt(len(data))), 4)


def summary(nights: list[Night]) -> dict[str, object]:
    false, error = mean([night.false_keeps for night in nights])
    power: dict[str, object] = {}
    for effect in EFFECTS:
        by_moment = {
            moment: round(float(np.mean([night.found[moment, effect] for night in nights])), 4) for moment in MOMENTS
        }
        overall, spread = mean([float(np.mean([night.found[m, effect] for m in MOMENTS])) for night in nights])
        power[f"{effect:g} sigma"] = {"all": overall, "se": spread, **by_moment}
    kept = [found for night in nights for found in night.kept]
    return {
        "nights": len(nights),
        "false_keeps": false,
        "se": error,
        "power": power,
        "kept_at_2_sigma": {
            "count": len(kept),
            "mean_excess": mean([excess for excess, _ in kept])[0],
            "interval_covers": mean([float(covered) for _, covered in kept])[0],
        },
        "challenger_runs_per_null": mean([night.challenger_runs for night in nights])[0],
        "champion_runs_per_null": mean([night.champion_runs for night in nights])[0],
        "most_challenger_runs": max(night.most_runs for night in nights),
    }


def coverage(count: int) -> dict[str, object]:
    """How often the interval of `claim` covers a true gain of 1 σ, for `count` claims of each kind of noise."""
    pairs = final_plan("noise")
    found: dict[str, object] = {}
    for index, setting in enumerate(SETTINGS):
        if setting.noisy or setting.linear or setting.walk or setting.gains:
            continue
        rng = np.random.default_rng([7, index])
        own, shared = math.sqrt(1 - setting.rho), math.sqrt(setting.rho)
        covered = []
        for _ in range(count):
            seeds = shared * setting.noise(rng, pairs)
            before = 100 + seeds + own * setting.noise(rng, pairs)
            after = 99 + seeds + own * setting.noise(rng, pairs)
            made = claim(before.tolist(), after.tolist(), direction="minimize", mode="noise", sd=1.0)
            covered.append(float(made.low <= 1 <= made.high))
        found[setting.name] = mean(covered)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 nights per setting instead of 1,000")
    parser.add_argument("--nights", type=int, help="nights per setting")
    parser.add_argument("--only", help="settings whose name contains this")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    chosen = parser.parse_args()
    count = chosen.nights or (100 if chosen.quick else 1000)
    started = time.monotonic()
    results: dict[str, object] = {}
    with multiprocessing.Pool(chosen.jobs) as pool:
        for index, setting in enumerate(SETTINGS):
            if chosen.only and chosen.only not in setting.name:
                continue
            results[setting.name] = summary(pool.map(night, [(index, seed) for seed in range(count)], chunksize=5))
            print(f"{time.monotonic() - started:6.1f}s {setting.name}: {results[setting.name]}", file=sys.stderr)
    claims = coverage(20 * count)
    print(json.dumps({"benchmark": "judge", "settings": results, "claims": {"claims": 20 * count, "covered": claims}}))


if __name__ == "__main__":
    main()
