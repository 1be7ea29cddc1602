"""Checking a journal: entries against their hashes, hashes against signed heads, heads against what is kept outside."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from overnight.kernel.canonical import Json
from overnight.kernel.journal.entry import COLUMNS, chained, content, genesis
from overnight.kernel.journal.head import Head, OutsideHead
from overnight.kernel.journal.merkle import Tree
from overnight.store.database import Database


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found.

    Attributes:
        ok: nothing is wrong.
        entries: so many were checked; retired ones are not among them.
        retired: so many were exported and removed before the first.
        head: the newest signed head in the database.
        anchored: a head kept outside the database (the configuration folder's, or a given anchor) agrees.
        anchored_size: entries covered by the largest such head; a cut behind it cannot be seen.
        first_bad: the first entry that is not as it was signed, as closely as the signed heads tell; None if ok.
        problem: one sentence; empty if ok.
    """

    ok: bool
    entries: int
    retired: int
    head: Head | None
    anchored: bool
    anchored_size: int
    first_bad: int | None
    problem: str

    def to_json(self) -> dict[str, Json]:
        """The document `audit verify --json` prints."""
        document: dict[str, Json] = {
            "ok": self.ok,
            "entries": self.entries,
            "retired": self.retired,
            "head": None if self.head is None else self.head.to_json(),
            "anchored": self.anchored,
            "anchored_size": self.anchored_size,
        }
        if not self.ok:
            document |= {"first_bad": self.first_bad, "problem": self.problem}
        return document


_HEAD_FIELDS = ("journal", "size", "root", "at_us", "signer", "signature")


class _Bad(Exception):
    def __init__(self, first_bad: int | None, problem: str) -> None:
        super().__init__(problem)
        self.first_bad = first_bad
        self.problem = problem


def verify(database: Database, public: bytes, folder: Path, anchors: Sequence[Head] = ()) -> Verification:
    """Check the journal in `database`; other processes may go on appending meanwhile.

    It need not be possible to open it: one whose tail was cut off can't be.

    Args:
        database: where it lies.
        public: the key that signs its heads.
        folder: the configuration folder, where the newest head is kept outside the database.
        anchors: heads kept elsewhere; each must belong to this journal.

    Raises:
        StoreError: the database or the head outside cannot be read.
    """
    # What is outside is read first: entries may be added meanwhile, never taken away.
    newest = database.row("SELECT journal FROM journal_heads ORDER BY size DESC LIMIT 1")
    outside = OutsideHead(folder, "none" if newest is None else newest["journal"], database.path)
    left = outside.read()
    outer = [*anchors] if left is None else [left, *anchors]
    rows = database.rows("SELECT * FROM journal_heads ORDER BY size")
    inner = [Head(*(row[name] for name in _HEAD_FIELDS)) for row in rows]
    start = _Start.before_the_first(rows)
    head = inner[-1] if inner else None
    checked = 0
    try:
        replaced = outside.others_here()
        if replaced:
            raise _Bad(1, f"the journal {replaced[0].journal} of {replaced[0].size} entries lay here and was replaced")
        if head is None:
            raise _Bad(1, "the journal has no signed head")
        heads = sorted([*inner, *outer], key=lambda item: item.size)
        _check_heads(heads, head, public)
        roots, checked = _walk(database, start, head, {item.size for item in heads})
        _check_roots(heads, roots, start.size)
        _check_end(database, start.size)
    except _Bad as bad:
        return Verification(False, checked, start.size, head, False, 0, bad.first_bad, bad.problem)
    covered = max((item.size for item in outer), default=0)
    return Verification(True, checked, start.size, head, covered > 0, covered, None, "")


@dataclass(frozen=True, slots=True)
class _Start:
    """What stands before the first entry that is kept: nothing, or the last head up to which entries were retired."""

    size: int
    peaks: tuple[bytes, ...]
    tail: bytes | None

    @classmethod
    def before_the_first(cls, heads: Sequence[sqlite3.Row]) -> "_Start":
        retired = [row for row in heads if row["retired"]]
        if not retired:
            return cls(0, (), None)
        row = retired[-1]
        try:
            peaks = tuple(map(bytes.fromhex, json.loads(row["peaks"])))
            return cls(row["size"], peaks, bytes.fromhex(row["tail"]))
        except (ValueError, TypeError):
            # Damaged: the walk from it will not meet any signed root.
            return cls(row["size"], (b"",) * int(row["size"]).bit_count(), b"")


def _check_heads(heads: Sequence[Head], newest: Head, public: bytes) -> None:
    for head in heads:
        if head.journal != newest.journal:
            raise _Bad(1, f"a head belongs to another journal, {head.journal}")
        if not head.signed_by(public):
            raise _Bad(1, f"the head at entry {head.size} was not signed by this journal's key")
        if head.size > newest.size:
            raise _Bad(
                newest.size + 1, f"the tail was cut off: entry {head.size} was signed, {newest.size} is the last"
            )


def _walk(database: Database, start: _Start, head: Head, sizes: set[int]) -> tuple[dict[int, bytes], int]:
    """Recompute every hash; the roots at `sizes`, and how many entries there were."""
    tree = Tree(start.size, start.peaks)
    roots = {start.size: tree.root()}
    tail = genesis(head.journal) if start.tail is None else start.tail
    expected = start.size
    rows = database.execute(f"SELECT {COLUMNS} FROM journal_entries WHERE seq <= ? ORDER BY seq", (head.size,))
    for seq, at_us, kind, action, session, tenant, agent, tool, objects, text, kept in rows:
        expected += 1
        if seq != expected:
            bad = expected if seq > expected else seq
            raise _Bad(bad, f"entry {bad} {'is missing' if seq > expected else 'was put in'}")
        names = f"{kind}\n{action}\n{session}\n{tenant}\n{agent}\n{tool}"
        tail = chained(tail, content(seq, at_us, names, objects, text))
        if tail.hex() != kept:
            raise _Bad(seq, f"entry {seq} is not as it was written, or does not follow the one before it")
        tree.append(tail)
        if seq in sizes:
            roots[seq] = tree.root()
    if expected < head.size:
        raise _Bad(expected + 1, f"entries {expected + 1} to {head.size} are missing")
    return roots, expected - start.size


def _check_roots(heads: Sequence[Head], roots: dict[int, bytes], retired: int) -> None:
    good = retired
    for head in heads:
        if head.size < retired:
            continue
        if roots[head.size].hex() != head.root:
            raise _Bad(good + 1, f"entries {good + 1} to {head.size} are not those that were signed")
        good = head.size


def _check_end(database: Database, retired: int) -> None:
    # One statement, so that both ends are of the same moment.
    ends = database.row(
        "SELECT (SELECT MAX(seq) FROM journal_entries) AS last, (SELECT MAX(size) FROM journal_heads) AS signed"
    )
    assert ends is not None
    last = retired if ends["last"] is None else ends["last"]
    if last > ends["signed"]:
        raise _Bad(ends["signed"] + 1, f"the entries after {ends['signed']} were never signed")
