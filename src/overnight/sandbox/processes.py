"""The process table, where no control group says who belongs to whom and what they use."""

import os
import time
from typing import Literal

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Walking the table costs milliseconds, so without a reason it is walked this often only.
_EVERY_S = 1.0


def parents() -> dict[int, int]:
    """Parent of every process that we can see."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    table[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return table


def descendants(pid: int) -> list[int]:
    """Children of `pid`, their children and so on, nearest first; without those whose parent has died."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for child in found:
        found.extend(children.get(child, ()))
    return found


def tasks_of(uid: int) -> int:
    """Processes and threads of user `uid` now; what RLIMIT_NPROC counts."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += _usage(int(name))[0]
            except OSError:
                continue
    return count


def _usage(pid: int) -> tuple[int, int]:
    """Threads of `pid`, and bytes that are resident."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            words = stat.read().rpartition(b")")[2].split()
        return int(words[17]), int(words[21]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0, 0


def _machine() -> tuple[int, int]:
    """Tasks on this machine, and bytes of memory that could still be had."""
    with open("/proc/loadavg", "rb") as loadavg:
        tasks = int(loadavg.read().split()[3].partition(b"/")[2])
    with open("/proc/meminfo", "rb") as meminfo:
        for line in meminfo:
            if line.startswith(b"MemAvailable:"):
                return tasks, int(line.split()[1]) * 1024
    return tasks, 0


class Census:
    """Counts what a command's processes use, for machines without control groups.

    The whole machine's numbers are cheap to read; only when they moved by a good part of a limit, or once a second, are
    the command's own counted.
    """

    def __init__(self, pid: int, memory_bytes: int, pids: int) -> None:
        self._pid = pid
        self._memory_bytes = memory_bytes
        self._pids = pids
        self._before = _machine()
        self._next_at = time.monotonic() + _EVERY_S

    def exceeded(self) -> Literal["pids", "memory"] | None:
        """The limit that its processes exceed together, if any."""
        tasks, available = now = _machine()
        grew = tasks - self._before[0] > self._pids // 4 or self._before[1] - available > self._memory_bytes // 4
        if not grew and time.monotonic() < self._next_at:
            return None
        self._before = now
        self._next_at = time.monotonic() + _EVERY_S
        uses = [_usage(pid) for pid in descendants(self._pid)]
        if sum(threads for threads, _ in uses) > self._pids:
            return "pids"
        return "memory" if sum(resident for _, resident in uses) > self._memory_bytes else None
