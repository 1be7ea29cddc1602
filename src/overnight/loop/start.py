"""How a run comes to life: from a folder as it stands, or again from the record."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.core import schema
from overnight.core.errors import ArenaError, OvernightError, SettingsError, UsageError
from overnight.loop.arena import arena as arenas
from overnight.loop.arena.arena import PROGRAM, Arena
from overnight.loop.authors.base import Author
from overnight.loop.authors.command import CommandAuthor
from overnight.loop.authors.model import ModelAuthor
from overnight.loop.authors.search import SearchAuthor
from overnight.loop.authors.settings import CommandSettings
from overnight.loop.evaluation.engine import LocalEngine
from overnight.loop.evaluation.environment import prepare
from overnight.loop.evaluation.evaluate import Evaluator
from overnight.loop.evaluation.measured import Environment
from overnight.loop.judge.judge import Judge
from overnight.loop.night import Limits, Night, judge_settings, new_secret
from overnight.loop.passage import Passage
from overnight.loop.place import Isolation, Place, Say, arena_name
from overnight.loop.progress import Watch
from overnight.loop.record.experiment import RunInfo
from overnight.loop.record.history import History, branch
from overnight.loop.record.record import Record
from overnight.loop.record.restore import restore
from overnight.sandbox import Sandbox, open_sandbox
from overnight.store.blobs import Blobs
from overnight.store.git.repository import Files, Repository
from overnight.store.git.snapshot import OURS, snapshot


@dataclass(frozen=True)
class Options:
    """What a person asks of a run.

    Attributes:
        authors: names; `search`, `command`, `model`, or those of the settings.
        author_command: the command line of the author `command`.
        model: that the author `model` asks.
        budget_usd: the most that all its calls may cost, later stretches of the run included; None is no limit.
        workers: evaluations at a time, ≥ 1; an exclusive arena gets one.
        seed: of the search; None draws one.
        sandbox: `auto` is the best isolation this machine has, never `none`.
    """

    limits: Limits
    authors: tuple[str, ...] = ("search",)
    author_command: str | None = None
    model: str | None = None
    budget_usd: float | None = None
    workers: int = 1
    seed: int | None = None
    sandbox: Isolation = "auto"


@dataclass(frozen=True)
class Surroundings:
    """What a stretch of a run lives in, the first one and those after an interruption alike.

    Attributes:
        place: the workspace.
        stop: set to interrupt.
        watch: shown how it goes.
        say: told what a person should know.
        passage: through the gate; None asks no gate.
    """

    place: Place
    stop: threading.Event
    watch: Watch | None = None
    say: Say = lambda _: None
    passage: Passage | None = None


def begin(around: Surroundings, arena: Arena, run: str, options: Options) -> Night:
    """A run of `arena` from its folder as it stands, uncommitted changes included.

    Raises:
        UsageError: the arena or an option is not usable, or there is a run of that name.
        IsolationMissing: no sandbox can be had.
    """
    sandbox = open_sandbox(options.sandbox)
    repository = Repository.open(arena.folder)
    try:
        return _begin(around, arena, run, options, sandbox, repository)
    except BaseException:
        repository.close()
        raise


def _begin(
    around: Surroundings, arena: Arena, run: str, options: Options, sandbox: Sandbox, repository: Repository
) -> Night:
    place = around.place
    record = Record(place.database)
    if any(info.run == run for info in record.runs()) or branch(run) in repository.refs(branch(run)):
        raise UsageError(f"there is a run {run!r} already", hint=f"choose another name, or `overnight resume {run}`")
    taken = snapshot(
        repository,
        include=[PROGRAM, *arena.named_files()],
    )
    base = taken.files
    check_files(arena, base)
    notes = [f"{path}: {why}" for path, why in (*taken.skipped, *taken.filtered)]
    if options.sandbox == "auto" and sandbox.name != "bwrap":
        notes.append(f"isolated by {sandbox.name}, since bubblewrap cannot be had: `overnight doctor` says why")
    for note in notes:
        around.say(f"note: {note}")
    repository.exclude([f"/{name}" for name in OURS])
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big") >> 1
    secret = new_secret(options.seed, place.key)
    settings: dict[str, Any] = {
        "name": arena_name(place.workspace, arena.folder),
        "arena": arena.settings(),
        "authors": list(options.authors),
        "author_command": options.author_command,
        "model": options.model,
        "budget_usd": options.budget_usd,
        "workers": options.workers,
        "experiments": options.limits.experiments,
        "for_s": options.limits.for_s,
        "seed": seed,
        "sandbox": sandbox.name,
        "integrity": arena.integrity,
        "base_commit": repository.head(),
        "base_tree": taken.tree,
        "notes": notes,
    }
    record.create(run, settings["name"], settings, secret.hex())
    info = record.run(run)
    return _night(around, arena, repository, record, info, base, sandbox, secret, fresh=True)


def take_up(around: Surroundings, info: RunInfo, folder: Path) -> Night:
    """The same run again, from the record: nothing recorded is lost, what was in flight is measured again.

    Raises:
        UsageError: its arena has gone, or it was imported.
        IsolationMissing: the isolation that it was started with cannot be had.
    """
    if info.state == "imported":
        raise UsageError(f"{info.run} was imported, so it cannot go on", hint="start a new run with `overnight run`")
    repository = Repository.open(folder, create=False)
    try:
        return _take_up(around, info, folder, repository)
    except BaseException:
        repository.close()
        raise


def began_with(folder: Path, info: RunInfo) -> Arena:
    """The arena as its program.md stood when the run began, whatever lies in the folder now.

    Raises:
        ArenaError: the snapshot has none.
    """
    with Repository.open(folder, create=False) as repository:
        return _snapshot_arena(repository, folder, info, repository.read_files(info.settings["base_tree"]))


def _snapshot_arena(repository: Repository, folder: Path, info: RunInfo, base: Files) -> Arena:
    program = base.get(PROGRAM)
    if program is None:
        raise ArenaError(f"the snapshot of {info.run} has no {PROGRAM}")
    return arenas.load(folder, repository.read_blob(program.oid))


def _take_up(around: Surroundings, info: RunInfo, folder: Path, repository: Repository) -> Night:
    record = Record(around.place.database)
    history = History(repository, record)
    if missing := history.reconcile(info.run):
        around.say(f"{missing} experiment(s) were in git alone, and are in the database again")
    base = repository.read_files(info.settings["base_tree"])
    arena = _snapshot_arena(repository, folder, info, base)
    sandbox = open_sandbox(info.settings["sandbox"])
    secret = bytes.fromhex(record.secret(info.run))
    record.set_state(info.run, "running", spent_s=info.spent_s)
    return _night(around, arena, repository, record, info, base, sandbox, secret, fresh=False)


def _night(
    around: Surroundings,
    arena: Arena,
    repository: Repository,
    record: Record,
    info: RunInfo,
    base: Files,
    sandbox: Sandbox,
    secret: bytes,
    *,
    fresh: bool,
) -> Night:
    place, passage, settings = around.place, around.passage, info.settings
    try:
        fixed = (
            {
                path: repository.read_blob(entry.oid)
                for path, entry in base.items()
                if entry.mode in ("100644", "100755") and path not in arena.hidden and path not in arena.data
            }
            if arena.front.setup
            else {}
        )
        environment = prepare(arena, fixed, place.state / "environments", sandbox, around.say)
        slots = 1 if arena.front.exclusive else max(1, int(settings["workers"]))
        checkouts = place.state / "checkouts" / info.run
        evaluator = Evaluator(
            arena, repository, base, sandbox, checkouts / "evaluations", environment, cpus=share_cpus(slots)
        )
        authors = [
            _model_author(name, place, arena, info, around.stop)
            if name == "model" and name not in place.authors
            else _author(name, around, arena, settings, sandbox, checkouts / "authors", environment)
            for name in settings["authors"]
        ]
    except OvernightError:
        record.set_state(info.run, "failed" if fresh else "interrupted", spent_s=info.spent_s)
        raise
    night = Night(
        run=info.run,
        workspace=place.workspace,
        arena=arena,
        arena_name=info.arena,
        repository=repository,
        record=record,
        history=History(repository, record),
        blobs=Blobs(place.state / "blobs"),
        engine=LocalEngine(evaluator, slots),
        judge=Judge(judge_settings(arena)),
        authors=authors,
        limits=Limits(settings["experiments"], settings["for_s"]),
        base_commit=settings["base_commit"],
        base_tree=settings["base_tree"],
        base_files=base,
        secret=secret,
        search_seed=int(settings["seed"]),
        stop=around.stop,
        watch=around.watch,
        tracer=place.tracer,
        decide=passage.write if passage is not None else lambda author, n, paths, tree: "",
        notes=settings["notes"],
        settings=settings,
        spent_s=info.spent_s,
    )
    if not fresh:
        restore(night, record.measurements(info.run))
    return night


def _author(
    name: str,
    around: Surroundings,
    arena: Arena,
    settings: Mapping[str, Any],
    sandbox: Sandbox,
    folder: Path,
    environment: Environment,
) -> Author:
    place, passage = around.place, around.passage
    if name == "search":
        return SearchAuthor(name)
    programs = command_settings(settings["author_command"], place.authors)
    if name in programs:
        permit = None if passage is None else passage.start
        return CommandAuthor(
            name, programs[name], sandbox, folder, arena.editable, arena.hidden, environment, around.stop, permit
        )
    if name == "command":
        raise UsageError("the author `command` has no command line", hint="add --author-command 'PROGRAM ARGUMENTS'")
    known = ["search", "command", "model", *place.authors]
    raise SettingsError(f"there is no author {name!r}", hint=schema.suggest(name, known))


def _model_author(name: str, place: Place, arena: Arena, info: RunInfo, stop: threading.Event) -> Author:
    model = info.settings.get("model")
    if not model:
        raise UsageError("the author `model` has no model", hint="add --model NAME; `overnight model list` names them")
    if place.open_models is None:
        raise UsageError("models cannot be had here", hint="run it in a workspace")
    access = place.open_models(model, info.run, info.settings.get("budget_usd"), stop)
    return ModelAuthor(name, model, access.models, arena.editable.__contains__, access.tracer, access.context_tokens)


def command_settings(command: str | None, named: Mapping[str, CommandSettings]) -> dict[str, CommandSettings]:
    """The authors that run a program, by name: those of the settings, and `command` if its command line is given."""
    return {**named, **({"command": CommandSettings(command)} if command else {})}


def check_files(arena: Arena, base: Files) -> None:
    """Make sure that what program.md names is there.

    Raises:
        ArenaError: naming what is not.
    """
    where = arena.folder / PROGRAM
    if not any(path in arena.editable for path in base):
        raise ArenaError(
            f"{where}: none of the editable files exists: {', '.join(arena.front.editable)}",
            hint="make them, or correct `editable`",
        )
    for name in arena.front.hidden:
        if not any(path in arenas.Paths([name]) for path in base):
            raise ArenaError(f"{where}: hidden {name!r} does not exist", hint="make it, or correct `hidden`")
    for name in arena.front.data:
        if not (arena.folder / name).exists():
            raise ArenaError(f"{where}: data {name!r} does not exist", hint="make it, or correct `data`")
    wide = arenas.Paths([name for name in arena.outputs if set(name) & set("*?[")])
    named = arenas.Paths([name for name in arena.outputs if not set(name) & set("*?[")])
    for path in base:
        open_to_artifacts = any(path in paths for paths in (named, arena.editable, arena.hidden, arena.data))
        if path in wide and not open_to_artifacts:  # what is hidden is never taken
            raise ArenaError(
                f"{where}: `outputs` matches {path}, which authors may not change: an artifact could put a file of its "
                "own in the place of what the scorer reads",
                hint=f"name outputs more narrowly; if {path} is one, name it in full or remove it",
            )
    evaluator = arena.evaluate_function()
    if evaluator and evaluator[0] not in base:
        raise ArenaError(f"{where}: {evaluator[0]} does not exist", hint="correct `evaluate`")


def share_cpus(slots: int) -> list[frozenset[int] | None]:
    """The processors of each slot: equal shares that don't overlap where there are enough, else all for all."""
    mine = sorted(os.sched_getaffinity(0))
    each = len(mine) // slots
    if slots == 1 or each == 0:
        return [None] * slots
    return [frozenset(mine[slot * each : (slot + 1) * each]) for slot in range(slots)]
