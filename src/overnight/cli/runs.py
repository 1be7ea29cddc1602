"""`overnight status`, `log` and `show`: what is on record."""

from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, opened, print_json, table
from overnight.core.clock import format_duration, timestamp
from overnight.core.errors import UsageError
from overnight.core.escape import brief, visible
from overnight.loop.record import inspect
from overnight.loop.record.findings import number, signed
from overnight.loop.record.summary import summarise


@click.command()
@in_workspace
@as_json
def status(folder: Path | None, as_json: bool) -> None:
    """How the runs of a workspace stand, the newest last."""
    workspace = opened(folder)
    record = workspace.record
    rows = []
    for info in record.runs():
        result = summarise(info, record.experiments(info.run))
        rows.append({**result, "state": inspect.state(info), "started_at": timestamp(info.started_at)})
    if as_json:
        print_json({"workspace": str(workspace.folder), "runs": rows})
        return
    if not rows:
        click.echo(f"no runs yet in {workspace.folder}; start one with: overnight run ARENA")
        return
    head = ["run", "arena", "state", "experiments", "kept", "metric", "baseline", "best", "gain"]
    cells = [
        [
            row["run"],
            brief(row["arena"], 40),
            row["state"],
            str(row["experiments"]),
            str(row["kept"]),
            visible(str(row["metric"])),
            number(row["baseline"]),
            number(row["best"]),
            signed(row["gain"]) if row["gain"] is not None else "not measured",
        ]
        for row in rows
    ]
    click.echo(table(cells, head, frozenset((3, 4, 6, 7))))
    for row in rows:
        if row["state"] in ("interrupted", "died"):
            click.echo(f"{row['run']} can go on: overnight resume {row['run']}", err=True)


@click.command()
@click.argument("name", required=False, metavar="[RUN]")
@in_workspace
@as_json
def log(name: str | None, folder: Path | None, as_json: bool) -> None:
    """Every experiment of RUN, or of the newest run; with --json one object per line."""
    record = opened(folder).record
    info = record.run(name)
    experiments = record.experiments(info.run)
    if as_json:
        for item in experiments:
            print_json(inspect.line(item))
        return
    cells = [
        [
            str(item.n),
            item.status,
            number(item.metric),
            signed(item.delta),
            _took(item.seconds),
            item.commit[:10],
            brief(item.hypothesis, 70),
            brief(item.reason, 120),
        ]
        for item in experiments
    ]
    head = [
        "n",
        "verdict",
        visible(str(info.settings["arena"]["metric"])),
        "gain",
        "took",
        "commit",
        "hypothesis",
        "why",
    ]
    click.echo(table(cells, head, frozenset((0, 2, 3, 4)), shrink=(6, 7)))


@click.command()
@click.argument("name", metavar="[RUN]")
@click.argument("n", required=False, type=click.IntRange(min=0), metavar="N")
@in_workspace
@as_json
def show(name: str, n: int | None, folder: Path | None, as_json: bool) -> None:
    """Experiment N of RUN, the newest by default: its diff, its hypothesis, and every measurement made for it."""
    workspace = opened(folder)
    run: str | None = name
    if n is None:
        if not name.isdecimal():
            raise UsageError("which experiment?", hint=f"overnight show {name} N")
        run, n = None, int(name)
    record = workspace.record
    shown = inspect.experiment(workspace.folder, record, record.run(run).run, n)
    if as_json:
        print_json(shown)
        return
    click.echo(_render(shown))


def _took(seconds: float) -> str:
    """An imported log does not say."""
    return format_duration(max(seconds, 0.001)) if seconds else "–"


def _render(shown: dict[str, Any]) -> str:
    lines = [
        f"experiment   {shown['n']} of {shown['run']}, by {visible(shown['author'])}",
        f"verdict      {shown['status']}: {visible(shown['reason'])}",
        f"hypothesis   {visible(shown['hypothesis'])}",
        f"metric       {number(shown['metric'])}   gain {signed(shown['delta'])}",
        f"commit       {shown['commit']}",
        f"ended        {timestamp(shown['at'])}, took {_took(shown['seconds'])}",
    ]
    lines += [f"note         {visible(note)}" for note in shown["detail"].get("notes", ())]
    evidence = shown["evidence"]
    if evidence:
        lines += ["", "evidence"]
        told = [[key.replace("_", " "), _short(value)] for key, value in evidence.items() if value is not None]
        lines += [f"{name:<20} {value}" for name, value in told]
    if shown["measurements"]:
        lines += ["", "measurements"]
        rows = [
            [
                item["role"],
                str(item.get("seed", "")),
                number(item["value"]),
                item["outcome"],
                f"{item['seconds']:.3f}s",
                _said(item),
            ]
            for item in shown["measurements"]
        ]
        lines.append(table(rows, ["side", "seed", "value", "outcome", "took", "said"], frozenset((1, 2, 4))))
    lines += ["", visible(shown["diff"], lines=True).rstrip() or "(no change)"]
    return "\n".join(lines)


def _said(item: dict[str, Any]) -> str:
    said = (item.get("scorer_error") or item.get("error") or "").strip()
    return brief(said.splitlines()[-1], 80) if said else ""


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value))
