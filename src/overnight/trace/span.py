"""Spans: one stretch of work, its place in a tree, what is known about it."""

import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["internal", "client", "server"]
Status = Literal["ok", "error"]
Attribute = str | int | float | bool | Sequence[str] | None
"""None is left out of the record."""

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_DUMP = json.JSONEncoder(ensure_ascii=False).encode  # half the time of `json.dumps` with arguments


@dataclass(frozen=True, slots=True)
class Place:
    """Where a span stands: what a child needs to know of its parent."""

    trace_id: str
    span_id: str

    @classmethod
    def from_header(cls, traceparent: str) -> "Place | None":
        """The place in a W3C `traceparent` header; None if it is not one."""
        match = _TRACEPARENT.fullmatch(traceparent.strip().lower())
        if match is None or not (int(match[1], 16) and int(match[2], 16)):
            return None
        return cls(match[1], match[2])

    @property
    def header(self) -> str:
        """The W3C `traceparent` header for it."""
        return f"00-{self.trace_id}-{self.span_id}-01"


@dataclass(slots=True)
class Span:
    """A span being made, or read back.

    Attributes:
        place: trace and span id.
        parent: the parent's span id; None at the root.
        name: `{operation} {model}` for model calls, as the conventions say.
        kind: `client` calls out, `server` answers a call, the rest is `internal`.
        started_us: microseconds since the epoch.
        ended_us: the same; 0 while it lasts.
        status: `error` needs an `error.type` attribute.
        attributes: by the names of `trace.names`.
        events: time in microseconds, name and attributes of what happened in it.
        seq: place in the order of writing, once written.
    """

    place: Place
    parent: str | None
    name: str
    kind: Kind = "internal"
    started_us: int = 0
    ended_us: int = 0
    status: Status = "ok"
    attributes: dict[str, Attribute] = field(default_factory=dict)
    events: list[tuple[int, str, Mapping[str, Attribute]]] = field(default_factory=list)
    seq: int = 0

    @classmethod
    def start(
        cls,
        name: str,
        parent: Place | None = None,
        *,
        kind: Kind = "internal",
        trace_id: str = "",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> "Span":
        """Begin a span now: below `parent`, else as the root of `trace_id`, else of a new trace."""
        trace = parent.trace_id if parent else trace_id or new_trace_id()
        place = Place(trace, f"{random.getrandbits(64) or 1:016x}")
        return cls(place, parent.span_id if parent else None, name, kind, now_us(), attributes=dict(attributes or {}))

    def add(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Note that something happened now."""
        self.events.append((now_us(), name, dict(attributes or {})))

    def fail(self, kind: str, reason: str = "") -> None:
        """Mark it as failed; `kind` is the conventions' `error.type`, `reason` is in words."""
        self.status = "error"
        self.attributes["error.type"] = kind
        if reason:
            self.attributes["overnight.reason"] = reason

    def end(self) -> None:
        """End it now, if it has not ended."""
        self.ended_us = self.ended_us or now_us()

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0, self.ended_us - self.started_us) / 1e6

    def row(self) -> tuple[str, str, str | None, str, str, int, int, str, str, str]:
        """Its columns, `seq` aside."""
        kept = {name: value for name, value in self.attributes.items() if value is not None}
        return (
            self.place.trace_id,
            self.place.span_id,
            self.parent,
            self.name,
            self.kind,
            self.started_us,
            self.ended_us,
            self.status,
            _DUMP(kept),
            _DUMP(self.events) if self.events else "[]",
        )


def new_trace_id() -> str:
    """A fresh trace id."""
    return f"{random.getrandbits(128) or 1:032x}"


def now_us() -> int:
    """The present, in microseconds since the epoch."""
    return time.time_ns() // 1000
