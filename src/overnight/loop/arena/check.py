"""`overnight arena check`: is this arena fit to be left alone? Measures the baseline and says what would go wrong."""

import math
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from overnight.core.errors import UsageError
from overnight.loop.arena.arena import PROGRAM, Arena
from overnight.loop.arena.programs import lacking
from overnight.loop.evaluation.environment import prepare
from overnight.loop.evaluation.evaluate import Evaluator
from overnight.loop.evaluation.measured import Measured
from overnight.loop.judge.claim import detectable_effect
from overnight.loop.judge.judge import Judge
from overnight.loop.knobs import find_all_knobs
from overnight.loop.night import judge_settings
from overnight.loop.place import Isolation
from overnight.loop.start import check_files, share_cpus
from overnight.sandbox import open_sandbox
from overnight.store.git.repository import Files, Repository
from overnight.store.git.snapshot import snapshot

# Metrics that end somewhere: at a bound that many share, a success can only read as a discard.
_BOUNDS = (0.0, 1.0, 100.0)


@dataclass(frozen=True)
class CheckUp:
    """What was found. Metric units where nothing else is said.

    Attributes:
        ok: a run can start and its verdicts mean something.
        metric: its name.
        values: the baseline's measurements.
        noise: standard deviation of one measurement over seeds; 0 if all are equal; None if it cannot be measured.
        deterministic: all measurements agree, seeds and repetition.
        repeats: the same seed gave the same value twice.
        seconds: mean wall clock of one evaluation.
        detectable_effect: smallest true improvement that is kept four times out of five.
        integrity: `separate` or `shared`.
        saturated: the metric stands at a bound it cannot pass in its direction.
        editable_evaluator: scripts that measure or check and that authors may change, as in karpathy/autoresearch.
        knobs: what the `search` author would turn.
        experiments_per_hour: with one worker, going by what a null challenger costs.
        problems: what keeps a run from meaning anything.
        advice: what would make it better.
    """

    ok: bool
    metric: str
    direction: str
    values: Sequence[float]
    noise: float | None
    deterministic: bool | None
    repeats: bool | None
    seconds: float | None
    detectable_effect: float | None
    integrity: str
    sandbox: str
    saturated: bool
    editable_evaluator: Sequence[str]
    knobs: Sequence[str]
    experiments_per_hour: float | None
    problems: Sequence[str] = field(default_factory=tuple)
    advice: Sequence[str] = field(default_factory=tuple)


# Challenger runs of a change that does nothing, from the simulations in docs/judge.md, and the champion's beside them.
_RUNS_PER_NULL = 6.0


def check(
    arena: Arena, environments: Path, isolation: Isolation = "auto", say: Callable[[str], None] = lambda _: None
) -> CheckUp:
    """Measure the baseline of `arena` as a run would, and look for what would spoil one.

    Args:
        arena: its front matter is already valid.
        environments: where built environments are kept.
        isolation: as for a run.
        say: told about progress.

    Raises:
        ArenaError: files are missing, or `setup` failed.
        IsolationMissing: no sandbox can be had.
    """
    sandbox = open_sandbox(isolation)
    problems: list[str] = []
    advice: list[str] = []
    with Repository.open(arena.folder) as repository, tempfile.TemporaryDirectory(prefix="overnight-check-") as scratch:
        taken = snapshot(repository, include=[PROGRAM, *arena.named_files()])
        check_files(arena, taken.files)
        contents = {
            path: repository.read_blob(entry.oid) for path, entry in taken.files.items() if entry.mode[:3] == "100"
        }
        fixed = {path: data for path, data in contents.items() if path not in arena.hidden and path not in arena.data}
        environment = prepare(arena, fixed, environments, sandbox, say)
        evaluator = Evaluator(
            arena, repository, taken.files, sandbox, Path(scratch) / "check", environment, cpus=share_cpus(1)
        )
        judge = Judge(judge_settings(arena))
        plan = judge.baseline_plan()
        measured: list[Measured] = []
        for k, ask in enumerate(plan):
            say(f"measuring the baseline, {k + 1} of {len(plan)}")
            measured.append(evaluator.measure(taken.files, ask.seed_index + 1, 0))
            if measured[-1].value is None:
                break
        if len(measured) == len(plan) and measured[-1].value is not None:
            say("trying its checks")
            _try_commands(arena, evaluator, taken.files, problems)
        evaluator.close()
    editable = {path: data for path, data in fixed.items() if path in arena.editable}
    try:
        knobs = [knob.id for knob in find_all_knobs(editable)]
    except UsageError as problem:
        knobs = []
        problems.append(str(problem))
    values = [item.value for item in measured if item.value is not None]
    _judge_measurements(arena, measured, problems, advice)
    whole = len(values) == len(plan)
    noise = deterministic = repeats = smallest = seconds = None
    if whole:
        for ask, value in zip(plan, values, strict=True):
            judge.add_baseline(ask, value)
        deterministic = judge.mode == "deterministic"
        repeats = values[-1] == values[0]
        noise = 0.0 if deterministic else statistics.stdev(values[:-1])
        smallest = arena.front.min_effect if deterministic else detectable_effect(noise, judge.settings)
        seconds = math.fsum(item.seconds for item in measured) / len(measured)
        _judge_noise(arena, noise, deterministic, repeats, advice)
    saturated = whole and _saturated(arena, values)
    if saturated and values[0] == arena.front.target:
        problems.append(f"{arena.metric} is at its target already, {values[0]:g}: a run would end at once")
    elif saturated:
        advice.append(
            f"{arena.metric} is exactly {values[0]:g}; if it cannot pass that, every success reads as a discard"
        )
    ours = _editable_evaluator(arena, taken.files)
    if ours:
        advice.append(
            f"authors may change {', '.join(ours)}, which measures or checks: unless that is the artifact itself, "
            "take it out of `editable`"
        )
    if not knobs:
        advice.append("`search` finds no constants to turn; add some, or bring an author that writes code")
    if arena.integrity == "shared":
        advice.append(
            "artifact and evaluator share a process, so a candidate can fake the number; "
            "`produce` with `score` keeps them apart"
        )
    per_hour = None if not seconds else 3600 / (seconds * (1 if deterministic else _RUNS_PER_NULL))
    return CheckUp(
        ok=whole and not problems,
        metric=arena.metric,
        direction=arena.front.direction,
        values=values,
        noise=noise,
        deterministic=deterministic,
        repeats=repeats,
        seconds=seconds,
        detectable_effect=smallest,
        integrity=arena.integrity,
        sandbox=sandbox.name,
        saturated=saturated,
        editable_evaluator=ours,
        knobs=knobs,
        experiments_per_hour=per_hour,
        problems=problems,
        advice=advice,
    )


