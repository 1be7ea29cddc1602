"""Settings are in force as they stand until there is an approver, and from then on as the approver last trusted them."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overnight.kernel.approval.approver import Approver
from overnight.store.database import Database
from overnight.testing import ScriptedModels, say

SETTINGS = """
[run]
workers = {workers}
[providers.box]
kind = "openai-compatible"
base_url = "{url}/v1"
free = true
[models.worker]
provider = "box"
model = "m"
"""


def overnight(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "overnight", *arguments, "--workspace", str(folder)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def done(folder: Path, *arguments: str) -> str:
    ran = overnight(folder, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def workers(folder: Path) -> Any:
    return json.loads(done(folder, "config", "--json"))["run.workers"]["value"]


@pytest.fixture
def theirs() -> Iterator[ScriptedModels]:
    with ScriptedModels(otherwise=lambda _: say("theirs")) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, theirs: ScriptedModels) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    write(place, theirs, 3)
    return place


def write(folder: Path, models: ScriptedModels, workers: int) -> None:
    (folder / "overnight.toml").write_text(SETTINGS.format(url=models.url, workers=workers))


def test_as_long_as_nobody_can_trust_the_file_rules(folder: Path, theirs: ScriptedModels) -> None:
    assert workers(folder) == 3
    write(folder, theirs, 4)
    assert workers(folder) == 4


def test_a_change_waits_until_it_is_trusted(folder: Path, theirs: ScriptedModels) -> None:
    Approver().create("me")
    done(folder, "gate", "trust", "--yes")
    assert workers(folder) == 3
    with ScriptedModels() as mine:
        write(folder, mine, 7)
        config = overnight(folder, "config", "--json")
        assert json.loads(config.stdout)["run.workers"]["value"] == 3 and "trusted copy rules" in config.stderr
        answer = overnight(folder, "ask", "hello", "--model", "worker")
        assert answer.stdout.strip() == "theirs" and "trusted copy rules" in answer.stderr and not mine.requests
        for command in (["model", "list"], ["gc"], ["model", "route", "hi"]):
            assert "trusted copy rules" in overnight(folder, *command).stderr
        done(folder, "gate", "trust", "--yes")
        assert workers(folder) == 7
        done(folder, "ask", "hello", "--model", "worker")
        assert len(mine.requests) == 1
    (folder / "overnight.toml").unlink()
    assert workers(folder) == 7, "that it has gone is a change like any other"


def test_what_was_never_trusted_is_refused_where_nobody_can(folder: Path) -> None:
    Approver().create("me")
    refused = overnight(folder, "ask", "hello", "--model", "worker")
    assert refused.returncode == 3 and "never trusted" in refused.stderr and "gate trust" in refused.stderr
    shown = overnight(folder, "config", "--json")
    assert (
        json.loads(shown.stdout)["run.workers"]["origin"] == "default" and "nothing of it is in force" in shown.stderr
    )
    (folder / "overnight.toml").write_text("# nothing yet\n[run]\n")
    assert workers(folder) == 1, "what says nothing needs nobody's trust"


def test_an_approval_in_the_inbox_puts_the_change_in_force(folder: Path, theirs: ScriptedModels) -> None:
    Approver().create("me")
    done(folder, "gate", "trust", "--yes")
    write(folder, theirs, 5)
    assert workers(folder) == 3
    (item,) = json.loads(done(folder, "inbox", "--json"))
    done(folder, "approve", item["id"])
    assert workers(folder) == 5


def test_writing_to_the_database_puts_nothing_in_force(folder: Path, theirs: ScriptedModels) -> None:
    Approver().create("me")
    done(folder, "gate", "trust", "--yes")
    database = Database(folder / ".overnight" / "overnight.db")
    database.execute("UPDATE trusted_files SET content = ?", (b"[run]\nworkers = 9\n",))
    database.close()
    broken = overnight(folder, "config")
    assert broken.returncode == 1 and "was changed in the database" in broken.stderr


def test_a_running_gateway_goes_by_what_is_trusted(folder: Path, theirs: ScriptedModels) -> None:
    Approver().create("me")
    done(folder, "gate", "trust", "--yes")
    key = done(folder, "gateway", "key", "new", "agent").strip()
    gateway = subprocess.Popen(
        [sys.executable, "-m", "overnight", "gateway", "--port", "0", "--workspace", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert gateway.stderr is not None
    try:
        url = gateway.stderr.readline().strip().rpartition(" ")[2]
        with ScriptedModels(otherwise=lambda _: say("mine")) as mine:
            assert ask(url, key) == "theirs"
            write(folder, mine, 3)
            time.sleep(1.2)
            assert ask(url, key) == "theirs"
            done(folder, "gate", "trust", "--yes")
            limit = time.monotonic() + 300
            while ask(url, key) != "mine":
                assert time.monotonic() < limit
                time.sleep(0.1)
    finally:
        gateway.kill()
        gateway.wait()
        gateway.stderr.close()


def ask(url: str, key: str) -> Any:
    body = {"model": "worker", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.loads(answer.read())["choices"][0]["message"]["content"]


def test_the_first_use_at_a_terminal_trusts_what_is_used(folder: Path, theirs: ScriptedModels) -> None:
    Approver().create("me")
    script = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    command = [sys.executable, "-m", "overnight", "config", "--workspace", str(folder)]
    typed = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )
    assert typed.returncode == 0 and "trusted at its first use: overnight.toml" in typed.stdout
    assert workers(folder) == 3
    write(folder, theirs, 8)
    assert workers(folder) == 3
