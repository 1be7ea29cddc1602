"""`overnight model`: which models there are, and which of them a prompt would go to."""

from pathlib import Path

import click

from overnight.cli.options import as_json, in_workspace, opened_with_settings, print_json, table
from overnight.core.escape import visible


@click.group()
def model() -> None:
    """Which models there are, and where a prompt would go."""


@model.command("list")
@in_workspace
@as_json
def list_(folder: Path | None, as_json: bool) -> None:
    """Every model, its tier, and whether it can be had at this moment."""
    from overnight.workspace import models

    workspace = opened_with_settings(folder)
    settings = models.model_settings(workspace).models
    rows = [
        {
            "name": item.name,
            "tier": item.tier,
            "provider": settings[item.name].provider,
            "model": settings[item.name].model,
            "available": not item.why_not,
            "why_not": item.why_not or None,
        }
        for item in models.router(workspace).offers()
    ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("no models yet; add [providers.NAME] and [models.NAME] to overnight.toml")
        return
    cells = [
        [str(row["name"]), str(row["tier"]), str(row["provider"]), str(row["model"]), str(row["why_not"] or "yes")]
        for row in rows
    ]
    click.echo(table(cells, ["name", "tier", "provider", "model", "available"]))


@model.command()
@click.option("--port", type=click.IntRange(0, 65535), default=4300, show_default=True, help="On this machine.")
@click.option(
    "--weights",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A GGUF file instead of the tiny model that comes with the extra.",
)
def serve(port: int, weights: Path | None) -> None:
    """Serve a tiny local model to the gateway, until Ctrl-C. Needs the extra `local`."""
    import threading

    from overnight.models.local import LocalModel

    model = LocalModel(weights, port)
    click.echo(f"serving at {model.url}; in overnight.toml:", err=True)
    click.echo(f'[providers.tiny]\nkind = "openai-compatible"\nbase_url = "{model.url}/v1"\nfree = true')
    click.echo(
        'api_key_env = "TINY_KEY"\n\n[models.tiny]\nprovider = "tiny"\nmodel = "tiny"\ntier = 1\nmax_tokens = 256'
    )
    click.echo(f"and in the environment: TINY_KEY={model.key}", err=True)
    threading.Event().wait()


@model.command()
@click.argument("prompt")
@click.option("--tier", type=click.IntRange(0, 3), default=0, help="The lowest tier to choose.")
@in_workspace
@as_json
def route(prompt: str, tier: int, folder: Path | None, as_json: bool) -> None:
    """Where PROMPT would go, and why; nothing is asked. Exit code 1: nothing that would do can be had."""
    from overnight.models.router import Need
    from overnight.workspace import models

    workspace = opened_with_settings(folder)
    found = models.router(workspace).route(prompt, models.situation(workspace), Need(tier))
    if as_json:
        print_json(found.encoded())
    else:
        click.echo(f"tier {'–' if found.tier is None else found.tier}  {found.model or ''}".rstrip())
        click.echo(f"why     {visible(found.reason)}")
        if found.answer:
            click.echo(f"answer  {visible(found.answer.text)}")
        cells = [
            [item.name, str(item.tier), f"{item.score:.2f}", visible(item.why_not or "would do")]
            for item in found.candidates
        ]
        click.echo(table(cells, ["candidate", "tier", "score", "why not"]))
    if found.tier is None:
        raise click.exceptions.Exit(1)
