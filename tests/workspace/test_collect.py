"""`overnight gc`: says what old runs cost, removes what is past its retention, and nothing else."""

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from overnight.loop.night import Limits
from overnight.loop.record.repair import repair
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.collect import collect
from overnight.workspace.workspace import Workspace

FILES = {
    "program.md": "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\n",
    "art.py": "X = 3.0  # knob: 0..10\n",
    "evaluate.py": "import art\nprint('score:', -abs(art.X - 7))\n",
}


def refs(folder: Path) -> set[str]:
    done = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname)"], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_only_what_is_past_its_retention_goes(write: Callable[..., Path]) -> None:
    folder = write(FILES)
    workspace = Workspace.of_arena(folder)
    night.run(folder, Options(Limits(8), seed=3), "old", threading.Event(), workspace=workspace)
    night.run(folder, Options(Limits(3), seed=4), "new", threading.Event(), workspace=workspace)
    before = refs(folder)
    assert collect(workspace, remove=True).size_bytes == 0 and refs(folder) == before

    workspace.database.execute("UPDATE runs SET ended_at = ended_at - 1e9 WHERE run = 'old'")
    promised = collect(workspace, remove=False)
    assert promised.size_bytes > 0 and refs(folder) == before
    journaled = workspace.blobs.put(b"an image that the journal keeps")
    collect(workspace, remove=True)

    experiments = workspace.record.experiments("old")
    assert len(experiments) == 9
    gone = {f"refs/overnight/old/{item.n}" for item in experiments if item.status not in ("baseline", "keep")}
    assert gone and refs(folder) == before - gone
    assert workspace.blobs.exists(journaled)
    champion = [item for item in experiments if item.status in ("baseline", "keep")][-1]
    shown = subprocess.run(
        ["git", "show", f"{champion.commit}:art.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("X = ")
    assert subprocess.run(["git", "fsck", "--strict"], cwd=folder, capture_output=True).returncode == 0
    # What is needed to rebuild the newer run is still there.
    for name in before - gone:
        if name.startswith("refs/overnight/new/"):
            subprocess.run(["git", "update-ref", "-d", name], cwd=folder, check=True)
    assert any("new" in line for line in repair(folder, workspace.record, workspace.blobs))
    assert refs(folder) == before - gone
    workspace.database.close()
