import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from overnight.core.errors import NotFound, Refused
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.approval.inbox import Inbox
from overnight.kernel.canonical import Json
from overnight.kernel.decide import Policy
from overnight.kernel.decision import Outcome
from overnight.kernel.gate import Gate
from overnight.kernel.grants.grant import Grants
from overnight.kernel.journal.journal import Change, Draft, Journal
from overnight.kernel.keys import SigningKey, secret_key
from overnight.kernel.ledger.breaker import Breaker
from overnight.kernel.ledger.ledger import Ledger
from overnight.kernel.masking.vaults import Vaults
from overnight.kernel.parts import Parts
from overnight.kernel.paths import PathRoot
from overnight.kernel.rollback.restore import restore_file, restore_ref
from overnight.kernel.rollback.rollback import Rollback
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Layer, Matrix, Rule
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.store.git.refs import RefChange
from overnight.store.git.repository import Repository

INSIDE = {"path": Constraint(under=(".",))}


@dataclass
class House:
    root: Path
    database: Database
    journal: Journal
    gate: Gate
    rollback: Rollback
    repository: Repository
    ada: Credential
    agent: Session
    person: Session
    sent: list[str]

    def write(self, path: str, text: str, session: Session | None = None) -> str:
        return self.call("files.write", {"path": path, "text": text}, session).action

    def call(self, tool: str, arguments: Mapping[str, Json], session: Session | None = None) -> Outcome:
        outcome = self.gate.call(session or self.agent, tool, arguments, reason="test")
        assert outcome.status == "done", outcome
        return outcome

    def act(self, tool: str, arguments: Mapping[str, Json], reason: str) -> Outcome:
        return self.gate.call(self.person, tool, arguments, reason=reason)

    def undo(self, target: str, *, anyway: bool = False) -> list[Outcome]:
        plan = self.rollback.plan(target)
        return self.rollback.perform(plan, self.act, self.ada, Approver(), anyway=anyway)

    def read(self, path: str) -> str | None:
        found = self.root / path
        return found.read_text() if found.exists() else None


@pytest.fixture
def house(database: Database, config: Path) -> Iterator[House]:
    root = database.path.parent.parent
    journal, blobs, paths = Journal.open(database), Blobs(root / ".overnight" / "blobs"), PathRoot(root)
    sent: list[str] = []

    def write(arguments: Mapping[str, Json]) -> Json:
        (root / str(arguments["path"])).parent.mkdir(parents=True, exist_ok=True)
        (root / str(arguments["path"])).write_text(str(arguments["text"]))
        return "written"

    def send(arguments: Mapping[str, Json]) -> Json:
        sent.append(str(arguments["text"]))
        return "sent"

    def look(arguments: Mapping[str, Json]) -> Json:
        return (root / str(arguments["path"])).exists()

    rules = [
        Rule("allow", tools=("files.*", "audit.restore_file"), arguments=INSIDE),
        Rule("allow", tools=("note.*", "audit.restore_ref")),
    ]
    parts = Parts(
        database, journal, blobs, inbox := Inbox(database, Approver(), journal),
        Grants(database, SigningKey.open(config, "grants")), Ledger(database, []), Breaker(database, inbox),
        Vaults(database, secret_key(config, "vault")),
    )  # fmt: skip
    gate = Gate(root, parts, Policy(Matrix([Layer(tuple(rules))])))
    path = Argument("path", kind="path")
    gate.register(ToolCode(ToolSpec("files.write", "write", (path, Argument("text")), reversible=True), write))
    gate.register(ToolCode(ToolSpec("files.look", "read", (path,)), look))
    for name in ("post", "unpost", "shout"):
        gate.register(ToolCode(ToolSpec(f"note.{name}", "write", (Argument("text"),), reversible=True), send))
    gate.register(restore_file(paths, blobs))
    repository = Repository.open(root)
    gate.register(restore_ref(repository))
    rollback = Rollback(
        database, journal, blobs, paths, repository=repository,
        compensators={"note.post": lambda arguments: ("note.unpost", {"text": f"not {arguments['text']}"})},
    )  # fmt: skip
    agent = gate.open(Principal("researcher"), on_denied="continue")
    person = gate.open(Principal("approver"), on_denied="continue")
    yield House(root, database, journal, gate, rollback, repository, Approver().create("ada"), agent, person, sent)
    journal.close()
    repository.close()


