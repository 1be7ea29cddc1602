"""What Landlock gives, and what it says when it cannot."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import UsageError
from overnight.sandbox import Command, Mount, Sandbox

Make = Callable[..., Command]


def test_what_is_not_mounted_is_not_there(landlock: Sandbox, make: Make, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    finished = landlock.run(make("sh", "-c", f"cat {tmp_path}/secret; echo x > {tmp_path}/new; echo end"))
    assert finished.stdout == b"end\n"
    assert not (tmp_path / "new").exists()


def test_read_only_mounts_can_be_read_only(landlock: Sandbox, make: Make, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "input").write_text("words")
    finished = landlock.run(
        make("sh", "-c", f"cat {given}/input; echo x >> {given}/input", mounts=(Mount(given, str(given)),), cwd="/usr")
    )
    assert finished.stdout == b"words"
    assert (given / "input").read_text() == "words"


def test_modes_stay_and_copies_work(landlock: Sandbox, make: Make, tmp_path: Path) -> None:
    finished = landlock.run(make("sh", "-c", "echo x > a && cp -p a b && chmod 4777 b && cat b"))
    assert finished.stdout == b"x\n", finished.stderr
    assert (tmp_path / "work" / "b").stat().st_mode & 0o7000 == 0


def test_what_landlock_cannot_express_is_refused(landlock: Sandbox, make: Make, tmp_path: Path) -> None:
    inner = tmp_path / "work" / "inner"
    inner.mkdir()
    work = Mount(tmp_path / "work", str(tmp_path / "work"), writable=True)
    with pytest.raises(UsageError, match="read-only inside"):
        landlock.run(make("true", mounts=(work, Mount(inner, str(inner)))))
    with pytest.raises(UsageError, match="own path"):
        landlock.run(make("true", mounts=(Mount(tmp_path / "work", "/arena"),)))


def test_network_only_when_asked(landlock: Sandbox, make: Make) -> None:
    code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2); print('in')"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert landlock.run(make(sys.executable, "-c", code, port)).stdout == b""
        assert landlock.run(make(sys.executable, "-c", code, port, network=True)).stdout == b"in\n"


@pytest.mark.slow
def test_environments_can_be_made(landlock: Sandbox, make: Make) -> None:
    finished = landlock.run(make("sh", "-c", f"{sys.executable} -m venv env && env/bin/python -m pip --version"))
    assert finished.stdout.startswith(b"pip "), finished.stderr
