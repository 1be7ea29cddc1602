from pathlib import Path

import pytest

from overnight.core.errors import DatabaseError
from overnight.store.database import Database
from overnight.store.durability import sync


def test_what_was_committed_is_flushed_and_still_there(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db")
    database.execute("CREATE TABLE t (x)")
    database.execute("INSERT INTO t VALUES (1)")
    sync(database)
    database.close()
    # Without other connections the log is gone; the database itself is flushed then.
    sync(database)
    assert [row["x"] for row in Database(tmp_path / "a.db").rows("SELECT x FROM t")] == [1]


def test_a_database_that_is_gone_cannot_be_flushed(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db")
    database.close()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(DatabaseError, match="it is gone"):
        sync(database)
