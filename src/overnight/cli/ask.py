"""`overnight ask`: a prompt, answered at the lowest tier that can."""

import json
import secrets
import sys
from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, opened_with_settings, print_json
from overnight.core.errors import UsageError
from overnight.core.escape import visible


@click.command()
@click.argument("prompt")
@click.option("--tier", type=click.IntRange(0, 3), default=0, help="The lowest tier to ask; 0 lets rules answer.")
@click.option("--model", default="", metavar="NAME", help="Ask this model, whatever the prompt.")
@click.option(
    "--schema",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A JSON schema that the answer has to follow.",
)
@click.option("--pattern", default="", metavar="REGEX", help="A pattern that the whole answer has to match.")
@click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="The most that this may cost.")
@in_workspace
@as_json
def ask(
    prompt: str,
    tier: int,
    model: str,
    schema: Path | None,
    pattern: str,
    budget: float | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Answer PROMPT (`-` reads it from standard input) at the lowest tier that can.

    Rules answer what they fully understand; else the router chooses a model, and a higher one is asked where the
    answer fails a check or its model was not sure. Exit code 1: no answer would do.
    """
    from overnight.models.ask.ask import ask as answer
    from overnight.models.ask.check import Check
    from overnight.models.release import Releases
    from overnight.models.routing.router import Need
    from overnight.workspace import models

    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise UsageError("the prompt is empty", hint='write it like: overnight ask "3 km in miles"')
    check = Check(_schema(schema), pattern)
    workspace = opened_with_settings(folder)
    route = models.router(workspace).route(text, models.situation(workspace), Need(tier, model))
    tracer = models.tracer(workspace)
    try:
        reply = answer(
            text,
            route,
            Releases(models.model_settings(workspace)),
            workspace.resolved.settings.router,
            tracer,
            lambda: models.models(workspace, "ask", f"ask-{secrets.token_hex(6)}", budget),
            check,
        )
    finally:
        tracer.close()
    if as_json:
        print_json({**_told(reply), "route": route.encoded()})
    elif reply.text is not None:
        click.echo(visible(reply.text, lines=True))
        click.echo(f"tier {reply.tier}{f' ({reply.model})' if reply.model else ''}: {visible(reply.reason)}", err=True)
    if reply.text is None:
        if not as_json:
            click.echo(f"no answer: {visible(reply.reason)}", err=True)
            click.echo(f"  see: overnight trace show {reply.trace_id}", err=True)
        sys.exit(1)


def _schema(path: Path | None) -> Any:
    if path is None:
        return None
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as problem:
        raise UsageError(f"{path} is not a JSON schema: {problem}") from problem


def _told(reply: Any) -> dict[str, Any]:
    said = reply.said
    return {
        "answer": reply.text,
        "tier": reply.tier,
        "model": reply.model or None,
        "reason": reply.reason,
        "trace": reply.trace_id,
        "attempts": [item.encoded() for item in reply.attempts],
        "tokens": None if said is None else {"input": said.input_tokens, "output": said.output_tokens},
    }
