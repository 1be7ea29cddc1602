"""What this machine can do for Overnight, and what it lacks, found by trying."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from overnight.loop.arena.programs import advice, search_path
from overnight.loop.evaluation.measured import Environment
from overnight.sandbox import Check, Command, Limits, SandboxName, open_sandbox, probe

_NEEDED = frozenset({"python", "arenas", "git"})

_MEANINGS = {
    "A": "experiments are isolated and limited; leave it working",
    "B": "experiments are isolated, but limits on memory and processes are per process or noticed late",
    "C": "experiments cannot read or write what they should not, though they see that it exists",
    "D": "as C, and limits on memory and processes are per process or noticed late",
    "F": "no isolation; `overnight run` refuses, unless told --sandbox none",
}


@dataclass(frozen=True)
class Health:
    """The result.

    Attributes:
        checks: every one.
        grade: from A to F; F also where git or Python is not fit for experiments.
        meaning: of the grade.
        sandbox: that `auto` gives; None if there is none.
        ready: whether runs can work here.
    """

    checks: tuple[Check, ...]
    grade: str
    meaning: str
    sandbox: SandboxName | None
    ready: bool


def examine() -> Health:
    """Probe isolation, Python as experiments find it, and git."""
    report = probe()
    cores = Check("cores", True, f"{len(os.sched_getaffinity(0))} for evaluations")
    checks = (*report.checks, _arenas(report.sandbox), _git(), cores)
    lacking = [check.name for check in checks if check.name in _NEEDED and not check.ok]
    grade, meaning = report.grade, _MEANINGS[report.grade]
    if report.sandbox is not None and lacking:
        grade, meaning = (
            "F",
            f"experiments can be isolated, but none can work before this is mended: {', '.join(lacking)}",
        )
    return Health(checks, grade, meaning, report.sandbox, report.sandbox is not None and not lacking)


def _arenas(sandbox: SandboxName | None) -> Check:
    """Arenas say `python evaluate.py`: what experiments find under that name."""
    path = search_path(Environment.own().bin)
    if sandbox is None:
        found = shutil.which("python", path=path)
        return Check(
            "arenas", found is not None, f"`python` is {found or 'not there'}", "" if found else advice("python", path)
        )
    opened = open_sandbox(sandbox)
    try:
        said = "import sys; print(sys.version.split()[0], sys.executable)"
        done = opened.run(Command(("python", "-I", "-c", said), "/usr", {"PATH": path}, (), Limits(wall_s=20)))
    finally:
        opened.close()
    if not done.ok:
        words = done.stderr.decode(errors="replace").strip()
        return Check(
            "arenas", False, f"`python` in experiments: {done.describe()} {words}"[:300], advice("python", path)
        )
    version, _, place = done.stdout.decode(errors="replace").strip().partition(" ")
    return Check("arenas", True, f"`python` in experiments is {version} at {place}")


def _git() -> Check:
    fix = "on Debian: apt-get install git"
    if shutil.which("git") is None:
        return Check("git", False, "not installed", fix)
    said = subprocess.run(["git", "version"], capture_output=True, text=True).stdout.strip()
    number = tuple(int(part) for part in said.split()[2].split(".")[:2]) if said.startswith("git version") else (0, 0)
    if number < (2, 31):
        return Check("git", False, f"{said}; 2.31 or newer is needed", fix)
    return Check("git", True, said)
