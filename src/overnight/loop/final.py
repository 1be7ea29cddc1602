"""The end of a run: baseline and champion measured afresh, in pairs, on seeds that nobody used; then the holdout."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from overnight.loop.baseline import Make
from overnight.loop.evaluation.engine import Batch, Engine, Task
from overnight.loop.evaluation.measured import Measured
from overnight.loop.judge.claim import Claim, claim, final_plan
from overnight.loop.night import Night

TICK_S = 0.5
# A pair whose run crashes is measured on another seed, this many times over in all.
SPARE = 2
HOLDOUT_SEEDS = 3


@dataclass(frozen=True)
class Final:
    """What may be said of a run.

    Attributes:
        claim: the gain with its 95 % interval; None if nothing was kept, or too many runs crashed.
        baseline: mean of the baseline's final runs, metric units; None if it was not measured.
        champion: likewise.
        crashed: final runs that gave no number.
        holdout: mean holdout score of `baseline` and `champion`, where the arena has a holdout.
    """

    claim: Claim | None
    baseline: float | None = None
    champion: float | None = None
    crashed: int = 0
    holdout: Mapping[str, float | None] | None = None

    def encoded(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def measure_final(night: Night, engine: Engine, make: Make) -> Final | None:
    """Measure what the report will claim; None if the run was stopped meanwhile.

    Args:
        night: the run, all experiments ended.
        engine: idle.
        make: turns what was measured into a record.
    """
    holdout = _holdout(night, engine, make)
    if night.stop.is_set():
        return None
    champion = night.champion
    if champion is None or champion.n == 0:
        return Final(None, holdout=holdout)
    wanted = final_plan(night.judge.mode)
    known = _pairs(night)
    crashed = 0
    tried = len(known) + sum(1 for item in night.measurements if item.role == "final" and item.value is None)
    while len(known) < wanted and tried < wanted * (1 + SPARE):
        batches = {}
        for k in range(tried, tried + wanted - len(known)):
            seed = night.seed(k, "final")
            tasks = (Task(night.base_tree, night.base_files, seed), Task(champion.tree, night.champion_files, seed))
            # Alternating which goes first takes out what drifts between the two.
            batches[k] = tasks if k % 2 == 0 else tasks[::-1]
            engine.submit(Batch(k, batches[k]))
        tried += len(batches)
        for k, task, slot, measured in _results(engine, batches):
            item = make(
                0 if task.tree == night.base_tree else champion.n,
                "final",
                task.tree,
                task.seed,
                slot,
                measured,
                {"k": k},
            )
            night.record.add_measurements(night.run, [item])
            night.measurements.append(item)
            crashed += item.value is None
        if night.stop.is_set():
            return None
        known = _pairs(night)
    if len(known) < wanted:
        return Final(None, crashed=crashed, holdout=holdout)
    before, after = zip(*known.values(), strict=True)
    gain = claim(before, after, direction=night.arena.front.direction, mode=night.judge.mode, sd=night.judge.noise().sd)
    return Final(gain, math.fsum(before) / wanted, math.fsum(after) / wanted, crashed, holdout)


def _pairs(night: Night) -> dict[int, tuple[float, float]]:
    values: dict[int, dict[str, float]] = {}
    for item in night.measurements:
        if item.role == "final" and item.value is not None:
            values.setdefault(item.ask["k"], {})[item.tree] = item.value
    champion = night.champion_tree
    whole = {k: pair for k, pair in values.items() if night.base_tree in pair and champion in pair}
    return {k: (pair[night.base_tree], pair[champion]) for k, pair in sorted(whole.items())}


def _holdout(night: Night, engine: Engine, make: Make) -> dict[str, float | None] | None:
    command, champion = night.arena.front.holdout, night.champion
    if not command:
        return None
    seeds = 1 if night.judge.mode == "deterministic" else HOLDOUT_SEEDS
    states = {"baseline": (0, night.base_tree, night.base_files)}
    if champion is not None and champion.n:
        states["champion"] = (champion.n, champion.tree, night.champion_files)
    batches: dict[int, tuple[Task, ...]] = {}
    names: dict[int, str] = {}
    for name, (_, tree, files) in states.items():
        for k in range(seeds):
            number = len(batches)
            names[number] = name
            batches[number] = (Task(tree, files, night.seed(k, "holdout"), command),)
            engine.submit(Batch(number, batches[number]))
    values: dict[str, list[float]] = {name: [] for name in states}
    for number, task, slot, measured in _results(engine, batches):
        name = names[number]
        item = make(states[name][0], "holdout", task.tree, task.seed, slot, measured, {"k": number})
        night.record.add_measurements(night.run, [item])
        if item.value is not None:
            values[name].append(item.value)
    means = {name: math.fsum(found) / len(found) if found else None for name, found in values.items()}
    return {"champion": means["baseline"], **means} if "champion" not in means else means


def _results(engine: Engine, batches: Mapping[int, tuple[Task, ...]]) -> list[tuple[int, Task, int, Measured]]:
    found: list[tuple[int, Task, int, Measured]] = []
    waiting = set(batches)
    while waiting:
        for done in engine.collect(TICK_S):
            if done.failure is not None:
                raise done.failure
            waiting.discard(done.id)
            for task, measured in zip(batches[done.id], done.results, strict=False):
                if measured.error != "cancelled":
                    found.append((done.id, task, done.slot, measured))
    return found
