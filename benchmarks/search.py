"""What `search` gains per evaluation, against Optuna's TPESampler driven by hand and against random values.

    python benchmarks/search.py                      synthetic problems and the four examples
    python benchmarks/search.py --synthetic          only those that cost no time
    python benchmarks/search.py --only charlm --repetitions 5

`search` is the real `SearchAuthor` behind the real `Judge`: the baseline's six measurements, confirmations of keeps and
runs of the champion all count as evaluations; settings are written into the file and found there again. TPE by hand
gets the same ranges as Optuna distributions, the baseline as its first trial, and every other evaluation for a
proposal; so does random. At the end each method's choice (the champion; the best value seen) is valued afresh: without
noise on synthetic problems, as the mean of five new seeds on the examples. `regret` is what is left to the optimum as a
share of what was left at the start (examples: to the best value that any method found); ratios below 1 favour `search`.
"""

import argparse
import json
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from overnight.loop.authors.base import Brief, Exhausted, Past
from overnight.loop.authors.search import SearchAuthor
from overnight.loop.experiment import Direction, Status
from overnight.loop.judge import Judge, JudgeSettings, Verdict
from overnight.loop.knobs import Knob, Value, find_all_knobs, set_knobs

EXAMPLES = Path(__file__).parent.parent / "examples"
Method = Literal["search", "tpe", "random"]
METHODS: tuple[Method, ...] = ("search", "tpe", "random")
# Regret below a thousandth of the start's is a tie: nobody would go on for it.
TIE = 1e-3
FRESH_SEEDS = 5


class Problem(Protocol):
    """Something with knobs and a number."""

    @property
    def path(self) -> str: ...
    @property
    def start(self) -> bytes: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def evaluations(self) -> int: ...

    def measure(self, data: bytes, seed: int) -> float:
        """One evaluation of the file under that seed; NaN where it crashes."""
        ...

    def true(self, data: bytes) -> float:
        """What the file is worth, as exactly as can be said."""
        ...


@dataclass(frozen=True)
class Synthetic:
    """A function of knobs with a known optimum of 0; `noise` as a share of what the start has to lose."""

    name: str
    start: bytes
    loss: Callable[[Mapping[str, float | str]], float]
    noise: float = 0.0
    evaluations: int = 60
    direction: Direction = "minimize"
    path: str = "knobs.py"

    def measure(self, data: bytes, seed: int) -> float:
        rng = np.random.default_rng(seed)
        return self.true(data) + self.noise * self.true(self.start) * float(rng.standard_normal())

    def true(self, data: bytes) -> float:
        return self.loss({knob.name: knob.value for knob in find_all_knobs({self.path: data})})


@dataclass(frozen=True)
class Example:
    """An arena of `examples/`, by its own commands, with a small budget of time."""

    name: str
    path: str
    direction: Direction
    metric: str
    budget_s: float
    evaluations: int = 30

    @property
    def start(self) -> bytes:
        return (EXAMPLES / self.name / self.path).read_bytes()

    def measure(self, data: bytes, seed: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            arena = Path(folder) / self.name
            shutil.copytree(EXAMPLES / self.name, arena)
            (arena / self.path).write_bytes(data)
            environment = {**os.environ, "OVERNIGHT_BUDGET_S": str(self.budget_s), "OVERNIGHT_SEED": str(seed)}
            output = ""
            for script in ["score.py"] if self.name == "speed" else [self.path, "score.py"]:
                try:
                    done = subprocess.run(
                        [sys.executable, script], cwd=arena, env=environment, capture_output=True, text=True, timeout=60
                    )
                except subprocess.TimeoutExpired:
                    return math.nan
                if done.returncode != 0:
                    return math.nan
                output = done.stdout
        values = [line.split("=")[1] for line in output.splitlines() if line.startswith(f"METRIC {self.metric}=")]
        return float(values[0]) if values else math.nan

    def true(self, data: bytes) -> float:
        values = [self.measure(data, 10**6 + seed) for seed in range(FRESH_SEEDS)]
        return float(np.mean(values))


def bowl(at: Mapping[str, float | str]) -> float:
    """Separable, in magnitudes and shares; two knobs matter most."""
    rate, decay, width, mix = (float(at[name]) for name in ("RATE", "DECAY", "WIDTH", "MIX"))
    return (
        (math.log10(rate) + 1.6) ** 2
        + 0.3 * (math.log10(decay) + 3.2) ** 2
        + 0.2 * (math.log2(width) - 6.5) ** 2
        + 4 * (mix - 0.35) ** 2
    )


def valley(at: Mapping[str, float | str]) -> float:
    """Rosenbrock's function in three knobs: they only help together."""
    x = [float(at[name]) for name in ("A", "B", "C")]
    return math.log1p(sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(2)))


