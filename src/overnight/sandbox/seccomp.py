"""The system call filter that every isolated command runs under, as classic BPF, assembled by hand: no dependency.

Format: linux/filter.h (`struct sock_filter`: code u16, jt u8, jf u8, k u32) over `struct seccomp_data` (nr u32,
arch u32, instruction pointer u64, six u64 arguments). Only the low halves of arguments are compared: every checked
argument is an `int` or the kernel ignores its upper half. Calls decided by number alone cost nothing after the first:
the kernel caches them.
"""

import errno
import functools
import platform
import struct
from typing import Literal

from overnight.core.errors import IsolationMissing
from overnight.sandbox.syscalls import ARCHITECTURES, Architecture

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000

# Reach into other processes, the kernel or its keys; change mounts, namespaces, clocks, names; relics.
_DENIED = """
    keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register bpf ptrace process_vm_readv
    process_vm_writev process_madvise pidfd_getfd kcmp userfaultfd perf_event_open mount umount2 move_mount open_tree
    open_tree_attr fsopen fsconfig fsmount fspick mount_setattr pivot_root chroot setns unshare kexec_load
    kexec_file_load init_module finit_module delete_module create_module get_kernel_syms query_module swapon swapoff
    reboot acct quotactl quotactl_fd name_to_handle_at open_by_handle_at syslog settimeofday clock_settime
    clock_adjtime adjtimex sethostname setdomainname iopl ioperm modify_ldt vhangup nfsservctl lookup_dcookie
    fanotify_init memfd_secret uselib ustat sysfs _sysctl
"""

# Without namespaces: System V IPC and message queues are the host's; so are the files and processes that these change.
_DENIED_ON_HOST = """
    shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink
    inotify_add_watch ioprio_set process_mrelease file_setattr
"""
# As on a file system without them, which tools that copy files expect.
_UNSUPPORTED_ON_HOST = """
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
"""
# Landlock does not guard modes, owners and times, so they stay as they are; that is no reason for a copy to fail.
_PRETENDED_ON_HOST = """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
"""
# The first argument names a process; 0 is the caller.
_SELF_ONLY_ON_HOST = "prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr"

# clone3 hides its flags behind a pointer and openat2 its mode: libraries fall back on ENOSYS. fallocate takes disk in
# no time, which no watchdog can follow: libraries fall back to writing on EOPNOTSUPP.
_ABSENT = {"clone3": errno.ENOSYS, "openat2": errno.ENOSYS, "fallocate": errno.EOPNOTSUPP}

_NEW_NAMESPACE = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _TCP = 1, 5, 6
_SET_ID = 0o6000  # a setuid file in a writable mount would outlive the sandbox
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE's own bit

_Instruction = tuple[int, int, int, int]
Internet = Literal["any", "tcp", "none"]


def _errno(number: int) -> int:
    return _ERRNO | number


class _Program:
    """Instructions, grouped by call; every group ends in a verdict."""

    def __init__(self, arch: Architecture) -> None:
        self._arch = arch
        self._code: list[_Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, arch.audit), (_RETURN, 0, 0, _KILL)]
        self._code.append((_LOAD, 0, 0, 0))
        if arch.x32:
            self._code += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]

    def on(self, call: str, *body: _Instruction) -> None:
        """Run `body`, which must end in verdicts, for `call`, if the architecture has it."""
        number = self._arch.numbers.get(call)
        if number is not None:
            self._code += [(_EQUAL, 0, len(body), number), *body]

    def refuse(self, call: str, number: int) -> None:
        """Fail `call` with the errno `number`."""
        self.on(call, (_RETURN, 0, 0, _errno(number)))

    def assemble(self) -> bytes:
        """The program, allowing what no group decided."""
        return b"".join(struct.pack("=HBBI", *step) for step in [*self._code, (_RETURN, 0, 0, _ALLOW)])


def _argument(index: int) -> _Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # low half: both architectures are little-endian


_YES: _Instruction = (_RETURN, 0, 0, _ALLOW)
_NO: _Instruction = (_RETURN, 0, 0, _errno(errno.EPERM))


