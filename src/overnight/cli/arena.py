"""`overnight arena new`, `check` and `fit`."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, print_json
from overnight.core.clock import format_duration
from overnight.core.escape import visible
from overnight.loop import arena as arenas
from overnight.loop.findings import number
from overnight.workspace.workspace import Workspace


@click.group()
def arena() -> None:
    """Make an arena, check it, ask whether a loop fits."""


@arena.command()
@click.argument("place", type=click.Path(path_type=Path), metavar="ARENA")
@click.option(
    "--sandbox", type=click.Choice(["bwrap", "landlock", "none"]), help="Isolation; the best there is by default."
)
@in_workspace
@as_json
def check(place: Path, sandbox: Any, as_json: bool, folder: Path | None) -> None:
    """Measure the baseline of ARENA several times, and say what would spoil a run.

    Exit code 1 if it cannot be left alone as it is.
    """
    from overnight.loop.check import check as examine

    loaded = arenas.load(place)
    workspace = Workspace.at(folder) if folder else Workspace.of_arena(loaded.folder)
    isolation = sandbox or workspace.resolved.settings.sandbox.isolation

    def say(text: str) -> None:
        if not as_json and sys.stderr.isatty():
            click.echo(text, err=True)

    found = examine(loaded, workspace.state / "environments", isolation, say)
    if as_json:
        print_json({**dataclasses.asdict(found), "arena": loaded.name})
    else:
        _print(found)
    if not found.ok:
        sys.exit(1)


def _print(found: Any) -> None:
    click.echo(f"metric        {found.metric}, {found.direction}: {', '.join(number(value) for value in found.values)}")
    if found.noise is not None:
        noise = "none: the same for every seed" if found.deterministic else f"{found.noise:.3g} (sd of one measurement)"
        rate = f"about {found.experiments_per_hour:,.0f} experiments an hour per worker"
        click.echo(f"noise         {noise}; the same seed {'repeats' if found.repeats else 'does not repeat'}")
        click.echo(f"evaluation    {format_duration(found.seconds)}, {rate}")
        click.echo(f"detectable    {found.detectable_effect:.3g} (kept four times out of five)")
    click.echo(f"integrity     {found.integrity}, sandbox {found.sandbox}")
    knobs = [visible(knob) for knob in found.knobs]
    click.echo(
        f"knobs         {len(knobs)}{': ' if knobs else ''}{', '.join(knobs[:8])}{', …' if len(knobs) > 8 else ''}"
    )
    for problem in found.problems:
        click.echo(f"PROBLEM       {visible(problem, lines=True)}")
    for line in found.advice:
        click.echo(f"advice        {visible(line)}")
    click.echo("fit to be left alone" if found.ok else "not fit to be left alone")
