"""`overnight run` and `overnight resume`."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, opened, print_json
from overnight.core.clock import format_duration, parse_duration_s
from overnight.core.errors import UsageError
from overnight.loop.night import Limits
from overnight.loop.place import Isolation
from overnight.loop.progress import Watch
from overnight.loop.record.findings import number, signed
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.workspace import Workspace

_STOPPING = "stopping: what has been measured is being recorded; Ctrl-C again ends at once"


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration_s(value)
        except UsageError as problem:
            self.fail(f"{problem.message}; {problem.hint}", param, ctx)


@click.command()
@click.argument("arena", type=click.Path(path_type=Path, file_okay=False))
@click.option("--experiments", type=click.IntRange(min=1), metavar="N", help="Stop after N experiments.")
@click.option("--for", "for_s", type=_Duration(), metavar="8h", help="Stop after so much wall clock.")
@click.option("--workers", type=click.IntRange(min=1, max=256), metavar="N", help="Evaluations at a time (1).")
@click.option("--author", "authors", metavar="NAME[,NAME…]", help="Who proposes changes (search).")
@click.option("--author-command", metavar="CMD", help="A program as the author `command`.")
@click.option("--model", metavar="NAME", help="The model that the author `model` asks.")
@click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="The most that its model calls may cost.")
@click.option("--run", "name", metavar="NAME", help="The run's name; one is made up by default.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the search, to repeat a run.")
@click.option(
    "--sandbox", type=click.Choice(["bwrap", "landlock", "none"]), help="Isolation; the best there is by default."
)
@in_workspace
@as_json
def run(
    arena: Path,
    experiments: int | None,
    for_s: float | None,
    workers: int | None,
    authors: str | None,
    author_command: str | None,
    model: str | None,
    budget: float | None,
    name: str | None,
    seed: int | None,
    sandbox: Isolation | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Improve ARENA, a folder with program.md, by experiments.

    Every experiment is a commit under refs/overnight/RUN/; the branch overnight/RUN has the kept ones. Your working
    tree is not touched. Ctrl-C stops cleanly; `overnight resume` goes on. Without --experiments and --for it runs for
    eight hours.
    """
    workspace = Workspace.at(folder) if folder else None
    settings = (workspace or Workspace.of_arena(arena)).resolved.settings
    limits = Limits(experiments or settings.run.experiments, for_s or settings.run.for_)
    if limits.experiments is None and limits.for_s is None:
        limits = Limits(None, 8 * 3600.0)
    chosen = [item.strip() for item in authors.split(",")] if authors else list(settings.run.authors)
    if author_command and not authors:
        chosen = ["command"]
    elif model and not authors:
        chosen = ["model"]
    if len(set(chosen)) != len(chosen) or not all(chosen):
        raise UsageError(f"--author {authors!r} names an author twice or not at all", hint="write it as search,command")
    options = Options(
        limits=limits,
        authors=tuple(chosen),
        author_command=author_command,
        model=model,
        budget_usd=budget,
        workers=workers or settings.run.workers,
        seed=seed,
        sandbox=sandbox or settings.sandbox.isolation,
    )
    with _watching(as_json) as (watch, say), _stoppable(say, watch is not None) as stop:
        result = night.run(arena, options, name, stop, watch, say, workspace)
    _end(result, as_json)


@click.command()
@click.argument("name", required=False, metavar="[RUN]")
@in_workspace
@as_json
def resume(name: str | None, folder: Path | None, as_json: bool) -> None:
    """Go on with an interrupted run; the newest unfinished one if RUN is left out."""
    workspace = opened(folder)
    with _watching(as_json) as (watch, say), _stoppable(say, watch is not None) as stop:
        result = night.resume(workspace, name, stop, watch, say)
    _end(result, as_json)


@contextmanager
def _stoppable(say: Callable[[str], None], drawn: bool) -> Iterator[threading.Event]:
    """The first Ctrl-C, SIGTERM or hang-up asks the run to stop; a second Ctrl-C ends the process at once.

    Args:
        say: tells the person.
        drawn: the screen is drawn on meanwhile, so that nobody else may write to it.
    """
    stop = threading.Event()

    def ask(number: int, _: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop.is_set():
            stop.set()
            # A handler may come in the midst of other output, which buffered writing does not bear.
            if drawn:
                threading.Thread(target=say, args=(_STOPPING,), daemon=True).start()
            else:
                os.write(2, f"\n{_STOPPING}\n".encode())

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    except KeyboardInterrupt:
        click.echo("ended at once: what is recorded stays, what was being measured is measured again", err=True)
        click.echo("go on with: overnight resume", err=True)
        sys.exit(130)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _watching(quiet: bool) -> Iterator[tuple[Watch | None, Callable[[str], None]]]:
    def say(text: str) -> None:
        click.echo(text, err=True)

    if quiet or not sys.stdout.isatty():
        yield None, say
        return
    from overnight.cli.live import live

    with live() as (watch, say_live):
        yield watch, say_live


def _end(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        click.echo(render(result))
    if result["state"] == "interrupted":
        click.echo(f"stopped; go on with: overnight resume {result['run']}", err=True)
        sys.exit(130 if result["experiments"] == 0 else 0)
    if result["experiments"] == 0:
        click.echo(f"only the baseline was measured: {result['stopped'] or 'no experiment was made'}", err=True)
        sys.exit(1)


def render(result: dict[str, Any]) -> str:
    """The report object for people."""
    imported = result["state"] == "imported"
    gain = "not measured: an imported log says what it says" if imported else "not measured yet"
    if result["gain"] is not None:
        gain = signed(result["gain"])
        if result["gain_pairs"] and result["gain_low"] == result["gain_high"]:
            gain += "  (exact: the metric is the same each time)"
        elif result["gain_pairs"]:
            low, high = signed(result["gain_low"]), signed(result["gain_high"])
            gain += f"  (95 % interval {low} … {high}, {result['gain_pairs']} fresh pairs)"
    lines = [
        f"run          {result['run']} ({result['state']}{', ' + result['stopped'] if result['stopped'] else ''})",
        f"{result['metric']:<12} {number(result['baseline'])} → {number(result['best'])}  ({result['direction']})",
        f"gain         {gain}",
        f"experiments  {result['experiments']}: {result['kept']} kept, {result['discarded']} discarded, "
        f"{result['crashed']} crashed, {result['timeouts']} timed out, {result['rejected']} rejected",
    ]
    if not imported:
        lines += [
            f"time         {format_duration(max(result['seconds'], 0.001))}",
            f"integrity    {result['integrity']}, sandbox {result['sandbox']}, {result['mode']} metric",
            f"branch       {result['branch']}",
        ]
    if result["holdout"]:
        held = result["holdout"]
        lines.insert(3, f"holdout      {number(held['baseline'])} → {number(held['champion'])}")
    if result["branch_behind"]:
        lines.append(f"             {result['branch_behind']}")
    if result["path"]:
        lines.append(f"report       {result['path']}")
    return "\n".join(lines)
