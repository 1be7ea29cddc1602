"""Where information may flow: audiences, what the person spoke of, and whom they named. Through the gate, on real parts."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from overnight.core.errors import UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.decision import Outcome
from overnight.kernel.gate import Gate
from overnight.kernel.rules.rulebook import parse
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, Audience, ResultField, ToolSpec
from overnight.testing.gate_bench import GateBench

ALL = '[[rule]]\ntools = ["*"]\ndecision = "allow"\n'
SECRET = "the door opens with 4711"
FILES: dict[str, dict[str, Json]] = {
    "1": {"id": "1", "name": "plan.md", "shared": {"bob@example.org": "r"}, "text": "we meet at noon"},
    "2": {"id": "2", "name": "diary.md", "shared": {}, "text": SECRET},
    "3": {"id": "3", "name": "team.md", "shared": {"carol@example.org": "rw"}, "text": "hello team"},
}
ID = Argument("id", kind="id", of="file")
TEXT = Argument("text", kind="message", carries="private")
TO = Argument("to", kind="recipient", integrity="user")
SHARERS = tuple(Audience("file", ("shared.@keys",), "id", items, ("me@example.org",)) for items in ("*", ""))
SHOWN = (ResultField("*.id", "system", "id", of="file"), ResultField("id", "system", "id", of="file"))


@dataclass
class Drive:
    """A drive, a mailbox and a chat; what they were told is kept."""

    files: dict[str, dict[str, Json]] = field(default_factory=lambda: {k: dict(v) for k, v in FILES.items()})
    ran: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)

    def tools(self) -> list[ToolCode]:
        def find(arguments: Mapping[str, Json]) -> Json:
            query = str(arguments["query"])
            return [f for f in self.files.values() if query in str(f["name"]) or query in str(f["text"])]

        def told(name: str, result: Json = None) -> ToolCode:
            def run(arguments: Mapping[str, Json]) -> Json:
                self.ran.append((name, arguments))
                return result

            return ToolCode(SPECS[name], run)

        def members(arguments: Mapping[str, Json]) -> list[str]:
            return {"general": ["Alice", "Bob"], "board": ["Alice"]}[str(arguments["channel"])]

        made: Json = {"id": "9", "name": "new.md", "shared": {}, "text": ""}
        said = ToolCode(SPECS["chat.read"], lambda arguments: [{"from": "Bob", "text": SECRET}], readers=members)
        return [
            ToolCode(SPECS["drive.find"], find),
            ToolCode(SPECS["drive.list"], lambda arguments: list(self.files.values())),
            told("drive.append", None),
            told("drive.create", made),
            told("drive.share"),
            told("post.send"),
            told("post.attach"),
            told("chat.say"),
            told("chat.join"),
            said,
        ]


CHANNEL = Argument("channel", kind="id", of="channel", integrity="any")
SPECS = {
    spec.id: spec
    for spec in (
        ToolSpec("drive.find", "read", (Argument("query"),), fields=SHOWN, confidentiality="private", audiences=SHARERS),
        ToolSpec("drive.list", "read", fields=SHOWN, confidentiality="private", audiences=SHARERS),
        ToolSpec("drive.append", "write", (replace(ID, into=True), TEXT), reversible=True),
        ToolSpec("drive.create", "write", (Argument("name"), Argument("text")), reversible=True, fields=SHOWN,
                 confidentiality="private", audiences=SHARERS, echoes=True),
        ToolSpec("drive.share", "egress", (replace(ID, discloses=True), TO)),
        ToolSpec("post.send", "egress", (TO, TEXT, Argument("place", required=False, carries="private"))),
        ToolSpec("post.attach", "egress", (TO, Argument("files", "array", "id", of="file", at="*.file",
                                                        discloses=True, carries="private"))),
        ToolSpec("chat.read", "read", (CHANNEL,), confidentiality="private",
                 audiences=(Audience("channel", None, "@channel", ""),)),
        ToolSpec("chat.say", "egress", (replace(CHANNEL, into=True), TEXT)),
        ToolSpec("chat.join", "write", (Argument("who", kind="recipient", integrity="any"), CHANNEL),
                 needs_one=("who", "channel")),
    )
}  # fmt: skip


def opened(bench: GateBench, request: str, rules: str = ALL) -> tuple[Gate, Session, Drive]:
    drive = Drive()
    gate = bench.gate(rules, *drive.tools(), burst=False)
    return gate, gate.open(Principal("a"), request, on_denied="continue"), drive


def codes(outcome: Outcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


DISGUISES = [
    SECRET,
    SECRET[::-1],
    base64.b64encode(SECRET.encode()).decode(),
    SECRET.encode().hex(),
    "\u200b".join(SECRET),
    "four, then seven, then twice one",
    "47",
]


@pytest.mark.parametrize("text", DISGUISES)
def test_what_the_person_did_not_speak_of_goes_to_nobody_whatever_it_looks_like(bench: GateBench, text: str) -> None:
    gate, session, drive = opened(bench, "tell bob@example.org how we meet")
    assert gate.call(session, "drive.list", {}).status == "done"
    outcome = gate.call(session, "post.send", {"to": "bob@example.org", "text": text})
    assert (outcome.status, codes(outcome)) == ("pending", ["unnamed_source"])
    assert gate.call(session, "post.send", {"to": "bob@example.org", "text": "how we meet"}).status == "done"
    assert len(drive.ran) == 1


def test_what_the_person_spoke_of_goes_to_whom_they_named(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "mail dora@example.org what diary.md says")
    assert gate.call(session, "drive.find", {"query": "diary.md"}).status == "done"
    assert gate.call(session, "post.send", {"to": "dora@example.org", "text": SECRET}).status == "done"
    placed = gate.call(session, "post.send", {"to": "dora@example.org", "text": "", "place": SECRET})
    assert codes(placed) == ["unnamed_source"]  # asked to be told, not to be hidden in what it is about


def test_reading_on_where_nobody_pointed_asks_and_spoils_nothing(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "mail bob@example.org what plan.md says")
    assert gate.call(session, "drive.find", {"query": "plan.md"}).status == "done"
    for tool, arguments in (("drive.list", {}), ("drive.find", {"query": "opens"}), ("drive.find", {"query": "mail"})):
        outcome = gate.call(session, tool, cast(Mapping[str, Json], arguments))
        assert (outcome.status, codes(outcome)) == ("pending", ["unnamed_read"])
    assert gate.call(session, "post.send", {"to": "bob@example.org", "text": "at noon"}).status == "done"


def test_who_can_read_it_already_may_be_told(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "answer bob@example.org and dora@example.org")
    gate_files = {"1": FILES["1"]}
    drive = Drive(files=gate_files)
    listing = ToolCode(replace(SPECS["drive.list"], id="other.list"), lambda arguments: list(drive.files.values()))
    gate.register(listing)
    assert gate.call(session, "other.list", {}).status == "done"
    assert gate.call(session, "post.send", {"to": "bob@example.org", "text": "at noon"}).status == "done"
    assert codes(gate.call(session, "post.send", {"to": "dora@example.org", "text": "at noon"})) == ["unnamed_source"]


def test_reading_on_after_something_was_told_asks(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "tell Alice what is new")
    gate.register(ToolCode(replace(SPECS["post.send"], id="dm.send"), lambda arguments: None))
    for channel in ("general", "board"):
        assert gate.call(session, "chat.read", {"channel": channel}).status == "done"
    assert gate.call(session, "dm.send", {"to": "Alice", "text": "news"}).status == "done"
    assert codes(gate.call(session, "drive.list", {})) == ["unnamed_read"]
    assert gate.call(session, "dm.send", {"to": "Alice", "text": "more"}).status == "done"


@pytest.mark.parametrize("protected", [True, False])
def test_writing_into_what_others_read_is_sending_it(bench: GateBench, protected: bool) -> None:
    drive = Drive()
    gate = bench.gate(ALL, *drive.tools(), burst=False)
    if not protected:
        gate._tools["drive.append"] = ToolCode(replace(SPECS["drive.append"], arguments=(ID, TEXT)), lambda a: None)
        gate.catalogue._specs["drive.append"] = gate.catalogue._names["drive.append"] = gate._tools["drive.append"].spec
    session = gate.open(Principal("a"), "note something", on_denied="continue")
    assert gate.call(session, "drive.list", {}).status == "done"
    shared = gate.call(session, "drive.append", {"id": "3", "text": SECRET})
    assert (shared.status == "done") is not protected
    assert gate.call(session, "drive.append", {"id": "2", "text": SECRET}).status == "done"  # nobody else reads it


def test_an_object_whose_audience_nobody_told_may_be_read_by_anybody(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "write into file 77 what is in the diary")
    assert gate.call(session, "drive.find", {"query": "diary.md"}).status == "done"
    outcome = gate.call(session, "drive.append", {"id": "77", "text": SECRET})
    assert "unnamed_source" in codes(outcome)


def test_showing_an_object_needs_the_person_to_have_spoken_of_it(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "share plan.md with dora@example.org")
    assert gate.call(session, "drive.find", {"query": "plan.md"}).status == "done"
    assert gate.call(session, "drive.share", {"id": "1", "to": "dora@example.org"}).status == "done"
    gate, session, _ = opened(bench, "share something with dora@example.org")
    assert gate.call(session, "drive.list", {}).status == "done"
    assert codes(gate.call(session, "drive.share", {"id": "2", "to": "dora@example.org"})) == ["unnamed_object"]


def test_a_new_object_holds_what_the_session_had_read(bench: GateBench) -> None:
    """Written to a file of one's own, then shared: the file is as free to go as what went into it."""
    for reads, status in ((["plan.md"], "done"), (["plan.md", ""], "pending")):
        gate, session, drive = opened(bench, "copy plan.md to new.md and share that with dora@example.org", ALL)
        for query in reads if len(reads) == 1 else ["", "plan.md"]:
            assert gate.call(session, "drive.find", {"query": query}).status == "done"
        assert gate.call(session, "drive.create", {"name": "new.md", "text": "x"}).status == "done"
        assert gate.call(session, "drive.share", {"id": "9", "to": "dora@example.org"}).status == status
        assert drive.ran