def _sockets(inet: Internet, unix: bool) -> list[_Instruction]:
    """UNIX if `unix`; INET and INET6 as `inet` says; netlink only to ask about addresses."""
    unavailable = (_RETURN, 0, 0, _errno(errno.EAFNOSUPPORT))
    body = [_argument(0)]
    if unix:
        body += [(_EQUAL, 0, 1, _UNIX), _YES]
    if inet == "none":
        return [*body, unavailable]
    if inet == "any":
        internet = [_YES]
    else:
        # Landlock's rules know TCP proper only: no datagrams, and no multipath TCP either.
        internet = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, _STREAM), _NO]
        internet += [_argument(2), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, _TCP), _YES, _NO]
    netlink = [_argument(2), (_EQUAL, 0, 1, 0), _YES, unavailable]  # protocol 0: NETLINK_ROUTE, for getaddrinfo
    body += [(_EQUAL, 1, 0, _INET), (_EQUAL, 0, len(internet), _INET6), *internet]
    return [*body, (_EQUAL, 0, len(netlink), _NETLINK), *netlink, unavailable]


def _host_rules(filter_: _Program) -> None:
    """What namespaces would do, as far as a filter can."""
    for call in _DENIED_ON_HOST.split():
        filter_.refuse(call, errno.EPERM)
    for call in _UNSUPPORTED_ON_HOST.split():
        filter_.refuse(call, errno.EOPNOTSUPP)
    for call in _PRETENDED_ON_HOST.split():
        filter_.refuse(call, 0)
    for call in _SELF_ONLY_ON_HOST.split():
        filter_.on(call, _argument(0), (_EQUAL, 0, 1, 0), _YES, _NO)
    filter_.on("setpriority", _argument(0), (_EQUAL, 1, 0, 0), _NO, _argument(1), (_EQUAL, 0, 1, 0), _YES, _NO)
    # A connected pair of streams stays one; of datagrams, either end can be turned to a socket of the host.
    pair = [_argument(1), (_AND, 0, 0, 0xF), (_EQUAL, 1, 0, _STREAM), (_EQUAL, 0, 1, _SEQPACKET), _YES, _NO]
    filter_.on("socketpair", *pair)


@functools.cache
def program(machine: str = "", *, inet: Internet = "any", namespaces: bool = True) -> bytes:
    """The filter for `machine` (as `platform.machine()` says; empty is ours).

    Args:
        machine: architecture.
        inet: internet sockets that may be made; `any` where a network namespace decides where they lead.
        namespaces: the command lives in its own. Without, calls that reach the host's files, processes and sockets
            past Landlock are refused too.

    Raises:
        IsolationMissing: we have no table of call numbers for this architecture.
    """
    name = machine or platform.machine()
    arch = ARCHITECTURES.get(name)
    if arch is None:
        raise IsolationMissing(
            f"no system call filter for the architecture {name!r}",
            hint=f"isolation works on {' and '.join(ARCHITECTURES)}; --sandbox none runs without",
        )
    filter_ = _Program(arch)
    for call, flags_at, mode_at in (("open", 1, 2), ("openat", 2, 3)):
        set_id = [_argument(flags_at), (_ANY_BIT, 1, 0, _CREATES), _YES]
        filter_.on(call, *set_id, _argument(mode_at), (_ANY_BIT, 0, 1, _SET_ID), _NO, _YES)
    if not namespaces:
        _host_rules(filter_)
    modes = (("creat", 1), ("mknod", 1), ("mknodat", 2), ("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))
    for call, mode_at in modes:
        filter_.on(call, _argument(mode_at), (_ANY_BIT, 0, 1, _SET_ID), _NO, _YES)
    filter_.on("clone", _argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACE), _NO, _YES)
    filter_.on("ioctl", _argument(1), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _NO, _YES)
    # Reading the personality, and the default one.
    filter_.on("personality", _argument(0), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 1, 0xFFFFFFFF), _YES, _NO)
    filter_.on("socket", *_sockets(inet, unix=namespaces))
    for call, number in _ABSENT.items():
        filter_.refuse(call, number)
    for call in _DENIED.split():
        filter_.refuse(call, errno.EPERM)
    return filter_.assemble()
