"""`overnight report`, `export` and `import`."""

from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, opened, print_json
from overnight.cli.run import render
from overnight.loop.record.export import export as export_lines
from overnight.loop.record.export import import_file
from overnight.loop.report.write import write_report


@click.command()
@click.argument("name", required=False, metavar="[RUN]")
@in_workspace
@as_json
def report(name: str | None, folder: Path | None, as_json: bool) -> None:
    """What RUN found, the newest by default: a self-contained page, a chart, and the numbers."""
    workspace = opened(folder)
    result = write_report(workspace.record, workspace.folder, workspace.state, name)
    if result["path"] is None:
        click.echo(f"note: the page was not written: {workspace.state} is read-only", err=True)
    if as_json:
        print_json(result)
    else:
        click.echo(render(result))


@click.command()
@click.argument("name", required=False, metavar="[RUN]")
@click.option("--format", "form", type=click.Choice(["karpathy", "pi", "jsonl"]), default="jsonl", show_default=True)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="A file; standard output by default.")
@in_workspace
def export(name: str | None, form: Any, output: Path | None, folder: Path | None) -> None:
    """RUN in another tool's format: karpathy's results.tsv, pi's log.jsonl, or our own lines."""
    record = opened(folder).record
    info = record.run(name)
    text = "".join(f"{line}\n" for line in export_lines(info, record.experiments(info.run), form))
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--run", "name", metavar="NAME", help="The run's name; made from the file by default.")
@click.option(
    "--direction", type=click.Choice(["minimize", "maximize"]), help="For results.tsv, which does not say (minimize)."
)
@in_workspace
@as_json
def import_(file: Path, name: str | None, direction: Any, folder: Path | None, as_json: bool) -> None:
    """FILE, a results.tsv of karpathy/autoresearch or a log.jsonl of pi-autoresearch, as a run of the past."""
    workspace = opened(folder)
    run = import_file(workspace.record, file, name, direction)
    result = write_report(workspace.record, workspace.folder, workspace.state, run)
    if as_json:
        print_json(result)
    else:
        click.echo(render(result))
