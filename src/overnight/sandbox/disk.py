"""The disk watchdog: a command that fills its writable mounts is noticed before it hurts.

Asking a file system how much is free costs microseconds, so it is asked at every tick, and the folders are only walked
when their file system got fuller by a good part of the limit, or now and then in case others freed space meanwhile. The
filter refuses `fallocate`, so nothing can be taken faster than it can be written.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence

# A file costs its owner at least this, so that empty files are bounded too.
_FILE_BYTES = 1024
# Walks may take this share of the time at most.
_WALK_SHARE = 0.02
# Below this much free space, whoever is writing is stopped: the record needs room too.
_RESERVE_BYTES = 64 * 1024 * 1024


class DiskWatch:
    """Watches the writable mounts of one command.

    Args:
        folders: host paths of its writable mounts.
        limit_bytes: what they may hold together.
        pids: its processes, to find files that they deleted but still hold open.
    """

    def __init__(self, folders: Sequence[str], limit_bytes: int, pids: Callable[[], Iterable[int]]) -> None:
        self._folders = folders
        self._limit = limit_bytes
        self._pids = pids
        self._free = self._ask() if folders else {}
        self._last_free = dict(self._free)
        self._next_walk = time.monotonic() + 1.0

    def _ask(self) -> dict[int, tuple[int, int]]:
        """Free bytes and files by file system."""
        free = {}
        for folder in self._folders:
            stat = os.statvfs(folder)
            free[stat.f_fsid] = (stat.f_bavail * stat.f_frsize, stat.f_favail)
        return free

    def exceeded(self) -> bool:
        """They hold more than the limit now, or their file system is nearly full and getting fuller."""
        if not self._folders:
            return False
        try:
            now = self._ask()
        except OSError:
            return False  # the caller took a mount away: nothing left to fill
        grown = suspicious = False
        for key, (free, files) in now.items():
            free_before, files_before = self._last_free.get(key, (free, files))
            taken = free_before - free + (files_before - files) * _FILE_BYTES
            suspicious = suspicious or taken > self._limit // 8
            start = self._free.get(key, (free, files))[0]
            grown = grown or (free < _RESERVE_BYTES and start - free > _RESERVE_BYTES // 16)
        if grown:
            return True
        started = time.monotonic()
        if not suspicious and started < self._next_walk:
            return False
        self._last_free = now
        used = sum(_size(folder, self._limit) for folder in self._folders)
        if suspicious and used <= self._limit:
            used += _deleted_bytes(self._pids(), now.keys())
        took = time.monotonic() - started
        self._next_walk = time.monotonic() + max(1.0, took / _WALK_SHARE)
        return used > self._limit


def _size(path: str, enough: int) -> int:
    """Bytes on disk below `path`; stops counting beyond `enough`."""
    try:
        if not os.path.isdir(path):
            return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
    total, stack = 0, [path]
    while stack and total <= enough:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    try:
                        stat = entry.stat(follow_symlinks=False)
                        total += max(stat.st_blocks * 512 // max(stat.st_nlink, 1), _FILE_BYTES)
                        if entry.is_dir(follow_symlinks=False):
                            stack.append(entry.path)
                    except OSError:
                        continue
        except OSError:
            continue
    return total


def _deleted_bytes(pids: Iterable[int], devices: object) -> int:
    """Bytes of deleted files that `pids` hold open; files in memory are the memory limit's business."""
    seen: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            with os.scandir(f"/proc/{pid}/fd") as entries:
                for entry in entries:
                    try:
                        if os.readlink(entry.path).endswith(" (deleted)"):
                            stat = entry.stat()
                            seen[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
                    except OSError:
                        continue
        except OSError:
            continue
    return sum(seen.values())
