"""What a model could tell with a call that is allowed: by how a destination is spelled, by how often it is called."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from overnight.kernel.canonical import Json
from overnight.kernel.decision import Outcome
from overnight.kernel.flow.visits import MOST_ALIKE, MOST_AT_ONE_HOST
from overnight.kernel.gate import Gate
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ResultField, ToolSpec
from overnight.testing.gate_bench import GateBench

ALL = '[[rule]]\ntools = ["*"]\ndecision = "allow"\n'
IBAN = "GB29 NWBK 6016 1331 9268 19"
TO = Argument("to", "array", "recipient", integrity="user")
SPECS = (
    ToolSpec("web.get", "egress", (Argument("url", kind="url", integrity="user"),)),
    ToolSpec("notes.read", "read", confidentiality="private"),
    ToolSpec("post.letter", "egress", (TO, Argument("text", kind="message", carries="private"))),
    ToolSpec("post.share", "egress", (Argument("with", "array", "recipient", integrity="user", at="*.who"),)),
    ToolSpec("people.list", "read", fields=(ResultField("*", "system", "recipient"),)),
    ToolSpec("people.tell", "egress", (Argument("who", kind="recipient"), Argument("text", kind="message"))),
    ToolSpec("bank.pay", "egress", (Argument("account", kind="account", integrity="user"),)),
)


@dataclass
class World:
    """Tools that note what reached them."""

    ran: list[Mapping[str, Json]] = field(default_factory=list)

    def tools(self) -> list[ToolCode]:
        def code(spec: ToolSpec) -> ToolCode:
            def run(arguments: Mapping[str, Json]) -> Json:
                if spec.effect == "egress":
                    self.ran.append(arguments)
                return {"people.list": ["Bob", "Carol"], "notes.read": "the door opens with 4711"}.get(spec.id)

            return ToolCode(spec, run)

        return [code(spec) for spec in SPECS]


def opened(bench: GateBench, request: str) -> tuple[Gate, Session, World]:
    world = World()
    gate = bench.gate(ALL, *world.tools(), burst=False)
    return gate, gate.open(Principal("a"), request, on_denied="continue"), world


def codes(outcome: Outcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("www.Shop.example.org/A?b=C", "wWw.sHOP.eXample.oRg/A?b=C"),
        ("https://shop.example.org/A", "http://SHOP.example.org/A"),
        ("https://shop.example.org/A", "HTTPS://shop.example.org/A///"),
        ("https://shop.example.org/", "shop.example.org"),
    ],
)
def test_an_address_runs_and_is_recorded_as_it_was_typed(bench: GateBench, typed: str, given: str) -> None:
    gate, session, world = opened(bench, f"look at {typed} please")
    outcome = gate.call(session, "web.get", {"url": given})
    assert (outcome.status, outcome.decision.verdict, codes(outcome)) == ("done", "narrow", ["respelled"])
    assert world.ran == [{"url": typed}]
    assert outcome.decision.arguments == {"url": typed}
    unchanged = gate.call(session, "web.get", {"url": typed})
    assert unchanged.decision.verdict == "allow"


@pytest.mark.parametrize(
    "given",
    [
        "https://shop.example.org/a?b=C",
        "https://shop.example.org/A?b=c",
        "https://shop.example.org/A?b=%43",
        "https://shop.example.org./A?b=C",
        "https://shop.example.org:443/A?b=C",
        "https://ſhop.example.org/A?b=C",
        "https://shop.example.org/./A?b=C",
        "https://shop.example.org/A?b=C#",
        "https://me@shop.example.org/A?b=C",
    ],
)
def test_an_address_that_is_not_the_typed_one_asks(bench: GateBench, given: str) -> None:
    gate, session, world = opened(bench, "look at https://shop.example.org/A?b=C please")
    assert gate.call(session, "web.get", {"url": given}).status == "pending"
    assert world.ran == []


def test_what_is_asked_of_a_bare_host_keeps_its_capitals(bench: GateBench) -> None:
    gate, session, world = opened(bench, "look at https://example.org?key=a please")
    assert gate.call(session, "web.get", {"url": "https://example.org?key=A"}).status == "pending"
    assert world.ran == []


def test_people_are_spelled_as_the_system_does_or_else_as_they_were_typed(bench: GateBench) -> None:
    gate, session, world = opened(bench, "write to Dora@Example.org and ann  lee, and tell bob")
    sent = gate.call(session, "post.letter", {"to": ["dORA@example.org", "Ann lee"], "text": "hi"})
    assert (sent.decision.verdict, world.ran[-1]["to"]) == ("narrow", ["Dora@Example.org", "ann  lee"])
    assert gate.call(session, "people.list", {}).status == "done"
    told = gate.call(session, "people.tell", {"who": "bOB", "text": "tell bob"})
    assert (told.status, world.ran[-1]["who"]) == ("done", "Bob")


@pytest.mark.parametrize(
    "given", ["GB29NWBK60161331926819", "gb29 nwbk 6016 1331 9268 19", IBAN, "GB 29NWBK6016133192 6819"]
)
def test_an_account_has_one_spelling(bench: GateBench, given: str) -> None:
    gate, session, world = opened(bench, f"pay to {IBAN}")
    assert gate.call(session, "bank.pay", {"account": given}).status == "done"
    assert world.ran == [{"account": IBAN.replace(" ", "")}]


def test_within_a_structure_only_the_typed_spelling_is_vouched_for(bench: GateBench) -> None:
    gate, session, world = opened(bench, "share it with dora@example.org")
    loose = gate.call(session, "post.share", {"with": [{"who": "Dora@example.org"}]})
    assert (loose.status, codes(loose)) == ("pending", ["untrusted_argument"])
    assert gate.call(session, "post.share", {"with": [{"who": "dora@example.org"}]}).status == "done"
    assert len(world.ran) == 1


def test_an_approver_sees_and_lets_run_the_typed_spelling(bench: GateBench) -> None:
    gate, session, world = opened(bench, "look at https://example.org/a")
    gate.call(session, "notes.read", {})
    for _ in range(MOST_ALIKE):
        gate.call(session, "web.get", {"url": "https://example.org/a"})
    asked = gate.call(session, "web.get", {"url": "https://EXAMPLE.org/a"})
    assert codes(asked) == ["repeated_call", "respelled"]
    assert asked.decision.arguments == {"url": "https://example.org/a"}
    assert len(world.ran) == MOST_ALIKE


@pytest.mark.parametrize("spellings", [["https://example.org/a"], ["https://example.org/a", "http://EXAMPLE.org/a/"]])
def test_after_something_private_the_same_call_is_not_made_again_and_again(
    bench: GateBench, spellings: list[str]
) -> None:
    gate, session, world = opened(bench, "look at https://example.org/a")
    for _ in range(5):  # nothing was read yet that could be told
        assert gate.call(session, "web.get", {"url": "https://example.org/a"}).status == "done"
    assert gate.call(session, "notes.read", {}).status == "done"
    world.ran.clear()
    outcomes = [gate.call(session, "web.get", {"url": spellings[n % len(spellings)]}) for n in range(6)]
    assert [outcome.status for outcome in outcomes] == ["done"] * MOST_ALIKE + ["pending"] * (6 - MOST_ALIKE)
    assert len(world.ran) == MOST_ALIKE


def test_one_site_is_not_called_at_many_of_its_addresses(bench: GateBench) -> None:
    pages = [f"https://example.org/{n}" for n in range(8)]
    gate, session, world = opened(bench, f"look at {' '.join(pages)} and https://example.net/")
    assert gate.call(session, "notes.read", {}).status == "done"
    for page in pages:
        gate.call(session, "web.get", {"url": page})
    assert len(world.ran) == MOST_AT_ONE_HOST
    assert gate.call(session, "web.get", {"url": "https://example.net/"}).status == "done"


def test_sub_agents_share_the_count(bench: GateBench) -> None:
    gate, session, world = opened(bench, "look at https://example.org/a")
    assert gate.call(session, "notes.read", {}).status == "done"
    for n in range(4):
        gate.call(gate.child(session, f"sub{n}"), "web.get", {"url": "https://example.org/a"})
    assert len(world.ran) == MOST_ALIKE
