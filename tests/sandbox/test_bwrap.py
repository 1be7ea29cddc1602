"""What only bubblewrap gives: other paths, namespaces, a system of read-only pieces."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import IsolationMissing, UsageError
from overnight.sandbox import Command, Mount, Sandbox
from overnight.sandbox.bwrap import Bwrap
from overnight.sandbox.system import python_folders

Make = Callable[..., Command]
SOURCE = Path(__file__).parents[2] / "src"


def test_mounts_appear_elsewhere_and_inside_each_other(bwrap: Sandbox, make: Make, tmp_path: Path) -> None:
    for name in ("arena", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "arena" / "corpus").mkdir()
    (tmp_path / "data" / "text").write_text("words")
    (tmp_path / "score.py").write_text("secret")
    mounts = (
        Mount(tmp_path / "arena", "/arena", writable=True),
        Mount(tmp_path / "data", "/arena/corpus"),
        Mount(tmp_path / "score.py", "/arena/score.py"),
    )
    finished = bwrap.run(
        make("sh", "-c", "cat corpus/text score.py; echo x > new; ! echo x > corpus/new", cwd="/arena", mounts=mounts)
    )
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout == b"wordssecret"
    assert (tmp_path / "arena" / "new").read_text() == "x\n"
    assert not (tmp_path / "data" / "new").exists()


def test_a_mount_point_cannot_be_steered_by_a_symlink(bwrap: Sandbox, make: Make, tmp_path: Path) -> None:
    (tmp_path / "arena").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "arena" / "corpus").symlink_to("../../oldroot/tmp/elsewhere")
    mounts = (Mount(tmp_path / "arena", "/arena", writable=True), Mount(tmp_path / "data", "/arena/corpus"))
    with pytest.raises(UsageError, match="symlink"):
        bwrap.run(make("true", cwd="/arena", mounts=mounts))


def test_only_a_minimal_system_is_there(bwrap: Sandbox, make: Make) -> None:
    # Where our Python lies in one of them, the way to it is there, and nothing else.
    ways = {Path(folder).parts[1] for folder in python_folders()}
    away = sorted({"home", "var", "opt", "sys", "run", "mnt", "boot"} - ways)
    script = f"ls -A /; echo; ls -A /etc; echo; ls -A {' '.join(f'/{name}' for name in away)} 2>&1"
    finished = bwrap.run(make("sh", "-c", script))
    top, etc, hidden = finished.stdout.decode().split("\n\n")
    assert not set(away) & set(top.split())
    assert not {"shadow", "ssh", "machine-id", "hostname", "sudoers", "resolv.conf"} & set(etc.split())
    assert hidden.count("No such file") == len(away)
    identity = bwrap.run(make("sh", "-c", "id -un; id -u; hostname; cat /proc/1/comm")).stdout
    assert identity == b"overnight\n1000\novernight\nbwrap\n"


def test_the_system_cannot_be_written(bwrap: Sandbox, make: Make) -> None:
    code = "for d in / /usr /etc /proc/sys/kernel /dev; do touch $d/x 2>/dev/null && echo $d; done; echo end"
    assert bwrap.run(make("sh", "-c", code)).stdout == b"end\n"


def test_our_python_works_at_its_own_path(bwrap: Sandbox, make: Make) -> None:
    finished = bwrap.run(make(sys.executable, "-c", "import sys, ssl; print(sys.executable, sys.prefix)"))
    assert finished.stdout.decode().split() == [sys.executable, sys.prefix], finished.stderr


def test_exit_codes_above_128_that_are_no_signal(bwrap: Sandbox, make: Make) -> None:
    assert bwrap.run(make("sh", "-c", "exit 255")).exit_code == 255
    assert bwrap.run(make("sh", "-c", "exit 130")).signal == 2


def test_what_cannot_be_isolated_is_an_error_and_not_run(bwrap: Sandbox, make: Make, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    # Nothing can be mounted below a file.
    mounts = (Mount(tmp_path / "folder", "/etc/passwd/x"), Mount(tmp_path / "work", "/w", writable=True))
    with pytest.raises(IsolationMissing, match="bwrap"):
        bwrap.run(make("touch", "/w/ran", cwd="/", mounts=mounts))
    assert not (tmp_path / "work" / "ran").exists()


def test_sockets_of_the_host_in_a_mount_are_covered(bwrap: Sandbox, make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "deep"
    folder.mkdir()
    code = (
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\n"
        "try: s.connect(sys.argv[1]); print('in')\nexcept OSError as e: print(e)"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(folder)  # the path may be too long for a socket
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
        listener.listen()
        finished = bwrap.run(make(sys.executable, "-c", code, "sock", cwd="/w", mounts=(Mount(folder, "/w"),)))
    assert b"refused" in finished.stdout, finished
    # Its own ones work.
    code = (
        "import socket\na, b = (socket.socket(socket.AF_UNIX) for _ in 'ab')\n"
        "a.bind('own'); a.listen(); b.connect('own'); print('in')"
    )
    assert bwrap.run(make(sys.executable, "-c", code, cwd="/tmp")).stdout == b"in\n"


def test_network_is_shared_only_when_asked(bwrap: Sandbox, make: Make) -> None:
    code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2); print('in')"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert bwrap.run(make(sys.executable, "-c", code, port)).stdout == b""
        assert bwrap.run(make(sys.executable, "-c", code, port, network=True)).stdout == b"in\n"


def test_without_control_groups_limits_hold_too(bwrap: Sandbox, make: Make) -> None:
    alone = Bwrap(None)
    assert alone.run(make("sh", "-c", "echo out")).stdout == b"out\n"
    code = (
        "import os, time\nn = 0\n"
        "try:\n"
        "    while n < 400:\n"
        "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "        n += 1\n"
        "except OSError: pass\n"
        "time.sleep(60)"
    )
    assert alone.run(make(sys.executable, "-c", code, pids=40, wall_s=30)).killed in ("pids", "wall")
    code = "import time; x = b'x' * 90_000_000; time.sleep(60)"
    many = f"import os, time\nfor _ in range(5):\n    if os.fork() == 0: exec({code!r})\ntime.sleep(60)"
    finished = alone.run(make(sys.executable, "-c", many, memory_bytes=200_000_000))
    assert finished.killed == "memory"
    assert finished.memory_bytes is None
    burn = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    assert alone.run(make(sys.executable, "-c", burn, cpu_s=1)).killed == "cpu"


AS_NOBODY = """
import json, sys
from pathlib import Path
from overnight.sandbox import Command, Limits, Mount, open_sandbox
work = Path(sys.argv[1])
out = {}
for name in ("bwrap", "landlock"):
    argv = ("sh", "-c", "echo in > " + name + "; cat " + name + "; cat " + sys.argv[2])
    finished = open_sandbox(name).run(
        Command(argv, str(work), {"PATH": "/usr/bin:/bin"}, (Mount(work, str(work), writable=True),), Limits(wall_s=120))
    )
    out[name] = [finished.stdout.decode(), finished.exit_code, finished.stderr.decode()]
print(json.dumps(out))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_it_works_without_being_root(
    bwrap: Sandbox, landlock: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode:
        pytest.skip("no Python 3.11 that everybody may use")
    # Folders of pytest are closed to others, and so may be what TMPDIR names.
    folder = Path(subprocess.check_output(["mktemp", "-d", "-p", "/tmp"], text=True).strip())
    try:
        shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "work").mkdir()
        (folder / "secret").write_text("secret")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
        nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        out = subprocess.run(
            [*nobody, python, "-c", AS_NOBODY, str(folder / "work"), str(folder / "secret")],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "src"), "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert out.returncode == 0, out.stderr
        for name in ("bwrap", "landlock"):
            assert f'"{name}": ["in\\n", 1' in out.stdout, out.stdout
    finally:
        shutil.rmtree(folder)
