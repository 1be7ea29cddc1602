"""`overnight usage`: calls, tokens and money."""

import dataclasses
import time
from pathlib import Path

import click

from overnight.cli.options import as_json, in_workspace, opened, print_json, table
from overnight.core.clock import parse_duration_s
from overnight.core.escape import brief


@click.command()
@click.option(
    "--by",
    type=click.Choice(["tenant", "agent", "model", "run", "key", "release"]),
    default="model",
    show_default=True,
    help="What a line stands for.",
)
@click.option("--since", metavar="1d", help="Only what was used in this time; everything by default.")
@in_workspace
@as_json
def usage(by: str, since: str | None, folder: Path | None, as_json: bool) -> None:
    """What models were used for how much; every settled attempt counts, also one that failed."""
    from overnight.models.usage_report import usage_by

    start = time.time() - parse_duration_s(since) if since else 0.0
    lines = usage_by(opened(folder).database, by, start)  # type: ignore[arg-type]  # click has checked it
    total = sum(line.cost_usd for line in lines)
    if as_json:
        print_json({"by": by, "cost_usd": total, "lines": [dataclasses.asdict(line) for line in lines]})
        return
    rows = [
        [
            brief(line.name, 60) or "–",
            str(line.calls),
            str(line.failed or "–"),
            str(line.input_tokens),
            str(line.cached_tokens or "–"),
            str(line.output_tokens),
            f"${line.cost_usd:.6f}",
        ]
        for line in lines
    ]
    click.echo(table(rows, [by, "calls", "failed", "input", "cached", "output", "cost"], frozenset(range(1, 7))))
    click.echo(f"together ${total:.6f}")
