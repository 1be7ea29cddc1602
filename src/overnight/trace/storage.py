"""Spans and what was said, in the workspace's database."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overnight.core.errors import NotFound
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace import names
from overnight.trace.span import Place, Span

# A row costs 30 µs within the span's transaction, a blob's file 220 µs of its own; long texts would bloat the database.
LONGEST_ROW_BYTES: Final = 32_768
_SHORTEST_PACKED_BYTES: Final = 2048
_RAW, _DEFLATED = b"\x00", b"\x01"

_INSERT: Final = (
    "INSERT INTO spans (trace, span, parent, name, kind, started_us, ended_us, status, attributes, events)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True)
class Summary:
    """One trace in a list.

    Attributes:
        trace_id: 32 hex digits.
        name: of its first root.
        started_us: its first span's start, microseconds since the epoch.
        seconds: to the end of its last span.
        spans: how many.
        errors: how many of them failed.
        calls: settled model calls.
        input_tokens: of those calls, all together.
        output_tokens: the same.
        cost_usd: the same.
    """

    trace_id: str
    name: str
    started_us: int
    seconds: float
    spans: int
    errors: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


class TraceStore:
    """Where traces are kept. Thread-safe; writing joins the caller's transaction, if there is one."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.database = database
        self._blobs = blobs

    def through(self, database: Database) -> "TraceStore":
        """The same store through another connection, whose transactions it joins."""
        return TraceStore(database, self._blobs)

    def write(self, spans: Iterable[Span]) -> None:
        """Keep ended spans.

        Raises:
            DatabaseError: they cannot be kept.
        """
        self.database.execute_many(_INSERT, [span.row() for span in spans])

    def keep_body(self, content: bytes) -> str:
        """Keep what was said, already masked; its hash.

        Raises:
            StoreError: it cannot be kept.
        """
        name = body_name(content)
        self.keep_bodies([(name, content)])
        return name

    def keep_bodies(self, bodies: Sequence[tuple[str, bytes]]) -> None:
        """Keep several texts by their hashes, all or none of those that are rows.

        Raises:
            StoreError: they cannot be kept.
        """
        rows = []
        for name, content in bodies:
            if len(content) > LONGEST_ROW_BYTES:
                self._blobs.put(content)
            else:
                rows.append((name, _packed(content)))
        if rows:
            self.database.execute_many("INSERT OR IGNORE INTO trace_bodies (hash, content) VALUES (?, ?)", rows)

    def body(self, name: str) -> bytes:
        """What was kept under a hash.

        Raises:
            NotFound: nothing is.
        """
        row = self.database.row("SELECT content FROM trace_bodies WHERE hash = ?", (name,))
        if row is None:
            return self._blobs.get(name)
        content: bytes = row["content"]
        return zlib.decompress(content[1:]) if content[:1] == _DEFLATED else content[1:]

    def find(self, prefix: str) -> str:
        """The one trace whose id starts with `prefix`, or that has a span whose id is `prefix`.

        Raises:
            NotFound: there is none, or more than one.
        """
        rows = self.database.rows(
            "SELECT DISTINCT trace FROM spans WHERE (trace >= ? AND trace < ?) LIMIT 3", (prefix, prefix + "g")
        ) or self.database.rows("SELECT DISTINCT trace FROM spans WHERE span = ? LIMIT 3", (prefix,))
        if len(rows) != 1:
            what = "no trace" if not rows else "more than one trace"
            raise NotFound(f"{what} is called {prefix!r}", hint="`overnight trace list` names them")
        found: str = rows[0]["trace"]
        return found

    def spans(self, trace_id: str) -> list[Span]:
        """All spans of a trace, by start."""
        rows = self.database.rows("SELECT * FROM spans WHERE trace = ? ORDER BY started_us, seq", (trace_id,))
        return [_span(row) for row in rows]

    def since(self, seq: int, limit: int = 1000) -> list[Span]:
        """Spans written after `seq`, in the order of writing."""
        rows = self.database.rows("SELECT * FROM spans WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit))
        return [_span(row) for row in rows]

    def latest(self) -> int:
        """`seq` of the span written last; 0 if there is none."""
        row = self.database.row("SELECT MAX(seq) AS seq FROM spans")
        return int(row["seq"] or 0) if row else 0

    def recent(self, limit: int = 20) -> list[Summary]:
        """The traces with the newest spans, newest first."""
        rows = self.database.rows(
            "SELECT trace, MIN(started_us) AS started, MAX(ended_us) AS ended, COUNT(*) AS spans,"
            " SUM(status = 'error') AS errors, MAX(seq) AS newest"
            " FROM spans GROUP BY trace ORDER BY newest DESC LIMIT ?",
            (limit,),
        )
        return [self._summary(row) for row in rows]

    def _summary(self, row: sqlite3.Row) -> Summary:
        trace = row["trace"]
        first = self.database.row(
            "SELECT name FROM spans WHERE trace = ? ORDER BY parent IS NOT NULL, started_us LIMIT 1", (trace,)
        )
        # Every index costs each call a page of the log, so the few traces that are looked at are added up here.
        calls = [
            json.loads(item["attributes"])
            for item in self.database.rows("SELECT attributes FROM spans WHERE trace = ? AND kind = 'client'", (trace,))
        ]
        assert first is not None
        return Summary(
            trace,
            first["name"],
            row["started"],
            (row["ended"] - row["started"]) / 1e6,
            row["spans"],
            row["errors"],
            sum(names.COST_USD in item for item in calls),
            sum(item.get(names.INPUT_TOKENS, 0) for item in calls),
            sum(item.get(names.OUTPUT_TOKENS, 0) for item in calls),
            sum(item.get(names.COST_USD, 0.0) for item in calls),
        )


def body_name(content: bytes) -> str:
    """The name under which `content` is kept: its SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def _packed(content: bytes) -> bytes:
    packed = _RAW + content
    if len(content) < _SHORTEST_PACKED_BYTES:
        return packed
    return min(packed, _DEFLATED + zlib.compress(content, 1), key=len)


def _span(row: sqlite3.Row) -> Span:
    attributes: dict[str, Any] = json.loads(row["attributes"])
    events = [(at, name, fields) for at, name, fields in json.loads(row["events"])]
    return Span(
        Place(row["trace"], row["span"]),
        row["parent"],
        row["name"],
        row["kind"],
        row["started_us"],
        row["ended_us"],
        row["status"],
        attributes,
        events,
        row["seq"],
    )