@pytest.mark.parametrize(
    ("files", "codes_"),
    [
        ([{"file": "1"}], []),
        ([{"file": "2"}], ["unnamed_object"]),
        ([{"file": "1"}, {"file": "2"}], ["unnamed_object"]),
        ([{"text": "x"}], ["untrusted_argument"]),
        (["1"], ["untrusted_argument"]),
    ],
)
def test_what_is_attached_is_found_within_its_structure(bench: GateBench, files: Json, codes_: list[str]) -> None:
    gate, session, _ = opened(bench, "mail plan.md to dora@example.org")
    gate.register(ToolCode(ToolSpec("drive.names", "read", fields=SHOWN), lambda arguments: [{"id": "2"}]))
    assert gate.call(session, "drive.find", {"query": "plan.md"}).status == "done"
    assert gate.call(session, "drive.names", {}).status == "done"
    outcome = gate.call(session, "post.attach", {"to": "dora@example.org", "files": files})
    assert (outcome.status == "done") is (not codes_)
    assert not codes_ or codes(outcome)[: len(codes_)] == codes_


def test_readers_are_asked_of_the_system_where_results_do_not_tell(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "tell Alice and Bob what is new in the general channel")
    send = replace(SPECS["post.send"], id="dm.send")
    gate.register(ToolCode(send, lambda arguments: None))
    assert gate.call(session, "chat.read", {"channel": "board"}).status == "done"
    assert gate.call(session, "dm.send", {"to": "Alice", "text": "news"}).status == "done"
    assert codes(gate.call(session, "dm.send", {"to": "Bob", "text": "news"})) == ["unnamed_source"]
    assert codes(gate.call(session, "chat.say", {"channel": "general", "text": "news"})) == ["unnamed_source"]
    assert (
        gate.call(session, "chat.say", {"channel": "board", "text": "news"}).status == "done"
    )  # said where it was read


