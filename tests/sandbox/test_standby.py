"""Isolations set up ahead: the same isolation, nothing shared, nothing left."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sandbox.conftest import Make

from overnight.sandbox import Mount, Sandbox, open_sandbox
from overnight.sandbox.processes import descendants


def _children() -> set[int]:
    return set(descendants(os.getpid()))


def _wait(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reached()


def test_what_was_prepared_runs_like_any_other(sandbox: Sandbox, make: Make) -> None:
    command = make(
        "sh",
        "-c",
        'cat; echo "$SAID|$PWD|$#" "$@" >&2; exit 3',
        "x",
        "a b",
        "$(id)",
        "new\nline",
        "'",
        "é",
        env={"PATH": "/usr/bin:/bin", "SAID": "it's $HOME\nand `more`"},
    )
    plain = sandbox.run(command)
    before = _children()
    sandbox.prepare(replace(command, argv=(), env={}))
    _wait(lambda: _children() - before)
    ahead = sandbox.run(command)
    assert (
        (ahead.exit_code, ahead.stdout, ahead.stderr)
        == (plain.exit_code, plain.stdout, plain.stderr)
        == (
            3,
            b"",
            ahead.stderr,
        )
    )
    assert ahead.stderr.endswith("5 a b $(id) new\nline ' é\n".encode())
    assert _children() == before


def test_it_is_taken_and_saves_the_start(sandbox: Sandbox, make: Make) -> None:
    """The process that waited is the one that becomes the command: nothing else is started."""
    before = _children()
    command = make("sh", "-c", "sleep 0.3")
    sandbox.prepare(command)
    _wait(lambda: len(_children() - before) > 0)
    waiting = _children() - before
    assert sandbox.run(command).ok
    assert not (_children() & waiting)


def test_the_environment_is_exactly_what_was_given(sandbox: Sandbox, make: Make) -> None:
    command = make("env", env={"PATH": "/usr/bin:/bin", "TMPDIR": "/tmp", "A": "1"})
    plain = sandbox.run(command)
    sandbox.prepare(command)
    assert sorted(sandbox.run(command).stdout.splitlines()) == sorted(plain.stdout.splitlines())


def test_a_command_that_differs_gets_its_own(bwrap: Sandbox, make: Make, tmp_path: Path) -> None:
    """Other mounts, limits or network: what was prepared is for another command."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("here")
    prepared = make("true")
    try:
        bwrap.prepare(prepared)
        shown = replace(
            prepared, argv=("cat", "/shown/file"), mounts=(*prepared.mounts, Mount(tmp_path / "other", "/shown"))
        )
        assert bwrap.run(shown).stdout == b"here"
        bwrap.prepare(shown)
        assert not bwrap.run(replace(prepared, argv=("cat", "/shown/file"))).ok
        bwrap.prepare(replace(prepared, network=True))
        interfaces = bwrap.run(
            replace(prepared, argv=("sh", "-c", "ls /sys/class/net 2>/dev/null; wc -l </proc/net/dev"))
        )
        assert interfaces.stdout.split()[-1] == b"3"  # two lines of heading and loopback
    finally:
        bwrap.close()


def test_what_is_written_into_a_mount_afterwards_is_seen(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    command = make("cat", "late.txt")
    sandbox.prepare(command)
    (tmp_path / "work" / "late.txt").write_text("late")
    assert sandbox.run(command).stdout == b"late"


def test_a_socket_that_appears_after_preparing_is_covered(bwrap: Sandbox, make: Make, tmp_path: Path) -> None:
    command = make(
        "python3",
        "-c",
        "import socket; socket.socket(socket.AF_UNIX).connect('door')",
        cwd="/arena",
        mounts=(Mount(tmp_path / "work", "/arena", writable=True),),
    )
    try:
        bwrap.prepare(command)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(tmp_path / "work" / "door"))
            door.listen()
            assert not bwrap.run(command).ok
    finally:
        bwrap.close()


@pytest.mark.parametrize("argv", [("no-such-program",), ("./not-executable",)])
def test_a_program_that_cannot_start_is_told_the_same_way(
    sandbox: Sandbox, make: Make, tmp_path: Path, argv: tuple[str, ...]
) -> None:
    (tmp_path / "work" / "not-executable").write_text("data")
    command = make(*argv)
    plain = sandbox.run(command)
    sandbox.prepare(command)
    assert sandbox.run(command).exit_code == plain.exit_code in (126, 127)


def test_limits_hold_for_what_was_prepared(sandbox: Sandbox, make: Make) -> None:
    command = make("sleep", "60", wall_s=0.3)
    sandbox.prepare(command)
    assert sandbox.run(command).killed == "wall"
    hungry = make(sys.executable, "-c", "x = bytearray(400 << 20); print(len(x))", memory_bytes=200 << 20, wall_s=20.0)
    sandbox.prepare(hungry)
    assert not sandbox.run(hungry).ok


def test_closing_ends_what_was_not_taken_and_the_sandbox_goes_on(sandbox: Sandbox, make: Make) -> None:
    before = _children()
    for _ in range(3):
        sandbox.prepare(make("true"))
    sandbox.close()
    assert _children() == before
    assert sandbox.run(make("true")).ok


def test_one_that_was_killed_while_waiting_costs_nothing_but_time(sandbox: Sandbox, make: Make) -> None:
    before = _children()
    sandbox.prepare(make("true"))
    _wait(lambda: _children() - before)
    time.sleep(0.2)
    for pid in _children() - before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    finished = sandbox.run(make("echo", "ran"))
    assert finished.stdout == b"ran\n" or finished.signal == signal.SIGKILL
    assert sandbox.run(make("echo", "ran")).stdout == b"ran\n"


def test_a_killed_harness_leaves_nothing_that_waits(sandbox: Sandbox, tmp_path: Path) -> None:
    script = f"""
import time
from pathlib import Path
from overnight.sandbox import Command, Limits, Mount, open_sandbox
sandbox = open_sandbox({sandbox.name!r})
folder = Path({str(tmp_path)!r})
sandbox.prepare(Command((), str(folder), {{}}, (Mount(folder, str(folder), True),), Limits(30)))
print("ready", flush=True)
time.sleep(600)
"""
    harness = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert harness.stdout is not None and harness.stdout.readline() == b"ready\n"
    _wait(lambda: descendants(harness.pid))
    time.sleep(0.5)  # more of them may follow the first
    waiting = set(descendants(harness.pid))
    assert waiting
    harness.kill()
    harness.wait()
    harness.stdout.close()
    _wait(lambda: not any(_alive(pid) for pid in waiting))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def test_a_malformed_command_prepares_nothing(sandbox: Sandbox, make: Make) -> None:
    gone = make("true", mounts=(Mount(Path("/nowhere/at/all"), "/nowhere/at/all"),))
    sandbox.prepare(gone)
    sandbox.close()
    assert open_sandbox(sandbox.name).run(make("true")).ok
