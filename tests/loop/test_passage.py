"""The loop passes through the gate: what authors do is decided by the workspace's rules and stands in its journal."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import Refused, SettingsError
from overnight.kernel.approval.approver import Approver
from overnight.kernel.journal.journal import Journal
from overnight.kernel.keys import config_folder
from overnight.loop.night import Limits
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.workspace import Workspace

Arena = Callable[..., Path]
RULES = """Rules.

```permissions
[[rule]]
agents = ["author", "author/*"]
tools = ["{tool}"]
decision = "deny"
```
"""
BETTER = "open('art.py', 'a').write('\\nX = 6.0\\n')"


def entries(folder: Path, kind: str, tool: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "overnight", "audit", "log", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if row["kind"] == kind and row["tool"] == tool]


def test_every_change_is_in_the_journal_with_its_decision(arena: Arena, spend: Any, authored: Any) -> None:
    result = spend(arena(), 1, **authored(BETTER))
    assert result.statuses() == ["keep"]
    folder = result.workspace.folder
    (write,) = entries(folder, "proposed", "artifact.write")
    assert write["agent"] == "author/command" and write["body"]["arguments"]["paths"] == ["art.py"]
    assert entries(folder, "decided", "author.run")[0]["body"]["decision"] == "allow"
    verified = subprocess.run(
        [sys.executable, "-m", "overnight", "audit", "verify", "--json"], cwd=folder, capture_output=True, text=True
    )
    assert json.loads(verified.stdout)["ok"] is True


@pytest.mark.parametrize("tool", ["artifact.write", "author.run"])
def test_agents_md_narrows_what_an_author_may_do(arena: Arena, spend: Any, authored: Any, tool: str) -> None:
    result = spend(arena({"AGENTS.md": RULES.format(tool=tool)}), 2, **authored(BETTER))
    assert result.statuses() == ["rejected", "rejected"]
    assert "AGENTS.md:4" in result.experiments[1].reason
    assert [item["body"]["decision"] for item in entries(result.workspace.folder, "decided", tool)] == ["deny", "deny"]


def test_agents_md_cannot_widen_what_program_md_lets_be_edited(arena: Arena, spend: Any, authored: Any) -> None:
    rules = RULES.format(tool="artifact.write").replace('"deny"', '"allow"')
    result = spend(arena({"AGENTS.md": rules}), 1, **authored("open('evaluate.py', 'w').write('print(1)')"))
    assert result.statuses() == ["rejected"]


def test_a_mistake_in_the_rules_stops_the_run_before_it_begins(arena: Arena, spend: Any) -> None:
    folder = arena({"AGENTS.md": RULES.format(tool="artifact.write").replace('"deny"', '"denny"')})
    with pytest.raises(SettingsError, match="AGENTS.md"):
        spend(folder, 1)
    with_workspace = Workspace.of_arena(folder)
    assert with_workspace.record.runs() == []
    with_workspace.database.close()


def test_once_there_is_an_approver_the_trusted_copy_rules(arena: Arena, spend: Any) -> None:
    folder = arena()
    assert spend(folder, 1, "one").report["direction"] == "maximize"
    Approver(config_folder()).create("me")
    program = folder / "program.md"
    program.write_text(program.read_text().replace("maximize", "minimize"))
    said: list[str] = []
    workspace = Workspace.of_arena(folder)
    report = night.run(folder, Options(Limits(1)), "two", threading.Event(), say=said.append, workspace=workspace)
    assert report["direction"] == "maximize"
    assert any("program.md has changed since it was trusted" in line for line in said)
    workspace.database.close()


def test_with_an_approver_a_fresh_arena_is_not_run_by_nobody(arena: Arena, spend: Any) -> None:
    Approver(config_folder()).create("me")
    with pytest.raises(Refused, match="never trusted"):
        spend(arena(), 1)


def test_if_the_journal_cannot_be_written_nothing_runs(
    arena: Arena, spend: Any, authored: Any, monkeypatch: Any
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(Journal, "append", broken)
    monkeypatch.setattr(Journal, "append_all", broken, raising=False)
    with pytest.raises(Exception, match="space"):
        spend(arena(), 1, **authored(BETTER))
