"""What ends commands when the harness is killed; run as `python -I -S warden.py PREFIX FOLDER…`.

The kernel kills a command with its parent once the command has asked for it; a harness that dies in the milliseconds
before leaves one running. So one warden a harness waits on a pipe that closes with the harness, and then kills what is
in the control groups whose names start with PREFIX below each FOLDER, and removes them.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing `typing` costs more than the rest
if TYPE_CHECKING:
    from collections.abc import Sequence

# A process that was just started may not be in its group yet; it reads an empty configuration and ends by itself.
_PATIENCE_S = 30.0


def _end(group: str) -> bool:
    """Kill everything in `group`; true if it could be removed."""
    try:
        with open(f"{group}/cgroup.procs") as members:
            pids = members.read().split()
    except OSError:
        pids = []
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def main(arguments: Sequence[str]) -> None:
    """Wait for the harness to end, then end what it left."""
    prefix, *folders = arguments
    while os.read(0, 4096):
        continue
    deadline = time.monotonic() + _PATIENCE_S
    left = True
    while left and time.monotonic() < deadline:
        left = False
        for folder in folders:
            for name in os.listdir(folder):
                if name.startswith(prefix) and not _end(f"{folder}/{name}"):
                    left = True
        time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1:])