def test_an_action_is_undone_and_the_undoing_too(house: House) -> None:
    (house.root / "a.txt").write_text("mine")
    action = house.write("a.txt", "its own")
    [outcome] = house.undo(action)
    assert house.read("a.txt") == "mine"
    assert [entry.kind for entry in house.journal.of_action(outcome.action)] == [
        "proposed", "decided", "executed", "result",
    ]  # fmt: skip
    house.undo(outcome.action)
    assert house.read("a.txt") == "its own"
    assert house.journal.verify().ok


def test_a_new_file_is_removed_and_a_removed_one_comes_back(house: House) -> None:
    action = house.write("deep/er/new.txt", "hello")
    house.undo(action)
    assert house.read("deep/er/new.txt") is None
    assert house.rollback.plan(action).steps == (), "it is undone already"


def test_a_session_is_undone_in_reverse_order_with_its_sub_agents(house: House) -> None:
    (house.root / "a.txt").write_text("0")
    house.write("a.txt", "1")
    scout = house.gate.child(house.agent, "scout")
    house.write("a.txt", "2", scout)
    house.write("b.txt", "new", scout)
    house.call("files.look", {"path": "a.txt"})
    house.write("a.txt", "3")
    house.call("note.post", {"text": "hi"})
    outcomes = house.undo(house.agent.id)
    assert [outcome.status for outcome in outcomes] == ["done"] * 5
    assert (house.read("a.txt"), house.read("b.txt")) == ("0", None)
    assert house.sent == ["hi", "not hi"]


def test_a_later_change_by_others_is_a_conflict_until_told_otherwise(house: House) -> None:
    (house.root / "a.txt").write_text("mine")
    action = house.write("a.txt", "first")
    other = house.gate.open(Principal("writer"), on_denied="continue")
    later = house.write("a.txt", "second", other)
    with pytest.raises(Refused, match=f"a.txt was changed since by {later}"):
        house.undo(action)
    assert house.read("a.txt") == "second"
    house.undo(later)
    house.undo(action)
    assert house.read("a.txt") == "mine"


def test_a_change_outside_the_journal_is_a_conflict_too(house: House) -> None:
    (house.root / "a.txt").write_text("mine")
    action = house.write("a.txt", "its own")
    (house.root / "a.txt").write_text("by hand")
    with pytest.raises(Refused, match="outside the journal"):
        house.undo(action)
    house.undo(action, anyway=True)
    assert house.read("a.txt") == "mine"


def test_what_cannot_be_undone_is_said_first(house: House) -> None:
    (house.root / "a.txt").write_text("mine")
    house.write("a.txt", "its own")
    house.call("note.shout", {"text": "hey"})
    plan = house.rollback.plan(house.agent.id)
    assert len(plan.irreversible) == 1 and "note.shout" in plan.irreversible[0]
    with pytest.raises(Refused, match="no way back"):
        house.undo(house.agent.id)
    assert house.read("a.txt") == "its own"
    house.undo(house.agent.id, anyway=True)
    assert house.read("a.txt") == "mine"


def test_a_change_between_plan_and_step_stops_the_rollback(house: House) -> None:
    (house.root / "a.txt").write_text("mine")
    action = house.write("a.txt", "its own")
    plan = house.rollback.plan(action)
    (house.root / "a.txt").write_text("raced")
    [outcome] = house.rollback.perform(plan, house.act, house.ada, Approver())
    assert outcome.status == "failed" and "changed meanwhile" in outcome.error
    assert house.read("a.txt") == "raced"


