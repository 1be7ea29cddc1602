"""`overnight arena fit`: is a loop the right tool at all?

Four conditions, each with its evidence: the task recurs, its verification is automatic, time and money suffice for
enough experiments, and the tools it needs are there. One that fails, or that nobody can answer, is enough to say no: a
plain prompt, asked once and read by a person, then costs less and does as well.
"""

import math
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from overnight.core.clock import format_duration
from overnight.core.errors import ArenaError, UsageError
from overnight.core.schema import suggest
from overnight.loop.arena.arena import Arena
from overnight.loop.arena.scaffold import NOT_FILLED_IN, Question
from overnight.loop.evaluation.commands import arguments

Condition = Literal["recurs", "automatic", "budget", "tools"]

MOST_DAYS = 7.0
"""A task that comes back less often than weekly does not pay for its evaluator."""

LEAST_EXPERIMENTS = 30
"""Fewer give a search or an author too little to learn from."""

RUNS_PER_EXPERIMENT = 6.0
"""Evaluations that an experiment costs on a noisy metric, at most on average (docs/judge.md)."""

_PROMPT = "Ask a model once, in a plain prompt, and read what it gives you; come back when this has changed."


@dataclass(frozen=True)
class Reason:
    """One of the four conditions: whether it holds, and what says so. `evidence` is one sentence."""

    condition: Condition
    ok: bool
    evidence: str


@dataclass(frozen=True)
class Fit:
    """The answer.

    Attributes:
        ok: all four hold.
        reasons: the four conditions, in order.
        experiments: how many the budget suffices for; None if unknown.
        advice: what to do.
    """

    ok: bool
    reasons: tuple[Reason, ...]
    experiments: int | None
    advice: str


def fit_questions() -> list[Question]:
    """What an arena's files cannot tell; all may stay unanswered, and then do not count in favour."""
    return [
        Question("every_days", "How often does this task come back?", "In days: 1 is daily, 7 is weekly."),
        Question("hours", "How long may a run take?", "In hours; a night has eight.", "8"),
        Question("workers", "How many evaluations run at a time?", "At most the number of cores.", "1"),
        Question("usd", "How much may a run cost?", "US dollars; leave it empty where no model is paid for."),
        Question("usd_per_experiment", "What does one experiment cost?", "US dollars, for the author's model."),
        Question("tokens", "How many tokens may a run use?", "Leave it empty where no model is asked."),
        Question(
            "tokens_per_experiment", "How many tokens does one experiment use?", "An agent's turn: 20,000 or more."
        ),
        Question("tools", "Which other programs does it need?", "Names of commands, separated by commas."),
        Question("measure", "Which command measures the result?", "Only where there is no arena yet."),
        Question("seconds", "How long does one measurement take?", "In seconds; only where there is no arena yet."),
    ]


def fit(arena: Arena | None, answers: Mapping[str, str], path: str | None = None) -> Fit:
    """Judge whether a loop is the right tool.

    Args:
        arena: the arena, if there is one already.
        answers: by `Question.key` of `fit_questions`.
        path: where commands are looked for; the process's own PATH by default.

    Raises:
        UsageError: an unknown key, or an answer that is not the number it should be.
    """
    known = {question.key: question for question in fit_questions()}
    for key in answers:
        if key not in known:
            raise UsageError(f"{key!r} is not asked", hint=suggest(key, known))
    given = {key: answers.get(key, "").strip() or (known[key].default or "") for key in known}
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "") if path is None else path])
    commands = _commands(arena, given)
    budget, experiments = _budget(arena, given)
    reasons = (_recurs(given), _automatic(arena, given, search), budget, _tools(arena, commands, given, search))
    failed = [reason for reason in reasons if not reason.ok]
    if not failed:
        advice = f"A loop fits. Next: `overnight arena check {shlex.quote(arena.name) if arena else 'ARENA'}`."
    else:
        advice = f"A loop does not fit: {'; '.join(reason.evidence for reason in failed)}. {_PROMPT}"
    return Fit(not failed, reasons, experiments, advice)


def _recurs(given: Mapping[str, str]) -> Reason:
    days = _number(given, "every_days")
    if days is None:
        return Reason("recurs", False, "nobody said how often the task comes back")
    if days > MOST_DAYS:
        return Reason("recurs", False, f"the task comes back every {days:g} days, less often than weekly")
    return Reason("recurs", True, f"the task comes back every {days:g} days")


