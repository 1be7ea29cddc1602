"""Texts of model calls go when their retention is over; what they cost, and newer conversations, stay."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from overnight.models.ask.client import Wanted, Words
from overnight.testing import ScriptedModels, say
from overnight.workspace import models
from overnight.workspace.workspace import Workspace

SETTINGS = """
[providers.box]
kind = "openai-compatible"
base_url = "{url}/v1"
[models.worker]
provider = "box"
model = "m"
price = {{ input = 1, output = 1 }}
[retention]
texts = "30d"
"""
LONG = "a long story " * 10_000


def run(workspace: Workspace, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "overnight", *arguments, "--workspace", str(workspace.folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def kept_bytes(workspace: Workspace) -> bytes:
    files = [path for path in workspace.state.rglob("*") if path.is_file() and "bodies" in path.parts]
    rows = workspace.database.rows("SELECT hash FROM trace_bodies")
    return b"".join(str(path).encode() for path in files) + b"".join(row["hash"].encode() for row in rows)


def test_texts_past_their_retention_go_and_what_they_cost_stays(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    with ScriptedModels(otherwise=lambda _: say("the same answer", input_tokens=10, output_tokens=2)) as server:
        (tmp_path / "overnight.toml").write_text(SETTINGS.format(url=server.url))
        with models.models(workspace, "me") as client:
            for text in ("an old question", f"old: {LONG}"):
                client.complete(Wanted("worker", [Words("user", text)]))
            workspace.database.execute("UPDATE spans SET started_us = started_us - 31 * 86400000000")
            workspace.database.execute("UPDATE spans SET ended_us = ended_us - 31 * 86400000000")
            for text in ("a new question", f"new: {LONG}"):
                client.complete(Wanted("worker", [Words("user", text)]))

            before = run(workspace, "usage", "--json")
            told = run(workspace, "gc", "--json")
            # Two questions; the answer is said in newer calls too.
            assert told["texts"]["number"] == 2 and told["texts"]["size_bytes"] > 200 and not told["removed"]
            there = kept_bytes(workspace)
            assert run(workspace, "gc", "--json")["texts"] == told["texts"] and kept_bytes(workspace) == there
            assert "texts of model calls: 2" in run(workspace, "gc", "--yes")
            assert run(workspace, "gc", "--json")["texts"] == {"number": 0, "size_bytes": 0}
            assert len(kept_bytes(workspace)) < len(there)
            # The gateway goes on; what is said again is kept again.
            client.complete(Wanted("worker", [Words("user", "another question")]))
        traces = run(workspace, "trace", "list", "--json")
        assert len(traces) == 5
        shown = [run(workspace, "trace", "show", trace["trace_id"]) for trace in traces]
        assert sum("the same answer" in text for text in shown) == 5
        assert sum("is gone" in text for text in shown) == 2 and not any("an old question" in text for text in shown)
        assert sum("a new question" in text or "another question" in text for text in shown) == 2
        assert sum("a long story" in text for text in shown) == 1
        after = run(workspace, "usage", "--json")
        assert after["cost_usd"] == pytest.approx(before["cost_usd"] * 5 / 4) and before["cost_usd"] > 0
    workspace.database.close()
