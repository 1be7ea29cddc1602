"""The filter, run instruction by instruction for both architectures."""

import errno
import struct
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import IsolationMissing
from overnight.sandbox.seccomp import Internet, program
from overnight.sandbox.syscalls import ARCHITECTURES

Machine = Literal["x86_64", "aarch64"]
ALLOW, KILL = "allow", "kill"
MACHINES = sorted(ARCHITECTURES)


def run(code: bytes, nr: int, arch: int, *args: int) -> str | int:
    """The filter's verdict: allow, kill, or an errno."""
    data = struct.pack("<iIQ6Q", nr if nr < 2**31 else nr - 2**32, arch, 0, *(args + (0,) * 6)[:6])
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at = accumulator = 0
    while True:
        op, true, false, k = steps[at]
        at += 1
        if op == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif op == 0x54:
            accumulator &= k
        elif op in (0x15, 0x35, 0x45):
            holds = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[op]
            at += true if holds else false
        else:
            assert op == 0x06
            return ALLOW if k == 0x7FFF0000 else KILL if k == 0x80000000 else k & 0xFFFF


def verdict(machine: str, call: str, *args: int, inet: Internet = "any", namespaces: bool = True) -> str | int:
    arch = ARCHITECTURES[machine]
    return run(program(machine, inet=inet, namespaces=namespaces), arch.numbers[call], arch.audit, *args)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", ["keyctl", "io_uring_setup", "bpf", "ptrace", "mount", "setns", "unshare", "bpf"])
def test_denied(machine: str, call: str) -> None:
    assert verdict(machine, call) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_what_programs_need_is_allowed(machine: str) -> None:
    everyday = {"x86_64": (0, 1, 9, 59, 202, 231), "aarch64": (63, 64, 222, 221, 98, 94)}[machine]  # read … exit_group
    arch = ARCHITECTURES[machine]
    for nr in everyday:
        for namespaces in (True, False):
            assert run(program(machine, namespaces=namespaces), nr, arch.audit, 7, 7, 7) == ALLOW


@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_other_architectures_are_killed(machine: str, nr: int, arch: int) -> None:
    if arch != ARCHITECTURES[machine].audit:
        assert run(program(machine), nr, arch) == KILL


@given(st.integers(0x40000000, 2**32 - 1))
def test_x32_is_killed(nr: int) -> None:
    assert run(program("x86_64"), nr, ARCHITECTURES["x86_64"].audit) == KILL


@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1))
def test_clone_makes_no_namespaces(machine: str, flags: int) -> None:
    namespaces = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
    assert verdict(machine, "clone", flags) == (errno.EPERM if flags & namespaces else ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
def test_threads_and_forks_are_allowed(machine: str) -> None:
    assert verdict(machine, "clone", 0x3D0F00) == ALLOW  # pthread_create
    assert verdict(machine, "clone", 17) == ALLOW  # fork
    assert verdict(machine, "clone3") == errno.ENOSYS  # libc falls back to clone


@given(st.sampled_from(MACHINES), st.integers(0, 0o7777))
def test_no_file_becomes_setuid(machine: str, mode: int) -> None:
    expected = errno.EPERM if mode & 0o6000 else ALLOW
    assert verdict(machine, "fchmod", 3, mode) == expected
    assert verdict(machine, "fchmodat", 3, 0, mode) == expected
    assert verdict(machine, "openat", 3, 0, 0o101, mode) == expected
    assert verdict(machine, "openat", 3, 0, 0o2, mode) == ALLOW  # creates nothing: the mode is ignored
    assert verdict(machine, "openat", 3, 0, 0o20200002, mode) == expected  # O_TMPFILE


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets(machine: str) -> None:
    unavailable = errno.EAFNOSUPPORT
    unix, inet, inet6, netlink, packet, alg, vsock = 1, 2, 10, 16, 17, 38, 40
    for domain in (unix, inet, inet6):
        assert verdict(machine, "socket", domain, 1, 0) == ALLOW
    assert verdict(machine, "socket", netlink, 3, 0) == ALLOW
    assert verdict(machine, "socket", netlink, 3, 15) == unavailable
    for domain in (packet, alg, vsock, 0, 31):
        assert verdict(machine, "socket", domain, 1, 0) == unavailable
    for domain in (inet, inet6):
        tcp = {"inet": "tcp"}
        assert verdict(machine, "socket", domain, 1 | 0o2000000, 6, inet="tcp") == ALLOW, tcp
        assert verdict(machine, "socket", domain, 2, 0, inet="tcp") == errno.EPERM
        assert verdict(machine, "socket", domain, 1, 262, inet="tcp") == errno.EPERM  # multipath TCP
        assert verdict(machine, "socket", domain, 1, 0, inet="none") == unavailable
    assert verdict(machine, "socket", unix, 1, 0, namespaces=False) == unavailable


@pytest.mark.parametrize("machine", MACHINES)
def test_without_namespaces_more_is_refused(machine: str) -> None:
    assert verdict(machine, "shmget") == ALLOW
    assert verdict(machine, "shmget", namespaces=False) == errno.EPERM
    assert verdict(machine, "fchmod", 3, 0o777, namespaces=False) == 0  # pretends
    assert verdict(machine, "prlimit64", 0, namespaces=False) == ALLOW
    assert verdict(machine, "prlimit64", 1234, namespaces=False) == errno.EPERM
    assert verdict(machine, "setpriority", 0, 0, namespaces=False) == ALLOW
    assert verdict(machine, "setpriority", 0, 5, namespaces=False) == errno.EPERM
    assert verdict(machine, "setpriority", 1, 0, namespaces=False) == errno.EPERM
    assert verdict(machine, "socketpair", 1, 1, namespaces=False) == ALLOW
    assert verdict(machine, "socketpair", 1, 2, namespaces=False) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_terminals_and_personalities(machine: str) -> None:
    for request, expected in ((0x5412, errno.EPERM), (0x541C, errno.EPERM), (0x5401, ALLOW)):
        assert verdict(machine, "ioctl", 0, request) == expected
        assert verdict(machine, "ioctl", 0, request | 1 << 40) == expected  # the kernel reads the low half
    for persona, expected in ((0, ALLOW), (0xFFFFFFFF, ALLOW), (0x40000, errno.EPERM)):
        assert verdict(machine, "personality", persona) == expected


def test_numbers_agree_with_the_kernels_headers() -> None:
    import re
    from pathlib import Path

    for machine, header, pattern in (
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+)\s+(\d+)"),
        ("aarch64", "/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
    ):
        if not Path(header).exists():
            pytest.skip(f"no {header} here")
        known = {name: int(number) for name, number in re.findall(pattern, Path(header).read_text())}
        ours = ARCHITECTURES[machine].numbers
        assert {name: known[name] for name in ours if name in known} == {n: ours[n] for n in ours if n in known}
        assert len(set(ours.values())) == len(ours)


def test_an_unknown_architecture_has_no_isolation() -> None:
    with pytest.raises(IsolationMissing, match="sparc"):
        program("sparc")
