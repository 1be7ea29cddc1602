"""What waits for a person (`Item`), what they said (`Vote`), and what a vote signs."""

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from overnight.core.escape import visible
from overnight.kernel.canonical import Json, canonical_json, content_hash

Kind = Literal["approval", "trust", "result", "wiki", "skill", "stopped"]
State = Literal["pending", "approved", "denied", "expired", "used"]
"""`approved` until its one use or its expiry; `expired` counts as a no."""

VALUES = "values"
"""Key of `Item.bound`: placeholders in the question, each with the keyed hash of what it stands for."""

CALL, SEAL = "call", "seal"
"""Keys of `Item.bound`: keyed hashes of the call with real values, and of everything that is shown."""

_HASH = re.compile(r"[0-9a-f]{64}")

COLUMNS = (
    "id, kind, binding, title, request, session, tenant, agent, needed, created_at, expires_at, used_at"  # as in Item
)


@dataclass(frozen=True)
class Item:
    """One thing that waits, or waited, for a person.

    Attributes:
        id: unique, sorts by time; ends with digits of the hash of everything below but `used_at` (see `identity`).
        kind: what is asked for.
        binding: SHA-256 of the canonical JSON of `bound`; what a yes is good for.
        title: one line; may hold untrusted text.
        bound: what is asked for, complete.
        context: what else a person should know: reasons, where values came from, what would change. Untrusted text.
        session: of the asking agent; empty where none asks.
        tenant: who pays.
        agent: who asks.
        needed: how many different approvers must say yes.
        created_at: seconds since the epoch.
        expires_at: when it counts as denied; None waits for ever.
        used_at: when its yes was used up.
    """

    id: str
    kind: Kind
    binding: str
    title: str
    bound: Mapping[str, Json]
    context: Mapping[str, Json]
    session: str
    tenant: str
    agent: str
    needed: int
    created_at: float
    expires_at: float | None
    used_at: float | None

    def to_json(self) -> dict[str, Json]:
        """One document of `inbox --json`; text is as it came, escaping is JSON's."""
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "binding": self.binding,
            "bound": dict(self.bound),
            "context": dict(self.context),
            "session": self.session,
            "tenant": self.tenant,
            "agent": self.agent,
            "needed": self.needed,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
        }

    def text(self, revealed: Mapping[str, str] | None = None) -> str:
        """For people: every line, with whatever acts or hides in a terminal spelt out.

        Args:
            revealed: what placeholders in it stand for, shown in brackets in their place; see `Vaults.reveal`.
        """
        lines = [f"{visible(self.id)}  {self.kind}: {visible(self.title, limit=300)}"]
        if identity(self) != self.id:
            lines.append("  CHANGED after it was asked, so nobody can approve it; deny it")
        for part in (self.bound, self.context):
            for key, value in part.items():
                if key not in (VALUES, CALL, SEAL):
                    lines += _lines(visible(key), value, "  ")
        text = "\n".join(lines)
        if not revealed:
            return text
        for name, said in revealed.items():
            text = text.replace(name, f"[{said}]")
        told = [f"    {name} is {said}" for name, said in revealed.items()]
        return "\n".join([text, "  in brackets is what was masked; a yes reveals it to the tool:", *told])


@dataclass(frozen=True, slots=True)
class Vote:
    """One approver's decision on one item. `why` is theirs, `name` that of the credential."""

    approver: str
    name: str
    verdict: Literal["approve", "deny"]
    why: str
    at: float


def identity(item: Item) -> str:
    """The id that an item with this content has.

    A person reads a question under its id and says yes to that id, so an id must not come to stand before another
    question. 80 bits: an attacker who writes the database would have to find a second content for a given id.
    """
    shown: Json = [
        item.kind, item.binding, item.title, dict(item.bound), dict(item.context), item.session, item.tenant,
        item.agent, item.needed, item.created_at, item.expires_at,
    ]  # fmt: skip
    return f"ask_{int(item.created_at * 1000):012x}{content_hash(shown)[:20]}"


def ballot(journal: str, item: Item, verdict: str, why: str, at: float) -> bytes:
    """What an approver signs: for one journal, as another one would not remember that the yes was used."""
    return canonical_json(["overnight vote 2", journal, item.id, item.binding, item.needed, verdict, why, at])


def from_row(row: sqlite3.Row) -> Item:
    """The item in a row of `COLUMNS`."""
    values = dict(row)
    request = cast(dict[str, Mapping[str, Json]], json.loads(values.pop("request")))
    return Item(**values, bound=request["bound"], context=request["context"])


def _lines(key: str, value: Json, indent: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        nested = [_lines(visible(name), item, indent + "  ") for name, item in value.items()]
        return [f"{indent}{key}:", *(line for lines in nested for line in lines)]
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return [f"{indent}{key}:", *(f"{indent}  - {visible(str(item), limit=2000)}" for item in value)]
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, sort_keys=True)
    if _HASH.fullmatch(shown):
        # Nobody compares 64 digits by eye; `--json` has them all.
        shown = f"{shown[:16]}…"
    return [f"{indent}{key}: {visible(shown, limit=2000)}"]
