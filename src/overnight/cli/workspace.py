"""`overnight init`, `doctor`, `config`, `repair` and `gc`."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, opened, opened_with_settings, print_json, table
from overnight.core.errors import Refused
from overnight.core.escape import visible
from overnight.workspace.workspace import Workspace


@click.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]")
@as_json
def init(directory: Path | None, as_json: bool) -> None:
    """Make a workspace of DIR, the current folder by default. What is there already stays as it is."""
    workspace, made = Workspace.init(directory or Path.cwd())
    if as_json:
        print_json({"workspace": str(workspace.folder), "made": made})
        return
    click.echo(f"workspace {workspace.folder}: " + (f"made {', '.join(made)}" if made else "was there already"))
    click.echo("next: overnight arena new NAME")


@click.command()
@as_json
def doctor(as_json: bool) -> None:
    """Try what this machine can do: isolation, limits, Python, git. Exit code 4 if no run can work here as it is."""
    from overnight.workspace.doctor import examine

    health = examine()
    if as_json:
        print_json(dataclasses.asdict(health))
    else:
        rows = [["ok" if check.ok else "NO", check.name, check.detail] for check in health.checks]
        click.echo(table(rows, ["", "what", "found"]))
        for check in health.checks:
            if check.fix:
                click.echo(f"to mend {check.name}: {check.fix}")
        click.echo(f"grade {health.grade}: {health.meaning}")
    if not health.ready:
        sys.exit(4)


@click.command()
@in_workspace
@as_json
def config(folder: Path | None, as_json: bool) -> None:
    """Every setting, its value, and where the value comes from. Secrets are not shown."""
    from overnight.workspace.settings import load
    from overnight.workspace.settings_shown import shown

    try:
        resolved = opened_with_settings(folder).resolved
    except Refused as problem:
        # Whoever asks what is in force gets an answer: nothing of the file is.
        click.echo(f"note: {problem.message}, so nothing of it is in force; {problem.hint}", err=True)
        resolved = load(opened(folder).folder, text="")
    values = shown(resolved)
    if as_json:
        print_json(values)
        return
    rows = [[name, _cell(item["value"]), item["origin"]] for name, item in values.items()]
    click.echo(table(rows, ["setting", "value", "from"]))


def _cell(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "–"
    text = ", ".join(map(str, value)) if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
    return visible(text.strip('"'))


@click.command()
@in_workspace
@as_json
def repair(folder: Path | None, as_json: bool) -> None:
    """Make the record whole: the database from git, git from the database."""
    from overnight.loop.record.repair import repair as mend

    workspace = opened(folder)
    done = mend(workspace.folder, workspace.record, workspace.blobs)
    if as_json:
        print_json({"workspace": str(workspace.folder), "done": done})
        return
    click.echo("\n".join(done) if done else "git and the database agree; nothing to do")


@click.command()
@click.option("--yes", is_flag=True, help="Remove it; without this, only say what would go.")
@in_workspace
@as_json
def gc(yes: bool, folder: Path | None, as_json: bool) -> None:
    """Say what old runs and old model calls cost on disk, and remove what is past its retention.

    Champions, their branches and every row of a run, a span or a cost stay. The commits of experiments that were not
    kept go, and what was said in model calls.
    """
    from overnight.workspace.collect import collect

    found = collect(opened_with_settings(folder), remove=yes)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    for item in found.runs:
        click.echo(f"{item.run}: {item.refs} refs, {item.size_bytes / 1e6:.2f} MB, {item.verdict}")
    done = "freed" if yes else "would free"
    if found.texts.number:
        click.echo(
            f"texts of model calls: {found.texts.number}, {found.texts.size_bytes / 1e6:.2f} MB, past their retention"
        )
    click.echo(f"{done} {found.size_bytes / 1e6:.2f} MB in git, blobs, texts of model calls and old environments")
    if not yes and found.size_bytes:
        click.echo("remove it with: overnight gc --yes", err=True)
