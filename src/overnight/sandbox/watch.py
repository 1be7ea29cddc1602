"""Keeps one warden (see warden.py) for this process, as long as it lives."""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from overnight.sandbox.cgroup import Hierarchy, group_prefix

_WARDEN = str(Path(__file__).with_name("warden.py"))
_lock = threading.Lock()
_watched: set[tuple[int, Hierarchy]] = set()


def ensure_warden(hierarchy: Hierarchy) -> None:
    """Start the warden of this process for groups in `hierarchy`, unless it runs already."""
    key = (os.getpid(), hierarchy)
    with _lock:
        if key in _watched:
            return
        _watched.add(key)
        folders = [str(folder) for folder in hierarchy.folders]
        warden = subprocess.Popen(
            [sys.executable, "-I", "-S", _WARDEN, group_prefix(), *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        atexit.register(_dismiss, warden, os.getpid())


def _dismiss(warden: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the harness ends; the harness does not
    assert warden.stdin is not None
    warden.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        warden.wait(timeout=10)
