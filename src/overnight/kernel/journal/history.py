"""What the journal says about the past: the state of every object at any entry; and letting go of old entries."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from overnight.core.errors import NotFound, Refused, StoreError, UsageError
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.journal.export import export_lines, write_export
from overnight.kernel.journal.journal import Draft, Head, Journal
from overnight.store.blobs import Blobs
from overnight.store.database import Database

_HEAD = "size, journal, root, at_us, signer, signature, peaks, tail"


class History:
    """Reads one workspace's journal backwards and forwards."""

    def __init__(self, database: Database, journal: Journal, blobs: Blobs) -> None:
        self._database = database
        self._journal = journal
        self._blobs = blobs

    def state_at(self, seq: int) -> dict[str, str | None]:
        """Content id of every journaled object after entry `seq`, by its name; None is absent.

        The contents themselves are in the blob store or in git under these ids, as long as their retention lasts.

        Raises:
            NotFound: the journal does not reach there, or those entries were retired.
        """
        self._journal.sync()
        retired, state = self._retired_state()
        if not retired <= seq <= self._journal.head().size:
            raise NotFound(
                f"the journal holds entries {retired + 1} to {self._journal.head().size}, not {seq}",
                hint="read older ones from the export they were retired to",
            )
        for entry in self._journal.entries(until=seq, changed=True):
            for change in entry.changes:
                state[change.object] = change.after
        return state

    def content_at(self, seq: int, path: str) -> bytes:
        """The file at `path` as it was after entry `seq`; before its first change, as that change found it.

        Raises:
            NotFound: it is not journaled, was absent then, or its content is past its retention.
        """
        name = f"file:{path}"
        state = self.state_at(seq)
        if name in state:
            content = state[name]
        else:
            later = self._journal.entries(after=seq, changed=True)
            first = next((c for entry in later for c in entry.changes if c.object == name), None)
            if first is None:
                raise NotFound(f"no action on record changed {path!r}", hint="see `overnight audit show ID --state`")
            content = first.before
        if content is None:
            raise NotFound(f"there was no {path!r} after entry {seq}", hint="look at another entry")
        return self._blobs.get(content)

    def before(self, seq: int) -> dict[str, str | None]:
        """Content id of the objects that entry `seq` changed, as they were before it.

        Raises:
            NotFound: there is no such entry.
        """
        return {change.object: change.before for change in self._journal.entry(seq).changes}

    def export(self, path: Path) -> Head:
        """Write every entry that is kept to the new file `path`; the head it ends with.

        Raises:
            UsageError: the file exists.
            StoreError: it cannot be written.
        """
        self._journal.sync()
        head = self._journal.head()
        write_export(path, self.lines(head))
        return head

    def lines(self, head: Head) -> Iterator[str]:
        """The lines of an export that ends at `head`."""
        row = self._database.row(f"SELECT {_HEAD} FROM journal_heads WHERE retired = 1 ORDER BY size DESC LIMIT 1")
        before = (0, cast(list[str], []), None) if row is None else (row["size"], json.loads(row["peaks"]), row["tail"])
        return export_lines(head, self._journal.public, self._journal.entries(until=head.size), before)

    def retire(self, until: int, path: Path, credential: Credential, approver: Approver) -> int:
        """Move old entries into an export and out of the database; the number of the last one that went.

        What remains is verified from a signed head on, and still knows the state of every object.

        Args:
            until: up to this entry, or the last signed head before it.
            path: new file that takes them.
            credential: the approver's: this takes away what the workspace itself remembers.
            approver: who is known here.

        Raises:
            Refused: the credential is unknown.
            UsageError: there is nothing to retire, or the file exists.
            StoreError: the journal does not verify, or the file cannot be written; nothing was removed.
        """
        if credential.id not in approver.known():
            raise Refused(f"{credential.name!r} is no approver here", reason="unknown_approver")
        found = self._journal.verify()
        if not found.ok:
            raise StoreError(f"the journal does not verify: {found.problem}", hint="look into that first")
        retired, _ = self._retired_state()
        row = self._database.row(
            f"SELECT {_HEAD} FROM journal_heads WHERE size <= ? AND size > ? ORDER BY size DESC LIMIT 1",
            (until, retired),
        )
        if row is None:
            raise UsageError(f"no signed head lies at or before entry {until}", hint="retire up to a later entry")
        head = Head(row["journal"], row["size"], row["root"], row["at_us"], row["signer"], row["signature"])
        state = json.dumps(self.state_at(head.size), sort_keys=True)
        digest = write_export(path, self.lines(head))
        self._journal.append(
            Draft(
                "retired",
                {"until": head.size, "export_sha256": digest, "state": self._blobs.put(state.encode()),
                 "approver": credential.id},
            )
        )  # fmt: skip
        with self._database.transaction():
            # The entry just added may have taken the place of this head; put it back, for good.
            self._database.execute("DELETE FROM journal_heads WHERE size <= ?", (head.size,))
            self._database.execute(
                f"INSERT INTO journal_heads ({_HEAD}, retired) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)", tuple(row)
            )
            self._database.execute("DELETE FROM journal_entries WHERE seq <= ?", (head.size,))
        return head.size

    def _retired_state(self) -> tuple[int, dict[str, str | None]]:
        row = self._database.row("SELECT MAX(size) AS size FROM journal_heads WHERE retired = 1")
        if row is None or row["size"] is None:
            return 0, {}
        for entry in self._journal.entries(kind="retired"):
            if entry.body["until"] == row["size"]:
                state = json.loads(self._blobs.get(str(entry.body["state"])))
                return row["size"], cast(dict[str, str | None], state)
        raise NotFound(f"what was retired up to entry {row['size']} left no state", hint="read it from the export")
