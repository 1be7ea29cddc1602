"""Options that many commands share, and how output is printed."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from overnight.core.escape import brief
from overnight.workspace.workspace import Workspace, find

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
_NARROWEST = 12
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


def table(
    rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset(), shrink: Sequence[int] = ()
) -> str:
    """Plain columns, two spaces apart.

    Args:
        rows: cells, made visible.
        head: names of the columns.
        right: columns that are aligned to the right.
        shrink: columns that are cut, the widest first, until a line fits the terminal, if it is one.
    """
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    if shrink and sys.stdout.isatty():
        over = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        for _ in range(over):
            widest = max(shrink, key=widths.__getitem__)
            widths[widest] = max(_NARROWEST, widths[widest] - 1)
        rows = [[brief(cell, widths[at]) if at in shrink else cell for at, cell in enumerate(row)] for row in rows]
    lines = []
    for row in [head, *rows]:
        cells = [
            cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
