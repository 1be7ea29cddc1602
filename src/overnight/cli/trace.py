"""`overnight trace`: what was done, by whom, in which words, for how much."""

import dataclasses
import time
from pathlib import Path

import click

from overnight.cli.options import as_json, in_workspace, opened, print_json, table
from overnight.core.clock import format_duration, timestamp
from overnight.core.escape import brief


@click.group()
def trace() -> None:
    """Traces of all work: list them, show one, follow them, send them elsewhere."""


@trace.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, newest first.")
@in_workspace
@as_json
def list_(limit: int, folder: Path | None, as_json: bool) -> None:
    """The newest traces."""
    from overnight.workspace.gateway import trace_store

    found = trace_store(opened(folder)).recent(limit)
    if as_json:
        print_json([{**dataclasses.asdict(item), "started_at": timestamp(item.started_us / 1e6)} for item in found])
        return
    rows = [
        [
            item.trace_id[:12],
            timestamp(item.started_us / 1e6)[:19].replace("T", " "),
            brief(item.name, 40),
            format_duration(max(item.seconds, 0.001)),
            str(item.spans),
            str(item.errors or "–"),
            f"{item.input_tokens}→{item.output_tokens}",
            f"${item.cost_usd:.4f}",
        ]
        for item in found
    ]
    head = ["trace", "started (UTC)", "what", "took", "spans", "failed", "tokens", "cost"]
    click.echo(table(rows, head, frozenset({3, 4, 5, 6, 7})))


@trace.command()
@click.argument("trace_id", metavar="ID")
@click.option("--brief", is_flag=True, help="Leave out what was said.")
@click.option("--full", is_flag=True, help="Show long texts to their end; --json always does.")
@in_workspace
@as_json
def show(trace_id: str, brief: bool, full: bool, folder: Path | None, as_json: bool) -> None:
    """One trace as a tree. ID may be the beginning of a trace's id, or a span's."""
    from overnight.trace.tree import document, render
    from overnight.workspace.gateway import trace_store

    store = trace_store(opened(folder))
    spans = store.spans(store.find(trace_id))
    if as_json:
        print_json({"trace": spans[0].place.trace_id, "spans": document(store, spans)})
        return
    click.echo(f"trace {spans[0].place.trace_id}, {timestamp(spans[0].started_us / 1e6)}")
    click.echo(render(store, spans, texts=not brief, full=full))


@trace.command()
@click.option("--from-start", is_flag=True, help="Begin with the oldest span, not with the next.")
@click.option("--once", is_flag=True, help="Stop when there is nothing more to show.")
@in_workspace
@as_json
def tail(from_start: bool, once: bool, folder: Path | None, as_json: bool) -> None:
    """Spans as they end, until Ctrl-C; with --json one to a line."""
    from overnight.trace.tree import line
    from overnight.workspace.gateway import trace_store

    store = trace_store(opened(folder))
    seq = 0 if from_start or once else store.latest()
    while True:
        spans = store.since(seq)
        for span in spans:
            seq = span.seq
            if as_json:
                print_json(
                    {
                        "trace": span.place.trace_id,
                        "span": span.place.span_id,
                        "parent": span.parent,
                        "name": span.name,
                        "seconds": span.seconds,
                        "status": span.status,
                        "attributes": span.attributes,
                    }
                )
            else:
                click.echo(f"{timestamp(span.ended_us / 1e6)[11:23]}  {span.place.trace_id[:8]}  {line(span)}")
        if not spans:
            if once:
                return
            time.sleep(0.3)


@trace.command()
@click.argument("trace_id", metavar="ID", required=False)
@click.option("--otlp", "url", required=True, metavar="URL", help="A collector, such as http://localhost:4318.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent along; may be given again.")
@in_workspace
@as_json
def export(trace_id: str | None, url: str, headers: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Send a trace, or all of them, to an OpenTelemetry collector."""
    from overnight.trace.otlp import export as send
    from overnight.workspace.gateway import trace_store

    store = trace_store(opened(folder))
    along = dict(header.partition("=")[::2] for header in headers)
    sent, seq = 0, 0
    batch = store.spans(store.find(trace_id)) if trace_id else store.since(0)
    while batch:
        send(url, batch, along)
        sent, seq = sent + len(batch), batch[-1].seq
        batch = [] if trace_id else store.since(seq)
    if as_json:
        print_json({"spans": sent, "url": url})
        return
    click.echo(f"sent {sent} spans to {url}")
