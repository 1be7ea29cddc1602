"""`overnight doctor` on a machine where experiments find no `python`, and what a run says there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.sandbox import probe

FILES = {
    "program.md": "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\n",
    "art.py": "X = 3.0  # knob: 0..10\n",
    "evaluate.py": "import art\nprint('score:', -abs(art.X - 7))\n",
}
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def python3(tmp_path: Path) -> Path:
    """A virtual environment as some systems make them: with python3, and without python."""
    if shutil.which("python", path=SYSTEM_PATH):
        pytest.skip("this system has a python of its own")
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    found = place / "bin" / "python3"
    base = os.path.realpath(found)
    for path in (place / "bin").glob("python*"):
        path.unlink()
    found.symlink_to(base)
    return found


def overnight(python: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(python), "-m", "overnight", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        timeout=300,
    )


def test_experiments_that_would_find_no_python_are_noticed(python3: Path, write: Callable[..., Path]) -> None:
    doctor = overnight(python3, "doctor", "--json")
    found = json.loads(doctor.stdout)
    checks = {check["name"]: check for check in found["checks"]}
    assert len(checks) == len(found["checks"]), "every check has a name of its own"
    assert doctor.returncode == 4 and not found["ready"] and found["grade"] == "F" and "arenas" in found["meaning"]
    assert not checks["arenas"]["ok"] and "write python3 in program.md" in checks["arenas"]["fix"]
    assert "to mend arenas" in overnight(python3, "doctor").stdout

    arena = write(FILES)
    failed = overnight(python3, "run", arena, "--experiments", "1")
    assert failed.returncode == 2 and "only `python3`" in failed.stderr and "program.md" in failed.stderr
    assert "only `python3`" in overnight(python3, "arena", "check", arena).stdout
    program = arena / "program.md"
    program.write_text(program.read_text().replace("python ", "python3 "))
    assert overnight(python3, "run", arena, "--experiments", "1").returncode == 0


def test_here_everything_that_runs_need_is_there() -> None:
    if probe().sandbox is None:
        pytest.skip("no isolation here")
    doctor = overnight(Path(sys.executable), "doctor", "--json")
    found = json.loads(doctor.stdout)
    assert doctor.returncode == 0 and found["ready"] and found["grade"] == probe().grade
