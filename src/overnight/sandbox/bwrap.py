"""Isolation by bubblewrap: namespaces of its own for everything, a root file system made of read-only pieces, no
capabilities, no new user namespaces, our system call filter.
"""

import dataclasses
import functools
import itertools
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Hashable
from pathlib import Path

from overnight.core.errors import IsolationMissing
from overnight.sandbox import seccomp
from overnight.sandbox.cgroup import Hierarchy
from overnight.sandbox.command import Command, Finished, Mount, SandboxName, check
from overnight.sandbox.egress import Egress, proxy_variables
from overnight.sandbox.keeper import Keeper
from overnight.sandbox.process import run_begun, run_kept
from overnight.sandbox.special import SpecialFiles
from overnight.sandbox.standby import Standby
from overnight.sandbox.system import system

INSTALL_HINT = "install bubblewrap: apt-get install bubblewrap (or dnf, pacman, zypper)"

# The same person on every machine, whoever runs us.
_UID = "1000"
_STUBS = {
    "/etc/passwd": b"overnight:x:1000:1000:Overnight:/tmp:/bin/sh\n",
    "/etc/group": b"overnight:x:1000:\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
_TMP = ("/tmp", "/dev/shm")
_PROXY, _RELAY = "/run/overnight/proxy", "/run/overnight/relay.py"
_PROXY_PORT = 3128
_SHELL, _SHELL_NAME = "/bin/sh", re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOSTS = {"/etc/hosts": b"127.0.0.1 localhost overnight\n::1 localhost\n"}


def find_bwrap() -> str | None:
    """Path of the bubblewrap program, if there is one."""
    return shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin") or shutil.which("bwrap")


class Bwrap:
    """See `Sandbox`.

    Raises:
        IsolationMissing: on construction: no bwrap, or no filter for this architecture.
    """

    name: SandboxName = "bwrap"
    remaps = True

    def __init__(self, hierarchy: Hierarchy | None) -> None:
        path = find_bwrap()
        if path is None:
            raise IsolationMissing("bubblewrap is not installed", hint=INSTALL_HINT)
        self._path = path
        self._hierarchy = hierarchy
        self._filter = _in_memory(seccomp.program())
        self._prefix = _prefix()
        self._special = SpecialFiles()
        self._standby = Standby(hierarchy, self._keeper_ahead, self._fits)

    def prepare(self, command: Command) -> None:
        """See `Sandbox.prepare`."""
        self._standby.prepare(command)

    def close(self) -> None:
        """See `Sandbox.close`."""
        self._standby.close()

    def run(self, command: Command, cancel: threading.Event | None = None) -> Finished:
        """See `Sandbox.run`."""
        check(command, remaps=True)
        if not command.hosts:
            return self._run(command, cancel)
        with tempfile.TemporaryDirectory(prefix="overnight-egress-") as folder:
            socket = Path(folder, "proxy")
            with Egress(command.hosts, str(socket)) as egress:
                finished = self._run(_relayed(command, socket), cancel)
            return dataclasses.replace(finished, refused_hosts=egress.refused)

    def _run(self, command: Command, cancel: threading.Event | None) -> Finished:
        go = _script(command)
        if go is not None and (begun := self._standby.take(command)) is not None:
            finished = run_begun(begun, go, command, cancel)
            if finished is not None:
                return _translate(finished)
        return _translate(run_kept(self._keeper(command, *command.argv), command, self._hierarchy, cancel))

    def _keeper_ahead(self, command: Command) -> Keeper:
        """Of a shell that reads from its standard input what to become."""
        bare = dataclasses.replace(command, env={})
        return dataclasses.replace(self._keeper(bare, _SHELL), go_by_stdin=True)

    def _fits(self, command: Command) -> Hashable:
        bare = dataclasses.replace(command, env={})
        return (*_arguments(bare, self._special), command.limits, command.cpus)

    def _keeper(self, command: Command, *argv: str) -> Keeper:
        arguments = _arguments(command, self._special)
        files = _files() if command.network else {**_files(), **_hosts()}
        # Each start needs reading positions of its own.
        sources = (self._filter, *files.values())
        inherited = tuple(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC) for fd in sources)
        words = ["--seccomp", str(inherited[0])]
        for path, fd in zip(files, inherited[1:], strict=True):
            words += ["--perms", "0444", "--file", str(fd), path]
        return Keeper(
            argv=lambda config: [self._path, "--args", str(config), "--", *argv],
            config=lambda report: self._prefix + _joined([*words, "--json-status-fd", str(report), *arguments]),
            fds=inherited,
            stop=signal.SIGKILL,
            exec_failed=b"bwrap: execvp ",
        )


