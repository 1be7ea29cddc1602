import sqlite3
import threading
from pathlib import Path

import pytest

from overnight.core.errors import DatabaseError
from overnight.store.database import Database, migrations


@pytest.fixture
def database(tmp_path: Path) -> Database:
    opened = Database(tmp_path / "deep" / "o.db")
    opened.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT NOT NULL)")
    return opened


def test_it_is_brought_to_the_newest_schema_once(tmp_path: Path) -> None:
    first = Database(tmp_path / "o.db")
    version = first.row("PRAGMA user_version")
    assert version is not None and version[0] == len(migrations()) > 0
    first.close()
    Database(tmp_path / "o.db").close()


def test_transactions_are_all_or_none_and_nest(database: Database) -> None:
    with database.transaction():
        database.execute("INSERT INTO t VALUES (1, 'a')")
        with database.transaction():
            database.execute_many("INSERT INTO t VALUES (?, ?)", [(2, "b"), (3, "c")])
    with pytest.raises(ZeroDivisionError), database.transaction():
        database.execute("INSERT INTO t VALUES (4, 'd')")
        raise ZeroDivisionError
    with pytest.raises(DatabaseError, match="UNIQUE"):
        database.execute_many("INSERT INTO t VALUES (?, ?)", [(5, "e"), (1, "again")])
    assert [row["word"] for row in database.rows("SELECT word FROM t ORDER BY id")] == ["a", "b", "c"]
    database.close()


def test_threads_and_a_second_process_s_view(database: Database, tmp_path: Path) -> None:
    def work(worker: int) -> None:
        for n in range(20):
            with database.transaction():
                row = database.row("SELECT coalesce(max(id), 0) FROM t")
                assert row is not None
                database.execute("INSERT INTO t VALUES (?, ?)", (row[0] + 1, f"{worker}-{n}"))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other = Database(database.path)
    assert other.rows("SELECT count(*), max(id) FROM t")[0][:] == (80, 80)
    other.close()
    database.close()
    assert database.rows("SELECT count(*) FROM t")[0][0] == 80
    database.close()


def test_what_cannot_be_opened_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "rubbish.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(DatabaseError, match="overnight repair"):
        Database(tmp_path / "rubbish.db")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DatabaseError, match="cannot create"):
        Database(tmp_path / "file" / "o.db")
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("PRAGMA user_version = 999")
    newer.close()
    with pytest.raises(DatabaseError, match="newer Overnight"):
        Database(tmp_path / "newer.db")
