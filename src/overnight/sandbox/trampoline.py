"""The keeper of commands that bubblewrap does not keep; run by `python -I -S`, see bare.py, with FD as argument.

It stands alone: nothing but the standard library's smallest parts. It reads a marshalled mapping from FD (importing
json would double its start), becomes the one that orphans of the command fall to, starts the command under the given
confinement, reports how it ended (see `keeper`), and ends everything the command left. SIGTERM, which it also gets
when the harness dies, makes it end the command at once. A keeper that could not confine says so on stderr and reports
no end of the command.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import struct

TYPE_CHECKING = False  # importing `typing` would cost a fifth of the start
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 24, 38, 36
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LANDLOCK_PATH_BENEATH, _LANDLOCK_NET_PORT = 1, 2
_CAPABILITY_VERSION_3 = 0x20080522

# linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_ALL_FILES = (1 << 16) - 1
_ON_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL_FILES & ~_IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _prctl(option: int, *arguments: object) -> None:
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in arguments]
    words += [ctypes.c_ulong(0)] * (4 - len(words))
    _check(_libc.prctl(ctypes.c_int(option), *words), f"prctl {option}")


def _call(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    return _check(int(_libc.syscall(ctypes.c_long(number), *words)), f"system call {number}")


def drop_capabilities() -> None:
    """Root without privileges, now and after every exec."""
    with open("/proc/sys/kernel/cap_last_cap") as last:
        for capability in range(int(last.read()) + 1):
            try:
                _prctl(_PR_CAPBSET_DROP, capability)
            except PermissionError:
                break  # not root: there is nothing to drop, and no_new_privs keeps it so
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def restrict(rules: Mapping[str, Any]) -> None:
    """Put this process, for good, under the Landlock rules: `calls` (numbers), `read`, `write`, `devices`, `connect`,
    `network`."""
    create, add, restrict_self = rules["calls"]
    network = rules["network"]
    handled = struct.pack(
        "=QQQ", _ALL_FILES, 0 if network else _BIND_TCP | _CONNECT_TCP, _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL
    )
    ruleset = _call(create, handled, len(handled), 0)
    devices = _READ_FILE | _WRITE_FILE
    own = [f"/proc/{os.getpid()}"]
    for paths, access in ((rules["read"] + own, _READ), (rules["write"], _WRITE), (rules["devices"], devices)):
        for path in paths:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = access if os.path.isdir(path) else access & _ON_FILE
            _call(add, ruleset, _LANDLOCK_PATH_BENEATH, struct.pack("=Qi", allowed, fd), 0)
            os.close(fd)
    for port in rules["connect"]:
        _call(add, ruleset, _LANDLOCK_NET_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _call(restrict_self, ruleset, 0)
    os.close(ruleset)


def install_filter(code: bytes) -> None:
    """Put this process under the system call filter `code`."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(program))


def _become(config: Mapping[str, Any], failed: int) -> NoReturn:
    """The command. What goes wrong in confining it is written to `failed`, which closes when it has become it."""
    env = {os.fsencode(name): os.fsencode(value) for name, value in config["env"].items()}
    argv = [os.fsencode(word) for word in config["argv"]]
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if config["landlock"] is not None:
            drop_capabilities()
            restrict(config["landlock"])
            install_filter(config["filter"])
    except OSError as error:
        os.write(failed, str(error).encode())
        os._exit(125)
    try:
        os.chdir(config["cwd"])
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, b"%s: %s\n" % (argv[0], os.strerror(error.errno or 0).encode()))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _children_of(pid: int) -> list[int]:
    """All below `pid`."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    parents[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found = [pid]
    for parent in found:
        found.extend(child for child, of in parents.items() if of == parent)
    return found[1:]


def _end_all() -> None:
    """Kill and reap until nothing is left below us. Stopped first, nothing can fork ahead of the kill."""
    try:
        while True:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
            left = _children_of(os.getpid())
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        continue
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _keep(main: int) -> int | None:
    """Wait for the command, reaping orphans; its wait status, None if we were told to end it."""
    while True:
        if signal.sigwaitinfo({signal.SIGCHLD, signal.SIGTERM}).si_signo == signal.SIGTERM:
            return None
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == main:
                return status
            if pid == 0:
                break


def main(arguments: Sequence[str]) -> int:
    """Keep one command; 0 however it ended, 125 if it could not be confined."""
    with open(int(arguments[0]), "rb") as source:
        raw = source.read()
    if not raw:
        return 125  # the harness died before it could say what to do
    config = marshal.loads(raw)
    report = config["report"]
    os.set_inheritable(report, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != config["parent"]:
        return 125  # it died since
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    failed, failed_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, signal.SIGTERM})
        os.setsid()
        _become(config, failed_in)
    os.close(failed_in)
    status = _keep(pid)
    words = os.read(failed, 4096) if status is not None else b""
    if words:
        os.write(2, words)
    elif status is not None:
        code = os.waitstatus_to_exitcode(status)
        os.write(report, b'{"%s": %d}\n' % (b"exit-code" if code >= 0 else b"signal", abs(code)))
    _end_all()
    return 125 if words else 0
