"""Reading a journal. Needs no key and changes nothing, so that a damaged one can be looked at."""

from collections.abc import Iterator

from overnight.core.errors import NotFound, StoreError
from overnight.kernel.journal.entry import COLUMNS, Entry
from overnight.kernel.journal.head import Head
from overnight.store.database import Database

NEWEST_HEAD = "SELECT * FROM journal_heads ORDER BY size DESC LIMIT 1"


class JournalReader:
    """The entries of one workspace's journal that are on the disk. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> Head:
        """The newest signed head in the database."""
        row = self._database.row(NEWEST_HEAD)
        if row is None:
            raise StoreError("the journal has lost its heads", hint="run `overnight audit verify`")
        return Head(row["journal"], row["size"], row["root"], row["at_us"], row["signer"], row["signature"])

    def entry(self, seq: int) -> Entry:
        """The entry at place `seq`.

        Raises:
            NotFound: there is none, or it was retired.
        """
        row = self._database.row(f"SELECT {COLUMNS} FROM journal_entries WHERE seq = ?", (seq,))
        if row is None:
            raise NotFound(f"the journal has no entry {seq}", hint="list them with `overnight audit log`")
        return Entry(*row)

    def of_action(self, action: str) -> list[Entry]:
        """All entries about one action, in order; empty if there is no such action."""
        found = self._database.rows(f"SELECT {COLUMNS} FROM journal_entries WHERE action = ? ORDER BY seq", (action,))
        return [Entry(*row) for row in found]

    def entries(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        kind: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        changed: bool = False,
    ) -> Iterator[Entry]:
        """Entries in order, those that are on the disk.

        Args:
            after: from the place behind this one.
            until: up to this place, included.
            kind: only of this kind.
            session: only of this session.
            agent: only of this agent (not its sub-agents).
            tool: only about this tool.
            changed: only those that changed objects.
        """
        where, values = ["seq > ?"], [after]
        chosen = {"kind": kind, "session": session, "agent": agent, "tool": tool}
        filters: list[object] = list(values)
        for column, wanted in chosen.items():
            if wanted is not None:
                where.append(f"{column} = ?")
                filters.append(wanted)
        if until is not None:
            where.append("seq <= ?")
            filters.append(until)
        if changed:
            where.append("objects > 0")
        sql = f"SELECT {COLUMNS} FROM journal_entries WHERE {' AND '.join(where)} ORDER BY seq"
        for row in self._database.execute(sql, filters):
            yield Entry(*row)
