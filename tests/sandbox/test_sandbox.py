"""What every sandbox promises, on every one."""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from overnight.core.errors import UsageError
from overnight.sandbox import Command, Finished, Mount, Sandbox

Make = Callable[..., Command]
MIB = 1024 * 1024
# Wall limits to try until a program has come to what is tested before it is stopped: the first does on a quiet machine.
PATIENCE_S = (0.5, 2.0, 8.0, 32.0)


def python(make: Make, code: str, **given: object) -> Command:
    return make(sys.executable, "-I", "-c", code, **given)


def test_output_and_exit_code(sandbox: Sandbox, make: Make) -> None:
    finished = sandbox.run(make("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert (finished.exit_code, finished.signal, finished.killed) == (3, None, None)
    assert (finished.stdout, finished.stderr, finished.truncated) == (b"out\n", b"err\n", False)
    assert not finished.ok
    assert finished.describe() == "exit code 3"


def test_exit_code_0_is_ok(sandbox: Sandbox, make: Make) -> None:
    finished = sandbox.run(make("true"))
    assert finished.ok
    assert finished.cpu_s is not None
    assert 0 < finished.cpu_s < 5


def test_a_signal_is_told_from_an_exit_code(sandbox: Sandbox, make: Make) -> None:
    finished = sandbox.run(make("sh", "-c", "kill -SEGV $$"))
    assert (finished.exit_code, finished.signal, finished.killed) == (None, 11, None)
    assert finished.describe() == "killed by SIGSEGV"


def test_a_program_that_does_not_exist_is_127(sandbox: Sandbox, make: Make) -> None:
    finished = sandbox.run(make("no-such-program", "x"))
    assert finished.exit_code == 127
    assert b"no-such-program: No such file" in finished.stderr


def test_a_program_that_cannot_be_executed_is_126(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    (tmp_path / "work" / "data").write_text("no program")
    assert sandbox.run(make("./data")).exit_code == 126


def test_the_environment_is_what_was_given(sandbox: Sandbox, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HARNESS", "x")
    seen = sandbox.run(make("env", env={"PATH": "/usr/bin:/bin", "GIVEN": "a b=c\nd"})).stdout.decode()
    assert "GIVEN=a b=c\nd\n" in seen
    assert "SECRET" not in seen
    names = {line.partition("=")[0] for line in seen.splitlines() if "=" in line}
    assert names <= {"PATH", "GIVEN", "PWD", "TMPDIR"}


def test_standard_input(sandbox: Sandbox, make: Make) -> None:
    assert sandbox.run(make("cat", stdin=b"hello\x00" * 50_000)).stdout == b"hello\x00" * 50_000
    assert sandbox.run(make("cat")).stdout == b""


def test_what_it_writes_stays(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    assert sandbox.run(make("sh", "-c", "mkdir d && echo made > d/file && cat d/file")).stdout == b"made\n"
    assert (tmp_path / "work" / "d" / "file").read_text() == "made\n"


def test_spaces_and_non_ascii(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "mit Leerzeichen — ünï 雪"
    folder.mkdir()
    (folder / "näme 1").write_text("here")
    mount = Mount(folder, str(folder), writable=True)
    finished = sandbox.run(make("cat", "näme 1", cwd=str(folder), mounts=(mount,), env={"PATH": "/usr/bin", "V": "ü"}))
    assert finished.stdout == b"here"


def test_temporary_files_work_and_go(sandbox: Sandbox, make: Make) -> None:
    code = "import tempfile; f = tempfile.NamedTemporaryFile(delete=False); f.write(b'x'); print(f.name)"
    finished = sandbox.run(python(make, code))
    assert finished.ok, finished.stderr
    assert not Path(finished.stdout.decode().strip()).exists()


def test_threads_numpy_multiprocessing_and_subprocesses_work(sandbox: Sandbox, make: Make) -> None:
    code = """
import multiprocessing, subprocess, sys, threading
import numpy
a = numpy.ones((400, 400))
print(int((a @ a).sum()))
t = threading.Thread(target=lambda: print("thread", flush=True)); t.start(); t.join()
print(subprocess.run(["echo", "sub"], capture_output=True, check=True).stdout.decode(), end="")
def double(x): return 2 * x
context = multiprocessing.get_context("fork")
parent, child = context.Pipe()
p = context.Process(target=lambda: child.send(double(21))); p.start(); print(parent.recv()); p.join()
"""
    finished = sandbox.run(python(make, code))
    assert finished.stdout == b"64000000\nthread\nsub\n42\n", finished.stderr


def test_time_is_up_for_all_of_it(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    beat = tmp_path / "work" / "beat"
    code = "trap '' TERM; (trap '' TERM; while :; do echo x >> beat; sleep 0.02; done) & setsid sleep 600 & sleep 600"
    for wall_s in PATIENCE_S:
        finished = sandbox.run(make("sh", "-c", code, wall_s=wall_s))
        assert (finished.exit_code, finished.signal, finished.killed) == (None, 9, "wall")
        assert wall_s <= finished.seconds < 60
        assert finished.describe() == "stopped by us: wall limit"
        if beat.exists():
            break
    beats = beat.stat().st_size
    time.sleep(0.2)
    assert beat.stat().st_size == beats


def test_grace_lets_it_end_by_itself(sandbox: Sandbox, make: Make) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(15, lambda *_: (print('bye'), sys.exit(0)))\n"
        "print('up', flush=True)\ntime.sleep(600)"
    )
    for wall_s in PATIENCE_S:
        finished = sandbox.run(python(make, code, wall_s=wall_s, grace_s=60))
        assert finished.killed == "wall"
        assert finished.seconds < 60
        if b"up" in finished.stdout:
            break
    assert finished.stdout == b"up\nbye\n"


def test_what_it_leaves_behind_ends_with_it(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    code = "(setsid sh -c 'while :; do echo x >> beat; sleep 0.02; done' >/dev/null 2>&1 &) ; sleep 0.2; echo done"
    finished = sandbox.run(make("sh", "-c", code))
    assert finished.stdout == b"done\n"
    beats = (tmp_path / "work" / "beat").stat().st_size
    time.sleep(0.2)
    assert (tmp_path / "work" / "beat").stat().st_size == beats > 0


def test_cancel(sandbox: Sandbox, make: Make) -> None:
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()
    finished = sandbox.run(make("sleep", "100"), cancel)
    assert (finished.killed, finished.exit_code) == ("cancelled", None)
    assert finished.seconds < 60
    assert finished.describe() == "cancelled"


def test_cores(sandbox: Sandbox, make: Make) -> None:
    core = min(os.sched_getaffinity(0))
    finished = sandbox.run(python(make, "import os; print(os.sched_getaffinity(0))", cpus=frozenset({core})))
    assert finished.stdout.decode().strip() == str({core})


def test_output_keeps_head_and_tail(sandbox: Sandbox, make: Make) -> None:
    code = "print('first'); [print('x' * 99) for _ in range(100_000)]; print('last')"
    finished = sandbox.run(python(make, code, output_bytes=2000))
    assert finished.ok
    assert finished.truncated
    assert finished.stdout.startswith(b"first\nxxx")
    assert finished.stdout.endswith(b"xxx\nlast\n")
    assert b"bytes dropped" in finished.stdout
    assert len(finished.stdout) < 2100


def test_memory(sandbox: Sandbox, make: Make) -> None:
    finished = sandbox.run(python(make, "x = b'x' * 500_000_000; print(len(x))", memory_bytes=100 * MIB))
    assert finished.killed == "memory" or b"MemoryError" in finished.stderr
    assert finished.stdout == b""


def test_cpu_seconds(sandbox: Sandbox, make: Make) -> None:
    finished = sandbox.run(python(make, "while True: pass", cpu_s=0.5))
    assert finished.killed == "cpu"


def test_processes(sandbox: Sandbox, make: Make) -> None:
    code = (
        "import os, time\nn = 0\n"
        "try:\n"
        "    while n < 500:\n"
        "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "        n += 1\n"
        "except OSError: pass\n"
        "print(n < 50, flush=True)"
    )
    finished = sandbox.run(python(make, code, pids=40))
    assert finished.stdout == b"True\n" or finished.killed == "pids"


def test_disk(sandbox: Sandbox, make: Make) -> None:
    code = "n = 0\nwhile True:\n    n += 1\n    with open(f'f{n}', 'wb') as f: f.write(bytes(2_000_000))"
    finished = sandbox.run(python(make, code, disk_bytes=30 * MIB))
    assert finished.killed == "disk"


def test_many_at_once(sandbox: Sandbox, make: Make) -> None:
    results: dict[int, Finished] = {}

    def run(number: int) -> None:
        for _ in range(3):
            results[number] = sandbox.run(make("sh", "-c", f"echo {number}; sleep 0.0{number}; exit {number}"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: (f.exit_code, f.stdout) for number, f in results.items()} == {
        number: (number, b"%d\n" % number) for number in range(6)
    }


def test_no_descriptor_is_lost(sandbox: Sandbox, make: Make) -> None:
    sandbox.run(make("true"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        sandbox.run(make("true"))
        sandbox.run(make("no-such-program"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_malformed_commands_are_refused(sandbox: Sandbox, make: Make, tmp_path: Path) -> None:
    good = make("true")
    for bad in (
        replace(good, argv=()),
        replace(good, argv=("a\0b",)),
        replace(good, cwd="relative"),
        replace(good, env={"A=B": "x"}),
        replace(good, limits=replace(good.limits, wall_s=0)),
        replace(good, limits=replace(good.limits, memory_bytes=-1)),
        replace(good, mounts=(Mount(tmp_path / "missing", str(tmp_path / "missing")),)),
        replace(good, mounts=(Mount(Path("relative"), "relative"),)),
        replace(good, mounts=(Mount(Path("src"), "/src"),)),
        replace(good, mounts=(Mount(tmp_path, "/"),)),
        replace(good, mounts=(Mount(tmp_path, "/a/../b"),)),
        replace(good, network=True, hosts=("example.org",)),
    ):
        with pytest.raises(UsageError):
            sandbox.run(bad)
