"""Arenas small enough to run in a test, and a night on them."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from overnight.loop.night import Limits
from overnight.loop.record.experiment import Experiment
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.workspace import Workspace

PROGRAM = """---
metric: score
direction: maximize
evaluate: python evaluate.py
editable: [art.py]
budget: 2s
timeout: 60s
{more}---
Make the score as large as you can.
"""
ART = "X = 3.0  # knob: 0..10\nY = 2.0  # knob: 0..10\n"
EVALUATE = 'import art\nprint("score:", -((art.X - 7) ** 2) - (art.Y - 4) ** 2)\n'


@dataclass
class Result:
    """What a night left: the report object, and the record behind it."""

    report: Mapping[str, Any]
    experiments: list[Experiment]
    workspace: Workspace

    def statuses(self) -> list[str]:
        """The verdicts in order, baseline left out."""
        return [item.status for item in self.experiments if item.n]


Arena = Callable[..., Path]
Night = Callable[..., Result]


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """Make an arena: front-matter lines in `more`, files by keyword-free mapping; a two-knob parabola by default."""

    def make(
        files: Mapping[str, str] | None = None, more: str = "", name: str = "arena", program: str = PROGRAM
    ) -> Path:
        folder = tmp_path / name
        contents = {"program.md": program.format(more=more), "art.py": ART, "evaluate.py": EVALUATE, **(files or {})}
        for path, text in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        return folder

    return make


@pytest.fixture
def spend() -> Iterator[Night]:
    """Run a night on an arena: `experiments`, then any field of `Options`."""
    opened: list[Workspace] = []

    def run(
        folder: Path, experiments: int | None = 8, name: str = "night", for_s: float | None = None, **more: Any
    ) -> Result:
        options = Options(limits=Limits(experiments, for_s), seed=more.pop("seed", 1), **more)
        report = night.run(folder, options, name, threading.Event())
        workspace = Workspace.of_arena(folder)
        opened.append(workspace)
        return Result(report, workspace.record.experiments(name), workspace)

    yield run
    for workspace in opened:
        workspace.database.close()


@pytest.fixture
def authored(arena: Arena) -> Callable[[str], dict[str, Any]]:
    """Options for an author that is a Python script, written beside no arena: its text becomes a command line."""

    def make(script: str) -> dict[str, Any]:
        return {"authors": ("command",), "author_command": "python -c " + _quoted(script)}

    return make


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
