"""The workspace's database: plain sqlite3, write-ahead logging, numbered migrations, portable statements."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from overnight.core.errors import DatabaseError

BUSY_TIMEOUT_S = 30.0


class Database:
    """One SQLite file, shared by all threads of a process and by several processes.

    Every thread gets its own connection. Reads see the last committed state; `transaction` takes the write lock at
    its start, so what is read inside stays true until it ends, and nests by joining the outer one. All failures are
    `DatabaseError`. In a read-only folder everything can be read and nothing written.
    """

    def __init__(self, path: Path) -> None:
        """Open `path`, creating it and bringing it to the newest migration.

        Raises:
            DatabaseError: it cannot be opened or written, is damaged, or was made by a newer Overnight.
        """
        self.path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise DatabaseError(f"cannot create {path.parent}: {problem.strerror}") from problem
        self._migrate()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement; outside a `transaction` it commits by itself."""
        with self._translated():
            return self._connection().execute(sql, values)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row, all or none."""
        with self.transaction(), self._translated():
            self._connection().executemany(sql, rows)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query; columns by name or index."""
        with self._translated():
            return self._connection().execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        with self._translated():
            found: sqlite3.Row | None = self._connection().execute(sql, values).fetchone()
            return found

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, holding the write lock from the start."""
        with self._translated():
            connection = self._connection()
            if connection.in_transaction:
                yield
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    @property
    def in_transaction(self) -> bool:
        """Whether this thread holds a transaction, so that no other thread can write until it ends."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        return connection is not None and connection.in_transaction

    def close(self) -> None:
        """Close every thread's connection; further use opens new ones."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            self._local = threading.local()

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._open()
            connection.row_factory = sqlite3.Row
            # NORMAL survives kill -9 whole; a power cut may lose the last commits, which `repair` takes from git.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._local.connection = connection
            with self._lock:
                self._connections.append(connection)
        return connection

    def _open(self) -> sqlite3.Connection:
        """A connection that writes; where the folder is read-only, one that reads what is there."""
        uri = self.path.absolute().as_uri()
        connection = self._connect(f"{uri}?mode=rwc")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            connection.close()
            if not self.path.is_file() or os.access(self.path.parent, os.W_OK):
                raise
            # Nobody can write here, so nothing changes while it is read. What stands in a log alone needs the log.
            log = self.path.with_name(f"{self.path.name}-wal")
            return self._connect(f"{uri}?{'mode=ro' if log.exists() and log.stat().st_size else 'immutable=1'}")
        return connection

    def _connect(self, uri: str) -> sqlite3.Connection:
        # Each thread uses only its own; `close` is the one call from elsewhere.
        return sqlite3.connect(
            uri,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            uri=True,
        )

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise DatabaseError(f"{self.path}: {problem}", hint=_hint(problem)) from problem

    def _migrate(self) -> None:
        steps = migrations()
        with self._translated():
            done = self._connection().execute("PRAGMA user_version").fetchone()[0]
        if done > len(steps):
            raise DatabaseError(
                f"{self.path} was made by a newer Overnight (schema {done}, this one knows {len(steps)})",
                hint="upgrade overnight",
            )
        if done == len(steps):
            return
        with self.transaction():
            connection = self._connection()
            done = connection.execute("PRAGMA user_version").fetchone()[0]
            for number, (_, script) in enumerate(steps[done:], start=done + 1):
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")


def migrations() -> list[tuple[str, str]]:
    """Name and SQL of every migration, in order; append-only, numbered from 0001 without gaps."""
    folder = resources.files("overnight.store") / "migrations"
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    for number, item in enumerate(files, start=1):
        assert item.name.startswith(f"{number:04d}_"), f"migration {item.name} should be number {number:04d}"
    return [(item.name, item.read_text("utf-8")) for item in files]


def _statements(script: str) -> Iterator[str]:
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    assert not pending.strip() or pending.lstrip().startswith("--"), f"unfinished statement: {pending!r}"


def _hint(problem: sqlite3.Error) -> str:
    text = str(problem)
    if "full" in text:
        return "free some disk space, then resume; nothing recorded is lost"
    if "readonly" in text or "unable to open" in text:
        return "make the folder's .overnight/ writable for you"
    if "malformed" in text or "not a database" in text:
        return "move the file away and run `overnight repair`: it is rebuilt from git"
    return ""
