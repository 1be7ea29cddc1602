"""The journal: the append-only, tamper-evident record of actions, decisions and outcomes.

An entry is *write-ahead*: what an agent is about to do is on the disk before it happens, and if it can't be written,
nothing runs. Each entry's hash covers its content and the hash before it; the same hashes are the leaves of a Merkle
tree whose root is signed at every commit with a key outside the workspace (see `journal.head`). `verify` then finds
every edit, drop, insertion, reordering and, against a head kept outside, a cut-off tail.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from overnight.core.errors import StoreError, UsageError
from overnight.core.ids import new_id
from overnight.kernel.journal.entry import COLUMNS, Change, Draft, Entry, chained, content, genesis
from overnight.kernel.journal.head import Head, OutsideHead
from overnight.kernel.journal.merkle import Tree
from overnight.kernel.journal.read import NEWEST_HEAD, JournalReader
from overnight.kernel.journal.verify import Verification, verify
from overnight.kernel.journal.writer import GroupCommit, Receipt, Row, waits_for_itself
from overnight.kernel.keys import SigningKey, config_folder, outside
from overnight.store.database import Database
from overnight.store.durability import sync

__all__ = ["Change", "Draft", "Entry", "Head", "Journal", "Receipt", "Verification"]

BODY_LIMIT = 1 << 20
"""Longest body of an entry in bytes; larger things go to the blob store and are named by their hash."""

HEAD_EVERY = 1000
"""Of the heads within so many entries only the last stays in the database; verification narrows damage down to them."""

# Python's sqlite3 lets other threads run at every step; one statement for many rows costs one such hand-over instead
# of one a row, which with 64 waiting threads made appending three times as slow.
_AT_ONCE = (128, 16, 1)
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT = {count: f"INSERT INTO journal_entries ({COLUMNS}) VALUES {', '.join([_ROW] * count)}" for count in _AT_ONCE}


@dataclass(slots=True)
class _Position:
    """Where the journal ends: its id, the tree of all entries and the hash of the last one."""

    journal: str
    tree: Tree
    tail: bytes


class Journal(JournalReader):
    """One workspace's journal. Thread-safe; several processes may have the same journal open.

    Not usable across a fork: the new process opens its own.
    """

    def __init__(self, database: Database, key: SigningKey, folder: Path) -> None:
        """Open the journal in `database`, beginning it if there is none.

        Args:
            database: the workspace's.
            key: signs the heads; the same for the life of the journal.
            folder: the configuration folder, where the newest head is left.

        Raises:
            StoreError: it cannot be written, its newest head was not signed by `key`, or it is shorter than that or the
                head kept outside says: its tail was cut off, and nothing may run before a person has looked at it.
        """
        super().__init__(database)
        self._key = key
        self._folder = folder
        with database.transaction():
            position = self._newest()
            if position is None:
                opened = Draft("opened", {"format": 1, "signer": key.id, "public": key.public.hex()})
                position, _ = self._write(_Position(new_id("jrn"), Tree(), b""), [_rows([opened])])
        self._position = position
        self.id = position.journal
        self._outside = OutsideHead(folder, self.id, database.path)
        left = self._outside.read()
        if left is not None and left.size > position.tree.size:
            # Another process may have added entries since: what is outside only ever follows the database.
            with database.transaction():
                self._position = position = self._newest() or position
        if left is not None and (left.size > position.tree.size or not left.signed_by(key.public)):
            raise StoreError(
                f"the journal ends at entry {position.tree.size}, but {left.size} were signed: its tail was cut off",
                hint="run `overnight audit verify`, and restore the newest database; if you put an older one back "
                f"yourself, move {self._outside.path} away",
            )
        last = database.row("SELECT hash FROM journal_entries WHERE seq = ?", (position.tree.size,))
        if last is None or last["hash"] != position.tail.hex():
            raise StoreError(
                f"entry {position.tree.size}, the last of the journal, is not there as it was signed",
                hint="run `overnight audit verify`, and restore the newest database",
            )
        self._flush(self.head())
        self._outside.forget_left_behind()
        self._writer = GroupCommit(self._commit)

    @classmethod
    def open(cls, database: Database, folder: Path | None = None) -> "Journal":
        """The journal of the workspace that `database` belongs to, with the key of the configuration folder.

        Raises:
            SettingsError: that folder lies inside the workspace.
            StoreError: see `__init__`.
        """
        folder = outside(config_folder() if folder is None else folder, _workspace(database))
        return cls(database, SigningKey.open(folder, "journal"), folder)

    @property
    def public(self) -> bytes:
        """The key that checks this journal's heads."""
        return self._key.public

    def append(self, *drafts: Draft, durable: bool = True) -> Receipt:
        """Add entries, adjacent and in this order.

        Within a transaction of the calling thread only with `durable=False`: another thread writes, and it can't before
        the transaction ends. The entries are then written even if the transaction is rolled back.

        Args:
            drafts: at least one.
            durable: return when they are on the disk; one flush serves all threads that wait. Otherwise return at
                once: the entries follow within `journal.writer.LOSS_WINDOW_S`, and a kill -9 before that loses them.
                A later durable entry never overtakes them.

        Raises:
            UsageError: an entry cannot be written down (not JSON, too long); nothing was added.
            StoreError: the journal cannot be written, or waiting for it would never end; nothing was added, and the
                caller must not act.
        """
        inside = self._database.in_transaction
        if durable and inside:
            raise waits_for_itself("a durable entry")
        receipt = Receipt(_rows(drafts), durable=durable, blocked=self._in_transaction)
        self._writer.submit(receipt, patient=not inside)
        return receipt.wait() if durable else receipt

    def sync(self) -> None:
        """Return when everything this process handed in is on the disk.

        Raises:
            StoreError: it cannot be written, or this thread holds a transaction.
        """
        if self._database.in_transaction:
            raise waits_for_itself("waiting for the journal")
        receipt = Receipt((), durable=True)
        self._writer.submit(receipt)
        receipt.wait()

    def close(self) -> None:
        """Write what waits and stop; idempotent.

        Raises:
            StoreError: accepted entries could not be written.
        """
        self._writer.close()

    def verify(self, anchors: Sequence[Head] = ()) -> Verification:
        """Check every entry, every signed head, the head kept outside, and `anchors`."""
        self.sync()
        return verify(self._database, self._key.public, self._folder, anchors)

    def _in_transaction(self) -> bool:
        return self._database.in_transaction

    def _commit(self, batch: Sequence[Receipt]) -> None:
        filled = [receipt for receipt in batch if receipt.rows]
        firsts: dict[int, int] = {}
        head: Head | None = None
        if filled:
            with self._database.transaction():
                position = self._newest()
                if position is None or position.journal != self.id:
                    raise StoreError("the journal was replaced while it was open", hint="run `overnight audit verify`")
                first = position.tree.size + 1
                for receipt in filled:
                    firsts[id(receipt)] = first
                    first += len(receipt.rows)
                position, head = self._write(position, [receipt.rows for receipt in filled])
            self._position = position
        problem = None
        try:
            self._flush(self.head() if head is None else head)
        except StoreError as failure:
            problem = failure
        for receipt in batch:
            if problem is not None and receipt.durable:
                # It is written, but nobody can say that it would outlive a power cut: who asked for that must not act.
                receipt.fail(problem)
            else:
                receipt.settle(firsts.get(id(receipt), 0))

    def _flush(self, head: Head) -> None:
        # In this order: a head outside must never promise what a power cut could take from the database.
        sync(self._database)
        self._outside.advance(head)

    def _newest(self) -> _Position | None:
        """Where the journal ends now; other processes may have added to it."""
        row = self._database.row(NEWEST_HEAD)
        if row is None:
            if self._database.row("SELECT seq FROM journal_entries LIMIT 1") is not None:
                raise StoreError("the journal has lost its heads", hint="run `overnight audit verify`")
            return None
        known: _Position | None = getattr(self, "_position", None)
        if known is not None and row["size"] == known.tree.size and row["root"] == known.tree.root().hex():
            return known
        head = Head(row["journal"], row["size"], row["root"], row["at_us"], row["signer"], row["signature"])
        try:
            tree = Tree(head.size, map(bytes.fromhex, json.loads(row["peaks"])))
            tail = bytes.fromhex(row["tail"])
        except (ValueError, TypeError):
            tree, tail = Tree(), b""
        if tree.root().hex() != head.root or not head.signed_by(self._key.public):
            raise StoreError(
                f"the journal's head at entry {head.size} was not signed by this key ({self._key.id})",
                hint="run `overnight audit verify`; if the key was lost, export the journal and begin a new one",
            )
        return _Position(head.journal, tree, tail)

    def _write(self, position: _Position, batches: Sequence[Sequence[Row]]) -> tuple[_Position, Head]:
        tree, tail = position.tree.copy(), position.tail or genesis(position.journal)
        seq = tree.size
        rows: list[tuple[int | str, ...]] = []
        for batch in batches:
            for at_us, kind, action, session, tenant, agent, tool, objects, text in batch:
                seq += 1
                names = f"{kind}\n{action}\n{session}\n{tenant}\n{agent}\n{tool}"
                tail = chained(tail, content(seq, at_us, names, objects, text))
                tree.append(tail)
                rows.append(
                    (seq, at_us, kind, action, session, tenant, agent, tool, objects, text, tail.hex())
                )  # fmt: skip
        done = 0
        for count in _AT_ONCE:
            while len(rows) - done >= count:
                self._database.execute(_INSERT[count], list(chain.from_iterable(rows[done : done + count])))
                done += count
        head = Head.sign(self._key, position.journal, tree.size, tree.root(), time.time_ns() // 1000)
        # The heads before this one within the same stretch say nothing that this one doesn't.
        self._database.execute(
            "DELETE FROM journal_heads WHERE size > ? AND size < ? AND retired = 0",
            ((tree.size - 1) // HEAD_EVERY * HEAD_EVERY, tree.size),
        )
        self._database.execute(
            "INSERT INTO journal_heads (size, journal, root, at_us, signer, signature, peaks, tail, retired)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                head.size, head.journal, head.root, head.at_us, head.signer, head.signature,
                json.dumps([peak.hex() for peak in tree.peaks]), tail.hex(),
            ),
        )  # fmt: skip
        return _Position(position.journal, tree, tail), head


def _rows(drafts: Sequence[Draft]) -> list[Row]:
    at_us = time.time_ns() // 1000
    rows: list[Row] = []
    for draft in drafts:
        text = draft.encoded()
        if len(text) > BODY_LIMIT:
            raise UsageError(
                f"the {draft.kind} entry is {len(text)} bytes long, more than {BODY_LIMIT}",
                hint="put large values into the blob store and journal their hash",
            )
        rows.append(
            (at_us, draft.kind, draft.action, draft.session, draft.tenant, draft.agent, draft.tool,
             len(draft.changes), text)
        )  # fmt: skip
    return rows


def _workspace(database: Database) -> Path:
    folder = Path(os.path.realpath(database.path)).parent
    # A database elsewhere belongs to no workspace; then only its own folder must not hold the keys.
    return folder.parent if folder.name == ".overnight" else folder
