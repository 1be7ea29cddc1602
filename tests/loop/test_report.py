"""The page of a run: self-contained, escaped, and frank."""

import html
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from overnight.loop.record.experiment import Experiment
from overnight.loop.record.findings import after_cycle
from overnight.loop.report.write import write_report

PROGRAM = """---
metric: score
direction: maximize
evaluate: python evaluate.py
editable: [art.py]
budget: 2s
{more}---
Make the score as large as you can.
"""
WHO = {f"GIT_{who}_{what}": "me@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
HOSTILE = (
    "import os\nopen(os.environ['OVERNIGHT_HYPOTHESIS'], 'w')"
    ".write('<script>alert(1)</script> \\u202egnp.exe \\x1b]0;title\\x07 & <img src=x>')\n"
    "open('art.py', 'a').write('\\nX = 6.0  # <script>alert(2)</script>\\n')"
)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **WHO}, capture_output=True)


def test_the_page_escapes_everything_and_loads_nothing(arena: Callable[..., Path], spend: Any, authored: Any) -> None:
    result = spend(arena(), 1, **authored(HOSTILE))
    text = Path(result.report["path"]).read_text()
    assert "<script" not in text and "<img" not in text and "\u202e" not in text and "\x1b" not in text
    assert "&lt;script&gt;alert(1)" in text and "&lt;script&gt;alert(2)" in text and "\\u202e" in text
    for outside in ("http://", "https://", "<link", "<iframe", "@import", "url("):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in text


def test_the_chart_is_well_formed_and_has_every_experiment(arena: Callable[..., Path], spend: Any) -> None:
    result = spend(arena(), 12)
    root = ElementTree.fromstring(Path(result.report["chart"]).read_text())
    name = "{http://www.w3.org/2000/svg}"
    told = [title.text or "" for title in root.iter(f"{name}title")]
    for item in result.experiments[1:]:
        assert any(text.startswith(f"{item.n}:") for text in told), item
    assert root.find(f".//{name}polyline") is not None


def test_a_person_is_told_what_to_read_before_merging(arena: Callable[..., Path], spend: Any) -> None:
    result = spend(arena(), 6)
    text = Path(result.report["path"]).read_text()
    assert "shared a process" in text and "There is no holdout" in text


@pytest.mark.parametrize("stands", ["committed", "changed", "without git"])
def test_the_command_on_the_page_brings_the_champion_into_the_folder(
    arena: Callable[..., Path], spend: Any, authored: Any, stands: str
) -> None:
    script = "import os\nopen('art.py', 'w').write('X = 7.0\\nY = 4.0\\n')\nopen('a b.txt', 'w').write('new')\nos.remove('old.txt')"
    more = "editable: [art.py, '*.txt']\n"
    folder = arena({"old.txt": "old"}, program=PROGRAM.replace("editable: [art.py]\n", more))
    if stands != "without git":
        git(folder, "init", "--quiet", ".")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "mine")
    if stands == "changed":
        (folder / "art.py").write_text("X = 2.0\nY = 2.0\n")
    result = spend(folder, 1, **authored(script))
    assert result.report["kept"] == 1
    command = html.unescape(re.findall("<code>(git .*?)</code>", Path(result.report["path"]).read_text())[0])
    subprocess.run(command, shell=True, cwd=folder, check=True, env={**os.environ, **WHO}, capture_output=True)
    assert (folder / "art.py").read_text() == "X = 7.0\nY = 4.0\n"
    assert (folder / "a b.txt").read_text() == "new" and not (folder / "old.txt").exists()


def test_a_holdout_that_got_worse_is_said(arena: Callable[..., Path], spend: Any) -> None:
    files = {"holdout.py": "import art\nprint('score:', -art.X)\n"}
    result = spend(arena(files, more="holdout: python holdout.py\n"), 8)
    assert result.report["kept"] >= 1
    assert "The holdout did not improve" in Path(result.report["path"]).read_text()


def test_a_run_without_a_keep_says_so(arena: Callable[..., Path], spend: Any, authored: Any) -> None:
    result = spend(arena(), 1, **authored("open('art.py', 'a').write('\\nX = 0.0\\n')"))
    report = write_report(result.workspace.record, result.workspace.folder, result.workspace.state)
    assert (report["gain"], report["kept"]) == (0.0, 0)
    assert "Nothing was kept" in Path(report["path"]).read_text()


def test_a_cycle_names_exactly_the_experiments_it_is_about() -> None:
    cycle = [
        Experiment(
            run="night", n=n, commit=str(n), parent="0", tree="", status="discard", author="search", metric=1.0,
            hypothesis="a hypothesis that goes on " * 9, delta=-float(n), reason="", seconds=1.0, at=0.0,
            detail={}, opened=n, closed=n,
        )
        for n in (3, 4, 5, 7, 9, 10, 11, 12, 13, 15)
    ]  # fmt: skip
    text = after_cycle(cycle, cycle, 0.0).text
    assert text.startswith("experiments 3–5, 7, 9–13, 15: 10 discarded; nearest was 3 (a hypothesis that")
    assert "…; -3)" in text
