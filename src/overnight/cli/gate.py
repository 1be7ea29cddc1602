"""`overnight gate`: who may do what, why a call would be decided as it is, and what is trusted."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, cast, get_args

import click

from overnight.cli.credential import by_approver, open_credential
from overnight.cli.options import as_json, in_workspace, opened, print_json, table
from overnight.core.clock import format_duration
from overnight.core.errors import NotFound, UsageError
from overnight.core.escape import visible
from overnight.kernel.flow.label import Label
from overnight.kernel.simulation import Simulation


@click.group()
def gate() -> None:
    """Every action of an agent is decided here, by rules in AGENTS.md."""


def _call(command: Any) -> Any:
    for option in (
        click.option("--session", metavar="ID", help="With the history of this session."),
        click.option("--label", "labels", multiple=True, metavar="ARG=LABEL", help="Assume user, system or untrusted."),
        click.option("--request", default="", metavar="TEXT", help="What the person is taken to have typed."),
        click.option("--args", "args", default="{}", metavar="JSON", help="Arguments of the call."),
        click.option("--tool", required=True, help="The tool that would be called."),
        click.option("--agent", required=True, help="Who would call it."),
        click.option("--tenant", default="default", show_default=True, help="For whom."),
    ):
        command = option(command)
    return command


@gate.command()
@_call
@in_workspace
@as_json
def check(
    agent: str, tenant: str, tool: str, args: str, request: str, labels: tuple[str, ...], session: str | None,
    folder: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Decide a call without executing it. Exit code 0 allowed, 1 ask, 3 denied.

    An `ask` is put into the inbox, so that it can be approved beforehand; nothing runs.
    """
    simulation = Simulation.open(opened(folder))
    try:
        proposed = _arguments(args)
        decision = simulation.decide(agent, tenant, tool, proposed, request, _labels(labels), session)
        if decision.verdict == "ask":
            decision = simulation.ask(decision, tenant, session, proposed)
    finally:
        simulation.close()
    if as_json:
        print_json(decision.to_json())
    else:
        click.echo(f"{decision.verdict}  by {decision.rule}")
        for reason in decision.reasons:
            click.echo(f"  {reason.code}: {visible(reason.sentence)}")
        if decision.approval_id:
            click.echo(f"  overnight approve {decision.approval_id}")
    sys.exit({"ask": 1, "deny": 3}.get(decision.verdict, 0))


@gate.command()
@_call
@in_workspace
@as_json
def explain(
    agent: str, tenant: str, tool: str, args: str, request: str, labels: tuple[str, ...], session: str | None,
    folder: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Why a call would be decided as it is: every rule that speaks, every label, every objection."""
    simulation = Simulation.open(opened(folder))
    try:
        document = simulation.explain(agent, tenant, tool, _arguments(args), request, _labels(labels), session)
    finally:
        simulation.close()
    if as_json:
        print_json(document)
        return
    click.echo(f"{document['decision']}  by {document['rule']}")
    for reason in document["reasons"]:
        click.echo(f"  {reason['code']}: {visible(reason['sentence'])}")
    for name, origin in document["origins"].items():
        click.echo(f"  {visible(name)} is {origin['label']}, {origin['confidentiality']}: {visible(origin['source'])}")
    rows = [[rule["where"], rule["decision"], "yes" if rule["applies"] else "no"] for rule in document["rules"]]
    if rows:
        click.echo(table(rows, ["rule", "says", "applies"]))
    if document["roles"]:
        click.echo(f"roles: {', '.join(document['roles'])}")


@gate.command()
@in_workspace
@as_json
def matrix(folder: Path | None, as_json: bool) -> None:
    """Who may do what: agents by tools, as the trusted rules say before arguments are looked at.

    Below it stand what is masked from whom, limits, combinations, and what the breaker takes for machine speed.
    """
    simulation = Simulation.open(opened(folder))
    try:
        document = simulation.matrix()
    finally:
        simulation.close()
    if as_json:
        print_json(document)
        return
    cells = document["cells"]
    if not cells:
        click.echo("no rules are in force: every call is denied; write a permissions block in AGENTS.md")
        return
    agents = sorted({cell["agent"] for cell in cells})
    tools = sorted({cell["tool"] for cell in cells})
    found = {(cell["agent"], cell["tool"]): cell["decision"] for cell in cells}
    click.echo(table([[tool, *(found.get((a, tool), "deny") for a in agents)] for tool in tools], ["tool", *agents]))
    click.echo(f"policy {document['policy'][:16]}; ? = depends on the arguments")
    masking = document["masking"]
    click.echo("masked: " + ", ".join(f"{hide} from {agent}" for agent, hide in masking.items()))
    click.echo("too fast: " + ", ".join(f"{family} {speed}" for family, speed in document["machine_speed"].items()))
    for name in document["limits"]:
        click.echo(f"limit: {name}")
    for rule in document["combinations"]:
        window = format_duration(rule["within_s"]) if rule["within_s"] else "never"
        click.echo(
            f"combination: {visible(rule['name'])}: {rule['decision']} per {rule['scope']}, forgotten after {window}"
        )
    for tool, by in document["undo"].items():
        click.echo(f"undone: {tool} with {by}")
    if document["approvers_of_destructive"] > 1:
        click.echo("destructive calls that ask need two approvers")


@gate.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option("--yes", is_flag=True, help="Trust without asking again; the differences are still printed.")
@in_workspace
@by_approver
@as_json
def trust(
    paths: tuple[str, ...], yes: bool, folder: Path | None, as_name: str | None, passphrase_stdin: bool, as_json: bool
) -> None:
    """Show what changed in AGENTS.md files, overnight.toml, program.md and skills, and put it in force."""
    simulation = Simulation.open(opened(folder), compile_rules=False)
    try:
        waiting = [item for item in simulation.trust.pending() if not paths or item.path in paths]
        missing = set(paths) - {item.path for item in waiting} - set(simulation.trust.paths())
        if missing:
            raise NotFound(f"there is nothing to trust at {min(missing)!r}", hint="name it from the workspace's root")
        if not as_json:
            for item in waiting:
                click.echo(visible(item.diff, lines=True) or f"{item.path}: empty")
        if not waiting:
            click.echo("everything is in force as it stands", err=True)
        elif yes or (sys.stdin.isatty() and click.confirm(f"trust {len(waiting)} files as shown?", err=True)):
            simulation.check_rules(waiting)
            simulation.trust.trust(waiting, open_credential(as_name, passphrase_stdin))
        else:
            raise UsageError("nothing was trusted", hint="look at the differences, then pass --yes")
    finally:
        simulation.close()
    if as_json:
        print_json({"trusted": [dataclasses.asdict(item) for item in waiting]})
    else:
        for item in waiting:
            click.echo(f"in force: {visible(item.path)} {item.sha256[:16] or '(gone)'}")


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"--args is not JSON: {problem}", hint="""write --args '{"path": "docs/a.md"}'""") from None
    if not isinstance(value, dict):
        raise UsageError(f"--args is no table: {text[:80]!r}", hint="""write --args '{"path": "docs/a.md"}'""")
    return value


def _labels(given: tuple[str, ...]) -> dict[str, Label]:
    labels: dict[str, Label] = {}
    for item in given:
        name, _, label = item.partition("=")
        if label not in get_args(Label):
            raise UsageError(f"--label {item!r} is not ARG=LABEL", hint=f"labels: {', '.join(get_args(Label))}")
        labels[name] = cast(Label, label)
    return labels
