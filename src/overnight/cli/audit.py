"""`overnight audit`: the journal: read it, check it, take it elsewhere, undo what it tells of."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from overnight.cli.credential import by_approver, open_credential
from overnight.cli.options import as_json, in_workspace, opened, print_json
from overnight.core.clock import timestamp
from overnight.core.escape import visible
from overnight.kernel.approval.approver import Approver
from overnight.kernel.journal.anchor import anchor_in_git, write_anchor
from overnight.kernel.journal.check import check, entries_about
from overnight.kernel.journal.entry import KINDS, LAST_PLACE
from overnight.kernel.journal.export import verify_export
from overnight.kernel.journal.history import History
from overnight.kernel.journal.journal import Entry, Journal
from overnight.kernel.journal.read import JournalReader
from overnight.kernel.masking.vaults import open_vaults
from overnight.kernel.parts import open_parts
from overnight.kernel.rollback.undo import UNDO_FAMILY, plan_undo, undo
from overnight.store.git.repository import Repository

_file = click.Path(path_type=Path, dir_okay=False)


@click.group()
def audit() -> None:
    """The journal: every action, decision and outcome, in an order nobody can change unseen."""


@audit.command()
@click.option("--session", help="Only of this session.")
@click.option("--agent", help="Only of this agent.")
@click.option("--tool", help="Only about this tool.")
@click.option("--kind", type=click.Choice(sorted(KINDS)), help="Only entries of this kind.")
@click.option("--after", default=0, metavar="N", help="Only entries behind number N.")
@in_workspace
@as_json
def log(
    session: str | None, agent: str | None, tool: str | None, kind: str | None, after: int, folder: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Every entry, oldest first; with --json one object per line."""
    reader = JournalReader(opened(folder).database)
    for entry in reader.entries(after=min(after, LAST_PLACE), kind=kind, session=session, agent=agent, tool=tool):
        if as_json:
            print_json(entry.to_json())
        else:
            click.echo(_line(entry))


@audit.command()
@click.argument("name", metavar="ID")
@click.option("--state", is_flag=True, help="Also the state of every journaled object after it.")
@click.option("--content", "file", metavar="PATH", help="Print the file at PATH as it was after it, and nothing else.")
@click.option("--reveal", is_flag=True, help="Show personal data in the place of placeholders; secrets stay hidden.")
@in_workspace
@as_json
def show(name: str, state: bool, file: str | None, reveal: bool, folder: Path | None, as_json: bool) -> None:
    """One action (act_…), question (ask_…) or entry (its number), complete.

    A file that no action changed before it is not known; one that was changed is known back to its first before-image.
    """
    workspace = opened(folder)
    entries = entries_about(workspace.database, name)
    if file is not None:
        journal = Journal.open(workspace.database)
        held = History(workspace.database, journal, workspace.blobs).content_at(entries[-1].seq, file)
        journal.close()
        click.echo(held, nl=False)
        return
    if reveal:
        vaults = open_vaults(workspace.folder, workspace.database)
        entries = [vaults.revealed(entry) for entry in entries]
    document: dict[str, Any] = {"id": name, "entries": [entry.to_json() for entry in entries]}
    if state:
        journal = Journal.open(workspace.database)
        document["state"] = History(workspace.database, journal, workspace.blobs).state_at(entries[-1].seq)
        journal.close()
    if as_json:
        print_json(document)
        return
    for entry in entries:
        click.echo(_line(entry))
        for key, value in entry.body.items():
            click.echo(
                f"    {visible(key)}: {visible(value if isinstance(value, str) else json.dumps(value), limit=2000)}"
            )
        for change in entry.changes:
            click.echo(f"    {visible(change.object)}: {change.before or 'absent'} → {change.after or 'absent'}")
    for thing, content in document.get("state", {}).items():
        click.echo(f"  then {visible(thing)} was {content or 'absent'}")


@audit.command()
@click.option("--anchor", "anchors", multiple=True, type=_file, help="A file made by `audit anchor`; may be repeated.")
@click.option("--git", "in_git", is_flag=True, help="Also check against the anchors in the enclosing repository.")
@click.option("--export", "export_file", type=_file, help="Check an exported file instead.")
@in_workspace
@as_json
def verify(
    anchors: tuple[Path, ...], in_git: bool, export_file: Path | None, folder: Path | None, as_json: bool
) -> None:
    """Check every entry, every signed head and what is anchored outside. Exit code 1 if something is wrong."""
    if export_file is not None:
        head = verify_export(export_file)
        if as_json:
            print_json({"ok": True, "entries": head.size, "head": head.to_json(), "anchored": False})
        else:
            click.echo(f"ok: an export up to entry {head.size}, signed by {head.signer}")
        return
    workspace = opened(folder)
    found = check(workspace.database, anchors, workspace.folder if in_git else None)
    if as_json:
        print_json(found.to_json())
    elif found.ok:
        outside = f"anchored up to entry {found.anchored_size}" if found.anchored else "not anchored outside"
        click.echo(f"ok: {found.entries} entries as they were signed, {outside}")
    else:
        click.echo(f"NOT OK: {found.problem}; first bad entry: {found.first_bad}")
    if not found.ok:
        sys.exit(1)


