"""The Python that runs us is found inside, wherever it is installed."""

import subprocess
import sys
import tempfile
from pathlib import Path

from overnight.sandbox import Sandbox

_SCRIPT = """
import sys
from overnight.sandbox import Command, Limits, open_sandbox
argv = (sys.executable, "-I", "-c", "import sys; print(sys.prefix)")
print(open_sandbox(sys.argv[1]).run(Command(argv, "/usr", {}, (), Limits(wall_s=30))))
"""


def test_an_installation_below_tmp_is_visible_inside(isolating: Sandbox) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        made = Path(folder, "venv")
        base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
        subprocess.run([str(base), "-I", "-m", "venv", "--without-pip", str(made)], check=True)
        sources = Path(__file__).parents[2] / "src"
        python = str(made / "bin/python")
        done = subprocess.run(
            [python, "-c", _SCRIPT, isolating.name], env={"PYTHONPATH": str(sources)}, capture_output=True, text=True
        )
    assert "exit_code=0" in done.stdout, done.stdout + done.stderr
    assert str(made) in done.stdout
