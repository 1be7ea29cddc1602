"""What a person does at a terminal with the journal and the inbox, through the commands themselves."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from overnight.cli.credential import approver
from overnight.cli.main import cli
from overnight.core.errors import Missing, OvernightError
from overnight.kernel.approval.approver import Approver
from overnight.kernel.canonical import Json
from overnight.kernel.decide import Policy
from overnight.kernel.gate import Gate
from overnight.kernel.journal.journal import Journal
from overnight.kernel.masking.hiding import HidingPolicy
from overnight.kernel.parts import open_parts
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Layer, Matrix, Rule
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.workspace.workspace import Workspace

RULES = (
    Rule("allow", tools=("files.write",), arguments={"path": Constraint(under=("docs",))}),
    Rule("ask", tools=("note.post",)),
)


@dataclass
class Desk:
    workspace: Workspace
    gate: Gate
    session: Session
    posted: list[Json]
    journal: Journal

    def overnight(self, *arguments: str, expect: int = 0, typed: str = "") -> str:
        """What the command prints; in this process, as starting Python takes longer than all that is tested."""
        # Results follow within 50 ms; a person is slower than that.
        self.journal.sync()
        words = [*arguments, "--workspace", str(self.workspace.folder)]
        result = CliRunner().invoke(cli, words, input=typed, standalone_mode=False)
        code, said = result.exit_code, result.stdout
        if isinstance(result.exception, OvernightError):
            code, said = result.exception.exit_code, str(result.exception)
        elif isinstance(result.exception, click.UsageError):
            code, said = result.exception.exit_code, result.exception.message
        assert code == expect, f"{said} {result.exception!r}"
        return said

    def json(self, *arguments: str, expect: int = 0) -> Any:
        return json.loads(self.overnight(*arguments, "--json", expect=expect))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("OVERNIGHT_CONFIG_DIR", str(tmp_path / "config"))
    workspace, _ = Workspace.init(tmp_path / "workspace")
    (workspace.folder / "docs").mkdir()
    parts = open_parts(workspace.folder, workspace.database)
    gate = Gate(workspace.folder, parts, Policy(Matrix([Layer(RULES)])))
    posted: list[Json] = []

    def write(arguments: Mapping[str, Json]) -> Json:
        return (workspace.folder / str(arguments["path"])).write_text(str(arguments["text"]))

    path, text = Argument("path", kind="path"), Argument("text")
    gate.register(ToolCode(ToolSpec("files.write", "write", (path, text), reversible=True), write))
    gate.register(ToolCode(ToolSpec("note.post", "write", (text,)), lambda arguments: posted.append(arguments["text"])))
    session = gate.open(Principal("researcher"), on_denied="continue")
    yield Desk(workspace, gate, session, posted, parts.journal)
    parts.journal.close()


def test_a_question_is_answered_at_the_command_line_and_found_in_the_journal(desk: Desk) -> None:
    Approver().create("ada")
    outcome = desk.gate.call(desk.session, "note.post", {"text": "hello \x1b[31m"}, reason="to say hello")
    assert outcome.status == "pending"
    [item] = desk.json("inbox")
    assert item["bound"]["arguments"] == {"text": "hello \x1b[31m"} and item["state"] == "pending"
    shown = desk.overnight("inbox")
    assert "why: to say hello" in shown and "\\x1b[31m" in shown and "\x1b" not in shown
    answered = desk.json("approve", item["id"], "--why", "fine")
    assert (answered["state"], answered["by"]) == ("approved", "ada")
    assert desk.json("inbox") == []
    again = desk.gate.call(desk.session, "note.post", {"text": "hello \x1b[31m"}, reason="to say hello")
    assert again.status == "done" and desk.posted == ["hello \x1b[31m"]
    asked = desk.json("audit", "show", item["id"])
    assert [sorted({"asked", "vote", "used"} & set(entry["body"])) for entry in asked["entries"]] == [
        ["asked"], ["vote"], ["used"],
    ]  # fmt: skip
    lines = [json.loads(line) for line in desk.overnight("audit", "log", "--json").splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    kinds = [line["kind"] for line in lines if line["action"] == again.action]
    assert kinds == ["proposed", "decided", "executed", "result"]
    assert desk.overnight("deny", item["id"], expect=3)


def test_a_denied_question_stays_denied(desk: Desk) -> None:
    Approver().create("ada", "correct horse battery")
    outcome = desk.gate.call(desk.session, "note.post", {"text": "hello"})
    item = outcome.decision.approval_id
    assert item is not None
    assert "needs its passphrase" in desk.overnight("deny", item, expect=3)
    said = desk.overnight("deny", item, "--why", "no", "--passphrase-stdin", typed="correct horse battery\n")
    assert "is denied" in said
    assert desk.gate.call(desk.session, "note.post", {"text": "hello"}).status == "denied"


def test_nobody_approves_without_a_person(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = desk.gate.call(desk.session, "note.post", {"text": "hello"})
    item = str(outcome.decision.approval_id)
    assert "no approver" in desk.overnight("approve", item, expect=4)
    Approver().create("ada")
    assert "nothing in the inbox" in desk.overnight("approve", "ask_none", expect=2)
    monkeypatch.setenv("OVERNIGHT_AGENT", "researcher")
    assert "agent's process" in desk.overnight("approve", item, expect=3)


def test_the_first_approval_at_a_terminal_makes_the_credential(desk: Desk) -> None:
    outcome = desk.gate.call(desk.session, "note.post", {"text": "hello"})
    item = str(outcome.decision.approval_id)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "overnight", "approve", item, "--workspace",
                                  str(desk.workspace.folder)])  # fmt: skip
    said = b""

    def read() -> bytes:
        assert select.select([terminal], [], [], 60)[0], f"it says no more than {said!r}"
        return os.read(terminal, 1000)

    try:
        while b"passphrase: " not in said.lower():  # the blank comes once what was typed before is thrown away
            said += read()
        os.write(terminal, b"correct horse battery\n")
        while b"repeat it: " not in said.lower():
            said += read()
        os.write(terminal, b"correct horse battery\n")
        while True:
            said += read()
    except OSError:
        pass  # the terminal's other end is closed: the command has ended
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, said
    os.close(terminal)
    assert b"first approval" in said and b"is approved" in said and b"correct horse" not in said
    [approver] = Approver().known().values()
    assert approver.passphrase


def test_an_action_is_rolled_back(desk: Desk) -> None:
    Approver().create("ada")
    path = desk.workspace.folder / "docs" / "a.md"
    path.write_text("mine")
    action = desk.gate.call(desk.session, "files.write", {"path": "docs/a.md", "text": "its own"}).action
    planned = desk.json("audit", "rollback", action, "--plan")
    assert [step["does"] for step in planned["steps"]] == ["put docs/a.md back"] and path.read_text() == "its own"
    done = desk.json("audit", "rollback", action)
    assert done["done"] == 1 and path.read_text() == "mine"
    state = desk.json("audit", "show", done["results"][0]["action"], "--state")["state"]
    assert list(state) == ["file:docs/a.md"]
    desk.gate.call(desk.session, "files.write", {"path": "docs/a.md", "text": "again"})
    path.write_text("by hand")
    assert "outside the journal" in desk.overnight("audit", "rollback", desk.session.id, expect=3)
    assert path.read_text() == "by hand"


def test_a_rollback_that_cannot_be_done_says_why(desk: Desk) -> None:
    Approver().create("ada")
    (desk.workspace.folder / "docs" / "a.md").write_text("mine")
    action = desk.gate.call(desk.session, "files.write", {"path": "docs/a.md", "text": "its own"}).action
    kept = [path for path in (desk.workspace.folder / ".overnight" / "blobs").rglob("*") if path.is_file()]
    for path in kept:
        path.chmod(0o600)
        path.write_bytes(b"other")
    said = desk.overnight("audit", "rollback", action, expect=1)
    assert "is damaged" in said and "0 of 1 steps done" in said


def test_a_file_is_shown_as_it_was_after_any_entry(desk: Desk) -> None:
    path = desk.workspace.folder / "docs" / "a.md"
    path.write_text("mine")
    seen = {"1": "mine"}
    for text in ("one", "two"):
        action = desk.gate.call(desk.session, "files.write", {"path": "docs/a.md", "text": text}).action
        desk.journal.sync()
        seen[str(desk.journal.of_action(action)[-1].seq)] = text
        seen[action] = text
    path.write_text("by hand")
    for name, text in seen.items():
        assert desk.overnight("audit", "show", name, "--content", "docs/a.md") == text
    assert "no action on record changed" in desk.overnight("audit", "show", "1", "--content", "docs/b.md", expect=2)


def test_personal_data_is_shown_to_a_person_who_asks_and_secrets_never(desk: Desk) -> None:
    gate = Gate(
        desk.workspace.folder,
        open_parts(desk.workspace.folder, desk.workspace.database),
        Policy(Matrix([Layer(RULES)]), hiding=HidingPolicy(default="everything")),
    )
    gate.register(ToolCode(ToolSpec("note.post", "write", (Argument("text"),)), lambda arguments: None))
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    session = gate.open(Principal("researcher"), on_denied="continue")
    asked = gate.call(session, "note.post", {"text": f"{key} of carol@example.org"})
    gate.close()
    assert "carol" not in desk.overnight("audit", "show", asked.action)
    shown = desk.overnight("audit", "show", asked.action, "--reveal")
    assert "carol@example.org" in shown and key not in shown
    [item] = desk.json("inbox")
    assert sorted(item["reveals"].values()) == ["a key of 44 characters, ending in i9J0", "carol@example.org"]
    assert "[carol@example.org]" in desk.overnight("inbox") and key not in desk.overnight("inbox")


def test_verify_export_and_anchor(desk: Desk, tmp_path: Path) -> None:
    desk.gate.call(desk.session, "files.write", {"path": "docs/a.md", "text": "x"})
    assert desk.json("audit", "verify")["ok"] is True
    anchor, export = tmp_path / "anchor", tmp_path / "export.jsonl"
    desk.overnight("audit", "anchor", str(anchor))
    desk.overnight("audit", "export", str(export))
    assert "signed by" in desk.overnight("audit", "verify", "--export", str(export))
    assert desk.json("audit", "verify", "--anchor", str(anchor))["anchored"] is True
    desk.workspace.database.execute("UPDATE journal_entries SET agent = 'someone' WHERE seq = 2")
    found = desk.json("audit", "verify", expect=1)
    assert (found["ok"], found["first_bad"]) == (False, 2)
    assert "NOT OK" in desk.overnight("audit", "verify", expect=1)
    assert "say --git" in desk.overnight("audit", "anchor", expect=2)


def test_an_anchor_in_git(desk: Desk) -> None:
    subprocess.run(["git", "init", "-q", str(desk.workspace.folder)], check=True)
    place = desk.json("audit", "anchor", "--git")["anchor"]
    assert place.startswith("refs/overnight-journal/jrn_")
    assert desk.json("audit", "verify", "--git")["anchored"] is True
    assert "knows no" in desk.overnight("audit", "show", "act_none", expect=2)


def test_old_entries_are_moved_out(desk: Desk, tmp_path: Path) -> None:
    desk.gate.call(desk.session, "files.write", {"path": "docs/a.md", "text": "x"})
    Approver().create("ada")
    old = tmp_path / "old.jsonl"
    last = desk.json("audit", "retire", "99", str(old))["retired"]
    assert last >= 5
    found = desk.json("audit", "verify")
    assert (found["ok"], found["retired"]) == (True, last)
    assert json.loads(old.read_text().splitlines()[-1])["head"]["size"] == last


def test_approvers_are_listed_and_a_second_one_needs_a_terminal(desk: Desk) -> None:
    run = CliRunner().invoke
    assert "nobody yet" in run(approver, ["list"]).stdout
    Approver().create("ada")
    assert "ada" in run(approver, ["list"]).stdout
    assert json.loads(run(approver, ["list", "--json"]).stdout)[0]["name"] == "ada"
    refused = run(approver, ["add", "bob"], standalone_mode=False)
    assert isinstance(refused.exception, Missing) and "bob" not in run(approver, ["list"]).stdout


@pytest.mark.parametrize("words", [["audit", "log", "--kind", "dicided"], ["inbox", "--kind", "aproval"]])
def test_a_misspelt_kind_is_an_error_and_not_an_empty_list(desk: Desk, words: list[str]) -> None:
    assert "is not one of" in desk.overnight(*words, expect=2)


@pytest.mark.parametrize("number", [str(1 << 63), "9" * 30, "9" * 10_000])
def test_a_place_that_no_journal_has_is_told_so(desk: Desk, number: str) -> None:
    assert "has no entry" in desk.overnight("audit", "show", number, expect=2)
    if len(number) < 100:
        assert desk.overnight("audit", "log", "--after", number) == ""
