"""`overnight approver`, and opening the approver's credential for a command: `--as`, passphrase, first use."""

import getpass
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from overnight.cli.options import as_json, print_json
from overnight.core.errors import Missing, Refused, UsageError
from overnight.kernel.approval.approver import Approver, Credential

F = TypeVar("F", bound=Callable[..., Any])


def by_approver(command: F) -> F:
    """Add --as and --passphrase-stdin; the command gets `as_name` and `passphrase_stdin`, for `open_credential`."""
    for option in (
        click.option("--as", "as_name", metavar="NAME", help="Which approver you are, where there are several."),
        click.option("--passphrase-stdin", is_flag=True, help="Read the passphrase from standard input."),
    ):
        command = option(command)
    return command


def open_credential(as_name: str | None, passphrase_stdin: bool) -> Credential:
    """The credential of the person at this command. Asks only at a terminal.

    Raises:
        Missing: there is none, and nobody at a terminal who could make one.
        Refused: this is an agent's process, or the passphrase is missing or wrong.
    """
    approver = Approver()
    known = approver.known()
    if not known and as_name is None and _at_terminal():
        return _first(approver)
    sealed = any(item.passphrase for item in known.values() if as_name in (None, item.name))
    if not sealed:
        return approver.credential(name=as_name)
    if passphrase_stdin:
        passphrase = sys.stdin.readline().rstrip("\n")
    elif _at_terminal():
        passphrase = click.prompt("passphrase of the approver", hide_input=True, err=True)
    else:
        raise Refused(
            "the approver's credential needs its passphrase",
            reason="passphrase_needed",
            hint="run it at a terminal, or pass --passphrase-stdin",
        )
    return approver.credential(passphrase, name=as_name)


def _first(approver: Approver) -> Credential:
    name = re.sub(r"[^a-z0-9._-]", "", getpass.getuser().lower()).lstrip("._-") or "approver"
    click.echo("This is the first approval here: your approver's credential is made now.", err=True)
    click.echo("With a passphrase, no program of yours can approve without you; empty is none.", err=True)
    passphrase = click.prompt("passphrase", default="", hide_input=True, show_default=False, err=True)
    if passphrase and click.prompt("repeat it", hide_input=True, err=True) != passphrase:
        raise UsageError("the two passphrases differ; no credential was made", hint="try again")
    credential = approver.create(name, passphrase or None)
    click.echo(f"You are the approver {name!r}; keep {approver.folder} to yourself.", err=True)
    return credential


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


@click.group()
def approver() -> None:
    """Who approves here. Credentials lie in your configuration folder, where no agent's sandbox can read them."""


@approver.command("list")
@as_json
def list_(as_json: bool) -> None:
    """Everybody whose approval counts on this machine."""
    rows = [
        {"name": known.name, "id": key, "passphrase": known.passphrase} for key, known in Approver().known().items()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['name']}  {row['id']}  {'with' if row['passphrase'] else 'without'} a passphrase")
    if not rows:
        click.echo("nobody yet; the first `overnight approve` at a terminal makes your credential")


@approver.command()
@click.argument("name")
@by_approver
@as_json
def add(name: str, as_name: str | None, passphrase_stdin: bool, as_json: bool) -> None:
    """Enrol NAME beside you, for tools that need two approvers. Needs your credential; NAME types a passphrase."""
    by = open_credential(as_name, passphrase_stdin)
    if not _at_terminal():
        raise Missing("a new approver types a passphrase", hint="run it at a terminal")
    passphrase = click.prompt(f"passphrase of {name}", hide_input=True, confirmation_prompt=True, err=True)
    made = Approver().create(name, passphrase, by=by)
    if as_json:
        print_json({"name": made.name, "id": made.id})
    else:
        click.echo(f"{made.name} approves here from now on, enrolled by {by.name}")
