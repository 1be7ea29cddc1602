"""The walk-through of docs/gate.md, run as it stands there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from overnight.kernel.approval.approver import Approver
from overnight.kernel.ledger.burst import Burst
from overnight.kernel.rules.rulebook import parse
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

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", script.group(1)], cwd=workspace.folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    said = run()
    assert said in " ".join(PAGE.split()).replace("`", "")
    assert said.startswith("done pending")
    command = [sys.executable, "-m", "overnight"]
    listed = subprocess.run([*command, "inbox", "--json"], cwd=workspace.folder, capture_output=True, text=True)
    [item] = json.loads(listed.stdout)
    assert list(item["reveals"].values()) == ["eve@example.net"]
    subprocess.run([*command, "approve", item["id"]], cwd=workspace.folder, check=True, capture_output=True)
    assert run().startswith("done done")
    assert run().startswith("done pending"), "a yes is for one use"


def test_what_holds_besides_rules_is_written_as_the_page_says() -> None:
    block = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert block
    found = parse(f"```permissions\n{block.group(1)}```\n", "AGENTS.md").settings
    assert found.masking and found.limits and found.undo and found.destructive_quorum
    assert found.bursts.families == {"mail": Burst(1, 5), "files": None}