def _editable_evaluator(arena: Arena, files: Files) -> list[str]:
    """The script of each command that decides, the first file that it names, where authors may change it."""
    front = arena.front
    found = set()
    for command in (front.score, front.evaluate, front.holdout, *front.checks):
        words = (word.removeprefix("./") for word in re.split(r"[\s'\"]+", command or ""))
        script = next((word for word in words if word in files), None)
        if script is not None and script in arena.editable:
            found.add(script)
    return sorted(found)


def _judge_measurements(arena: Arena, measured: Sequence[Measured], problems: list[str], advice: list[str]) -> None:
    for item in measured:
        if item.value is None:
            said = (item.scorer_error or item.error).strip()
            problems.append(
                f"an evaluation of the baseline ended as {item.outcome}: {said[-600:] or 'it said nothing'}"
            )
            if (todo := lacking(arena)) and todo not in problems:
                problems.append(todo)
    longest = max(item.seconds for item in measured)
    if longest > 0.8 * arena.timeout_s:
        advice.append(f"an evaluation took {longest:.2f} s of the {arena.timeout_s:g} s allowed; raise `timeout`")


def _try_commands(arena: Arena, evaluator: Evaluator, files: Files, problems: list[str]) -> None:
    """What decides over keeps, and what is measured beside them, has to work on the baseline."""
    for command in arena.front.checks:
        if said := evaluator.check(files, command, 0):
            problems.append(f"the baseline fails a check, and so may every change: {command}: {said.strip()[-300:]}")
    if arena.front.holdout:
        held = evaluator.measure(files, 1, 0, command=arena.front.holdout)
        if held.value is None:
            said = (held.scorer_error or held.error).strip()[-300:]
            problems.append(f"the holdout gives no {arena.metric} for the baseline: {said or held.outcome}")


def _judge_noise(arena: Arena, noise: float, deterministic: bool, repeats: bool, advice: list[str]) -> None:
    if deterministic and arena.front.holdout is None:
        advice.append("the metric is the same for every seed; a holdout would show whether gains carry over")
    if not deterministic and not repeats:
        advice.append("the same seed gives different values: read $OVERNIGHT_SEED, or expect more runs per experiment")
    if not deterministic and 0 < arena.front.min_effect < noise / 4:
        advice.append(
            f"min_effect {arena.front.min_effect:g} is far below the noise {noise:.3g}; "
            "most of the time goes into telling such gains apart"
        )


def _saturated(arena: Arena, values: Sequence[float]) -> bool:
    if arena.front.target is not None and arena.front.target in values:
        return True
    if len(set(values)) > 1:
        return False
    value = values[0]
    return value in (_BOUNDS[1:] if arena.front.direction == "maximize" else _BOUNDS[:1])
