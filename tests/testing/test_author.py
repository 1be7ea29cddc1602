"""The scripted model as an author: what `docs/models.md` shows, without a provider."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from overnight.testing import ScriptedModels
from overnight.testing.author import proposal
from overnight.testing.models import repeating

SETTINGS = """
[providers.openai]
kind = "openai"
base_url = "{url}/v1"
[models.author]
provider = "openai"
model = "gpt-5"
max_tokens = 1000
"""


def overnight(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "overnight", *arguments, "--json"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_a_night_by_the_scripted_author_never_passes_its_budget(tmp_path: Path) -> None:
    overnight(tmp_path, "init", ".")
    with ScriptedModels(otherwise=repeating) as models:
        (tmp_path / "overnight.toml").write_text(SETTINGS.format(url=models.url))
        overnight(tmp_path, "arena", "new", "shop", "--template", "simulator")
        flags = ("--author", "model", "--model", "author", "--budget", "0.02", "--experiments", "4", "--run", "night")
        report = overnight(tmp_path, "run", "arenas/shop", *flags)
    assert report["experiments"] >= 2 and report["crashed"] == report["rejected"] == 0
    (line,) = [item for item in overnight(tmp_path, "usage", "--by", "run")["lines"] if item["name"] == "night"]
    assert 0 < line["cost_usd"] <= 0.02 and line["calls"] >= report["experiments"]
    traces = [item for item in overnight(tmp_path, "trace", "list") if item["name"].startswith("experiment")]
    shown = subprocess.run(
        [sys.executable, "-m", "overnight", "trace", "show", traces[0]["trace_id"]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    ).stdout
    # The whole of a piece of work: what the model saw, what it said, and what became of it.
    for told in ("experiment", "invoke_agent model", "· saw editable file params.toml", "system    │", "HYPOTHESIS"):
        assert told in shown


def test_it_answers_nothing_but_an_authors_question() -> None:
    assert proposal("hello", 0) == "" and proposal("Propose the first experiment.", 0) == ""
