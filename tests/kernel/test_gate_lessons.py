"""What broke other gateways, one test of its kind each, and each shown to succeed once the protection is taken away."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import SettingsError, UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.decide import Decider
from overnight.kernel.decision import Decision
from overnight.kernel.gate import Gate
from overnight.kernel.grants.grant import Terms
from overnight.kernel.ledger.ledger import Ledger
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.masking import Masker, MaskStream, Owner, Vault
from overnight.kernel.paths import PathRoot, Resolved
from overnight.kernel.rules import constraint
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Matrix
from overnight.kernel.session import Principal
from overnight.kernel.tool import catalogue
from overnight.kernel.tool.catalogue import Catalogue
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.store.database import Database
from overnight.testing.gate_bench import GateBench

ALL = '[[rule]]\nagents = ["a", "a/*", "b"]\ntools = ["*"]\ndecision = "allow"\n'
WORDS = "tell bob@example.org, post to www.example.org, write docs/x, read docs/x, delete mail 13"


def ran(gate: Gate, tool: str, arguments: Mapping[str, Json], principal: str = "a", request: str = WORDS) -> bool:
    session = gate.open(Principal(principal), request, on_denied="continue")
    return gate.call(session, tool, arguments).status in ("done", "failed")


@pytest.mark.parametrize("protected", [True, False])
def test_an_error_in_the_policy_is_a_denial(bench: GateBench, monkeypatch: pytest.MonkeyPatch, protected: bool) -> None:
    class FailOpen(Decider):
        def decide(self, *args: Any, **more: Any) -> Decision:
            found = super().decide(*args, **more)
            return replace(found, verdict="allow") if found.reasons[0].code == "decision_failed" else found

    def broken(*args: object) -> None:
        raise TimeoutError("hook")

    gate = bench.gate(ALL)
    if not protected:
        gate._decider = FailOpen(gate.catalogue, gate.paths, gate.policy)
    monkeypatch.setattr(Matrix, "rule", broken)
    assert ran(gate, "mail.read", {}) is not protected


@pytest.mark.parametrize("protected", [True, False])
def test_a_denied_tool_is_not_reached_by_its_alias(bench: GateBench, protected: bool) -> None:
    rules = ALL + '[[rule]]\ntools = ["files.read"]\ndecision = "deny"\n'
    if protected:
        assert not ran(bench.gate(rules), "read_text", {"path": "docs/x"})
        return
    # A gateway that matches names as they come sees another tool.
    other = ToolCode(ToolSpec("plain.read_text", "read"), lambda arguments: None)
    assert ran(bench.gate(rules, other), "plain.read_text", {})


def test_a_misspelt_default_action_is_an_error_and_not_ignored(bench: GateBench) -> None:
    deny = ALL + '[[rule]]\ntools = ["mail.read"]\ndecision = "deny"\n'
    assert not ran(bench.gate(deny), "mail.read", {})
    with pytest.raises(SettingsError, match="denny"):
        bench.gate(deny.replace('"deny"', '"denny"'))
    assert ran(bench.gate(ALL), "mail.read", {})


@pytest.mark.parametrize("protected", [True, False])
def test_what_was_read_in_private_is_not_posted(bench: GateBench, protected: bool) -> None:
    gate = bench.gate(ALL)
    if not protected:  # a gateway without memory, that looks at one call at a time
        code = gate._tools["mail.read"]
        gate._tools["mail.read"] = replace(code, spec=replace(code.spec, confidentiality="public"))
    session = gate.open(Principal("a"), WORDS, on_denied="continue")
    post = {"url": "www.example.org", "body": "c2VjcmV0"}
    assert gate.call(session, "web.post", post).status == "done"
    assert gate.call(session, "mail.read", {}).status == "done"
    outcome = gate.call(session, "web.post", post)
    assert (outcome.status == "done") is not protected
    if protected:
        assert outcome.decision.reasons[0].code == "confidential_egress"


def test_the_memo_of_a_payment_carries_nothing_private(bench: GateBench) -> None:
    memo = ToolSpec("bank.pay", "commit", (Argument("to", kind="account"), Argument("memo", kind="message")))
    gate = bench.gate(ALL, ToolCode(memo, lambda arguments: None))
    session = gate.open(Principal("a"), "pay GB29NWBK60161331926819 a refund", on_denied="continue")
    assert gate.call(session, "mail.read", {}).status == "done"
    pay = {"to": "GB29NWBK60161331926819", "memo": "refund"}
    assert gate.call(session, "bank.pay", pay).status == "done"
    assert gate.call(session, "bank.pay", pay | {"memo": "c2VjcmV0"}).decision.reasons[0].code == "confidential_egress"


@pytest.mark.parametrize("protected", [True, False])
def test_a_token_for_public_tools_does_not_reach_private_ones(bench: GateBench, protected: bool) -> None:
    gate = bench.gate(ALL)
    session = gate.open(Principal("a"), WORDS, on_denied="continue", terms=Terms(("web.*",) if protected else ("*",)))
    assert (gate.call(session, "mail.read", {}).status == "done") is not protected
    assert gate.call(session, "web.read", {"url": "www.example.org"}).status == "done"


@pytest.mark.parametrize("protected", [True, False])
def test_a_prohibition_holds_when_there_is_no_attribute_to_read(
    bench: GateBench, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        monkeypatch.setattr(Constraint, "catches", Constraint.allows)
    rules = ALL + '[[rule]]\ntools = ["web.post"]\narguments.url = { domain = ["evil.example"] }\ndecision = "deny"\n'
    gate = bench.gate(rules)
    url = "https://evil.example\\@www.example.org"
    request = f"post to '{url}'"
    assert gate.check(gate.open(Principal("a"), request), "web.post", {"url": "www.example.org", "body": ""}).verdict
    decision = gate.check(gate.open(Principal("a"), request), "web.post", {"url": url, "body": ""})
    assert (decision.verdict == "deny") is protected


@pytest.mark.parametrize("extra", ["", '[plan]\n"web.post" = ["post"]\n'])
@pytest.mark.parametrize(
    "more", ["", '[[combination]]\nname = "n"\nafter = [{ content = ["web"] }]\nthen = { families = ["shell"] }\n']
)
def test_no_check_depends_on_another_feature_being_on(bench: GateBench, extra: str, more: str) -> None:
    gate = bench.gate(ALL + more + extra)
    session = gate.open(Principal("a"), WORDS, on_denied="continue")
    assert gate.call(session, "mail.send", {"to": "x@evil.example", "body": ""}).status == "pending"
    assert gate.call(session, "files.read", {"path": "elsewhere"}).status == "pending"
    assert gate.call(session, "web.post", {"url": "www.example.org", "body": ""}).status == "done"


def test_the_approver_sees_the_arguments_that_will_run(bench: GateBench, tmp_path: Path) -> None:
    (bench.root / "docs").symlink_to(tmp_path)
    gate = bench.gate(ALL)
    session = gate.open(Principal("a"), on_denied="continue")
    outcome = gate.call(session, "files.write", {"path": "docs/./x/../y", "content": "\x1b[2K‮hidden"})
    (item,) = bench.parts.inbox.pending()
    assert item.bound["arguments"] == dict(outcome.decision.arguments)
    assert str(tmp_path / "y") in item.text()
    assert "\x1b" not in item.text() and "\u202e" not in item.text()
    assert "\\x1b" in item.text() and "\\u202e" in item.text()


def allowing(bench: GateBench, condition: str, decision: str = "allow") -> Gate:
    rule = f'[[rule]]\ntools = ["shell.run"]\narguments.command = {{ {condition} }}\ndecision = "{decision}"\n'
    return bench.gate(rule + ("" if decision == "allow" else ALL))


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("condition", ['program = ["git"]', 'starts_with = ["git "]', 'not_starts_with = ["rm "]'])
@pytest.mark.parametrize("command", ["git status && rm -rf x", "git status; rm x", "git status\nrm x", "git $(rm x)"])
def test_an_allowance_for_git_does_not_let_a_second_command_past(
    bench: GateBench, monkeypatch: pytest.MonkeyPatch, protected: bool, condition: str, command: str
) -> None:
    if not protected:
        monkeypatch.setattr(constraint, "_SHELL", frozenset())
    gate = allowing(bench, condition)
    assert ran(gate, "shell.run", {"command": "git status"})
    assert ran(gate, "shell.run", {"command": command}) is not protected


def test_an_allowance_for_git_is_none_for_what_only_begins_so(bench: GateBench) -> None:
    assert not ran(allowing(bench, 'program = ["git"]'), "shell.run", {"command": "git-evil"})
    assert ran(allowing(bench, 'starts_with = ["git"]'), "shell.run", {"command": "git-evil"})


@pytest.mark.parametrize("protected", [True, False])
def test_a_prohibition_finds_a_command_behind_another(
    bench: GateBench, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        monkeypatch.setattr(constraint, "_SHELL", frozenset())
    gate = allowing(bench, 'starts_with = ["rm "]', "deny")
    assert ran(gate, "shell.run", {"command": "git status"})
    assert ran(gate, "shell.run", {"command": "git status && rm -rf x"}) is not protected


@pytest.mark.parametrize("protected", [True, False])
def test_sub_agents_inherit_denials(bench: GateBench, protected: bool) -> None:
    gate = bench.gate(ALL + '[[rule]]\nagents = ["a"]\ntools = ["mail.read"]\ndecision = "deny"\n')
    parent = gate.open(Principal("a"), WORDS, on_denied="continue")
    # Without descent a sub-agent is just another agent.
    session = gate.child(parent, "b") if protected else gate.open(Principal("b"), WORDS, on_denied="continue")
    assert (gate.call(session, "mail.read", {}).status == "done") is not protected


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("target", ["docs/out/there", "docs/out/not-yet", "docs/dangling", "docs/../elsewhere"])
def test_a_link_does_not_lead_out_of_what_a_rule_allows(
    bench: GateBench, tmp_path: Path, protected: bool, target: str
) -> None:
    class Lexical(PathRoot):
        def resolve(self, path: str) -> Resolved:
            return Resolved(f"{self.root}/{path}", path, True, False)

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "there").write_text("old")
    (bench.root / "docs").mkdir()
    (bench.root / "docs" / "out").symlink_to(outside)
    (bench.root / "docs" / "dangling").symlink_to(outside / "new")
    gate = bench.gate('[[rule]]\ntools = ["files.write"]\narguments.path = { under = ["docs"] }\ndecision = "allow"')
    if not protected:
        gate._decider = Decider(gate.catalogue, Lexical(bench.root), gate.policy)
    session = gate.open(Principal("a"), f"write {target}", on_denied="continue")
    decision = gate.check(session, "files.write", {"path": target, "content": "new"})
    assert (decision.verdict == "allow") is not protected
    if protected:
        assert gate.call(session, "files.write", {"path": target, "content": "new"}).status == "denied"
        assert (outside / "there").read_text() == "old"


@pytest.mark.parametrize("protected", [True, False])
def test_limits_are_not_reset_by_a_restart(bench: GateBench, tmp_path: Path, protected: bool) -> None:
    limit = Limit("calls", 1, per=("agent",))
    assert ran(bench.gate(ALL, limits=(limit,)), "mail.read", {})
    gate = bench.gate(ALL)
    database = bench.parts.database if protected else Database(tmp_path / "another.db")
    gate._parts = replace(gate._parts, ledger=Ledger(database, (limit,)))
    assert ran(gate, "mail.read", {}) is not protected


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("by", ["a new session", "a sub-agent"])
def test_a_combination_is_not_forgotten(bench: GateBench, protected: bool, by: str) -> None:
    scope = "agent" if protected else "session"
    rules = ALL + (
        f'[[combination]]\nname = "after the web nothing leaves"\nafter = [{{ content = ["web"] }}]\n'
        f'then = {{ effects = ["egress"] }}\nscope = "{scope}"\n'
    )
    gate = bench.gate(rules)
    first = gate.open(Principal("a"), WORDS, on_denied="continue")
    send: Mapping[str, Json] = {"to": "bob@example.org", "body": "x"}
    assert gate.call(first, "mail.send", send).status == "done"
    second = gate.child(first, "b") if by == "a sub-agent" else gate.open(Principal("a"), WORDS, on_denied="continue")
    assert gate.call(first, "web.read", {"url": "www.example.org"}).status == "done"
    outcome = gate.call(second, "mail.send", send)
    # A tree's own history is shared with its sub-agents in either scope; only the new session can be fooled.
    assert (outcome.status == "done") is (not protected and by == "a new session")


def test_counting_over_several_systems(bench: GateBench) -> None:
    rules = ALL + (
        '[[combination]]\nname = "many"\n'
        'count = { of = { effects = ["write", "egress"] }, more_than = 2, servers = 2 }\ndecision = "ask"\n'
    )
    gate = bench.gate(rules)
    session = gate.open(Principal("a"), WORDS, on_denied="continue")
    write: Mapping[str, Json] = {"path": "docs/x", "content": ""}
    assert [gate.call(session, "shell.run", {"command": "x"}).status for _ in range(4)] == ["done"] * 4
    assert gate.call(session, "files.write", write).status == "pending"


def test_mail_to_an_outside_domain_after_reading_mail(bench: GateBench) -> None:
    rules = ALL + (
        '[[combination]]\nname = "out"\nafter = [{ content = ["mail"] }]\n'
        'then = { tools = ["mail.send"], arguments.to = { not_domain = ["example.org"] } }\n'
    )
    gate = bench.gate(rules)
    session = gate.open(Principal("a"), WORDS + " and eve@other.example", on_denied="continue")
    outside: Mapping[str, Json] = {"to": "eve@other.example", "body": "x"}
    assert gate.call(session, "mail.send", outside).status == "done"
    assert gate.call(session, "mail.read", {}).status == "done"
    assert gate.call(session, "mail.send", outside).decision.reasons[0].code == "combination"
    inside = gate.call(session, "mail.send", {"to": "bob@example.org", "body": "x"})
    assert "combination" not in [reason.code for reason in inside.decision.reasons]


def test_outside_the_plan_is_asked(bench: GateBench) -> None:
    gate = bench.gate(ALL + '[plan]\n"mail.delete" = ["delete", "remove"]\n"mail.send" = ["send", "tell"]\n')
    session = gate.open(Principal("a"), "tell bob@example.org about mail 13", on_denied="continue")
    assert gate.call(session, "mail.send", {"to": "bob@example.org", "body": "x"}).status == "done"
    outcome = gate.call(session, "mail.delete", {"id": "13"})
    assert outcome.status == "pending"
    assert "outside_plan" in [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize("protected", [True, False])
def test_a_homoglyph_is_refused_by_the_gate(bench: GateBench, monkeypatch: pytest.MonkeyPatch, protected: bool) -> None:
    if not protected:  # what "helpful" name matching does
        plain = Catalogue.resolve
        monkeypatch.setattr(Catalogue, "resolve", lambda self, name: plain(self, name.replace("\u0430", "a")))
    assert ran(bench.gate(ALL), "m\u0430il.read", {}) is not protected


@pytest.mark.parametrize("protected", [True, False])
def test_names_that_are_one_once_sanitised_are_not_registered_together(
    bench: GateBench, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        monkeypatch.setattr(catalogue, "sanitised", lambda name: name)
    gate = bench.gate(ALL)
    tools = [ToolCode(ToolSpec(name, "read"), lambda arguments: None) for name in ("x.demo/read", "x.demo_read")]
    gate.register(tools[0])
    if protected:
        with pytest.raises(UsageError, match="cannot be told from"):
            gate.register(tools[1])
    else:
        gate.register(tools[1])


@pytest.mark.parametrize("protected", [True, False])
@pytest.mark.parametrize("cut", [1, 8, 16, 20])
def test_personal_data_split_across_chunks_is_masked(protected: bool, cut: int) -> None:
    masker = Masker(Vault(Owner("acme", "a", "ses_1")))
    text = "write to carol.jones@example.org today"
    chunks = (text[: 9 + cut], text[9 + cut :])
    stream = MaskStream(masker)
    said = [stream.feed(chunk) for chunk in chunks] + [stream.finish()]
    shown = "".join(said) if protected else "".join(masker.mask(chunk).text for chunk in chunks)
    assert (shown.startswith("write to MASKED_EMAIL") and "example" not in shown) is protected
