import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from overnight.kernel.canonical import Json
from overnight.kernel.decision import Outcome
from overnight.kernel.gate import Gate
from overnight.kernel.grants.grant import Bound, Terms
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.testing.gate_bench import GateBench

ALL = '[[rule]]\nagents = ["a", "a/*"]\ntools = ["*"]\ndecision = "allow"\n'
A = Principal("a")


def opened(gate: Gate, request: str = "", on_denied: str = "continue") -> Session:
    return gate.open(A, request, on_denied=on_denied)  # type: ignore[arg-type]


def codes(outcome: Outcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def test_a_call_is_decided_executed_and_recorded(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate, "write notes.md")
    outcome = gate.call(session, "files.write", {"path": "notes.md", "content": "hi"}, reason="because")
    assert (outcome.status, outcome.result) == ("done", 2)
    assert (bench.root / "notes.md").read_text() == "hi"
    bench.parts.journal.sync()
    proposed, decided, executed, result = bench.parts.journal.of_action(outcome.action)
    assert [entry.kind for entry in (proposed, decided, executed, result)] == [
        "proposed", "decided", "executed", "result",
    ]  # fmt: skip
    assert proposed.body["reason"] == "because"
    assert decided.body["origins"]["path"][0] == "user"  # type: ignore[index,call-overload]
    assert decided.body["policy"] == gate.policy.hash
    assert decided.body["grant"]
    assert [(change.object, change.before is None) for change in result.changes] == [("file:notes.md", True)]


def test_a_denied_call_does_not_run_and_is_recorded_with_a_reason(bench: GateBench) -> None:
    gate = bench.gate('[[rule]]\ntools = ["files.read"]\narguments.path = { under = ["docs"] }\ndecision = "allow"')
    outcome = gate.call(opened(gate), "files.write", {"path": "x", "content": "hi"})
    assert (outcome.status, codes(outcome)) == ("denied", ["no_rule"])
    assert not (bench.root / "x").exists()
    bench.parts.journal.sync()
    assert [entry.kind for entry in bench.parts.journal.of_action(outcome.action)] == ["proposed", "decided"]


def test_a_failing_tool_is_an_outcome(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    outcome = gate.call(opened(gate, "read none.md"), "files.read", {"path": "none.md"})
    assert outcome.status == "failed"
    assert "No such file" in outcome.error


def test_a_tool_that_returns_no_json_has_failed(bench: GateBench) -> None:
    spec = ToolSpec("odd.tool", "read")
    gate = bench.gate(ALL, ToolCode(spec, lambda arguments: object()))  # type: ignore[arg-type,return-value]
    assert gate.call(opened(gate), "odd.tool", {}).status == "failed"


def test_labels_flow_from_results_into_the_next_call(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate, "answer Carol's mail with: all is well")
    assert gate.call(session, "mail.read", {}).status == "done"
    assert gate.call(session, "mail.send", {"to": "carol@example.org", "body": "All is well."}).status == "done"
    bad = gate.call(session, "mail.send", {"to": "mallory@evil.example", "body": "all is well"})
    assert (bad.status, codes(bad)) == ("pending", ["untrusted_argument"])
    link = gate.call(session, "mail.send", {"to": "carol@example.org", "body": "see evil.com/x"})
    assert "untrusted_link" in codes(link)
    assert len(bench.sent) == 1


def test_nothing_a_caller_passes_raises_a_label(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate, "read my mail")
    call: Mapping[str, Json] = {"to": "x@evil.example", "body": "x"}
    outcome = gate.call(session, "mail.send", call, reason="the user typed x@evil.example, label=user")
    assert outcome.status == "pending"
    assert gate.check(session, "mail.send", call, simulate={"to": "user"}).verdict == "allow"
    assert gate.call(session, "mail.send", call).status == "pending"


def test_an_approval_resumes_a_waiting_caller(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate)
    call: Mapping[str, Json] = {"to": "bob@example.org", "body": "hi"}
    outcomes: list[Outcome] = []
    waiting = threading.Thread(
        target=lambda: outcomes.append(gate.call(session, "mail.send", call, wait_s=120)), daemon=True
    )
    waiting.start()
    for _ in range(3000):
        items = bench.parts.inbox.pending()
        if items:
            break
        time.sleep(0.02)
    assert items[0].bound["arguments"] == call
    bench.parts.inbox.approve(items[0].id, bench.approver)
    waiting.join(120)
    assert outcomes[0].status == "done"
    assert outcomes[0].decision.approval_id == items[0].id
    assert len(bench.sent) == 1


def test_an_approval_is_for_one_use(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate)
    call: Mapping[str, Json] = {"to": "bob@example.org", "body": "hi"}
    first = gate.call(session, "mail.send", call)
    assert first.decision.approval_id is not None
    bench.parts.inbox.approve(first.decision.approval_id, bench.approver)
    assert gate.call(session, "mail.send", call).status == "done"
    assert gate.call(session, "mail.send", call).status == "pending"
    assert len(bench.sent) == 1


def test_what_was_approved_is_what_runs_or_nothing(bench: GateBench) -> None:
    state = {"version": 1}
    spec = ToolSpec("db.drop", "destructive", (Argument("table"),))
    tool = ToolCode(spec, lambda arguments: bench.deleted.append(arguments["table"]), lambda arguments: dict(state))
    gate = bench.gate(ALL, tool)
    session = opened(gate)
    pending = gate.call(session, "db.drop", {"table": "old"})
    assert codes(pending) == ["irreversible"]
    assert pending.decision.approval_id is not None
    bench.parts.inbox.approve(pending.decision.approval_id, bench.approver)
    assert gate.call(session, "db.drop", {"table": "new"}).status == "pending"  # approve A, execute B
    state["version"] = 2  # the stated precondition no longer holds
    assert gate.call(session, "db.drop", {"table": "old"}).status == "pending"
    assert bench.deleted == []
    state["version"] = 1
    assert gate.call(session, "db.drop", {"table": "old"}).status == "done"


def test_a_denied_session_is_stopped_and_its_children_with_it(bench: GateBench) -> None:
    gate = bench.gate('[[rule]]\nagents = ["a", "a/*"]\ntools = ["mail.read"]\ndecision = "allow"')
    session = opened(gate, on_denied="stop")
    child = gate.child(session, "b")
    assert gate.call(child, "mail.read", {}).status == "done"
    assert gate.call(session, "shell.run", {"command": "x"}).stopped
    for one in (session, child):
        after = gate.call(one, "mail.read", {})
        assert (after.status, codes(after)) == ("denied", ["session_stopped"])


def test_a_sub_agents_grant_narrows_and_is_not_widened(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate, "write src/x and docs/x")
    child = gate.child(session, "b", tools=("files.*",), bounds=(Bound("path", "under", ("docs",)),))
    assert child.principal.agent == "a/b"
    assert gate.call(child, "files.write", {"path": "docs/x", "content": ""}).status in ("done", "failed")
    for tool, arguments in (("files.write", {"path": "src/x", "content": ""}), ("mail.read", {})):
        outcome = gate.call(child, tool, arguments)
        assert (outcome.status, codes(outcome)[0]) == ("denied", "grant_denies")
    grandchild = gate.child(child, "c", tools=("*",))
    assert gate.call(grandchild, "mail.read", {}).status == "denied"


def test_a_session_cannot_claim_another_principal(bench: GateBench) -> None:
    gate = bench.gate(ALL.replace('"a", "a/*"', '"a", "boss"'))
    session = opened(gate)
    forged = Session(session.id, Principal("boss"), session.root, None, session.grant)
    outcome = gate.call(forged, "mail.read", {})
    assert (outcome.status, codes(outcome)) == ("denied", ["grant_mismatch"])


@pytest.mark.parametrize("grant", ["", "x", "En0KEwoE"])
def test_without_a_valid_grant_nothing_runs(bench: GateBench, grant: str) -> None:
    gate = bench.gate(ALL)
    session = opened(gate)
    outcome = gate.call(Session(session.id, A, session.root, None, grant), "mail.read", {})
    assert (outcome.status, codes(outcome)) == ("denied", ["grant_invalid"])


def test_new_rules_end_grants_made_under_the_old(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate)
    gate.use_policy(bench.gate(ALL + '[[rule]]\ntools = ["shell.run"]\ndecision = "deny"\n').policy)
    assert codes(gate.call(session, "mail.read", {}))[0] == "grant_denies"


def test_an_expired_grant_is_none(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = gate.open(A, terms=Terms(("*",), expires_at=time.time() - 1))
    assert codes(gate.call(session, "mail.read", {})) == ["grant_expired"]


def test_limits_are_charged_before_and_follow_the_principal(bench: GateBench) -> None:
    gate = bench.gate(ALL, limits=(Limit("calls", 2, per=("agent",)),))
    session = opened(gate)
    other = opened(gate)
    assert gate.call(session, "mail.read", {}).status == "done"
    assert gate.call(other, "mail.read", {}).status == "done"
    outcome = gate.call(session, "mail.read", {})
    assert (outcome.status, codes(outcome)[0]) == ("denied", "limit_exceeded")
    child = gate.call(gate.child(other, "b"), "mail.read", {})
    assert codes(child)[0] == "limit_exceeded"


def test_a_burst_at_machine_speed_stops_the_session(bench: GateBench) -> None:
    gate = bench.gate(ALL)
    session = opened(gate)
    seen = {codes(gate.call(session, "mail.read", {}))[0] for _ in range(51)}
    assert seen == {"allowed", "breaker", "session_stopped"} or seen == {"allowed", "breaker"}


def test_a_call_that_cannot_be_journaled_does_not_run(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = bench.gate(ALL)
    session = opened(gate, "tell bob@example.org")
    bench.parts.journal.close()  # nothing can be written any more
    outcome = gate.call(session, "mail.send", {"to": "bob@example.org", "body": "hi"})
    assert outcome.status == "denied"
    assert codes(outcome) == ["gate_failed"]
    assert outcome.action == ""
    assert bench.sent == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": 7},
        {},
        {"path": "x", "pth": "y"},
        {"path": "a\0b"},
        {"path": None},
        {"path": ["x"]},
        {7: "x"},
        "x",
        None,
    ],
)
def test_whatever_is_proposed_the_answer_is_an_outcome(bench: GateBench, arguments: object) -> None:
    gate = bench.gate(ALL)
    outcome = gate.call(opened(gate), "files.read", arguments)  # type: ignore[arg-type]
    assert outcome.status == "denied"
    assert outcome.decision.reasons[0].sentence


@pytest.mark.parametrize("tool", [["files.read"], {"files.read": 1}, None, 7, b"files.read", "", "x" * 100_000])
def test_whatever_tool_is_proposed_the_answer_is_an_outcome(bench: GateBench, tool: object) -> None:
    outcome = bench.gate(ALL).call(opened(bench.gate(ALL)), tool, {})  # type: ignore[arg-type]
    assert (outcome.status, codes(outcome)) == ("denied", ["unknown_tool"])


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt(), BaseException("odd")])
def test_a_tool_that_ends_the_program_is_recorded_and_gives_back_what_it_held(
    bench: GateBench, ending: BaseException
) -> None:
    def end(arguments: Mapping[str, Json]) -> Json:
        raise ending

    tool = ToolCode(ToolSpec("db.end", "write"), end)
    gate = bench.gate(ALL, tool, limits=[Limit("concurrent", 1)])
    session = opened(gate)
    for _ in range(2):
        with pytest.raises(type(ending)):
            gate.call(session, "db.end", {})
    assert [entry.body["status"] for entry in bench.entries("result")] == ["failed", "failed"]


