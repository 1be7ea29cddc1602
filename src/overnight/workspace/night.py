"""`run` and `resume`: the loop, opened in its workspace."""

import contextlib
import dataclasses
import threading
from pathlib import Path
from typing import Any

from overnight.core.errors import NotFound, UsageError
from overnight.core.ids import check_run_name, run_name
from overnight.loop.arena import arena as arenas
from overnight.loop.holding import holding, sweep
from overnight.loop.place import Say, find_folder
from overnight.loop.progress import Watch
from overnight.loop.report.write import write_report
from overnight.loop.run import Loop
from overnight.loop.start import Options, Surroundings, began_with, begin, take_up
from overnight.workspace import models
from overnight.workspace.author_models import opener
from overnight.workspace.trusting import Grounds
from overnight.workspace.workspace import Workspace


def run(
    folder: Path,
    options: Options,
    name: str | None,
    stop: threading.Event,
    watch: Watch | None = None,
    say: Say = lambda _: None,
    workspace: Workspace | None = None,
) -> dict[str, Any]:
    """Improve the arena in `folder`; the report object at the end.

    Raises:
        UsageError: the arena, an option or the name is not usable.
        IsolationMissing: no sandbox can be had.
    """
    workspace = workspace or Workspace.of_arena(arenas.load(folder).folder)
    _check_model_options(options, workspace)
    chosen = check_run_name(name) if name else run_name()
    place = workspace.place()
    sweep(place)
    grounds, opened = Grounds(workspace, say), contextlib.ExitStack()
    try:
        tracer = models.tracer(workspace)
        opened.callback(tracer.close)
        place = dataclasses.replace(place, open_models=opener(workspace, opened), tracer=tracer)
        arena = grounds.arena(folder)
        passage = grounds.passage(arena, chosen, options.author_command)
        with holding(place, chosen):
            night = begin(Surroundings(place, stop, watch, say, passage), arena, chosen, options)
            say(f"run {chosen}, branch overnight/{chosen}")
            Loop(night).run()
    finally:
        opened.close()
        grounds.close()
    return report(workspace, chosen)


def resume(
    workspace: Workspace, name: str | None, stop: threading.Event, watch: Watch | None = None, say: Say = lambda _: None
) -> dict[str, Any]:
    """Go on with a run, the newest that is not finished if none is named; the report object at the end.

    Raises:
        NotFound: there is nothing to go on with.
        UsageError: another process works on it, or its arena has gone.
    """
    place = workspace.place()
    sweep(place)
    record = workspace.record
    if name is None:
        unfinished = [info for info in record.runs() if info.state in ("running", "interrupted")]
        if not unfinished:
            raise NotFound("there is no unfinished run here", hint="see `overnight status`; name a run to look at it")
        name = unfinished[-1].run
    info = record.run(name)
    if info.state == "finished":
        say(f"{name} has finished; nothing is left to do")
        return report(workspace, name)
    if info.state == "failed" and not record.experiments(name):
        raise UsageError(f"{name} failed before its baseline was measured", hint="mend the arena and start a new run")
    grounds, opened = Grounds(workspace, say), contextlib.ExitStack()
    try:
        tracer = models.tracer(workspace)
        opened.callback(tracer.close)
        place = dataclasses.replace(place, open_models=opener(workspace, opened), tracer=tracer)
        folder = find_folder(workspace.folder, info.arena)
        # What a run may do is what its own program.md said when it began.
        passage = grounds.passage(began_with(folder, info), name, info.settings.get("author_command"))
        with holding(place, name):
            night = take_up(Surroundings(place, stop, watch, say, passage), info, folder)
            say(f"run {name} goes on after {max(0, len(night.experiments) - 1)} recorded experiment(s)")
            Loop(night).run()
    finally:
        opened.close()
        grounds.close()
    return report(workspace, name)


def _check_model_options(options: Options, workspace: Workspace) -> None:
    """A flag that nothing would heed is a mistake: whoever sets a budget believes that it holds.

    Raises:
        UsageError: there is one.
    """
    if "model" in options.authors and "model" not in workspace.resolved.settings.authors:
        return
    authors = ", ".join(options.authors)
    if options.budget_usd is not None:
        raise UsageError(
            f"--budget would hold nothing: no author of this run ({authors}) asks a model through the gateway",
            hint="add --author model --model NAME; a program's own calls are held by a key:"
            " overnight gateway key new NAME --budget USD",
        )
    if options.model is not None:
        raise UsageError(
            f"--model {options.model} would be asked by nobody: the authors of this run are {authors}",
            hint=f"write --author {','.join([*options.authors, 'model'])}",
        )


def report(workspace: Workspace, name: str | None) -> dict[str, Any]:
    """The report object of a run, its page written."""
    return write_report(workspace.record, workspace.folder, workspace.state, name)
