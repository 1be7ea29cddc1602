"""`overnight gateway` and its keys."""

from pathlib import Path

import click

from overnight.cli.options import as_json, in_workspace, opened, print_json, table
from overnight.core.clock import parse_duration_s, timestamp


@click.group(invoke_without_command=True)
@click.option("--host", metavar="ADDRESS", help="Address to listen on; only this machine by default.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port; 0 lets the system choose.")
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file of settings instead of overnight.toml.",
)
@in_workspace
@click.pass_context
def gateway(ctx: click.Context, host: str | None, port: int | None, path: Path | None, folder: Path | None) -> None:
    """Serve the models of the workspace to any client of OpenAI or Anthropic.

    A change of the settings is taken up with the next request. Ctrl-C lets running calls end.
    """
    ctx.obj = folder
    if ctx.invoked_subcommand is not None:
        return
    from overnight.workspace.gateway import WatchedSettings, serve

    workspace = opened(folder)
    settings = WatchedSettings(workspace, path)

    def say(url: str) -> None:
        names = ", ".join(settings.current().models) or "none yet: add [models.NAME] to overnight.toml"
        click.echo(f"gateway at {url}", err=True)
        click.echo(f"  OpenAI clients:    base URL {url}/v1", err=True)
        click.echo(f"  Anthropic clients: base URL {url}", err=True)
        click.echo(f"  models: {names}", err=True)

    serve(workspace, settings, host, port, say)


@gateway.group()
def key() -> None:
    """Who may use the gateway, and for how much."""


@key.command("new")
@click.argument("name")
@click.option("--agent", default="outside", show_default=True, help="Who is charged.")
@click.option("--tenant", default="default", show_default=True, help="Who pays.")
@click.option("--run", default="", metavar="RUN", help="The run of the loop it belongs to.")
@click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="The most that it may ever spend.")
@click.option("--per-minute", type=click.IntRange(min=0), metavar="N", help="Requests a minute.")
@click.option("--per-day", type=click.IntRange(min=0), metavar="N", help="Requests a day.")
@click.option("--tokens", type=click.IntRange(min=0), metavar="N", help="The most tokens it may ever use.")
@click.option("--at-a-time", type=click.IntRange(min=0), metavar="N", help="Requests at the same time.")
@click.option("--expires", metavar="30d", help="How long it is good for.")
@in_workspace
@as_json
@click.pass_context
def new(
    ctx: click.Context,
    name: str,
    agent: str,
    tenant: str,
    run: str,
    budget: float | None,
    per_minute: int | None,
    per_day: int | None,
    tokens: int | None,
    at_a_time: int | None,
    expires: str | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Make a key called NAME. It is shown once."""
    from overnight.kernel.ledger.limits import Limit
    from overnight.models.gateway.keys import Keys

    asked = (
        (budget, "usd", "total"),
        (per_minute, "calls", "minute"),
        (per_day, "calls", "day"),
        (tokens, "tokens", "total"),
        (at_a_time, "concurrent", "total"),
    )
    limits = [Limit(unit, amount, window) for amount, unit, window in asked if amount is not None]  # type: ignore[arg-type]  # literals in a tuple
    seconds = parse_duration_s(expires) if expires else None
    keys = Keys(opened(folder or ctx.obj).database)
    made, secret = keys.make(name, agent=agent, tenant=tenant, run=run, limits=limits, expires_in_s=seconds)
    if as_json:
        print_json({"name": made.name, "id": made.id, "key": secret, "tenant": made.tenant, "agent": made.agent})
        return
    click.echo(secret)
    click.echo("keep it: it is not shown again", err=True)


@key.command("list")
@click.option("--all", "every", is_flag=True, help="Those of our own calls too, made for one command each.")
@in_workspace
@as_json
@click.pass_context
def list_(ctx: click.Context, every: bool, folder: Path | None, as_json: bool) -> None:
    """Every key that was made for somebody, without its secret."""
    from overnight.models.gateway.keys import OWN, Keys

    keys = [key for key in Keys(opened(folder or ctx.obj).database).all() if every or not key.name.startswith(OWN)]
    if as_json:
        print_json(
            [
                {
                    "name": key.name,
                    "id": key.id,
                    "tenant": key.tenant,
                    "agent": key.agent,
                    "run": key.run or None,
                    "limits": [str(limit) for limit in key.limits],
                    "expires_at": key.expires_at and timestamp(key.expires_at),
                    "revoked": key.revoked,
                }
                for key in keys
            ]
        )
        return
    rows = [
        [
            key.name,
            key.tenant,
            key.agent,
            key.run or "–",
            "; ".join(f"{limit.amount:g} {limit.unit} {limit.window}" for limit in key.limits) or "none of its own",
            "revoked" if key.revoked else timestamp(key.expires_at) if key.expires_at else "in force",
        ]
        for key in keys
    ]
    click.echo(table(rows, ["key", "tenant", "agent", "run", "limits", "state"]))


@key.command()
@click.argument("name")
@in_workspace
@as_json
@click.pass_context
def revoke(ctx: click.Context, name: str, folder: Path | None, as_json: bool) -> None:
    """Take a key out of force, within a second also where a gateway runs."""
    from overnight.models.gateway.keys import Keys

    Keys(opened(folder or ctx.obj).database).revoke(name)
    if as_json:
        print_json({"name": name, "revoked": True})
        return
    click.echo(f"{name} is revoked")