def test_an_agents_own_words_go_only_to_whom_the_person_named(bench: GateBench) -> None:
    anybody = replace(SPECS["post.send"], id="open.send", arguments=(Argument("to", kind="recipient"), TEXT))
    rules = ALL + '[[rule]]\ntools = ["web.read"]\ndecision = "allow"\n'
    gate, session, _ = opened(bench, "ask bob@example.org about lunch", rules)
    known = ToolSpec("book.list", "read", fields=(ResultField("*", "system", "recipient"),))
    gate.register(ToolCode(anybody, lambda arguments: None))
    gate.register(ToolCode(known, lambda arguments: ["carol@example.org"]))
    assert gate.call(session, "book.list", {}).status == "done"
    say: Mapping[str, Json] = {"text": "come to the place that we spoke of"}
    assert gate.call(session, "open.send", {"to": "bob@example.org", **say}).status == "done"
    assert codes(gate.call(session, "open.send", {"to": "carol@example.org", **say})) == ["unrequested_message"]
    assert gate.call(session, "open.send", {"to": "carol@example.org", "text": "About lunch."}).status == "done"


def test_of_some_arguments_the_person_must_have_typed_one(bench: GateBench) -> None:
    gate, session, drive = opened(bench, "add Dora")
    assert gate.call(session, "chat.join", {"who": "Dora", "channel": "general"}).status == "done"
    join: Mapping[str, Json] = {"who": "Eve", "channel": "board"}
    outcome = gate.call(session, "chat.join", join)
    assert codes(outcome) == ["nobody_named"]
    assert outcome.decision.approval_id is not None
    bench.parts.inbox.approve(outcome.decision.approval_id, bench.approver)
    assert gate.call(session, "chat.join", join).status == "done"
    # The person now knows of that channel; of another one they do not.
    assert codes(gate.call(session, "chat.join", {"who": "Mallory", "channel": "other"})) == ["nobody_named"]
    assert len(drive.ran) == 2
    with pytest.raises(UsageError, match="there is no argument"):
        ToolSpec("x.y", "write", (ID,), needs_one=("nobody",))