def test_a_rollback_is_gated(house: House) -> None:
    action = house.write("a.txt", "its own")
    house.gate.use_policy(Policy(Matrix([Layer((Rule("allow", tools=("files.*",), arguments=INSIDE),))])))
    house.person = house.gate.open(Principal("approver"), on_denied="continue")
    [outcome] = house.undo(action)
    assert outcome.status == "denied" and outcome.decision.reasons[0].code == "no_rule"
    assert house.read("a.txt") == "its own"


def test_a_rollback_needs_the_approver(house: House, tmp_path: Path) -> None:
    action = house.write("a.txt", "its own")
    eve = Approver(tmp_path / "elsewhere").create("eve")
    with pytest.raises(Refused, match="no approver here"):
        house.rollback.perform(house.rollback.plan(action), house.act, eve, Approver())


def test_a_rollback_is_recorded_with_plan_and_signature(house: House) -> None:
    action = house.write("a.txt", "its own")
    house.undo(action)
    begun, ended = house.journal.entries(kind="rollback")
    assert begun.body["target"] == action and begun.body["approver"] == house.ada.id
    assert (ended.body["done"], ended.body["of"]) == (1, 1)


def test_modes_are_kept_and_links_are_not_followed(house: House) -> None:
    (house.root / "run.sh").write_text("mine")
    (house.root / "run.sh").chmod(0o755)
    action = house.write("run.sh", "its own")
    house.undo(action)
    assert (house.root / "run.sh").stat().st_mode & 0o777 == 0o755
    action = house.write("run.sh", "its own")
    (house.root / "run.sh").unlink()
    (house.root / "target").write_text("precious")
    (house.root / "run.sh").symlink_to("target")
    with pytest.raises(Exception, match="cannot read"):
        house.undo(action, anyway=True)
    assert house.read("target") == "precious"


def test_a_damaged_image_costs_nothing(house: House) -> None:
    (house.root / "a.txt").write_text("mine" * 100)
    action = house.write("a.txt", "its own")
    for blob in (house.root / ".overnight" / "blobs").glob("*/*"):
        blob.write_bytes(b"damaged")
    [outcome] = house.undo(action)
    assert outcome.status == "failed"
    assert house.read("a.txt") == "its own"


def test_an_action_that_died_half_way_goes_back_to_its_before_image(house: House) -> None:
    blobs = Blobs(house.root / ".overnight" / "blobs")
    before = blobs.put(b"mine")
    (house.root / "a.txt").write_text("half writ")
    house.journal.append(
        Draft("executed", {"before": {"a.txt": before}}, "act_dead", house.agent.id, "default", "researcher", "files.write")
    )  # fmt: skip
    house.undo("act_dead")
    assert house.read("a.txt") == "mine"


def test_git_refs_go_back_and_forth(house: House) -> None:
    repository = house.repository
    tree = repository.write_tree({})
    one = repository.write_commit(tree, [], "one", at_s=1.0)
    two = repository.write_commit(tree, [one], "two", at_s=2.0)
    repository.update_refs([RefChange("refs/overnight/r/1", two, None)])
    for action, before in (("act_moved", one), ("act_made", None)):
        house.journal.append(
            Draft("executed", {"before": {}}, action, "ses_git", "default", "researcher", "git.commit"),
            Draft("result", {}, action, "ses_git", "default", "researcher", "git.commit",
                  (Change("git:refs/overnight/r/1", before, two),)),
        )  # fmt: skip
    [moved] = house.undo("act_moved")
    assert repository.refs("refs/overnight/") == {"refs/overnight/r/1": one}
    house.undo(moved.action)
    assert repository.refs("refs/overnight/") == {"refs/overnight/r/1": two}
    house.undo("act_made")
    assert repository.refs("refs/overnight/") == {}
    assert subprocess.run(["git", "-C", str(house.root), "fsck"], capture_output=True).returncode == 0


def test_there_is_nothing_to_undo_of_what_never_ran(house: House, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="act_none"):
        house.rollback.plan("act_none")
    denied = house.gate.call(house.agent, "files.write", {"path": str(tmp_path / "outside.txt"), "text": "x"})
    assert denied.status == "denied" and not (tmp_path / "outside.txt").exists()
    with pytest.raises(NotFound):
        house.rollback.plan(denied.action)
