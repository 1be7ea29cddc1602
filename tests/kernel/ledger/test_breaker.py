from collections.abc import Iterator

import pytest

from overnight.core.errors import SettingsError
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.approval.inbox import Inbox
from overnight.kernel.decide import Policy
from overnight.kernel.gate import Gate
from overnight.kernel.journal.journal import Journal
from overnight.kernel.ledger.breaker import Breaker, Burst, fragments
from overnight.kernel.parts import open_parts
from overnight.kernel.rules.combination import Combination, Step
from overnight.kernel.rules.matrix import Layer, Matrix, Rule
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.store.database import Database

TEN_IN_TWO = Burst(calls_per_s=5, sustained_s=2)


@pytest.fixture
def inbox(database: Database) -> Iterator[Inbox]:
    journal = Journal.open(database)
    yield Inbox(database, Approver(), journal)
    journal.close()


@pytest.fixture
def ada(config: object) -> Credential:
    return Approver().create("ada")


def session(name: str, root: str = "") -> Session:
    return Session(name, Principal("researcher"), root or name, root or None, "")


def test_a_burst_stops_the_session_until_a_person_lets_it_go_on(
    database: Database, inbox: Inbox, ada: Credential
) -> None:
    breaker = Breaker(database, inbox, default=TEN_IN_TWO)
    fast = session("ses_1")
    seen = [breaker.note(fast, "mail", at_s=number * 0.1) for number in range(10)]
    assert seen[:9] == [None] * 9
    assert seen[9] == "10 calls of mail within 2s: machine speed"
    assert breaker.stopped(fast) == seen[9]
    assert breaker.stopped(session("ses_2")) is None
    restarted = Breaker(Database(database.path), inbox, default=TEN_IN_TWO)
    assert restarted.stopped(fast) == seen[9]
    [item] = inbox.pending(kind="stopped")
    inbox.approve(item.id, ada)
    assert restarted.stopped(fast) is None
    assert breaker.stopped(fast) is None
    assert breaker.note(fast, "mail", at_s=1.0) is None, "counting starts anew"


def test_a_person_who_says_no_leaves_it_stopped(database: Database, inbox: Inbox, ada: Credential) -> None:
    breaker = Breaker(database, inbox)
    breaker.stop(session("ses_1"), "fragments", "it adds up", "web then mail")
    [item] = inbox.pending(kind="stopped")
    inbox.deny(item.id, ada, "no")
    assert breaker.stopped(session("ses_1")) == "it adds up"


def test_steady_work_is_no_burst(database: Database, inbox: Inbox) -> None:
    breaker = Breaker(database, inbox, default=TEN_IN_TWO)
    assert all(breaker.note(session("ses_1"), "mail", at_s=number * 0.23) is None for number in range(100))


def test_sub_agents_are_counted_with_their_root(database: Database, inbox: Inbox) -> None:
    breaker = Breaker(database, inbox, default=TEN_IN_TWO)
    seen = [breaker.note(session(f"ses_{number}", "ses_root"), "mail", at_s=0.0) for number in range(10)]
    assert seen[9] is not None
    assert breaker.stopped(session("ses_3", "ses_root")) is not None
    assert breaker.stopped(session("ses_root")) is not None


def test_thresholds_are_a_familys_own(database: Database, inbox: Inbox) -> None:
    breaker = Breaker(database, inbox, default=None, families={"mail": Burst(2, 1), "artifact": None})
    assert all(breaker.note(session("ses_1"), family, at_s=0.0) is None for family in ["web", "artifact"] * 50)
    assert breaker.note(session("ses_1"), "mail", at_s=0.0) is None
    assert breaker.note(session("ses_1"), "mail", at_s=0.0) is not None


def test_fragments_watch_the_whole_tenant() -> None:
    own = Combination("web then mail", Step(effects=("egress",)), after=(Step(content=("web",)),))
    wide = Combination("wide", Step(effects=("egress",)), after=(Step(content=("crm",)),), scope="tenant")
    [twin] = fragments([own, wide], within_s=60)
    assert (twin.scope, twin.decision, twin.within_s) == ("tenant", "ask", 60)
    assert (twin.then, twin.after) == (own.then, own.after)
    keys = {twin.key(Principal(agent, "red"), root) for agent, root in [("a", "ses_1"), ("b/c", "ses_2")]}
    assert len(keys) == 1
    assert twin.key(Principal("a", "blue"), "ses_1") not in keys
    assert twin.key(Principal("a", "red"), "ses_1") != own.key(Principal("a", "red"), "ses_1")


@pytest.mark.parametrize(("speed", "sustained_s"), [(0, 1), (-1, 5), (1, 1), (float("nan"), 1), (5, float("inf"))])
def test_thresholds_that_are_none(speed: float, sustained_s: float) -> None:
    with pytest.raises(SettingsError):
        Burst(speed, sustained_s)


def test_a_combination_in_fragments_stops_the_session_and_asks(database: Database, ada: Credential) -> None:
    root = database.path.parent.parent
    parts = open_parts(root, database)
    rule = Combination("web then egress", Step(effects=("egress",)), after=(Step(content=("web",)),))
    matrix = Matrix([Layer((Rule("allow", tools=("web.get", "chat.post")),))])
    gate = Gate(root, parts, Policy(matrix, (rule, *fragments([rule]))))
    posted: list[object] = []
    gate.register(ToolCode(ToolSpec("web.get", "read", content=frozenset({"web"})), lambda _: "page"))
    gate.register(ToolCode(ToolSpec("chat.post", "egress", (Argument("text"),)), posted.append))
    reader, writer, other = (
        gate.open(Principal(agent, tenant), on_denied="continue")
        for agent, tenant in [("reader", "red"), ("writer", "red"), ("writer", "blue")]
    )
    assert gate.call(reader, "web.get", {}).status == "done"
    assert gate.call(reader, "chat.post", {"text": "x"}).status == "denied", "the rule itself"
    assert gate.call(other, "chat.post", {"text": "x"}).status == "done", "another tenant"
    first = gate.call(writer, "chat.post", {"text": "hi"})
    assert first.status == "pending" and first.decision.reasons[0].code == "fragments"
    assert gate.call(writer, "web.get", {}).decision.reasons[0].code == "session_stopped"
    [stopped] = parts.inbox.pending(kind="stopped")
    parts.inbox.approve(stopped.id, ada)
    assert gate.call(writer, "chat.post", {"text": "hi"}).status == "pending", "going on is not yet saying yes to it"
    parts.inbox.approve(str(first.decision.approval_id), ada)
    assert gate.call(writer, "chat.post", {"text": "hi"}).status == "done"
    assert parts.inbox.pending() == [] and posted == [{"text": "x"}, {"text": "hi"}]
    parts.journal.close()
