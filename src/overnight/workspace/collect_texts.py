"""What was said in model calls, past its retention: the texts of traces, which are most of what they take.

Spans, tokens and costs stay. A trace goes as a whole: as long as a conversation goes on, its beginning stays readable.
"""

import contextlib
import re
import time
from dataclasses import dataclass
from typing import Final

from overnight.core.errors import DatabaseError
from overnight.store.blobs import Blobs
from overnight.store.database import Database

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_SPANS: Final = "SELECT seq, attributes FROM spans WHERE seq > ? AND trace IN (SELECT trace FROM spans GROUP BY trace"
_WORTH_PACKING_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class Texts:
    """Texts that no trace needs which is not past its retention.

    Attributes:
        number: how many.
        size_bytes: as they are kept.
    """

    number: int
    size_bytes: int


def collect_texts(database: Database, blobs: Blobs, retention_s: float, *, remove: bool) -> Texts:
    """Find what is past its retention; with `remove`, remove it. A gateway may write meanwhile.

    Args:
        database: with spans and the shorter texts.
        blobs: the longer ones.
        retention_s: after the end of a trace.
        remove: whether it goes.
    """
    limit_us = int((time.time() - retention_s) * 1e6)
    # The long look goes before the lock; what was written meanwhile is looked at under it.
    needed, last = _needed(database, limit_us, 0)
    if not remove:
        return _unneeded(database, blobs, needed)[2]
    with database.transaction():
        needed |= _needed(database, limit_us, last)[0]
        rows, files, texts = _unneeded(database, blobs, needed)
        database.execute_many("DELETE FROM trace_bodies WHERE hash = ?", [(name,) for name in rows])
        # Whoever names a text that is there already does so within a transaction, so nobody does now.
        for name in files:
            blobs.delete(name)
    if texts.size_bytes > _WORTH_PACKING_BYTES and rows:
        # Without it the file keeps its size and uses the room again; somebody else may be reading.
        with contextlib.suppress(DatabaseError):
            database.execute("VACUUM")
    return texts


def _needed(database: Database, limit_us: int, after: int) -> tuple[set[str], int]:
    needed: set[str] = set()
    last = after
    for row in database.rows(f"{_SPANS} HAVING MAX(ended_us) >= ?)", (after, limit_us)):
        needed.update(_NAME.findall(row["attributes"]))
        last = max(last, row["seq"])
    return needed, last


def _unneeded(database: Database, blobs: Blobs, needed: set[str]) -> tuple[list[str], list[str], Texts]:
    sizes = {row["hash"]: row["n"] for row in database.rows("SELECT hash, LENGTH(content) AS n FROM trace_bodies")}
    rows = [name for name in sizes if name not in needed]
    files = [name for name in blobs.ids() if name not in needed]
    size = sum(sizes[name] for name in rows) + sum(blobs.size_bytes(name) for name in files)
    return rows, files, Texts(len(rows) + len(files), size)
