"""A trace for people: its spans as a tree, with time, tokens, money, reasons, and what was said.

Everything that a model, a client or a tool wrote is untrusted: it is shown escaped, each line of it behind a bar, so
that it can't pass for a line of ours.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from overnight.core.clock import format_duration, timestamp
from overnight.core.errors import OvernightError
from overnight.core.escape import visible
from overnight.trace import names
from overnight.trace.span import Attribute, Span
from overnight.trace.storage import TraceStore

SHOWN_CHARACTERS: Final = 2000
"""Of one text; the whole of it is in the JSON."""


@dataclass
class Node:
    """A span with what is below it."""

    span: Span
    children: list["Node"] = field(default_factory=list)


def tree(spans: Sequence[Span]) -> list[Node]:
    """The spans' roots. A span whose parent isn't among them is a root: its parent may still be running, or lost."""
    nodes = {span.place.span_id: Node(span) for span in spans}
    roots: list[Node] = []
    for node in nodes.values():
        parent = nodes.get(node.span.parent) if node.span.parent else None
        (roots if parent is None or parent is node else parent.children).append(node)
    reached = set(_below(roots))
    # Spans that are each other's ancestors can only come from a forged parent; they are shown all the same.
    return roots + [Node(node.span) for name, node in nodes.items() if name not in reached]


def document(store: TraceStore, spans: Sequence[Span]) -> list[dict[str, Any]]:
    """The trace as JSON: every span with its children, and what was said in place of its hash."""
    return [_document(store, node) for node in tree(spans)]


def render(store: TraceStore, spans: Sequence[Span], *, texts: bool = True, full: bool = False) -> str:
    """The trace as lines for a terminal.

    Args:
        store: has what was said.
        spans: of the trace.
        texts: show what was said, not only by whom.
        full: all of it; else of each text its beginning.
    """
    outputs: set[str] = set()
    lines: list[str] = []
    limit = (sys.maxsize if full else SHOWN_CHARACTERS) if texts else 0
    for node in tree(spans):
        lines += _lines(store, node, "", limit, outputs)
    return "\n".join(lines)


def line(span: Span) -> str:
    """One span in one line."""
    attributes = span.attributes
    parts = [visible(span.name, limit=120), format_duration(max(span.seconds, 0.0001))]
    if names.INPUT_TOKENS in attributes:
        about = "~" if attributes.get(names.USAGE_ESTIMATED) else ""
        parts.append(f"{about}{attributes[names.INPUT_TOKENS]}→{attributes.get(names.OUTPUT_TOKENS, 0)} tokens")
    cost = attributes.get(names.COST_USD)
    if isinstance(cost, int | float):
        parts.append(f"${cost:.6f}")
    for name, label in _TOLD:
        value = attributes.get(name)
        if value is not None:
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            parts.append(f"{label}{visible(shown, limit=200)}")
    if span.status == "error":
        parts.append(f"FAILED ({visible(str(attributes.get(names.ERROR_TYPE, 'unknown')), limit=80)})")
    return "  ".join(parts)


_TOLD: Final = (
    (names.CANDIDATES, "candidates "),
    (names.CACHE, "cache "),
    (names.MASKED, "masked "),
    (names.RULE, "by "),
    (names.REASON, "because "),
    (names.WARNING, "WARNING "),
)


def _lines(store: TraceStore, node: Node, indent: str, limit: int, outputs: set[str]) -> Iterator[str]:
    span = node.span
    yield f"{indent}{timestamp(span.started_us / 1e6)[11:23]}  {line(span)}"
    inner = indent + "  "
    for name, label in ((names.CONTEXT_TAKEN, "saw"), (names.CONTEXT_LEFT_OUT, "left out")):
        for told in _hashes(span, name):
            yield f"{inner}· {label} {visible(told, limit=200)}"
    if limit:
        yield from _given(store, span, inner, limit, outputs)
        for name in _hashes(span, names.INPUT):
            # What a client sends back of an earlier answer has been shown as that answer.
            if name not in outputs:
                yield from _said(store, name, inner, limit)
    events = list(span.events)
    for child in node.children:
        while events and events[0][0] <= child.span.started_us:
            yield _event(*events.pop(0), inner)
        yield from _lines(store, child, inner, limit, outputs)
    yield from (_event(*event, inner) for event in events)
    if limit and not any(names.OUTPUT in child.span.attributes for child in node.children):
        for name in _hashes(span, names.OUTPUT):
            outputs.add(name)
            yield from _said(store, name, inner, limit)


def _given(store: TraceStore, span: Span, indent: str, limit: int, shown: set[str]) -> Iterator[str]:
    """Instructions and tools, where they are not those that were shown before."""
    for label, attribute in (("system", names.INSTRUCTIONS), ("tools", names.TOOLS)):
        for name in _hashes(span, attribute):
            if name in shown:
                continue
            shown.add(name)
            found = _body(store, name)
            told = [found] if isinstance(found, str) else found if isinstance(found, list) else []
            if label == "tools":
                told = [", ".join(str(tool[0]) for tool in told if isinstance(tool, list) and tool)]
            for text in told:
                for number, row in enumerate(visible(str(text), lines=True, limit=limit).split("\n")):
                    yield f"{indent}{label if number == 0 else '':<9} │ {row}"


def _event(at_us: int, name: str, fields: Mapping[str, Attribute], indent: str) -> str:
    told = "  ".join(f"{key.rpartition('.')[2]} {visible(str(value), limit=200)}" for key, value in fields.items())
    return f"{indent}{timestamp(at_us / 1e6)[11:23]}  · {visible(name, limit=80)}  {told}".rstrip()


def _said(store: TraceStore, name: str, indent: str, limit: int) -> Iterator[str]:
    message = _body(store, name)
    if not isinstance(message, dict):
        yield f"{indent}│ {visible(str(message), limit=limit)}"
        return
    role = visible(str(message.get("role", "?")), limit=20)
    for part in message.get("parts") or ():
        text = str(part.get("content", part.get("response", "")))
        if part.get("type") == "tool_call":
            text = f"calls {part.get('name')}({part.get('arguments')})"
        elif part.get("type") == "tool_call_response":
            text = f"result {text}"
        for number, row in enumerate(visible(text, lines=True, limit=limit).split("\n")):
            yield f"{indent}{role if number == 0 else '':<9} │ {row}"


def _document(store: TraceStore, node: Node) -> dict[str, Any]:
    span = node.span
    attributes: dict[str, Any] = dict(span.attributes)
    for name in (names.INPUT, names.OUTPUT, names.INSTRUCTIONS, names.TOOLS):
        if name in attributes:
            found = [_body(store, item) for item in _hashes(span, name)]
            attributes[name] = found if isinstance(attributes[name], list) else found[0]
    return {
        "trace": span.place.trace_id,
        "span": span.place.span_id,
        "parent": span.parent,
        "name": span.name,
        "kind": span.kind,
        "started_at": timestamp(span.started_us / 1e6),
        "seconds": span.seconds,
        "status": span.status,
        "attributes": attributes,
        "events": [
            {"at": timestamp(at / 1e6), "name": name, "attributes": dict(fields)} for at, name, fields in span.events
        ],
        "children": [_document(store, child) for child in node.children],
    }


def _hashes(span: Span, name: str) -> list[str]:
    value = span.attributes.get(name)
    return [value] if isinstance(value, str) else [str(item) for item in value] if isinstance(value, list) else []


def _body(store: TraceStore, name: str) -> Any:
    try:
        return json.loads(store.body(name))
    except (OvernightError, ValueError):
        return f"(the text {name[:12]}… is gone)"


def _below(nodes: Sequence[Node]) -> Iterator[str]:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node.span.place.span_id
        waiting += node.children
