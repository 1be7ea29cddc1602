"""`[[undo]]`: calls of tools that are neither files nor git are made up for as the rules say, through the gate."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from overnight.core.errors import Refused, SettingsError
from overnight.kernel.approval.approver import Approver
from overnight.kernel.approval.trust import Trust
from overnight.kernel.canonical import Json
from overnight.kernel.gate import Gate
from overnight.kernel.keys import SigningKey
from overnight.kernel.rollback.undo import plan_undo, undo
from overnight.kernel.rules.policy_files import policy_in_force
from overnight.kernel.rules.rulebook import parse
from overnight.kernel.session import Principal, Session
from overnight.kernel.simulation import Simulation
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.files import file_tools
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.testing.gate_bench import GateBench
from overnight.workspace.workspace import Workspace

RULES = """[[rule]]
agents = ["a"]
tools = ["crm.*", "note.*", "files.*"]
decision = "allow"
[[undo]]
tool = "crm.create"
with = "crm.delete"
arguments.id = "result.rows.0.id"
arguments.owner = "arguments.owner"
arguments.why = { is = "undone" }
[[undo]]
tool = "note.put"
with = "files.delete"
arguments.path = "arguments.path"
"""
MAIL = "carol@example.org"


class Crm:
    """A customer database with rows of its own, and notes that are files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rows: dict[str, str] = {}
        self.deleted: list[Mapping[str, Json]] = []
        self.failing = False

    def tools(self) -> list[ToolCode]:
        def create(arguments: Mapping[str, Json]) -> Json:
            name = f"row{len(self.rows) + 1}"
            self.rows[name] = str(arguments["owner"])
            if self.failing:
                raise OSError("the line broke")
            return {"rows": [{"id": name}]}

        def delete(arguments: Mapping[str, Json]) -> Json:
            self.deleted.append(arguments)
            return self.rows.pop(str(arguments["id"]))

        def put(arguments: Mapping[str, Json]) -> Json:
            return (self.root / str(arguments["path"])).write_text("note")

        identifier = Argument("id", kind="id", of="row")
        return [
            ToolCode(ToolSpec("crm.create", "write", (Argument("owner"),)), create),
            ToolCode(ToolSpec("crm.delete", "destructive", (identifier, Argument("owner"), Argument("why"))), delete),
            ToolCode(ToolSpec("crm.shout", "write", (Argument("owner"),)), lambda arguments: None),
            ToolCode(ToolSpec("note.put", "write", (Argument("path", kind="path"),)), put),
        ]


@pytest.fixture
def crm(bench: GateBench) -> Crm:
    (bench.root / "AGENTS.md").write_text(f"```permissions\n{RULES}```\n")
    trust = Trust(bench.root, bench.parts.database, bench.parts.journal, SigningKey.open(_config(), "trust"))
    trust.trust(trust.pending(), bench.approver)
    return Crm(bench.root)


def _config() -> Path:
    from overnight.kernel.keys import config_folder

    return config_folder()


def opened(bench: GateBench, crm: Crm) -> tuple[Gate, Session]:
    trust = Trust(bench.root, bench.parts.database, bench.parts.journal, SigningKey.open(_config(), "trust"))
    gate = Gate(bench.root, bench.parts, policy_in_force(trust))
    for tool in (*crm.tools(), *file_tools(gate.paths)):
        gate.register(tool)
    return gate, gate.open(Principal("a"), "put notes.md", on_denied="continue")


def test_a_call_is_made_up_for_with_what_it_was_given_and_returned(bench: GateBench, crm: Crm) -> None:
    gate, session = opened(bench, crm)
    done = gate.call(session, "crm.create", {"owner": MAIL})
    assert done.status == "done" and crm.rows == {"row1": MAIL}
    plan = plan_undo(bench.root, bench.parts, done.action)
    [step] = plan.steps
    assert (step.tool, dict(step.arguments)) == ("crm.delete", {"id": "row1", "owner": MAIL, "why": "undone"})
    # Deleting a row is destructive and asks; the credential that ordered the rollback answers, for exactly this call.
    [outcome] = undo(bench.root, bench.parts, Approver(), bench.approver, plan, tools=crm.tools())
    assert outcome.status == "done", outcome
    assert crm.rows == {} and crm.deleted == [{"id": "row1", "owner": MAIL, "why": "undone"}]
    bench.parts.journal.sync()
    kinds = [entry.kind for entry in bench.parts.journal.of_action(outcome.action)]
    assert kinds == ["proposed", "decided", "executed", "result"]
    rows = str([tuple(row) for row in bench.parts.database.rows("SELECT body FROM journal_entries")])
    assert MAIL not in rows, "what was masked when it was recorded is masked in the rollback's own record"


