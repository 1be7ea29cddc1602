"""`overnight inbox`, `approve` and `deny`: what waits for a person."""

import time
from pathlib import Path
from typing import get_args

import click

from overnight.cli.credential import by_approver, open_credential
from overnight.cli.options import as_json, in_workspace, opened, print_json
from overnight.core.clock import format_duration
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.approval.inbox import Inbox, Item, Kind
from overnight.kernel.journal.journal import Journal
from overnight.kernel.masking.vaults import open_vaults


@click.command()
@click.option("--kind", type=click.Choice(get_args(Kind)), help="Only items of this kind.")
@in_workspace
@as_json
def inbox(kind: str | None, folder: Path | None, as_json: bool) -> None:
    """What waits for a person, oldest first."""
    workspace = opened(folder)
    database = workspace.database
    journal = Journal.open(database)
    items = [item for item in Inbox(database, Approver(), journal).pending() if kind in (None, item.kind)]
    journal.close()
    vaults = open_vaults(workspace.folder, database)
    if as_json:
        print_json([{**item.to_json(), "state": "pending", "reveals": vaults.reveal(item)} for item in items])
        return
    if not items:
        click.echo("nothing waits for you")
    for item in items:
        click.echo(item.text(vaults.reveal(item)))
        click.echo(f'  {_age(item)}\n  overnight approve {item.id}   or   overnight deny {item.id} --why "…"\n')


@click.command()
@click.argument("item_id", metavar="ID")
@click.option("--why", default="", help="For the record.")
@by_approver
@in_workspace
@as_json
def approve(
    item_id: str, why: str, as_name: str | None, passphrase_stdin: bool, folder: Path | None, as_json: bool
) -> None:
    """Say yes to exactly what ID shows, once. Needs your approver's credential."""
    _vote(item_id, why, "approve", open_credential(as_name, passphrase_stdin), folder, as_json)


@click.command()
@click.argument("item_id", metavar="ID")
@click.option("--why", default="", help="For the record, and for the agent.")
@by_approver
@in_workspace
@as_json
def deny(
    item_id: str, why: str, as_name: str | None, passphrase_stdin: bool, folder: Path | None, as_json: bool
) -> None:
    """Say no to ID. Needs your approver's credential."""
    _vote(item_id, why, "deny", open_credential(as_name, passphrase_stdin), folder, as_json)


def _vote(item_id: str, why: str, verdict: str, credential: Credential, folder: Path | None, as_json: bool) -> None:
    workspace = opened(folder)
    journal = Journal.open(workspace.database)
    box = Inbox(workspace.database, Approver(), journal)
    try:
        item = box.get(item_id)
        # A yes to values that nobody can be shown is none; a no needs to see nothing.
        revealed = open_vaults(workspace.folder, workspace.database).reveal(item) if verdict == "approve" else {}
        if not as_json:
            click.echo(item.text(revealed))
        state = box.approve(item_id, credential, why) if verdict == "approve" else box.deny(item_id, credential, why)
    finally:
        journal.close()
    if as_json:
        print_json({"id": item.id, "kind": item.kind, "state": state, "needed": item.needed, "by": credential.name})
    elif state == "pending":
        click.echo(f"noted; {item.id} needs {item.needed} different approvers")
    else:
        click.echo(f"{item.id} is {state}")


def _age(item: Item) -> str:
    now = time.time()
    text = f"asked {format_duration(max(now - item.created_at, 0))} ago"
    return text if item.expires_at is None else f"{text}, expires in {format_duration(max(item.expires_at - now, 0))}"