@audit.command()
@click.argument("path", type=_file, metavar="FILE")
@in_workspace
@as_json
def export(path: Path, folder: Path | None, as_json: bool) -> None:
    """Write all entries to the new FILE, one JSON document a line, with the head that proves them."""
    workspace = opened(folder)
    journal = Journal.open(workspace.database)
    head = History(workspace.database, journal, workspace.blobs).export(path)
    journal.close()
    if as_json:
        print_json({"file": str(path), "head": head.to_json()})
    else:
        click.echo(f"{path}: entries up to {head.size}; check it with: overnight audit verify --export {path}")


@audit.command()
@click.argument("until", type=int, metavar="N")
@click.argument("path", type=_file, metavar="FILE")
@by_approver
@in_workspace
@as_json
def retire(
    until: int, path: Path, as_name: str | None, passphrase_stdin: bool, folder: Path | None, as_json: bool
) -> None:
    """Move entries up to N, or the last signed head before it, into the new FILE. Needs your approver's credential."""
    workspace = opened(folder)
    credential = open_credential(as_name, passphrase_stdin)
    journal = Journal.open(workspace.database)
    last = History(workspace.database, journal, workspace.blobs).retire(
        min(until, LAST_PLACE), path, credential, Approver()
    )
    journal.close()
    if as_json:
        print_json({"file": str(path), "retired": last})
    else:
        click.echo(f"{path}: took the entries up to {last}; keep it, the workspace no longer has them")


@audit.command()
@click.argument("path", required=False, type=_file, metavar="[FILE]")
@click.option("--git", "in_git", is_flag=True, help="As a commit in the enclosing repository, to be pushed elsewhere.")
@in_workspace
@as_json
def anchor(path: Path | None, in_git: bool, folder: Path | None, as_json: bool) -> None:
    """Leave the newest signed head in FILE (appended) or in git, out of reach of whoever holds the database."""
    if (path is None) != in_git:
        raise click.UsageError("name a FILE or say --git")
    workspace = opened(folder)
    journal = Journal.open(workspace.database)
    head, place = journal.head(), str(path)
    if path is not None:
        write_anchor(path, head, journal.public)
    else:
        with Repository.open(workspace.folder, create=False) as repository:
            place = anchor_in_git(repository, head, journal.public)
    journal.close()
    if as_json:
        print_json({"anchor": place, "head": head.to_json()})
    else:
        click.echo(f"{place}: entry {head.size}, root {head.root}")


@audit.command()
@click.argument("target", metavar="ID")
@click.option("--plan", "only_plan", is_flag=True, help="Say what it would do, and do nothing.")
@click.option("--anyway", is_flag=True, help="Also undo what others changed since, and leave what cannot be undone.")
@by_approver
@in_workspace
@as_json
def rollback(
    target: str,
    only_plan: bool,
    anyway: bool,
    as_name: str | None,
    passphrase_stdin: bool,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Undo an action (act_…) or a whole session (ses_…), newest change first. Needs your approver's credential."""
    workspace = opened(folder)
    credential = None if only_plan else open_credential(as_name, passphrase_stdin)
    parts = open_parts(workspace.folder, workspace.database, bursts={UNDO_FAMILY: None})
    try:
        plan = plan_undo(workspace.folder, parts, target)
        if not as_json:
            for line in [*(step.sentence for step in plan.steps), *plan.conflicts, *plan.irreversible]:
                click.echo(f"  {visible(line)}")
        outcomes = (
            None if credential is None
            else undo(workspace.folder, parts, Approver(), credential, plan, anyway=anyway)
        )  # fmt: skip
    finally:
        parts.journal.close()
    done = sum(outcome.status == "done" for outcome in outcomes or [])
    if as_json:
        results = [
            {"action": outcome.action, "status": outcome.status, "error": outcome.error} for outcome in outcomes or []
        ]
        print_json({**plan.to_json(), "done": done, "results": results})
    elif outcomes is None:
        click.echo(f"nothing was done; this is what would be: {len(plan.steps)} steps")
    else:
        for outcome in outcomes:
            if outcome.status != "done":
                why = outcome.error or outcome.decision.reasons[0].sentence
                click.echo(f"  {visible(outcome.decision.tool)} {outcome.status}: {visible(why)}")
        click.echo(f"{done} of {len(plan.steps)} steps done")
    if outcomes is not None and done < len(plan.steps):
        sys.exit(1)


def _line(entry: Entry) -> str:
    body = entry.body
    what = next(
        (str(body[key]) for key in ("decision", "status", "vote", "asked", "reason", "text") if body.get(key)),
        "used" if body.get("used") else "",
    )
    cells = [str(entry.seq).rjust(6), timestamp(entry.at_us / 1e6), entry.kind.ljust(8), visible(entry.action)]
    cells += [visible(entry.agent), visible(entry.tool), visible(what, limit=100)]
    return "  ".join(cell for cell in cells if cell).rstrip()
