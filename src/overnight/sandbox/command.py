"""What a sandbox is asked to run, under which limits, and what came of it."""

import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from overnight.core.errors import UsageError

MIB = 1024 * 1024
GIB = 1024 * MIB

SandboxName = Literal["bwrap", "landlock", "none"]
Killed = Literal["wall", "cpu", "memory", "disk", "pids", "cancelled"]


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host that the command sees.

    Attributes:
        source: where it is, absolute; must exist. Symlinks are followed.
        target: absolute path where the command sees it; a target may lie inside the target of an earlier mount.
            Where `Sandbox.remaps` is false it must equal `str(source)`.
        writable: the command may change it.
    """

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Limits:
    """What one command may use. Where a limit stops a command, `Finished.killed` names it.

    Attributes:
        wall_s: wall clock; then everything it started is killed.
        memory_bytes: all its processes together, its tmp files and page cache included, where a cgroup can be had;
            else per process, and sampled for all together.
        pids: processes and threads at a time; a fork beyond fails inside; without a cgroup, far more are killed.
        cpu_s: CPU seconds; None is no limit but the wall clock.
        disk_bytes: all writable mounts together, as they stand; every file counts for at least 1 KiB. Tmp and shared
            memory may hold as much again, each; bwrap keeps them in memory, where they count too.
        output_bytes: kept of stdout, and again of stderr: half from the head, half from the tail.
        grace_s: between SIGTERM and SIGKILL when time is up; 0 kills at once.
    """

    wall_s: float
    memory_bytes: int = 2 * GIB
    pids: int = 256
    cpu_s: float | None = None
    disk_bytes: int = GIB
    output_bytes: int = MIB
    grace_s: float = 0.0


@dataclass(frozen=True)
class Command:
    """One program to run.

    Attributes:
        argv: program and arguments; the program is looked up in `env["PATH"]` when it has no slash.
        cwd: absolute folder inside the sandbox.
        env: the whole environment; added are only the proxy variables that `hosts` needs and, where mounts cannot be
            remapped, a TMPDIR of its own if it names none.
        mounts: what it sees beyond the system and the Python installation that runs us; in order.
        network: it shares the host's network.
        hosts: `name` or `name:port` it may reach by HTTP(S) through our proxy, with `network` false; port 443 and 80
            where none is named. `none` does not restrict.
        cpus: cores it may use; None is all of ours.
        stdin: what it can read.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    limits: Limits
    network: bool = False
    hosts: tuple[str, ...] = ()
    cpus: frozenset[int] | None = None
    stdin: bytes = b""


@dataclass(frozen=True)
class Finished:
    """How a command ended. Crashes and kills are results, never exceptions.

    Attributes:
        exit_code: what it exited with; None if a signal ended it. 127: the program was not found. Under bwrap an exit
            code 128 + N is reported as signal N, as a shell would.
        signal: the signal that ended it.
        killed: the limit that we enforced; None if it ended by itself.
        stdout: what was kept of it; where something was dropped, a line says how much.
        stderr: likewise.
        truncated: something of stdout or stderr was dropped.
        seconds: wall clock, start of the sandbox included.
        cpu_s: CPU seconds of all its processes, start of the sandbox included; None if unknown.
        memory_bytes: peak charged to it by the kernel, page cache included; None without a cgroup.
        refused_hosts: `host:port` it asked the proxy for in vain.
    """

    exit_code: int | None
    signal: int | None
    killed: Killed | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    seconds: float
    cpu_s: float | None = None
    memory_bytes: int | None = None
    refused_hosts: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """It ended by itself with exit code 0."""
        return self.exit_code == 0 and self.killed is None

    def describe(self) -> str:
        """How it ended, for people: `exit code 3`, `killed by SIGSEGV`, `stopped by us: wall limit`."""
        if self.killed is not None:
            return "cancelled" if self.killed == "cancelled" else f"stopped by us: {self.killed} limit"
        if self.signal is not None:
            try:
                return f"killed by {signal.Signals(self.signal).name}"
            except ValueError:
                return f"killed by signal {self.signal}"
        return f"exit code {self.exit_code}"


