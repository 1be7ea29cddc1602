"""Who has reserved something: a process, named so that its death can be told for certain."""

import os
from pathlib import Path


def this_process(boot: str) -> str:
    """This process: the boot of the machine, the pid, and when it began."""
    return f"{boot} {os.getpid()} {_started(os.getpid())}"


def alive(owner: str, boot: str) -> bool:
    """Whether that process still runs in this boot of the machine; of what cannot be read nobody knows that it died."""
    try:
        their_boot, pid, started = owner.rsplit(" ", 2)
        number = int(pid)
    except ValueError:
        return True
    return their_boot == boot and _started(number) == started


def _started(pid: int) -> str:
    """When a process began, in ticks since boot (proc(5), field 22 of stat); with the pid it names it for good."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "?"