def test_a_restart_forgets_what_was_read_but_not_that_it_was(bench: GateBench) -> None:
    gate, session, _ = opened(bench, "mail dora@example.org what diary.md says")
    assert gate.call(session, "drive.find", {"query": "diary.md"}).status == "done"
    second = bench.gate(ALL, *Drive().tools(), burst=False)
    again = second.sessions.load(session.id, session.grant)
    assert codes(second.call(again, "post.send", {"to": "dora@example.org", "text": "x"})) == ["unnamed_source"]


def test_a_read_that_failed_may_have_been_read(bench: GateBench) -> None:
    def broken(arguments: Mapping[str, Json]) -> Json:
        raise RuntimeError(SECRET)

    gate, session, _ = opened(bench, "tell bob@example.org the news")
    gate.register(ToolCode(replace(SPECS["drive.list"], id="other.list"), broken))
    assert gate.call(session, "other.list", {}).status == "failed"
    assert codes(gate.call(session, "post.send", {"to": "bob@example.org", "text": "x"})) == ["unnamed_source"]


def test_values_that_a_rule_lists_tell_nothing(bench: GateBench) -> None:
    rules = '[[rule]]\ntools = ["post.send"]\narguments.text = { one_of = ["Refund"] }\ndecision = "allow"\n' + ALL
    gate, session, _ = opened(bench, "tell bob@example.org", rules)
    assert gate.call(session, "drive.list", {}).status == "done"
    assert gate.call(session, "post.send", {"to": "bob@example.org", "text": "Refund"}).status == "done"
    assert gate.call(session, "post.send", {"to": "bob@example.org", "text": "refund"}).status == "pending"


@pytest.mark.parametrize("setting", ["destructive", "all"])
def test_whatever_cannot_be_undone_asks_first_where_the_workspace_says_so(bench: GateBench, setting: str) -> None:
    gate = bench.gate(ALL)
    book = parse(f'```permissions\n[approvals]\nask_irreversible = "{setting}"\n```\n', "AGENTS.md")
    gate.use_policy(replace(gate.policy, ask_irreversible=book.settings.ask_irreversible))
    session = gate.open(Principal("a"), "tell bob@example.org ok and delete mail 13", on_denied="continue")
    sent = gate.call(session, "mail.send", {"to": "bob@example.org", "body": "ok"})
    assert (sent.status, codes(sent)) == (("pending", ["irreversible"]) if setting == "all" else ("done", ["allowed"]))
    assert gate.call(session, "mail.read", {}).status == "done"
    (bench.root / "docs").mkdir()
    assert gate.call(session, "mail.delete", {"id": "13"}).status == "pending"


@pytest.mark.parametrize(
    ("name", "value", "runs"),
    [
        ("day", "2024-05-16", True),
        ("day", f"2024-05-16 {SECRET}", False),
        ("amount", 12.5, True),
        ("amount", 12.463820, False),
        ("how", "monthly", True),
        ("how", "r4711", False),
    ],
)
def test_a_value_that_has_not_the_form_of_its_kind_is_prose(
    bench: GateBench, name: str, value: Json, runs: bool
) -> None:
    payment = ToolSpec(
        "bank.pay",
        "commit",
        (
            Argument("to", kind="account"),
            Argument("day", kind="date", required=False),
            Argument("amount", "number", "amount", required=False, integrity="any"),
            Argument("how", kind="flag", required=False),
        ),
    )
    gate, session, _ = opened(bench, "pay GB29NWBK60161331926819")
    gate.register(ToolCode(payment, lambda arguments: None))
    assert gate.call(session, "drive.list", {}).status == "done"
    outcome = gate.call(session, "bank.pay", {"to": "GB29NWBK60161331926819", name: value})
    assert (outcome.status == "done") is runs
    assert runs or codes(outcome)[0] == "confidential_egress"
