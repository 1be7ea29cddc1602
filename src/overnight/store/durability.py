"""When what was committed must outlive a power cut, not only a crash of the process."""

import os

from overnight.core.errors import DatabaseError
from overnight.store.database import Database


def sync(database: Database) -> None:
    """Put everything committed so far, by any thread or process, on the disk itself.

    SQLite's own way (`synchronous = FULL`) keeps the write lock during the disk's flush, so that every other writer
    waits for it. Flushing the write-ahead log after the commit gives the same guarantee without the lock: a frame that
    is no longer in the log has been flushed into the database by the checkpoint that removed it.

    Raises:
        DatabaseError: the disk refused; what was committed may not be on it.
    """
    for path in (database.path.with_name(database.path.name + "-wal"), database.path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as problem:
            raise DatabaseError(f"cannot flush {path}: {problem.strerror}", hint="check the disk") from problem
        try:
            os.fsync(descriptor)
        except OSError as problem:
            raise DatabaseError(f"cannot flush {path}: {problem.strerror}", hint="check the disk") from problem
        finally:
            os.close(descriptor)
        return
    raise DatabaseError(f"cannot flush {database.path}: it is gone", hint="restore the file, then try again")
