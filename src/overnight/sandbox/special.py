"""Sockets and named pipes in folders that a command is shown.

A mount namespace does not keep a command from talking to a process of the host through them, so bwrap covers each.
"""

import os
import stat
import threading
import time
from pathlib import Path

from overnight.core.errors import UsageError

# Each costs a mount; nobody needs that many.
_MOST = 64
# Folders that are shown read-only are data: they may be large and hardly change.
_REMEMBER_S = 60.0


def find_special(source: str) -> tuple[str, ...]:
    """Paths, relative to the folder `source`, of its sockets and named pipes; `.` if it is one itself.

    Raises:
        UsageError: there are too many to cover.
    """
    try:
        mode = os.stat(source).st_mode
    except OSError:
        return ()
    if not stat.S_ISDIR(mode):
        return (".",) if _special(mode) else ()
    found, stack = [], [source]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    # The kind comes with the name, mostly: nothing is asked about ordinary files.
                    if entry.is_file(follow_symlinks=False) or entry.is_symlink():
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    elif _special(entry.stat(follow_symlinks=False).st_mode):
                        found.append(os.path.relpath(entry.path, source))
                        if len(found) > _MOST:
                            raise UsageError(f"{source} holds more than {_MOST} sockets and pipes", hint="remove them")
        except OSError:
            continue  # gone, or not ours to read: then not the command's either
    return tuple(found)


def _special(mode: int) -> bool:
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)


class SpecialFiles:
    """`find_special` with a memory for folders that the command may not change. Any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._lock = threading.Lock()

    def within(self, source: Path, *, writable: bool) -> tuple[str, ...]:
        """See `find_special`."""
        path, now = str(source), time.monotonic()
        if writable:
            return find_special(path)
        with self._lock:
            known = self._known.get(path)
        if known is None or known[0] < now:
            known = (now + _REMEMBER_S, find_special(path))
            with self._lock:
                self._known[path] = known
        return known[1]