def rugged(at: Mapping[str, float | str]) -> float:
    """A bowl with some forty local optima."""
    x = [float(at[name]) - aim for name, aim in (("A", 0.62), ("B", 0.31), ("C", 0.55))]
    return sum(4 * d * d + 0.15 * (1 - math.cos(12 * d)) for d in x)


def mixed(at: Mapping[str, float | str]) -> float:
    """Rates, whole numbers, a switch and a choice, and a part of the space that crashes."""
    rate, depth, units = float(at["RATE"]), int(at["DEPTH"]), int(at["UNITS"])
    if rate * depth > 0.5:
        return math.nan
    kind = {"relu": 0.0, "tanh": 0.25, "gelu": 0.1, "step": 1.0}[str(at["KIND"])]
    return (
        0.5 * (math.log10(rate) + 1.5) ** 2
        + 0.05 * (depth - 7) ** 2
        + 0.1 * (math.log2(units) - 7.3) ** 2
        + kind
        + (0.0 if at["NORM"] else 0.3)
        + 0.02
    ) - 0.02


BOWL = b"RATE = 1e-3  # knob: 1e-4..1 log\nDECAY = 0.1  # knob: 1e-5..1 log\nWIDTH = 16  # knob: 4..512 log\n"
BOWL += b"MIX = 0.9  # knob: 0..1\n"
CUBE = b"A = -1.2  # knob: -2..2\nB = 1.0  # knob: -2..2\nC = -0.5  # knob: -2..2\n"
RUGGED = b"A = 0.05  # knob: 0..1\nB = 0.9  # knob: 0..1\nC = 0.1  # knob: 0..1\n"
MIXED = (
    b"RATE = 1e-3  # knob: 1e-4..1 log\nDEPTH = 2  # knob: 1..12\nUNITS = 16  # knob: [8, 16, 32, 64, 128, 256, 512]\n"
)
MIXED += b"KIND = 'tanh'  # knob: [relu, tanh, gelu, step]\nNORM = False\n"
PROBLEMS: tuple[Synthetic | Example, ...] = (
    Synthetic("bowl", BOWL, bowl),
    Synthetic("valley", CUBE, valley),
    Synthetic("rugged", RUGGED, rugged),
    Synthetic("mixed", MIXED, mixed),
    Synthetic("bowl, noise 2 %", BOWL, bowl, noise=0.02, evaluations=300),
    Synthetic("mixed, noise 5 %", MIXED, mixed, noise=0.05, evaluations=300),
    Example("charlm", "train.py", "minimize", "val_bpb", 0.3),
    Example("digits", "train.py", "maximize", "accuracy", 2.0, 20),
    Example("packing", "pack.py", "maximize", "sum_radii", 0.3),
    Example("speed", "primes.py", "minimize", "relative_time", 2.0, 20),
)


def search(problem: Problem, repetition: int) -> bytes:
    """The champion after a night of the real author and the real judge."""
    judge = Judge(JudgeSettings(problem.direction))
    left = problem.evaluations
    data = problem.start

    def seed(index: int) -> int:
        return repetition * 10**6 + index

    values = []
    for ask in judge.baseline_plan():
        value = problem.measure(data, seed(ask.seed_index))
        judge.add_baseline(ask, value)
        values.append(value)
        left -= 1
    author, champion_n = SearchAuthor(), 0
    known = {knob.id: knob.value for knob in find_all_knobs({problem.path: data})}
    history = [Past(0, None, "person", "baseline", "", "", float(np.mean(values[:5])), None, 5, known)]
    seen = {data}
    n = 0
    while left > 0:
        n += 1
        brief = Brief(
            n=n,
            seed=repetition,
            metric="loss",
            direction=problem.direction,
            champion={problem.path: data},
            champion_n=champion_n,
            visible={problem.path: data},
            executable=frozenset(),
            history=history,
            pending=(),
            instructions="",
            findings=(),
            noise=judge.noise().sd,
            budget={"experiments": None, "seconds": None},
        )
        try:
            proposal = author.propose(brief)
        except Exhausted:
            return data
        changed = proposal.files[problem.path]
        assert changed is not None
        if changed in seen:
            raise AssertionError("a repeat was proposed")
        seen.add(changed)
        examination = judge.open(n)
        runs: list[float] = []
        status: Status = "discard"
        while not isinstance(wanted := examination.next(), Verdict):
            for ask in wanted:
                value = problem.measure(changed if ask.side == "challenger" else data, seed(ask.seed_index))
                left -= 1
                if math.isnan(value):
                    examination.crashed(ask)
                    status = "crash"
                    break
                examination.add(ask, value)
                if ask.side == "challenger":
                    runs.append(value)
                if left <= 0:
                    return data  # what is unproven at the end is not kept
        mean = float(np.mean(runs)) if runs else None
        if wanted.keep and mean is not None:
            status, data, champion_n = "keep", changed, n
            judge.champion_changed(mean)
        history.append(Past(n, champion_n, "search", status, "", "", mean, wanted.delta, len(runs), proposal.knobs))
    return data


