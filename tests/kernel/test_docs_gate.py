"""The walk-through of docs/gate.md, run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from overnight.kernel.approver import Approver
from overnight.kernel.simulation import Simulation
from overnight.workspace.workspace import Workspace

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text("utf-8")


def test_the_walk_through_asks_and_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, _ = Workspace.init(tmp_path / "workspace")
    block = re.search(r"````markdown\n(.*?)````", PAGE, re.DOTALL)
    script = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert block and script
    (workspace.folder / "AGENTS.md").write_text(block.group(1))
    simulation = Simulation.open(workspace, compile_rules=False)
    waiting = simulation.trust.pending()
    simulation.check_rules(waiting)
    simulation.trust.trust(waiting, Approver().create("alex"))
    simulation.close()
    workspace.database.close()
    done = subprocess.run(
        [sys.executable, "-c", script.group(1)], cwd=workspace.folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert said in " ".join(PAGE.split()).replace("`", "")
    assert said.startswith("done pending")
