"""A keeper that a signal meant for us strikes before it has left our process group."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import IsolationMissing
from overnight.sandbox import Command
from overnight.sandbox.keeper import Keeper
from overnight.sandbox.process import run_kept


def _keeper(folder: Path, before: str) -> Keeper:
    """One that says its process id in a file, does `before`, then reads its configuration and reports success."""
    said, done = folder / "pid", folder / "done"
    end = "read report < /proc/self/fd/$0; echo '{\"exit-code\": 0}' > /proc/self/fd/$report"
    script = f"echo $$ > '{said}.new'; mv '{said}.new' '{said}'; {before}; : > '{done}'; {end}"

    def config(report: int) -> bytes:
        while not said.exists():
            time.sleep(0.01)
        status = Path("/proc", said.read_text().strip(), "status")
        said.unlink()
        while "(zombie)" not in status.read_text() and not done.exists():
            time.sleep(0.01)
        return f"{report}\n".encode()

    return Keeper(argv=lambda fd: ["/bin/sh", "-c", script, str(fd)], config=config, fds=(), stop=signal.SIGKILL)


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_is_started_again(name: str, tmp_path: Path, make: Callable[..., Command]) -> None:
    struck = tmp_path / "struck"
    keeper = _keeper(tmp_path, f"if [ ! -e '{struck}' ]; then : > '{struck}'; kill -{name} $$; fi")
    assert run_kept(keeper, make("true"), None, None).exit_code == 0
    assert struck.exists()


@pytest.mark.parametrize("name", ["INT", "KILL"])
def test_that_never_starts_is_an_error_and_no_wait_without_end(
    name: str, tmp_path: Path, make: Callable[..., Command]
) -> None:
    with pytest.raises(IsolationMissing):
        run_kept(_keeper(tmp_path, f"kill -{name} $$"), make("true"), None, None)
