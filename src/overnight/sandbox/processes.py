"""The process table, where no control group says who belongs to whom and what they use."""

import os
import time
from dataclasses import dataclass
from typing import Literal

from overnight.sandbox.command import Limits

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_S = os.sysconf("SC_CLK_TCK")
# Walking the table costs milliseconds, so without a reason it is walked this often only.
_EVERY_S = 1.0


def _parents() -> dict[int, int]:
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
    for child, parent in _parents().items():
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
                    count += _usage(int(name)).threads
            except OSError:
                continue
    return count


@dataclass(frozen=True)
class _Usage:
    """What one process uses: threads, resident bytes, CPU seconds with those of children it has waited for."""

    threads: int = 0
    resident_bytes: int = 0
    cpu_s: float = 0.0


def _usage(pid: int) -> _Usage:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            words = stat.read().rpartition(b")")[2].split()
        ticks = sum(int(word) for word in words[11:15])
        return _Usage(int(words[17]), int(words[21]) * _PAGE_BYTES, ticks / _TICKS_S)
    except (OSError, IndexError):
        return _Usage()


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

    def __init__(self, pid: int, limits: Limits) -> None:
        self._pid = pid
        self._limits = limits
        self._before = _machine()
        self._next_at = time.monotonic() + _EVERY_S

    def exceeded(self) -> Literal["pids", "memory", "cpu"] | None:
        """The limit that its processes exceed together, if any."""
        limits = self._limits
        tasks, available = now = _machine()
        grew = tasks - self._before[0] > limits.pids // 4 or self._before[1] - available > limits.memory_bytes // 4
        if not grew and time.monotonic() < self._next_at:
            return None
        self._before = now
        self._next_at = time.monotonic() + _EVERY_S
        uses = [_usage(pid) for pid in descendants(self._pid)]
        if sum(use.threads for use in uses) > limits.pids:
            return "pids"
        if sum(use.resident_bytes for use in uses) > limits.memory_bytes:
            return "memory"
        return "cpu" if limits.cpu_s is not None and sum(use.cpu_s for use in uses) > limits.cpu_s else None