def by_hand(problem: Problem, repetition: int, method: Method) -> bytes:
    """The best value seen by a loop a person would write around Optuna."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    knobs = find_all_knobs({problem.path: problem.start})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler: optuna.samplers.BaseSampler = (
            optuna.samplers.TPESampler(seed=repetition)
            if method == "tpe"
            else optuna.samplers.RandomSampler(seed=repetition)
        )
        study = optuna.create_study(direction=problem.direction, sampler=sampler)
    study.enqueue_trial({knob.id: knob.value for knob in knobs})
    distributions = {knob.id: distribution(knob) for knob in knobs}
    best, data = math.nan, problem.start
    for evaluation in range(problem.evaluations):
        trial = study.ask(distributions)
        values: dict[str, Value] = dict(trial.params)
        changed = set_knobs(problem.path, problem.start, values)
        value = problem.measure(changed, repetition * 10**6 + evaluation)
        if math.isnan(value):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        study.tell(trial, value)
        if math.isnan(best) or (value < best) == (problem.direction == "minimize"):
            best, data = value, changed
    return data


def distribution(knob: Knob) -> BaseDistribution:
    if knob.choices:
        return CategoricalDistribution(knob.choices)
    if knob.kind == "int":
        return IntDistribution(int(knob.low), int(knob.high), log=knob.log)
    return FloatDistribution(knob.low, knob.high, log=knob.log)


def one(task: tuple[int, Method, int]) -> tuple[int, Method, int, float, float]:
    """True value of what a method chose on one repetition, and its seconds."""
    index, method, repetition = task
    problem = PROBLEMS[index]
    begin = time.perf_counter()
    data = search(problem, repetition) if method == "search" else by_hand(problem, repetition, method)
    seconds = time.perf_counter() - begin
    return index, method, repetition, problem.true(data), seconds


def ratio(ours: np.ndarray, theirs: np.ndarray) -> list[float]:
    """Geometric mean of paired ratios with a 95 % bootstrap interval."""
    logs = np.log(np.maximum(ours, TIE)) - np.log(np.maximum(theirs, TIE))
    rng = np.random.default_rng(0)
    means = logs[rng.integers(len(logs), size=(4000, len(logs)))].mean(axis=1)
    return [round(math.exp(value), 3) for value in (logs.mean(), *np.quantile(means, [0.025, 0.975]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthetic", action="store_true", help="without the examples")
    parser.add_argument("--only", help="one problem")
    parser.add_argument("--repetitions", type=int, default=20, help="of synthetic problems")
    parser.add_argument("--example-repetitions", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    chosen = [
        index
        for index, problem in enumerate(PROBLEMS)
        if options.only in (None, problem.name) and not (options.synthetic and isinstance(problem, Example))
    ]
    repetitions = {
        index: options.repetitions if isinstance(PROBLEMS[index], Synthetic) else options.example_repetitions
        for index in chosen
    }
    tasks = [(index, method, r) for index in chosen for r in range(repetitions[index]) for method in METHODS]
    found: dict[tuple[int, Method], dict[int, float]] = {}
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for index, method, repetition, value, seconds in pool.imap_unordered(one, tasks):
            found.setdefault((index, method), {})[repetition] = value
            print(f"{PROBLEMS[index].name} {method} {repetition}: {value:.6g} in {seconds:.1f} s", file=sys.stderr)
    report: dict[str, object] = {}
    regrets: dict[Method, list[np.ndarray]] = {method: [] for method in METHODS}
    for index in chosen:
        problem = PROBLEMS[index]
        values = [np.array([found[index, method][r] for r in range(repetitions[index])]) for method in METHODS]
        start = problem.true(problem.start)
        sign = 1 if problem.direction == "minimize" else -1
        best = 0.0 if isinstance(problem, Synthetic) else sign * min(float((sign * each).min()) for each in values)
        for method, each in zip(METHODS, values, strict=True):
            regrets[method].append(sign * (each - best) / (sign * (start - best)))
        report[problem.name] = {
            "evaluations": problem.evaluations,
            "repetitions": repetitions[index],
            "start": start,
            "median": {method: float(np.median(each)) for method, each in zip(METHODS, values, strict=True)},
            "sd": {method: float(each.std()) for method, each in zip(METHODS, values, strict=True)},
            "regret_vs_tpe": ratio(regrets["search"][-1], regrets["tpe"][-1]),
            "regret_vs_random": ratio(regrets["search"][-1], regrets["random"][-1]),
        }
    together = {method: np.concatenate(each) for method, each in regrets.items()}
    overall = {
        "regret_vs_tpe": ratio(together["search"], together["tpe"]),
        "regret_vs_random": ratio(together["search"], together["random"]),
    }
    print(json.dumps({"benchmark": "search", "interval": "95 % bootstrap", "overall": overall, "problems": report}))


if __name__ == "__main__":
    main()
