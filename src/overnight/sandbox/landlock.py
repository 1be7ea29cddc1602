"""Isolation without namespaces: Landlock for files, TCP, signals and abstract sockets, and a stricter system call
filter for what Landlock does not guard. For machines where bubblewrap or user namespaces cannot be had.

What is not mounted is not granted; its names, sizes and existence stay visible. Modes, owners and times of files cannot
be changed (attempts are ignored), UNIX sockets and internet sockets cannot be made unless the command has the network.
"""

import ctypes
import functools
import platform
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from overnight.core.errors import IsolationMissing, UsageError
from overnight.sandbox import seccomp
from overnight.sandbox.bare import Trampolines, private_tmp
from overnight.sandbox.cgroup import Hierarchy
from overnight.sandbox.command import Command, Finished, SandboxName, check
from overnight.sandbox.egress import Egress, proxy_variables
from overnight.sandbox.syscalls import ARCHITECTURES
from overnight.sandbox.system import system

# 3 guards truncation, 4 TCP, 5 devices, 6 (Linux 6.12) signals: with less, a command could end the harness.
NEEDED_ABI = 6
_VERSION_FLAG = 1

# What libraries read at start; the rest of /proc shows other people's command lines.
_PROC = """
    cpuinfo meminfo stat loadavg uptime version filesystems sys/vm/overcommit_memory sys/vm/mmap_min_addr
    sys/kernel/osrelease sys/kernel/ngroups_max sys/kernel/pid_max sys/kernel/cap_last_cap
"""
# A file that exists but cannot be opened makes programs fail where a missing one would not (pip, git, ssl).
_ETC = """
    passwd group nsswitch.conf os-release debian_version lsb-release redhat-release mime.types hosts host.conf
    ssl/openssl.cnf gitconfig
"""
_DEVICES = ("null", "zero", "full", "random", "urandom")


@functools.cache
def landlock_abi() -> int:
    """Version of Landlock that the kernel offers; 0 is none."""
    arch = ARCHITECTURES.get(platform.machine())
    if arch is None:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    create = ctypes.c_long(arch.numbers["landlock_create_ruleset"])
    return max(int(libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))), 0)


class Landlock:
    """See `Sandbox`.

    Raises:
        IsolationMissing: on construction: the kernel's Landlock is too old, or there is no filter for this machine.
    """

    name: SandboxName = "landlock"
    remaps = False

    def __init__(self, hierarchy: Hierarchy | None) -> None:
        abi = landlock_abi()
        if abi < NEEDED_ABI:
            raise IsolationMissing(
                f"Landlock ABI {abi} is too old" if abi else "the kernel has no Landlock",
                hint=f"ABI {NEEDED_ABI} comes with Linux 6.12; or install bubblewrap: apt-get install bubblewrap",
            )
        seccomp.program(namespaces=False)
        self._runner = Trampolines(hierarchy)

    def prepare(self, command: Command) -> None:
        """See `Sandbox.prepare`."""
        self._runner.standby.prepare(command)

    def close(self) -> None:
        """See `Sandbox.close`."""
        self._runner.standby.close()

    def run(self, command: Command, cancel: threading.Event | None = None) -> Finished:
        """See `Sandbox.run`."""
        check(command, remaps=False)
        _check_nesting(command)
        if not command.hosts:
            return self._run(command, (), cancel)
        with Egress(command.hosts, None) as egress:
            proxied = replace(command, env={**command.env, **proxy_variables(egress.port)})
            finished = self._run(proxied, (egress.port,), cancel)
        return replace(finished, refused_hosts=egress.refused)

    def _run(self, command: Command, ports: tuple[int, ...], cancel: threading.Event | None) -> Finished:
        with private_tmp(command) as prepared:
            confinement = {"landlock": _rules(prepared, ports), "filter": _filter(prepared)}
            return self._runner.run(prepared, confinement, cancel)


def _check_nesting(command: Command) -> None:
    """Landlock grants add up: nothing inside a writable folder can be read-only.

    Raises:
        UsageError: a mount asks for that.
    """
    writable = [mount.source.resolve() for mount in command.mounts if mount.writable]
    for mount in command.mounts:
        source = mount.source.resolve()
        if not mount.writable and any(source.is_relative_to(folder) for folder in writable):
            raise UsageError(
                f"Landlock cannot keep {mount.source} read-only inside a writable folder",
                hint="move it out of the writable folder, or install bubblewrap",
            )


def _filter(command: Command) -> bytes:
    inet: seccomp.Internet = "any" if command.network else "tcp" if command.hosts else "none"
    return seccomp.program(inet=inet, namespaces=False)


def _rules(command: Command, ports: tuple[int, ...]) -> Mapping[str, object]:
    numbers = ARCHITECTURES[platform.machine()].numbers
    parts = system()
    read = [
        *parts.binds,
        *parts.files,
        *(f"/proc/{name}" for name in _PROC.split()),
        *(f"/etc/{name}" for name in _ETC.split()),
    ]
    if command.network or command.hosts:
        read += parts.tls
    if command.network:
        read += parts.network
    read += [str(mount.source) for mount in command.mounts if not mount.writable]
    return {
        "calls": [numbers[f"landlock_{name}"] for name in ("create_ruleset", "add_rule", "restrict_self")],
        "read": [path for path in read if Path(path).exists()],
        "write": [str(mount.source) for mount in command.mounts if mount.writable],
        "devices": [f"/dev/{name}" for name in _DEVICES if Path("/dev", name).exists()],
        "connect": list(ports),
        "network": command.network,
    }
