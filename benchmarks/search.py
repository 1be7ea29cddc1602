"""What `search` gains per evaluation, against Optuna's TPESampler driven by hand and against random values.

    python benchmarks/search.py                      synthetic problems and the four examples
    python benchmarks/search.py --synthetic          only those that cost no time
    python benchmarks/search.py --only charlm --example-repetitions 5
    python benchmarks/search.py --proposals          what a proposal costs

`search` is the real `SearchAuthor` behind the real `Judge`: the baseline's six measurements, confirmations of keeps and
runs of the champion all count as evaluations; settings are written into the file and found there again. TPE by hand
gets the same ranges as Optuna distributions, the baseline as its first trial, and every other evaluation for a
proposal; so does random. At the end each method's choice (the champion; the best value seen) is valued afresh: without
noise on synthetic problems, as the mean of six new seeds on the examples. `regret_vs_…` is what is left to the optimum,
as a ratio to the other method's (below 1 favours `search`); `gain_vs_…` the mean improvement on the start, likewise
(above 1 favours `search`). `author` is the same author without the judge: one evaluation each, the best value seen wins,
as by hand.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Literal

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from overnight.loop.authors.base import Brief, Exhausted, Past
from overnight.loop.authors.search import SearchAuthor
from overnight.loop.judge import Judge, JudgeSettings, Verdict
from overnight.loop.knobs import Knob, Value, find_all_knobs, set_knobs
from overnight.loop.record.experiment import Status
from searching.problems import PROBLEMS, Example, Problem, Synthetic

Method = Literal["search", "author", "tpe", "random"]
METHODS: tuple[Method, ...] = ("search", "author", "tpe", "random")
# Regret below a thousandth of the start's is a tie: nobody would go on for it.
TIE = 1e-3


def asked(
    problem: Problem, n: int, seed: int, champion: bytes, champion_n: int, history: list[Past], noise: float
) -> Brief:
    return Brief(
        n=n,
        seed=seed,
        metric="loss",
        direction=problem.direction,
        champion={problem.path: champion},
        champion_n=champion_n,
        visible={problem.path: champion},
        executable=frozenset(),
        history=history,
        pending=(),
        instructions="",
        findings=(),
        noise=noise,
        budget={"experiments": None, "seconds": None},
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
        brief = asked(problem, n, repetition, data, champion_n, history, judge.noise().sd)
        try:
            proposal = author.propose(brief)
        except Exhausted:
            return data
        changed = proposal.files[problem.path]
        assert changed is not None
        if changed in seen:
            raise AssertionError("a repeat was proposed")
        seen.add(changed)
        examination = judge.open(n, scout=proposal.scout)
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


def unjudged(problem: Problem, repetition: int) -> bytes:
    """The best value seen if each proposal of the author is measured once and any gain is kept."""
    data, champion_n, best = problem.start, 0, math.nan
    history: list[Past] = []
    knobs: Mapping[str, Value] = {knob.id: knob.value for knob in find_all_knobs({problem.path: data})}
    changed, author = data, SearchAuthor()
    for n in range(problem.evaluations):
        if n:
            proposal = author.propose(asked(problem, n, repetition, data, champion_n, history, 0.0))
            new = proposal.files[problem.path]
            assert new is not None
            changed, knobs = new, proposal.knobs
        value = problem.measure(changed, repetition * 10**6 + n)
        failed = math.isnan(value)
        status: Status = "crash" if failed else "discard" if n else "baseline"
        history.append(Past(n, champion_n, "search", status, "", "", None if failed else value, None, 1, knobs))
        if not failed and (math.isnan(best) or (value < best) == (problem.direction == "minimize")):
            best, data, champion_n = value, changed, n
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
    if method == "search":
        data = search(problem, repetition)
    else:
        data = unjudged(problem, repetition) if method == "author" else by_hand(problem, repetition, method)
    seconds = time.perf_counter() - begin
    return index, method, repetition, problem.true(data), seconds


def ratio(ours: np.ndarray, theirs: np.ndarray) -> list[float]:
    """Geometric mean of paired ratios with a 95 % bootstrap interval."""
    logs = np.log(np.maximum(ours, TIE)) - np.log(np.maximum(theirs, TIE))
    rng = np.random.default_rng(0)
    means = logs[rng.integers(len(logs), size=(4000, len(logs)))].mean(axis=1)
    return [round(math.exp(value), 3) for value in (logs.mean(), *np.quantile(means, [0.025, 0.975]))]


def ratio_of_means(ours: np.ndarray, theirs: np.ndarray) -> list[float]:
    """Mean over mean with a 95 % bootstrap interval, the repetitions of both sides drawn independently."""
    rng = np.random.default_rng(0)
    above, below = (each[rng.integers(len(each), size=(4000, len(each)))].mean(axis=1) for each in (ours, theirs))
    low, high = np.quantile(above / np.maximum(below, 1e-12), [0.025, 0.975])
    return [round(float(value), 3) for value in (ours.mean() / max(float(theirs.mean()), 1e-12), low, high)]


def report(problem: Problem, values: Mapping[Method, np.ndarray]) -> dict[str, object]:
    """What was found on one problem, and how `search` compares."""
    start = problem.true(problem.start)
    sign = 1 if problem.direction == "minimize" else -1
    gains = {method: sign * (start - each) for method, each in values.items()}
    others = [method for method in values if method != "search"]
    found: dict[str, object] = {
        "evaluations": problem.evaluations,
        "repetitions": len(values["search"]),
        "start": start,
        "median": {method: float(np.median(each)) for method, each in values.items()},
        "mean": {method: float(each.mean()) for method, each in values.items()},
        "sd": {method: float(each.std()) for method, each in values.items()},
    }
    if isinstance(problem, Synthetic):
        left = {method: each / start for method, each in values.items()}
        return found | {f"regret_vs_{other}": ratio(left["search"], left[other]) for other in others}
    return found | {f"gain_vs_{other}": ratio_of_means(gains["search"], gains[other]) for other in others}


def proposals() -> dict[str, float]:
    """Milliseconds of processor time for one proposal, by how many results there are, on the 11 knobs of charlm.

    The record grows by what is proposed, valued by a made-up bowl with noise, as in a run that never stops.
    """
    problem = next(each for each in PROBLEMS if each.name == "charlm")
    knobs = {knob.id: knob for knob in find_all_knobs({problem.path: problem.start})}
    rng = np.random.default_rng(0)

    def value(at: Mapping[str, Value]) -> float:
        places = [
            knob.choices.index(at[name]) / len(knob.choices)
            if knob.choices
            else (float(at[name]) - knob.low) / (knob.high - knob.low)
            for name, knob in knobs.items()
        ]
        return sum((place - 0.4) ** 2 for place in places) + 0.05 * float(rng.standard_normal())

    start = {name: knob.value for name, knob in knobs.items()}
    history = [Past(0, None, "person", "baseline", "", "", value(start), None, 5, start)]
    author = SearchAuthor()
    spent: list[float] = []
    for n in range(1, 1001):
        brief = asked(problem, n, 0, problem.start, 0, history, 0.05)
        begin = time.process_time()
        proposal = author.propose(brief)
        spent.append(1000 * (time.process_time() - begin))
        history.append(Past(n, 0, "search", "discard", "", "", value(proposal.knobs), None, 1, proposal.knobs))
    spans = ((20, 100), (100, 300), (300, 600), (600, 1000))
    return {f"{low} to {high}": round(float(np.mean(spent[low:high])), 2) for low, high in spans}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthetic", action="store_true", help="without the examples")
    parser.add_argument("--examples", action="store_true", help="only the examples")
    parser.add_argument("--only", help="one problem")
    parser.add_argument("--repetitions", type=int, default=20, help="of synthetic problems")
    parser.add_argument("--example-repetitions", type=int, default=6)
    parser.add_argument("--author", action="store_true", help="the author without the judge, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--proposals", action="store_true", help="only what a proposal costs")
    options = parser.parse_args()
    if options.proposals:
        print(json.dumps({"benchmark": "search", "ms_per_proposal": proposals()}))
        return
    chosen = [
        index
        for index, problem in enumerate(PROBLEMS)
        if options.only in (None, problem.name)
        and not (options.synthetic and isinstance(problem, Example))
        and not (options.examples and isinstance(problem, Synthetic))
    ]
    repetitions = {
        index: options.repetitions if isinstance(PROBLEMS[index], Synthetic) else options.example_repetitions
        for index in chosen
    }
    methods = [method for method in METHODS if method != "author" or options.author]
    tasks = [
        (index, method, r)
        for r in range(max(repetitions.values()))
        for index in chosen
        for method in methods
        if r < repetitions[index]
    ]
    found: dict[tuple[int, Method], dict[int, float]] = {}
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for index, method, repetition, value, seconds in pool.imap_unordered(one, tasks):
            found.setdefault((index, method), {})[repetition] = value
            print(f"{PROBLEMS[index].name} {method} {repetition}: {value:.6g} in {seconds:.1f} s", file=sys.stderr)
    problems = {
        PROBLEMS[index].name: report(
            PROBLEMS[index],
            {method: np.array([found[index, method][r] for r in range(repetitions[index])]) for method in methods},
        )
        for index in chosen
    }
    print(json.dumps({"benchmark": "search", "interval": "95 % bootstrap", "problems": problems}))


if __name__ == "__main__":
    main()
