"""A control group per command: memory, processes and CPU time of everything it starts, counted and limited together.

cgroup v2 where the controllers are delegated to us, v1 where its folders are writable, else None and the caller uses
rlimits. A group's folder is named after the harness process that owns it, so that a later one can tell which are left
over, kill what is in them and remove them.
"""

import contextlib
import functools
import itertools
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAME = re.compile(r"overnight-(\d+)-(\d+)-\d+")
_counter = itertools.count()


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made.

    Attributes:
        version: 1 or 2.
        parents: folder by controller; for version 2 all are the same one.
    """

    version: int
    parents: Mapping[str, Path] = field(hash=False)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Each parent once."""
        return tuple(dict.fromkeys(self.parents.values()))


def _own_groups() -> dict[str, str]:
    """Our group by controller; the empty name is v2."""
    groups = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            groups[name] = path
    return groups


def find_hierarchy(root: Path = Path("/sys/fs/cgroup")) -> Hierarchy | None:
    """Where this process can make groups that limit memory and processes; None if nowhere."""
    try:
        own = _own_groups()
    except OSError:
        return None
    if (root / "cgroup.controllers").exists():
        return _find_v2(root, root / own.get("", "/").lstrip("/"))
    parents: dict[str, Path] = {}
    for controller in ("memory", "pids", "cpuacct"):
        if controller in own:
            folder = root / controller / own[controller].lstrip("/")
            # In a container our path may be named as the host sees it: there, the mount's root is our group.
            parents[controller] = folder if folder.is_dir() else root / controller
    usable = {name: folder for name, folder in parents.items() if os.access(folder, os.W_OK) and _can_make(folder)}
    return Hierarchy(1, usable) if {"memory", "pids"} <= usable.keys() else None


def _find_v2(root: Path, own: Path) -> Hierarchy | None:
    # A group with processes cannot delegate to groups below it, so ours usually cannot; its parent may.
    for folder in (own, *(own.parents if own != root else ())):
        if not folder.is_relative_to(root):
            return None
        try:
            enabled = set((folder / "cgroup.subtree_control").read_text().split())
        except OSError:
            continue
        movable = os.access(folder / "cgroup.procs", os.W_OK)
        if {"memory", "pids"} <= enabled and movable and os.access(folder, os.W_OK) and _can_make(folder):
            return Hierarchy(2, dict.fromkeys(("memory", "pids", "cpuacct"), folder))
    return None


def _can_make(folder: Path) -> bool:
    probe = folder / f"{group_prefix()}{next(_counter)}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def start_ticks(pid: int) -> int:
    """When process `pid` started, in clock ticks since boot; 0 if there is none. With the pid it names one process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


@functools.cache
def _prefix_of(pid: int) -> str:
    return f"overnight-{pid}-{start_ticks(pid)}-"


def group_prefix() -> str:
    """What the names of this process's groups start with."""
    return _prefix_of(os.getpid())


def _write(path: str, value: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value)
    finally:
        os.close(fd)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 65536)
    finally:
        os.close(fd)


class Group:
    """One command's group. Made before it starts, closed when it is over; closing kills what is left.

    Raises:
        OSError: on construction, when the kernel refuses; nothing is left behind.
    """

    def __init__(self, hierarchy: Hierarchy, memory_bytes: int, pids: int) -> None:
        name = f"{group_prefix()}{next(_counter)}"
        self._version = hierarchy.version
        self._at = {controller: f"{parent}/{name}" for controller, parent in hierarchy.parents.items()}
        self._folders = tuple(dict.fromkeys(self._at.values()))
        made = []
        try:
            for folder in self._folders:
                os.mkdir(folder)
                made.append(folder)
            self._limit(memory_bytes, pids)
        except OSError:
            for folder in made:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            raise

    def _limit(self, memory_bytes: int, pids: int) -> None:
        memory = self._at["memory"]
        if self._version == 2:
            _write(f"{memory}/memory.max", b"%d" % memory_bytes)
            _write(f"{memory}/memory.oom.group", b"1")
            with contextlib.suppress(FileNotFoundError):  # no swap configured into the kernel
                _write(f"{memory}/memory.swap.max", b"0")
        else:
            _write(f"{memory}/memory.limit_in_bytes", b"%d" % memory_bytes)
            with contextlib.suppress(FileNotFoundError):
                _write(f"{memory}/memory.memsw.limit_in_bytes", b"%d" % memory_bytes)
        _write(f"{self._at['pids']}/pids.max", b"%d" % pids)

    def add(self, pid: int) -> None:
        """Move process `pid`, and with it all that it will start, into the group.

        Raises:
            OSError: it is gone, or the kernel refuses.
        """
        for folder in self._folders:
            _write(f"{folder}/cgroup.procs", b"%d" % pid)

    def pids(self) -> list[int]:
        """Processes in the group now."""
        try:
            return [int(word) for word in _read(f"{self._at['pids']}/cgroup.procs").split()]
        except OSError:
            return []

    def out_of_memory(self) -> bool:
        """The kernel killed something in the group because it reached the memory limit."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        try:
            words = _read(f"{self._at['memory']}/{name}").split()
        except OSError:
            return False
        return any(key == b"oom_kill" and int(count) > 0 for key, count in itertools.pairwise(words))

    def memory_bytes(self) -> int | None:
        """Peak charged so far, page cache included."""
        name = "memory.peak" if self._version == 2 else "memory.max_usage_in_bytes"
        try:
            return int(_read(f"{self._at['memory']}/{name}"))
        except (OSError, ValueError):
            return None

    def cpu_s(self) -> float | None:
        """CPU seconds used so far; None if this kernel does not count them."""
        folder = self._at.get("cpuacct")
        try:
            if folder is None:
                return None
            if self._version == 2:
                return int(_read(f"{folder}/cpu.stat").split()[1]) / 1e6
            return int(_read(f"{folder}/cpuacct.usage")) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def kill(self) -> None:
        """Kill everything in the group; it is all gone soon after, or the kernel holds it in a system call."""
        if self._version == 2:
            with contextlib.suppress(OSError):
                _write(f"{self._at['pids']}/cgroup.kill", b"1")
                return
        with contextlib.suppress(OSError):
            _write(f"{self._at['pids']}/pids.max", b"0")  # nothing can fork ahead of us
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> bool:
        """Kill what is left and remove the group; idempotent. False if something could not be killed within 2 s."""
        deadline = time.monotonic() + 2.0
        pause_s = 0.0005
        left = list(self._folders)
        while left:
            left = [folder for folder in left if not _remove(folder)]
            if not left:
                break
            self.kill()
            if time.monotonic() > deadline:
                return False
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.05)
        return True


def _remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def sweep(hierarchy: Hierarchy) -> int:
    """Kill and remove the groups of harness processes that are no more; how many groups there were."""
    swept = 0
    for parent in hierarchy.folders:
        for folder in parent.glob("overnight-*"):
            match = _NAME.fullmatch(folder.name)
            if match is None or start_ticks(int(match[1])) == int(match[2]):
                continue
            swept += 1
            for _ in range(200):
                with contextlib.suppress(OSError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)
                if _remove(str(folder)):
                    break
                time.sleep(0.005)
    return swept