class Pliant(str):
    """A text that is equal to every other and begins with whatever one likes."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("bob@example.org")

    def startswith(self, *_: object) -> bool:
        return True

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        return ("bob", "@", "example.org")


def test_what_a_caller_holds_cannot_change_what_was_decided(bench: GateBench) -> None:
    shown: list[Json] = ["bob@example.org"]
    spec = ToolSpec("news.send", "egress", (Argument("to", "array", kind="recipient"),))

    def send(arguments: Mapping[str, Json]) -> Json:
        shown.append("mallory@evil.example")  # another thread of the caller, at the worst moment
        bench.sent.append(arguments)
        return None

    gate = bench.gate(ALL, ToolCode(spec, send))
    assert gate.call(opened(gate, "tell bob@example.org"), "news.send", {"to": shown}).status == "done"
    assert bench.sent == [{"to": ["bob@example.org"]}]
    bound = bench.gate(
        '[[rule]]\ntools = ["mail.send"]\narguments.to = { domain = ["example.org"] }\ndecision = "allow"'
    )
    sent = bound.call(opened(bound), "mail.send", {"to": Pliant("mallory@evil.example"), "body": ""})
    assert codes(sent) == ["no_rule"]


def test_history_survives_a_new_process(bench: GateBench) -> None:
    rules = ALL + '[[combination]]\nname = "n"\nafter = [{ content = ["mail"] }]\nthen = { effects = ["egress"] }\n'
    first = bench.gate(rules)
    session = opened(first, "tell bob@example.org")
    assert first.call(session, "mail.read", {}).status == "done"
    second = bench.gate(rules)  # nothing of the first gate's memory
    again = second.sessions.load(session.id, session.grant)
    outcome = second.call(again, "mail.send", {"to": "bob@example.org", "body": "x"})
    assert codes(outcome) == ["combination", "unnamed_source"]
    assert second.sessions.history(again).provenance.peak == "private"


def test_calls_of_one_tree_are_decided_one_after_the_other(bench: GateBench) -> None:
    rules = ALL + (
        '[[combination]]\nname = "n"\ncount = { of = { effects = ["egress"] }, more_than = 3 }\nscope = "session"\n'
    )
    gate = bench.gate(rules, burst=False)
    session = opened(gate, "tell bob@example.org")
    call: Mapping[str, Json] = {"to": "bob@example.org", "body": "x"}
    threads = [threading.Thread(target=gate.call, args=(session, "mail.send", call)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(bench.sent) == 3


def test_a_narrowed_call_runs_smaller_and_says_so(bench: GateBench) -> None:
    spec = ToolSpec("db.rows", "read", (Argument("limit", "integer", "number", required=False),))
    gate = bench.gate(
        '[[rule]]\ntools = ["db.rows"]\nnarrow = { arguments.limit = 100 }\ndecision = "allow"',
        ToolCode(spec, lambda arguments: arguments["limit"]),
    )
    session = opened(gate)
    outcome = gate.call(session, "db.rows", {"limit": 5000})
    assert (outcome.result, outcome.decision.verdict) == (100, "narrow")
    assert "limit is 100 instead of 5000" in outcome.decision.reasons[0].sentence
    assert gate.call(session, "db.rows", {"limit": 5}).decision.verdict == "allow"
    assert gate.call(session, "db.rows", {}).result == 100


def test_two_must_agree_to_destroy_where_the_workspace_asks_for_it(bench: GateBench, tmp_path: Path) -> None:
    from dataclasses import replace

    from overnight.kernel.approval.approver import Approver

    gate = bench.gate(ALL)
    gate.use_policy(replace(gate.policy, destructive_quorum=True))
    second = Approver().create("blake", by=bench.approver)
    session = opened(gate, "delete mail 13")
    pending = gate.call(session, "mail.delete", {"id": "13"})
    assert pending.decision.approval_id is not None
    bench.parts.inbox.approve(pending.decision.approval_id, bench.approver)
    assert gate.call(session, "mail.delete", {"id": "13"}).status == "pending"
    bench.parts.inbox.approve(pending.decision.approval_id, second)
    assert gate.call(session, "mail.delete", {"id": "13"}).status == "done"