def test_a_tool_that_cannot_be_called_here_is_named_before_anything_is_done(bench: GateBench, crm: Crm) -> None:
    gate, session = opened(bench, crm)
    gate.call(session, "note.put", {"path": "notes.md"})
    gate.call(session, "crm.create", {"owner": "x"})
    plan = plan_undo(bench.root, bench.parts, session.id)
    assert [step.tool for step in plan.steps] == ["crm.delete", "files.delete"]
    with pytest.raises(Refused, match=r"crm\.delete, which only the program that brings it"):
        undo(bench.root, bench.parts, Approver(), bench.approver, plan)
    assert (bench.root / "notes.md").exists() and crm.rows


def test_a_compensator_of_the_server_files_needs_no_program(bench: GateBench, crm: Crm) -> None:
    gate, session = opened(bench, crm)
    put = gate.call(session, "note.put", {"path": "notes.md"})
    assert put.status == "done", put
    [outcome] = undo(
        bench.root, bench.parts, Approver(), bench.approver, plan_undo(bench.root, bench.parts, put.action)
    )
    assert outcome.status == "done" and not (bench.root / "notes.md").exists()
    # Its own undoing brings the file back: it was a file's before-image all along.
    [again] = undo(
        bench.root, bench.parts, Approver(), bench.approver, plan_undo(bench.root, bench.parts, outcome.action)
    )
    assert again.status == "done" and (bench.root / "notes.md").read_text() == "note"


def test_what_has_no_way_back_is_said_and_nothing_is_done(bench: GateBench, crm: Crm) -> None:
    gate, session = opened(bench, crm)
    shouted = gate.call(session, "crm.shout", {"owner": "x"})
    crm.failing = True
    broken = gate.call(session, "crm.create", {"owner": "x"})
    assert broken.status == "failed"
    for action, why in ((shouted.action, "no [[undo]]"), (broken.action, "its result is not on record")):
        plan = plan_undo(bench.root, bench.parts, action)
        assert not plan.steps and why in plan.irreversible[0]
        with pytest.raises(Refused, match="cannot be rolled back cleanly"):
            undo(bench.root, bench.parts, Approver(), bench.approver, plan, tools=crm.tools())
    assert crm.rows == {"row1": "x"}


@pytest.mark.parametrize(
    ("block", "line", "words"),
    [
        ('[[undo]]\ntool = "a.b"', 2, "'with' is missing"),
        ('[[undo]]\ntool = "a.b"\nwith = "a.c"\nargumets.id = "result.id"', 5, "did you mean 'arguments'"),
        ('[[undo]]\ntool = "a.b"\nwith = "a.c"\narguments.id = "id"', 5, "says not where"),
        ('[[undo]]\ntool = "a.b"\nwith = "a.c"\n[[undo]]\ntool = "a.b"\nwith = "a.d"', 5, "already"),
    ],
)
def test_mistakes_have_their_line(block: str, line: int, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(f"```permissions\n{block}\n```\n", "AGENTS.md")
    assert caught.value.message.startswith(f"AGENTS.md:{line}:"), caught.value.message
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("undoing", "words"),
    [
        ('tool = "files.write"\nwith = "files.delet"\narguments.path = "arguments.path"', "there is no tool"),
        ('tool = "files.write"\nwith = "files.delete"\narguments.pth = "arguments.path"', "is no argument of"),
        ('tool = "files.write"\nwith = "files.delete"', "needs 'path'"),
    ],
)
def test_what_could_never_be_followed_is_not_trusted(tmp_path: Path, undoing: str, words: str) -> None:
    workspace, _ = Workspace.init(tmp_path / "workspace")
    (workspace.folder / "AGENTS.md").write_text(f"```permissions\n[[undo]]\n{undoing}\n```\n")
    simulation = Simulation.open(workspace, compile_rules=False)
    with pytest.raises(SettingsError, match=words):
        simulation.check_rules(simulation.trust.pending())
    simulation.close()
