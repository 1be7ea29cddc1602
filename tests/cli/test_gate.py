import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from overnight.cli.gate import gate
from overnight.cli.inbox import approve
from overnight.core.errors import OvernightError
from overnight.kernel.approval.approver import Approver
from overnight.workspace.workspace import Workspace

RULES = """# Rules

```permissions
[[tool]]
id = "crm.send"
effect = "egress"
arguments = [{ name = "to", kind = "recipient" }, { name = "text", kind = "message" }]

[[role]]
name = "reader"
agents = ["researcher"]
rights.files = ["read"]

[[rule]]
agents = ["researcher"]
tools = ["crm.send"]
decision = "allow"
```
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVERNIGHT_CONFIG_DIR", str(tmp_path / "config"))
    workspace, _ = Workspace.init(tmp_path / "workspace")
    workspace.database.close()
    (workspace.folder / "AGENTS.md").write_text(RULES)
    Approver().create("alex")
    return workspace.folder


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(gate, [*arguments, "--workspace", str(folder)])


def document(result: Result) -> Any:
    return json.loads(result.stdout)


CHECK = (
    "check",
    "--agent",
    "researcher",
    "--tool",
    "crm.send",
    "--args",
    '{"to": "a@b.example", "text": "x"}',
    "--json",
)


def test_nothing_is_allowed_before_the_rules_are_trusted(folder: Path) -> None:
    result = run(folder, *CHECK)
    assert result.exit_code == 3
    assert document(result)["decision"] == "deny"


def test_trust_shows_the_difference_and_needs_a_yes(folder: Path) -> None:
    shown = run(folder, "trust")
    assert "+[[role]]" in shown.stdout
    assert shown.exit_code != 0
    assert run(folder, *CHECK).exit_code == 3
    assert run(folder, "trust", "--yes").exit_code == 0
    assert run(folder, *CHECK).exit_code == 1


def test_check_prints_the_contract_and_its_exit_code(folder: Path) -> None:
    run(folder, "trust", "--yes")
    asked = run(folder, *CHECK)
    found = document(asked)
    assert (found["decision"], found["rule"]) == ("ask", "AGENTS.md:14")
    assert [reason["code"] for reason in found["reasons"]] == ["untrusted_argument"]
    assert found["approval_id"].startswith("ask_")
    allowed = run(folder, *CHECK, "--label", "to=user")
    assert allowed.exit_code == 0
    assert document(allowed)["decision"] == "allow"
    assert run(folder, *CHECK, "--request", "send it to a@b.example").exit_code == 0
    done = CliRunner().invoke(approve, [found["approval_id"], "--workspace", str(folder), "--json"])
    assert done.exit_code == 0


def test_explain_names_every_rule_and_origin(folder: Path) -> None:
    run(folder, "trust", "--yes")
    found = document(run(folder, "explain", *CHECK[1:]))
    assert found["origins"]["to"] == {"label": "untrusted", "confidentiality": "public", "source": "not traced"}
    assert found["rules"] == [{"where": "AGENTS.md:14", "decision": "allow", "applies": True, "why": ""}]
    assert found["roles"] == ["reader"]


def test_matrix_says_who_may_do_what(folder: Path) -> None:
    run(folder, "trust", "--yes")
    found = document(run(folder, "matrix", "--json"))
    cells = {(cell["agent"], cell["tool"]): cell["decision"] for cell in found["cells"]}
    assert cells["researcher", "files.read"] == "allow"
    assert cells["researcher", "files.write"] == "deny"
    assert "researcher" in run(folder, "matrix").stdout


@pytest.mark.parametrize(
    "arguments",
    [("--args", "{"), ("--args", "[]"), ("--label", "to=admin"), ("--label", "nobody=user"), ("--session", "ses_none")],
)
def test_wrong_usage_is_said_and_never_an_allowance(folder: Path, arguments: tuple[str, ...]) -> None:
    run(folder, "trust", "--yes")
    result = run(folder, *CHECK, *arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, OvernightError | SystemExit)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "nothing"])
def test_arguments_that_are_no_json_are_wrong_usage(folder: Path, text: str) -> None:
    result = run(folder, "check", "--agent", "researcher", "--tool", "crm.send", "--args", text)
    assert isinstance(result.exception, OvernightError)
    assert result.exception.exit_code == 2
    assert "--args is not JSON" in result.exception.message
    assert len(result.exception.message) < 500
