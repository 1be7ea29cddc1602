"""What isolation this machine can give, found by trying it."""

import sys
from dataclasses import dataclass
from typing import Literal

from overnight.core.errors import IsolationMissing
from overnight.sandbox.bwrap import find_bwrap
from overnight.sandbox.cgroup import Hierarchy, find_hierarchy
from overnight.sandbox.command import Command, Limits, SandboxName
from overnight.sandbox.landlock import NEEDED_ABI, landlock_abi
from overnight.sandbox.opening import tried
from overnight.sandbox.seccomp import program
from overnight.sandbox.system import python_folders

Grade = Literal["A", "B", "C", "D", "F"]


@dataclass(frozen=True)
class Check:
    """One thing that was tried.

    Attributes:
        name: what.
        ok: it works.
        detail: what was found; one line.
        fix: the command or change that would make it work; empty if it does, or if nothing can.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class Report:
    """What this machine can do.

    Attributes:
        checks: everything that was tried.
        grade: A bwrap with control groups · B bwrap without (limits are per process, or noticed late) · C Landlock with
            control groups (no namespaces: names and sizes of hidden files show) · D Landlock without · F no isolation.
        sandbox: what `open_sandbox("auto")` would give; None if it would refuse.
    """

    checks: tuple[Check, ...]
    grade: Grade
    sandbox: SandboxName | None


def probe() -> Report:
    """Try everything once; takes a fraction of a second and leaves nothing behind."""
    hierarchy = find_hierarchy()
    bwrap, landlock = _try("bwrap", hierarchy), _try("landlock", hierarchy)
    checks = (_filter(), bwrap, landlock, _cgroup(hierarchy), _python("bwrap" if bwrap.ok else "landlock", hierarchy))
    name: SandboxName | None = "bwrap" if bwrap.ok else "landlock" if landlock.ok else None
    grades: dict[tuple[SandboxName, bool], Grade] = {
        ("bwrap", True): "A",
        ("bwrap", False): "B",
        ("landlock", True): "C",
        ("landlock", False): "D",
    }
    return Report(checks, grades[name, hierarchy is not None] if name is not None else "F", name)


def _filter() -> Check:
    try:
        size = len(program()) // 8
    except IsolationMissing as problem:
        return Check("filter", False, problem.message, problem.hint)
    return Check("filter", True, f"system call filter of {size} instructions")


def _try(name: Literal["bwrap", "landlock"], hierarchy: Hierarchy | None) -> Check:
    found = find_bwrap() or "not installed" if name == "bwrap" else f"ABI {landlock_abi()}, {NEEDED_ABI} needed"
    try:
        tried(name, hierarchy)
    except IsolationMissing as problem:
        return Check(name, False, f"{found}: {problem.message}", problem.hint)
    return Check(name, True, f"{found}: ran a command")


def _cgroup(hierarchy: Hierarchy | None) -> Check:
    if hierarchy is None:
        return Check(
            "cgroup",
            False,
            "no control group can be made: memory and processes are limited one by one and watched",
            "run under: systemd-run --user --scope -p Delegate=yes overnight …",
        )
    return Check("cgroup", True, f"version {hierarchy.version}: {', '.join(sorted(hierarchy.parents))}")


def _python(name: Literal["bwrap", "landlock"], hierarchy: Hierarchy | None) -> Check:
    """Arenas in Python need the interpreter that runs us."""
    try:
        command = Command((sys.executable, "-I", "-c", "print(6 * 7)"), "/usr", {}, (), Limits(wall_s=20))
        finished = tried(name, hierarchy).run(command)
    except IsolationMissing as problem:
        return Check("python", False, problem.message, problem.hint)
    if finished.stdout != b"42\n":
        words = finished.stderr.decode(errors="replace").strip()
        return Check(
            "python",
            False,
            f"{sys.executable} inside: {finished.describe()} {words}"[:300],
            "install Overnight into a virtual environment elsewhere: python3 -m venv .venv",
        )
    return Check("python", True, f"runs inside, from {', '.join(python_folders()) or '/usr'}")
