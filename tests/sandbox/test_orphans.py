"""A harness that is killed leaves no process, no control group and no temporary folder."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from overnight.sandbox import Sandbox
from overnight.sandbox.cgroup import find_hierarchy

HARNESS = """
import sys, threading
from overnight.sandbox import Command, Limits, open_sandbox
sandbox = open_sandbox(sys.argv[1])
mark = sys.argv[2]
def work():
    while True:
        sandbox.run(Command(("sh", "-c", f": {mark}; (setsid sleep 600 &); sleep 0.02"), "/usr", {"PATH": "/usr/bin:/bin"},
                            (), Limits(wall_s=60)))
        sandbox.run(Command(("sleep", "600." + mark), "/usr", {"PATH": "/usr/bin:/bin"}, (), Limits(wall_s=0.2)))
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("up", flush=True)
threading.Event().wait()
"""


def marked(mark: str, harness: int) -> list[str]:
    """Command lines of living processes that carry `mark` or are in groups of `harness`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                groups = (folder / "cgroup").read_text()
            except OSError:
                continue
            if (mark in words and int(folder.name) != os.getpid()) or f"overnight-{harness}-" in groups:
                found.append(words)
    return found


@pytest.mark.parametrize("round_", [0, *(pytest.param(more, marks=pytest.mark.slow) for more in range(1, 20))])
def test_kill_9(sandbox: Sandbox, round_: int) -> None:
    mark = f"{os.getpid()}{random.randrange(10**9)}"
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, sandbox.name, mark], stdout=subprocess.PIPE, start_new_session=True
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"up\n"
        time.sleep(random.uniform(0.05, 0.4))
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    deadline = time.monotonic() + 300
    while (left := marked(mark, harness.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    hierarchy = find_hierarchy()
    if hierarchy is not None:
        while time.monotonic() < deadline:
            groups = [path for each in hierarchy.folders for path in each.glob(f"overnight-{harness.pid}-*")]
            if not groups:
                break
            time.sleep(0.05)
        assert groups == []


def test_temporary_folders_are_swept(landlock: Sandbox) -> None:
    left = Path(tempfile.mkdtemp(prefix="overnight-tmp-4194305-77-"))
    from overnight.sandbox import open_sandbox

    open_sandbox("none")
    assert not left.exists()
