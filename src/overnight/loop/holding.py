"""One process a run: the lock that says so, and cleaning up after those that were killed."""

import contextlib
import fcntl
from collections.abc import Iterator

from overnight.core.errors import UsageError
from overnight.loop.place import Place
from overnight.store.git.checkout import remove


@contextlib.contextmanager
def holding(place: Place, run: str) -> Iterator[None]:
    """Be the only process that works on a run; its checkouts are gone at the end, however it ends.

    Raises:
        UsageError: another process works on it.
    """
    folder = place.state / "checkouts" / run
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_suffix(".lock")
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another process is working on {run}", hint="see `overnight status`; wait for it, or stop it first"
            ) from None
        try:
            yield
        finally:
            remove(folder)
            lock.unlink(missing_ok=True)


def sweep(place: Place) -> int:
    """Remove checkouts that a killed run left behind; how many."""
    removed = 0
    folder = place.state / "checkouts"
    for left in folder.iterdir() if folder.is_dir() else ():
        if left.suffix == ".lock":
            continue
        try:
            with holding(place, left.name):
                removed += 1
        except UsageError:
            continue
    return removed
