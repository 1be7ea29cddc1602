"""What this machine can do for Overnight, and what it lacks, found by trying."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from overnight.sandbox import Check, SandboxName, probe

_MEANINGS = {
    "A": "experiments are isolated and limited; leave it working",
    "B": "experiments are isolated, but limits on memory and processes are per process or noticed late",
    "C": "experiments cannot read or write what they should not, though they see that it exists",
    "D": "as C, and limits on memory and processes are per process or noticed late",
    "F": "no isolation; `overnight run` refuses, unless told --sandbox none",
}


@dataclass(frozen=True)
class Health:
    """The result: every check, the grade from A to F with its meaning, and the sandbox that `auto` gives."""

    checks: tuple[Check, ...]
    grade: str
    meaning: str
    sandbox: SandboxName | None


def examine() -> Health:
    """Probe isolation, git and Python."""
    report = probe()
    python = Check("python", True, f"{sys.version.split()[0]} at {sys.executable}")
    cores = Check("cores", True, f"{len(os.sched_getaffinity(0))} for evaluations")
    checks = (*report.checks, _git(), python, cores)
    return Health(checks, report.grade, _MEANINGS[report.grade], report.sandbox)


def _git() -> Check:
    fix = "on Debian: apt-get install git"
    if shutil.which("git") is None:
        return Check("git", False, "not installed", fix)
    said = subprocess.run(["git", "version"], capture_output=True, text=True).stdout.strip()
    number = tuple(int(part) for part in said.split()[2].split(".")[:2]) if said.startswith("git version") else (0, 0)
    if number < (2, 31):
        return Check("git", False, f"{said}; 2.31 or newer is needed", fix)
    return Check("git", True, said)