class Sandbox(Protocol):
    """Runs commands, each in an isolation of its own.

    One instance serves any number of threads at once. The calling thread must outlive the command: where the kernel is
    asked to kill the command with its parent, the parent is that thread. Nothing that the command started lives on
    when `run` returns; the mounts belong to the caller, who must not change them meanwhile.

    Attributes:
        name: which isolation.
        remaps: mounts may appear at other paths than their own.
    """

    @property
    def name(self) -> SandboxName:
        """Which isolation, as records name it."""

    @property
    def remaps(self) -> bool:
        """Mounts may appear at other paths than their own."""

    def run(self, command: Command, cancel: threading.Event | None = None) -> Finished:
        """Run `command` to its end, or until a limit or `cancel` ends it.

        Raises:
            IsolationMissing: the isolation could not be set up; nothing was run.
            UsageError: the command is not well formed, or a mount's source is missing.
        """

    def prepare(self, command: Command) -> None:
        """Set up in the background what a later `run` needs whose command differs in program and environment alone.

        A hint: it returns at once and never fails. The mounts must exist, and what is then put into them by the host
        may be no socket and no pipe. What is prepared has run no program of anybody's.
        """

    def close(self) -> None:
        """End what was prepared and never run; no command may be running. The sandbox can be used on."""


def check(command: Command, *, remaps: bool) -> None:
    """Refuse a command that no sandbox could run as meant.

    Raises:
        UsageError: naming the value.
    """
    if not command.argv or not command.argv[0]:
        raise UsageError("a command without a program", hint="give argv at least one word")
    for word in (*command.argv, command.cwd, *command.env, *command.env.values()):
        if "\0" in word:
            raise UsageError(f"{word!r} has a NUL character", hint="no argument, path or variable can carry one")
    for name in command.env:
        if not name or "=" in name:
            raise UsageError(f"{name!r} cannot be a variable's name", hint="names are not empty and have no '='")
    _check_absolute("cwd", command.cwd)
    limits = command.limits
    for label, value in (
        ("wall_s", limits.wall_s),
        ("memory_bytes", limits.memory_bytes),
        ("pids", limits.pids),
        ("disk_bytes", limits.disk_bytes),
        ("cpu_s", 1.0 if limits.cpu_s is None else limits.cpu_s),
    ):
        if not 0 < value < float("inf"):
            raise UsageError(f"limit {label} is {value!r}", hint="it must be positive and finite")
    if limits.output_bytes < 0 or not 0 <= limits.grace_s < float("inf"):
        raise UsageError(f"limits {limits!r}", hint="output_bytes and grace_s cannot be negative")
    if command.network and command.hosts:
        raise UsageError("network and hosts together", hint="hosts restrict; with network everything is reachable")
    for place, mount in enumerate(command.mounts):
        _check_mount(mount, command.mounts[:place], remaps=remaps)


def _check_absolute(label: str, path: str) -> None:
    if not path.startswith("/") or ".." in path.split("/"):
        raise UsageError(f"{label} {path!r} is not a plain absolute path", hint="start with / and have no ..")


def _check_mount(mount: Mount, earlier: tuple[Mount, ...], *, remaps: bool) -> None:
    _check_absolute("mount target", mount.target)
    if mount.target.strip("/") == "" or "\0" in mount.target:
        raise UsageError(f"cannot mount {mount.source} at {mount.target!r}", hint="name a folder below /")
    if not remaps and mount.target != str(mount.source):
        raise UsageError(
            f"this sandbox cannot show {mount.source} at {mount.target}", hint="give each mount its own path as target"
        )
    if not mount.source.is_absolute():
        raise UsageError(f"mount source {mount.source} is relative", hint="give its absolute path: Path(…).resolve()")
    if not mount.source.exists():
        raise UsageError(f"{mount.source} does not exist", hint="mounts need an existing file or folder")
    for outer in earlier:
        inside = mount.target.rstrip("/").removeprefix(outer.target.rstrip("/") + "/")
        if inside != mount.target.rstrip("/"):
            _check_no_symlink(outer.source, inside, mount)


def _check_no_symlink(base: Path, inside: str, mount: Mount) -> None:
    # Whoever wrote the outer folder could otherwise steer where the mount point is made, out of the sandbox even.
    place = base
    for part in inside.split("/"):
        place = place / part
        if place.is_symlink():
            raise UsageError(f"cannot mount at {mount.target}: {place} is a symlink", hint="replace it by a folder")
