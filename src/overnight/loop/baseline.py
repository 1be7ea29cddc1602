"""The state a run starts from, measured on all slots at once as the run will measure; it is experiment 0."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from overnight.core.errors import ArenaError
from overnight.loop.arena.programs import lacking
from overnight.loop.evaluation.engine import Batch, Done, Engine, Task
from overnight.loop.evaluation.measured import Measured
from overnight.loop.night import Night
from overnight.loop.record.experiment import Experiment, Measurement, Role
from overnight.loop.record.history import now

Make = Callable[[int, Role, str, int | None, int, Measured, Mapping[str, Any]], Measurement]


def measure_baseline(
    night: Night, engine: Engine, wait: Callable[[], Sequence[Done]], make: Make
) -> list[Measurement] | None:
    """The measurements of the judge's plan, those of an earlier stretch taken over; None if the run was stopped.

    Args:
        night: the run.
        engine: idle.
        wait: collects what has ended.
        make: turns what was measured into a record.

    Raises:
        ArenaError: the baseline cannot be measured; the message has the scorer's own words, for the person.
    """
    plan = night.judge.baseline_plan()
    known = {item.ask["k"]: item for item in night.measurements if item.role == "baseline"}
    for k, ask in enumerate(plan):
        if k not in known:
            engine.submit(Batch(k, (Task(night.base_tree, night.base_files, night.seed(ask.seed_index)),)))
    while len(known) < len(plan):
        for done in wait():
            for measured in done.results:
                if measured.error == "cancelled":
                    continue
                seed = night.seed(plan[done.id].seed_index)
                item = make(0, "baseline", night.base_tree, seed, done.slot, measured, {"k": done.id})
                night.record.add_measurements(night.run, [item])
                known[done.id] = item
                if measured.outcome != "ok":
                    raise ArenaError(
                        f"the baseline cannot be measured ({measured.outcome}): "
                        f"{measured.scorer_error or measured.error or 'no output'}".strip(),
                        hint=lacking(night.arena) or f"mend it, then see `overnight arena check {night.arena.folder}`",
                    )
        if night.stop.is_set():
            return None
    measurements = [known[k] for k in range(len(plan))]
    for ask, item in zip(plan, measurements, strict=True):
        assert item.value is not None
        night.judge.add_baseline(ask, item.value)
    return measurements


def baseline_experiment(night: Night, measurements: Sequence[Measurement]) -> Experiment:
    """Experiment 0, without its commit."""
    plan = night.judge.baseline_plan()
    values = [item.value for item in measurements if item.value is not None]
    seeds = len({ask.seed_index for ask in plan})
    exact = night.judge.mode == "deterministic"
    return Experiment(
        run=night.run,
        n=0,
        commit="",
        parent=night.base_commit,
        tree=night.base_tree,
        status="baseline",
        author="person",
        hypothesis=f"{night.arena.name} as it stands",
        metric=values[0] if exact else sum(values[:seeds]) / seeds,
        delta=None,
        reason=f"measured {len(values)} times on {seeds} seeds: {'always the same' if exact else 'noisy'}",
        seconds=sum(item.seconds for item in measurements),
        at=now(),
        detail={"knobs": night.baseline_knobs(), "notes": list(night.notes)},
        files=night.keep_files(night.base_files, {}),
        opened=0,
        closed=night.next_event(),
    )
