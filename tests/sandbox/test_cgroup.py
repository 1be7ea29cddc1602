"""Control groups: the machine's own, and folders laid out like those of other machines."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from overnight.sandbox.cgroup import Group, Hierarchy, find_hierarchy, group_prefix, start_ticks, sweep

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]


@pytest.fixture
def hierarchy() -> Hierarchy:
    found = find_hierarchy()
    if found is None:
        pytest.skip("no control group can be made here")
    return found


def groups(hierarchy: Hierarchy) -> set[str]:
    return {path.name for folder in hierarchy.folders for path in folder.glob("overnight-*")}


def test_closing_kills_what_is_inside(hierarchy: Hierarchy) -> None:
    group = Group(hierarchy, 100_000_000, 10)
    process = subprocess.Popen(SLEEP)
    group.add(process.pid)
    assert group.pids() == [process.pid]
    assert any(name.startswith(group_prefix()) for name in groups(hierarchy))
    assert group.close()
    assert process.wait(timeout=300) == -signal.SIGKILL
    assert not any(name.startswith(group_prefix()) for name in groups(hierarchy))
    assert group.close()


def test_a_dead_harness_leaves_nothing_after_the_sweep(hierarchy: Hierarchy, tmp_path: Path) -> None:
    # A harness that is killed with a command running, and has no warden.
    code = (
        "import os, signal, subprocess, sys\n"
        "from overnight.sandbox.cgroup import Group, find_hierarchy\n"
        "group = Group(find_hierarchy(), 100_000_000, 10)\n"
        f"process = subprocess.Popen({SLEEP!r}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
        "group.add(process.pid)\nprint(process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    left = int(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False).stdout)
    assert start_ticks(left) > 0
    mine = Group(hierarchy, 100_000_000, 10)
    try:
        sweep(hierarchy)  # unless another harness on this machine was faster
        deadline = time.monotonic() + 300
        while start_ticks(left) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert start_ticks(left) == 0
        assert any(name.startswith(group_prefix()) for name in groups(hierarchy)), "a living harness keeps its groups"
    finally:
        mine.close()


def lay_out_v2(root: Path, delegated: str) -> Path:
    """A v2 tree in which we seem to be in the group /; `delegated` is what its subtree may control."""
    own = root / Path("/proc/self/cgroup").read_text().split("0::", 1)[1].splitlines()[0].lstrip("/")
    own.mkdir(parents=True, exist_ok=True)
    for folder in {own, root}:
        (folder / "cgroup.controllers").write_text("cpu memory pids")
        (folder / "cgroup.subtree_control").write_text(delegated)
        (folder / "cgroup.procs").write_text("")
    return own


@pytest.mark.skipif("0::" not in Path("/proc/self/cgroup").read_text(), reason="no v2 hierarchy is mounted")
def test_version_2_where_it_is_delegated(tmp_path: Path) -> None:
    own = lay_out_v2(tmp_path, "cpu memory pids")
    found = find_hierarchy(tmp_path)
    assert found is not None
    assert (found.version, found.folders) == (2, (own,))


@pytest.mark.skipif("0::" not in Path("/proc/self/cgroup").read_text(), reason="no v2 hierarchy is mounted")
def test_version_2_where_it_is_not(tmp_path: Path) -> None:
    lay_out_v2(tmp_path, "cpu")
    assert find_hierarchy(tmp_path) is None


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert find_hierarchy(tmp_path) is None


def test_a_process_is_named_by_pid_and_start() -> None:
    assert start_ticks(os.getpid()) > 0
    assert start_ticks(2**22 + 1) == 0
