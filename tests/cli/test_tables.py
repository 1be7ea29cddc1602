"""Tables fit the terminal that they are drawn on, and what was cut says so by one character."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

PROGRAM = (
    "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\nGo.\n"
)
NAMES = "\n".join(f"A_RATHER_LONG_NAME_{n} = {n + 1.0}  # knob: 0..100" for n in range(8))


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena")
    (folder / "program.md").write_text(PROGRAM)
    (folder / "art.py").write_text(NAMES + "\n")
    (folder / "evaluate.py").write_text("import art\nprint('score:', -abs(art.A_RATHER_LONG_NAME_0 - 7))\n")
    command = [sys.executable, "-m", "overnight", "run", str(folder), "--experiments", "3", "--run", "one"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize("columns", [100, 140])
def test_on_a_terminal_no_line_is_wider_than_it(arena: Path, columns: int) -> None:
    lines = _on_terminal(columns, "log", "--workspace", str(arena))
    assert len(lines) == 5
    assert max(map(len, lines)) <= columns
    assert "…" in lines[2] and "characters)" not in lines[2]


def test_elsewhere_more_of_it_is_shown(arena: Path) -> None:
    command = [sys.executable, "-m", "overnight", "log", "--workspace", str(arena)]
    piped = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert len(piped[2]) > 140 and "characters)" not in piped[2]


def _on_terminal(columns: int, *arguments: str) -> list[str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "overnight", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as running:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:  # Linux says so when the last writer has gone
            pass
        assert running.wait(60) == 0
    os.close(ours)
    return said.decode().splitlines()
