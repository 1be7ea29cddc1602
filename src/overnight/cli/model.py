"""`overnight model`: which models there are, and which of them a prompt would go to."""

import sys
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
    from overnight.models.routing.router import Need
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


@model.group()
def key() -> None:
    """Keys of providers, kept in your configuration folder and never in a workspace."""


@key.command("set")
@click.argument("provider")
@click.option("--for", "url", metavar="URL", help="Where it may be sent; by default where the workspace has PROVIDER.")
@in_workspace
def set_(provider: str, url: str | None, folder: Path | None) -> None:
    """Keep the key of PROVIDER: read from standard input, or asked for at a terminal.

    It is sent to the host it was given for, and to no other. An environment variable named by `api_key_env` goes first.
    """
    from overnight.core.errors import NotFound, UsageError
    from overnight.core.schema import suggest
    from overnight.models.upstream.keys import keep, place_for, place_of

    if url is None:
        providers = opened_with_settings(folder).resolved.settings.providers
        if provider not in providers:
            hint = suggest(provider, providers) if providers else "add [providers.NAME], or say --for URL"
            raise NotFound(f"there is no provider {provider!r} here", hint=hint)
        place = place_for(providers[provider])
    else:
        place = place_of(url)
    if sys.stdin.isatty():
        secret = click.prompt(f"key of {provider} at {place}", hide_input=True, err=True)
    else:
        secret = sys.stdin.readline()
        if not secret.strip():
            raise UsageError(
                "standard input has no key", hint=f"write it like: overnight model key set {provider} < FILE"
            )
    keep(provider, place, secret)
    click.echo(f"kept; requests to {place} by the provider {provider!r} carry it")


@key.command("list")
@as_json
def keys(as_json: bool) -> None:
    """Every key that is kept, without its secret."""
    from overnight.models.upstream.keys import all_kept

    found = all_kept()
    if as_json:
        print_json([{"provider": item.provider, "for": item.place} for item in found])
        return
    if not found:
        click.echo("none is kept; `overnight model key set PROVIDER` keeps one")
        return
    click.echo(table([[item.provider, item.place] for item in found], ["provider", "for"]))


@key.command()
@click.argument("provider")
def rm(provider: str) -> None:
    """Keep the key of PROVIDER no longer."""
    from overnight.models.upstream.keys import forget

    forget(provider)
    click.echo(f"the key of {provider} is gone")
