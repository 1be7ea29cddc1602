"""The words of the journal: what is handed in (`Draft`), what is kept (`Entry`), and how an entry is hashed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from overnight.core.errors import UsageError
from overnight.kernel.canonical import Json

EntryKind = Literal[
    "opened", "proposed", "decided", "executed", "result", "approval", "rollback", "trust", "limit", "run", "retired",
    "note",
]  # fmt: skip
"""An action is `proposed` → `decided` → `executed` (about to run) → `result`; one without a result did not end. The
others say what persons (`approval`, `trust`), the ledger and breaker (`limit`), the loop (`run`) and the journal itself
(`opened`, `retired`) did."""

KINDS: frozenset[str] = frozenset(get_args(EntryKind))
LAST_PLACE = (1 << 63) - 1
"""No journal has an entry behind this place; databases count no further."""
NAME_LIMIT = 512
"""Longest text, in characters, of an entry's ids and names."""

# ASCII only: no character of a body can act on a terminal, end a line or be lost in an encoding.
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def encode_body(body: Json) -> str:
    """A body as it is kept and hashed: ASCII JSON with sorted keys, on one line."""
    return _encoder.encode(body)


@dataclass(frozen=True, slots=True)
class Change:
    """One object before and after an action.

    Attributes:
        object: `file:<path in the workspace>`, `git:<ref>` or any other stable name.
        before: content id, by which the blob store or git finds it; None is absent.
        after: likewise.
    """

    object: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Draft:
    """One entry to be journaled.

    Attributes:
        kind: what it says.
        body: anything else, as JSON; `changes` is a reserved key.
        action: id shared by all entries about one action.
        session: id of the session.
        tenant: who pays.
        agent: who acts, after its parents.
        tool: canonical tool id.
        changes: objects that changed, or are about to.
    """

    kind: EntryKind
    body: Mapping[str, Json]
    action: str = ""
    session: str = ""
    tenant: str = ""
    agent: str = ""
    tool: str = ""
    changes: tuple[Change, ...] = ()

    def encoded(self) -> str:
        """The body as it is kept, the changes in it.

        Raises:
            UsageError: the entry cannot be written down as it is.
        """
        if self.kind not in KINDS:
            raise UsageError(f"there is no kind of entry {self.kind!r}", hint=f"known: {', '.join(sorted(KINDS))}")
        for name in (self.action, self.session, self.tenant, self.agent, self.tool):
            if not name.isprintable() or len(name) > NAME_LIMIT:
                raise UsageError(
                    f"{name[:80]!r} cannot be an id in the journal",
                    hint=f"use at most {NAME_LIMIT} printable characters",
                )
        body: Mapping[str, Json] = self.body
        if "changes" in body:
            raise UsageError("an entry's body cannot have a key 'changes'", hint="hand them in as Draft.changes")
        if self.changes:
            body = {**body, "changes": [[change.object, change.before, change.after] for change in self.changes]}
        try:
            return encode_body(body)
        except (TypeError, ValueError, RecursionError) as problem:
            raise UsageError(f"the {self.kind} entry is not JSON: {problem}", hint="pass plain JSON values") from None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as kept. Field names are those of `Draft` and of the exported lines.

    Attributes:
        seq: its place, from 1, without gaps.
        at_us: when it was handed in, microseconds since the epoch.
        objects: how many changes the body carries.
        text: the body as JSON text, exactly as hashed.
        hash: of this entry and, through the hash before it, of all before; hex.
    """

    seq: int
    at_us: int
    kind: str
    action: str
    session: str
    tenant: str
    agent: str
    tool: str
    objects: int
    text: str
    hash: str

    @property
    def body(self) -> dict[str, Json]:
        """The body, without the changes."""
        body = cast(dict[str, Json], json.loads(self.text))
        body.pop("changes", None)
        return body

    @property
    def changes(self) -> tuple[Change, ...]:
        """The objects that changed."""
        if not self.objects:
            return ()
        return tuple(Change(*change) for change in json.loads(self.text)["changes"])

    def to_json(self) -> dict[str, Json]:
        """The line that `audit log --json` and an export print."""
        return {
            "seq": self.seq,
            "at_us": self.at_us,
            "kind": self.kind,
            "action": self.action,
            "session": self.session,
            "tenant": self.tenant,
            "agent": self.agent,
            "tool": self.tool,
            "objects": self.objects,
            "body": cast(Json, json.loads(self.text)),
            "hash": self.hash,
        }


COLUMNS = "seq, at_us, kind, action, session, tenant, agent, tool, objects, body, hash"
"""Columns of the table in the order of `Entry`'s fields."""


def content(seq: int, at_us: int, names: str, objects: int, text: str) -> bytes:
    """What is hashed of an entry: every column. `names` are kind, action, session, tenant, agent and tool, one a line.

    No field can contain a line break (names are printable, bodies are JSON), so that the lines are unambiguous.
    """
    return f"{seq}\n{at_us}\n{names}\n{objects}\n{text}".encode()


def chained(previous: bytes, entry_content: bytes) -> bytes:
    """The hash of an entry after the one with hash `previous`.

    It is the RFC 6962 leaf hash of the leaf `previous + entry_content`: the chain and the leaves of the Merkle tree are
    the same hashes, computed once.
    """
    return hashlib.sha256(b"\x00" + previous + entry_content).digest()


def genesis(journal: str) -> bytes:
    """What stands for the hash before the first entry of the journal with this id."""
    return hashlib.sha256(b"overnight journal 1\n" + journal.encode()).digest()