def _relayed(command: Command, proxy: Path) -> Command:
    """`command`, started by a relay to the socket `proxy`."""
    return dataclasses.replace(
        command,
        argv=(sys.executable, "-I", "-S", _RELAY, _PROXY, str(_PROXY_PORT), *command.argv),
        env={**command.env, **proxy_variables(_PROXY_PORT)},
        mounts=(*command.mounts, Mount(proxy, _PROXY), Mount(Path(__file__).with_name("relay.py"), _RELAY)),
    )


def _script(command: Command) -> bytes | None:
    """What makes the waiting shell become `command`; None if a shell cannot say it."""
    if command.argv[0].startswith("-") or not all(_SHELL_NAME.fullmatch(name) for name in command.env):
        return None
    lines = [f"export {name}={shlex.quote(value)}" for name, value in command.env.items()]
    return os.fsencode("\n".join([*lines, f"exec {shlex.join(command.argv)} </dev/null", ""]))


def _arguments(command: Command, special: SpecialFiles) -> list[str]:
    """Arguments that depend on the command, but for descriptors."""
    parts = system()
    words = ["--share-net"] if command.network else []
    shown = parts.tls if command.network or command.hosts else ()
    for path in (*shown, *(parts.network if command.network else ())):
        words += ["--ro-bind", path, path]
    tmp = str(min(command.limits.disk_bytes, command.limits.memory_bytes))
    for path in _TMP:
        words += ["--perms", "1777", "--size", tmp, "--tmpfs", path]
    for path in filter(_below_tmp, parts.binds):
        words += ["--ro-bind", path, path]
    words += ["--remount-ro", "/dev"]
    for mount in command.mounts:
        words += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
        if mount.target != _PROXY:
            for inner in special.within(mount.source, writable=mount.writable):
                words += ["--ro-bind", os.devnull, os.path.normpath(f"{mount.target}/{inner}")]
    words += ["--remount-ro", "/", "--chdir", command.cwd]
    for name, value in command.env.items():
        words += ["--setenv", name, value]
    return words


def _below_tmp(path: str) -> bool:
    """A Python installation there has to be shown after the tmp that would cover it."""
    return path.startswith(tuple(f"{tmp}/" for tmp in _TMP))


def _joined(words: list[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)


@functools.cache
def _prefix() -> bytes:
    """Arguments that no command changes."""
    words = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", _UID, "--gid", _UID]
    words += ["--hostname", "overnight", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv"]
    parts = system()
    for path in itertools.filterfalse(_below_tmp, parts.binds):
        words += ["--ro-bind", path, path]
    for text, path in parts.symlinks:
        words += ["--symlink", text, path]
    # As root outside, the command is still root to the kernel where it comes to files of /proc: all of it read-only.
    words += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]
    return _joined(words)


@functools.cache
def _files() -> dict[str, int]:
    """Files that bwrap copies in, each as a descriptor of its content."""
    copied = {path: Path(path).read_bytes() for path in system().files}
    return {path: _in_memory(content) for path, content in {**copied, **_STUBS}.items()}


@functools.cache
def _hosts() -> dict[str, int]:
    return {path: _in_memory(content) for path, content in _HOSTS.items()}


def _in_memory(content: bytes) -> int:
    fd = os.memfd_create("overnight", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    return fd


def _translate(finished: Finished) -> Finished:
    """bwrap reports a signal as 128 + N."""
    code = finished.exit_code
    if code is not None and code > 128 and code - 128 in set(signal.Signals):
        return dataclasses.replace(finished, exit_code=None, signal=code - 128)
    return finished
