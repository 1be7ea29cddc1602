"""Options that many commands share, and how output is printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from overnight.workspace.workspace import Workspace, find

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
_folder = click.Path(path_type=Path, file_okay=False)


def in_workspace(command: F) -> F:
    """Add --workspace; the command gets the folder or None, for `opened`."""
    return click.option(
        "--workspace", "folder", type=_folder, metavar="DIR", help="The workspace; the enclosing one by default."
    )(command)


def opened(folder: Path | None) -> Workspace:
    """The workspace a command means; a remark on standard error if it is not the obvious one."""
    workspace, remark = find(folder)
    if remark:
        click.echo(f"note: {remark}", err=True)
    return workspace


def opened_with_settings(folder: Path | None) -> Workspace:
    """The same, for commands that go by its settings; a remark if what is in force is not the file as it stands."""
    workspace = opened(folder)
    if workspace.resolved.remark:
        click.echo(f"note: {workspace.resolved.remark}", err=True)
    return workspace


def print_json(value: Any) -> None:
    """One JSON document on one line."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False, default=str))


def table(rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset()) -> str:
    """Plain columns, two spaces apart; those in `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [
            cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