def _automatic(arena: Arena | None, given: Mapping[str, str], search: str) -> Reason:
    command = (arena.front.score or arena.front.evaluate) if arena else given["measure"]
    if not command:
        return Reason("automatic", False, "no command measures the result")
    if arena is None:
        missing = _missing(None, command, search)
        said = f"`{command}` cannot run: {missing}" if missing else f"`{command}` measures it"
        return Reason("automatic", not missing, said)
    for file in _files(arena, command):
        if not file.is_file():
            return Reason("automatic", False, f"`{command}` measures it, but {file.name} is not there")
        if NOT_FILLED_IN in file.read_text("utf-8", "replace"):
            return Reason("automatic", False, f"{file.name} is not filled in yet")
    return Reason("automatic", True, f"`{command}` reports {arena.metric} with nobody watching")


def _budget(arena: Arena | None, given: Mapping[str, str]) -> tuple[Reason, int | None]:
    hours, workers = _number(given, "hours") or 0.0, _number(given, "workers") or 1.0
    seconds = arena.front.budget if arena else _number(given, "seconds")
    if seconds is None:
        return Reason("budget", False, "nobody said how long one measurement takes"), None
    if arena and arena.front.exclusive:
        workers = 1.0
    each_s = seconds * RUNS_PER_EXPERIMENT
    limits = {
        f"{hours:g} h at {format_duration(each_s)} each with {workers:g} at a time": hours * 3600 * workers / each_s
    }
    for whole, part, unit in (
        ("usd", "usd_per_experiment", "US dollars"),
        ("tokens", "tokens_per_experiment", "tokens"),
    ):
        have, need = _number(given, whole), _number(given, part)
        if have is None and need is None:
            continue
        if have is None or need is None:
            said = f"only one of {whole} and {part} is known, so nobody can say how many experiments it pays for"
            return Reason("budget", False, said), None
        limits[f"{have:g} {unit} at {need:g} each"] = have / need if need else math.inf
    tightest = min(limits, key=lambda name: limits[name])
    count = int(limits[tightest])
    enough = count >= LEAST_EXPERIMENTS
    tail = "" if enough else f", fewer than the {LEAST_EXPERIMENTS} that a loop needs to learn anything"
    return Reason("budget", enough, f"{tightest} suffice for about {count:,} experiments{tail}"), count


def _tools(arena: Arena | None, commands: list[str], given: Mapping[str, str], search: str) -> Reason:
    names = [name.strip() for name in given["tools"].split(",") if name.strip()]
    lacking = [f"`{name}` is not on PATH" for name in names if shutil.which(name, path=search) is None]
    lacking += [problem for command in commands if (problem := _missing(arena, command, search))]
    if arena:
        lacking += [f"{name} is not in the arena" for name in _named(arena) if not (arena.folder / name).exists()]
    if lacking:
        return Reason("tools", False, ", ".join(dict.fromkeys(lacking)))
    found = [f"`{command}`" for command in commands] + [f"`{name}`" for name in names]
    if not found:
        return Reason("tools", False, "nobody said which programs it needs")
    return Reason("tools", True, f"found what it needs: {', '.join(found)}")


def _commands(arena: Arena | None, given: Mapping[str, str]) -> list[str]:
    if arena is None:
        return [given["measure"]] if given["measure"] else []
    front = arena.front
    evaluate = None if arena.evaluate_function() else front.evaluate
    return [command for command in (front.setup, front.produce, front.score, evaluate, front.holdout) if command] + [
        *front.checks
    ]


def _missing(arena: Arena | None, command: str, search: str) -> str:
    """Why `command` cannot start: its program, or the script it is given, does not exist; "" if both do."""
    try:
        argv = arguments(command, {})
    except ArenaError as problem:
        return problem.message
    program = argv[0]
    if "/" in program and arena and not program.startswith("/"):
        return "" if (arena.folder / program).is_file() else f"{program} is not in the arena"
    # An arena with a `setup` brings its own programs; pip and the like appear only then.
    if shutil.which(program, path=search) is None and not (arena and arena.front.setup):
        return f"`{program}` is not on PATH"
    gone = [file.name for file in _files(arena, command) if not file.is_file()] if arena else []
    return f"{gone[0]} is not in the arena" if gone else ""


def _files(arena: Arena, command: str) -> list[Path]:
    function = arena.evaluate_function()
    if function and command == arena.front.evaluate:
        return [arena.folder / function[0]]
    words = [word for word in arguments(command, {})[1:] if word.endswith(".py") and not word.startswith(("-", "/"))]
    return [arena.folder / word for word in words]


def _named(arena: Arena) -> list[str]:
    names = (*arena.front.editable, *arena.front.hidden, *arena.front.data)
    return [name.rstrip("/") for name in names if not set(name) & set("*?")]


def _number(given: Mapping[str, str], key: str) -> float | None:
    if not given[key]:
        return None
    try:
        value = float(given[key].replace(",", "").replace("_", ""))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"{key}: {given[key]!r} is not a number", hint="give a plain number, 0 or more")
    return value
