"""Masking through the gate: models see placeholders, tools get values, records hold neither secrets nor personal data."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from overnight.core.errors import NotFound, Refused
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.decision import Outcome
from overnight.kernel.gate import Gate
from overnight.kernel.keys import secret_key
from overnight.kernel.masking import Vault
from overnight.kernel.masking.hiding import HidingPolicy, HidingRule
from overnight.kernel.masking.vault import PLACEHOLDER
from overnight.kernel.masking.vaults import Vaults
from overnight.kernel.parts import open_parts
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ResultField, ToolSpec
from overnight.store.database import Database
from overnight.testing.gate_bench import GateBench

ALL = '[[rule]]\nagents = ["a", "a/*", "b"]\ntools = ["*"]\ndecision = "allow"\n'
MASKED = ALL + '[[masking]]\nhide = "everything"\n'
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
MAIL = "carol@example.org"


def opened(gate: Gate, request: str = "", agent: str = "a") -> Session:
    return gate.open(Principal(agent), request, on_denied="continue")


def codes(outcome: Outcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def read(gate: Gate, session: Session, root: Path, text: str) -> str:
    """What the model sees of a file with this text."""
    (root / "notes.md").write_text(text)
    outcome = gate.call(session, "files.read", {"path": "notes.md"})
    assert outcome.status == "done", outcome
    return str(outcome.result)


def placeholder(text: str) -> str:
    found = PLACEHOLDER.search(text)
    assert found, text
    return found[0]


def everything_kept(bench: GateBench) -> str:
    """All that is on the disk in the clear: journal, inbox, sessions."""
    bench.parts.journal.sync()
    tables = ("journal_entries", "inbox_items", "breaker_trips", "combination_states")
    rows = [tuple(row) for table in tables for row in bench.parts.database.rows(f"SELECT * FROM {table}")]
    return json.dumps(rows)


def test_a_model_sees_placeholders_and_the_tool_gets_the_values(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    session = opened(gate, "read notes.md and copy it to docs/copy.md")
    (bench.root / "docs").mkdir()
    seen = read(gate, session, bench.root, f"key: {KEY}\nmail: {MAIL}\n")
    assert KEY not in seen and MAIL not in seen
    assert re.fullmatch(r"key: MASKED_KEY_\w+\nmail: MASKED_EMAIL_\w+\n", seen)
    assert gate.call(session, "files.write", {"path": "docs/copy.md", "content": f"# copy\n{seen}"}).status == "done"
    assert (bench.root / "docs" / "copy.md").read_text() == f"# copy\nkey: {KEY}\nmail: {MAIL}\n"
    kept = everything_kept(bench)
    assert KEY not in kept and MAIL not in kept


def test_what_is_decided_is_the_real_value(bench: GateBench) -> None:
    """Labels are traced, rules matched and limits counted with what would run."""
    rules = (
        MASKED + '[[rule]]\ntools = ["mail.send"]\narguments.to = { domain = ["evil.example"] }\ndecision = "deny"\n'
    )
    gate = bench.gate(rules)
    session = opened(gate, "answer Carol's mail with 'ok'")
    [mail] = cast(list[dict[str, str]], gate.call(session, "mail.read", {}).result)
    assert mail["from"].startswith("MASKED_EMAIL_") and MAIL not in str(mail)
    sent = gate.call(session, "mail.send", {"to": mail["from"], "body": "ok"})
    assert (sent.status, dict(bench.sent[0])) == ("done", {"to": MAIL, "body": "ok"})
    evil = placeholder(mail["body"])
    assert codes(gate.call(session, "mail.send", {"to": evil, "body": "ok"})) == ["rule_deny"]
    assert len(bench.sent) == 1


def test_a_value_goes_only_where_an_argument_may_carry_it(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    session = opened(gate, "read notes.md, post to https://www.example.org/x, mail bob@example.org")
    seen = read(gate, session, bench.root, f"key {KEY} of {MAIL}")
    key, mail = (found[0] for found in PLACEHOLDER.finditer(seen))
    url = "https://www.example.org/x"
    for secret in (key, f"it is {key}!", mail):
        outcome = gate.call(session, "web.post", {"url": url, "body": secret})
        assert codes(outcome) == ["confidential_egress"], outcome
        assert KEY not in str(outcome) and MAIL not in str(outcome)
    # The mail's body is declared to carry what is private: personal data may pass, a secret may not.
    body = {"to": "bob@example.org", "body": mail}
    assert codes(gate.call(session, "mail.send", {**body, "body": key})) == ["confidential_egress"]
    assert codes(gate.call(session, "mail.send", body)) == ["untrusted_link"]  # an address nobody vouches for: ask
    assert bench.sent == []


def test_a_rule_may_raise_what_an_argument_carries(bench: GateBench) -> None:
    rules = MASKED.replace(
        'decision = "allow"', 'decision = "allow"\narguments.body = { carries = "secret" }', 1
    ).replace('tools = ["*"]', 'tools = ["web.post"]')
    gate = bench.gate(rules + '[[rule]]\ntools = ["files.read"]\ndecision = "allow"\n')
    session = opened(gate, "read notes.md, post to https://www.example.org/x")
    key = placeholder(read(gate, session, bench.root, KEY))
    assert gate.call(session, "web.post", {"url": "https://www.example.org/x", "body": key}).status == "done"
    assert bench.sent[0]["body"] == KEY


def test_what_the_person_typed_may_be_said_where_they_want_it(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    request = f"mail bob@example.org that Anna Weber is at +1 202 555 0143, and post {KEY} to https://www.example.org/x"
    session = opened(gate, request)
    shown = gate.shown(session, request)
    assert KEY not in shown and "Anna Weber" not in shown
    bob, name, phone, key = (found[0] for found in PLACEHOLDER.finditer(shown))
    assert gate.call(session, "mail.send", {"to": bob, "body": f"{name} is at {phone}"}).status == "done"
    assert bench.sent[0] == {"to": "bob@example.org", "body": "Anna Weber is at +1 202 555 0143"}
    # A secret that was typed goes where it is all of the argument, not into a longer text.
    mixed = {"url": "https://www.example.org/x", "body": f"Anna's is {key}"}
    assert codes(gate.call(session, "web.post", mixed)) == ["confidential_egress"]
    assert gate.call(session, "web.post", {**mixed, "body": key}).status == "done"
    assert bench.sent[1]["body"] == KEY


def test_placeholders_of_other_sessions_stay_text(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    mine, theirs = opened(gate, "read notes.md, write docs/x"), opened(gate, "write docs/x", agent="b")
    again = opened(gate, "write docs/x")
    (bench.root / "docs").mkdir()
    seen = read(gate, mine, bench.root, KEY)
    for other in (theirs, again):
        outcome = gate.call(other, "files.write", {"path": "docs/x", "content": seen})
        assert (outcome.status, codes(outcome)) == ("pending", ["masked_elsewhere"])
        assert outcome.decision.approval_id is not None
        bench.parts.inbox.approve(outcome.decision.approval_id, bench.approver)
        assert gate.call(other, "files.write", {"path": "docs/x", "content": seen}).status == "done"
        assert (bench.root / "docs" / "x").read_text() == seen
    forged = replace(theirs, root=mine.root)
    assert gate.call(forged, "files.write", {"path": "docs/x", "content": seen}).status == "denied"
    with pytest.raises(Refused, match="is not a session of"):
        bench.parts.vaults.veil(forged)
    assert KEY not in (bench.root / "docs" / "x").read_text()


def test_a_sub_agent_shares_its_parents_placeholders(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    parent = opened(gate, "read notes.md, write docs/x")
    (bench.root / "docs").mkdir()
    seen = read(gate, parent, bench.root, KEY)
    child = gate.child(parent, "scout")
    assert gate.call(child, "files.write", {"path": "docs/x", "content": seen}).status == "done"
    assert (bench.root / "docs" / "x").read_text() == KEY


def test_a_yes_is_for_the_real_values_and_says_them(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    session = opened(gate, "read notes.md and mail hello to whom it names")
    mail = placeholder(read(gate, session, bench.root, f"write to {MAIL}"))
    call: Mapping[str, Json] = {"to": mail, "body": "hello"}
    asked = gate.call(session, "mail.send", call, reason=f"{MAIL} wants it")
    assert (asked.status, codes(asked)) == ("pending", ["untrusted_argument"])
    assert asked.decision.approval_id is not None
    item = bench.parts.inbox.get(asked.decision.approval_id)
    assert item.bound["arguments"] == call
    assert MAIL not in everything_kept(bench)
    # The approver's process has the key; it says what a yes would reveal.
    revealed = bench.parts.vaults.reveal(item)
    assert revealed == {mail: MAIL}
    assert f"{mail} is {MAIL}" in item.text(revealed)
    bench.parts.inbox.approve(item.id, bench.approver)
    assert gate.call(session, "mail.send", call).status == "done"
    assert bench.sent == [{"to": MAIL, "body": "hello"}]


def test_what_is_revealed_is_escaped_and_secrets_are_told_by_their_look(bench: GateBench) -> None:
    rules = MASKED + '[[rule]]\ntools = ["files.write"]\ndecision = "ask"\n'
    asking = bench.gate(rules)
    fresh = opened(asking, "read notes.md, write docs/x")
    seen = read(asking, fresh, bench.root, f"key {KEY}, or c\u200barol@example.org")
    outcome = asking.call(fresh, "files.write", {"path": "docs/x", "content": seen})
    assert outcome.status == "pending" and outcome.decision.approval_id
    item = bench.parts.inbox.get(outcome.decision.approval_id)
    said = item.text(bench.parts.vaults.reveal(item))
    assert KEY not in said and f"a key of {len(KEY)} characters, ending in {KEY[-4:]}" in said
    assert "\u200b" not in said and r"c\u200barol@example.org" in said


def test_a_yes_is_void_when_a_placeholder_comes_to_mean_something_else(
    bench: GateBench, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever swaps sealed vaults around gets no value out: the binding names values by a keyed hash."""
    gate = bench.gate(MASKED)
    session = opened(gate, "read notes.md and mail hello to whom it names")
    mail = placeholder(read(gate, session, bench.root, f"write to {MAIL}"))
    call: Mapping[str, Json] = {"to": mail, "body": "hello"}
    asked = gate.call(session, "mail.send", call)
    assert asked.decision.approval_id is not None
    item = bench.parts.inbox.get(asked.decision.approval_id)
    bench.parts.inbox.approve(item.id, bench.approver)
    vault = bench.parts.vaults.veil(session).vault
    entry = vault.entry(mail)
    assert entry is not None
    vault._entries[mail] = replace(entry, text="mallory@evil.example")
    with pytest.raises(NotFound, match="deny it"):
        bench.parts.vaults.reveal(item)
    assert gate.call(session, "mail.send", call).status == "pending"
    assert bench.sent == []


def test_placeholders_outlive_a_restart_and_open_with_the_key_alone(
    bench: GateBench, database: Database, tmp_path: Path
) -> None:
    gate = bench.gate(MASKED)
    session = opened(gate, "read notes.md, write docs/x")
    (bench.root / "docs").mkdir()
    seen = read(gate, session, bench.root, KEY)
    sealed = bytes(database.rows("SELECT sealed FROM vaults")[0]["sealed"])
    assert KEY.encode() not in sealed
    later = GateBench.__new__(GateBench)
    later.root, later.parts, later.sent, later.deleted = bench.root, open_parts(bench.root, database), [], []
    restarted = later.gate(MASKED)
    assert restarted.call(session, "files.write", {"path": "docs/x", "content": seen}).status == "done"
    assert (bench.root / "docs" / "x").read_text() == KEY
    later.parts.journal.close()
    elsewhere = Vaults(database, secret_key(tmp_path / "another", "vault"))
    with pytest.raises(Refused, match="cannot be opened"):
        elsewhere.veil(session)


def test_a_vault_moved_to_another_session_does_not_open(bench: GateBench, database: Database) -> None:
    gate = bench.gate(MASKED)
    mine, theirs = opened(gate, "read notes.md"), opened(gate, "write docs/x", agent="b")
    seen = read(gate, mine, bench.root, KEY)
    row = database.rows("SELECT sealed FROM vaults")[0]
    database.execute(
        "INSERT INTO vaults (root, tenant, agent, sealed) VALUES (?, 'default', 'b', ?)", (theirs.root, row["sealed"])
    )
    outcome = gate.call(theirs, "files.write", {"path": "docs/x", "content": seen})
    assert (outcome.status, codes(outcome)) == ("denied", ["gate_failed"])
    assert not (bench.root / "docs").exists()


def test_what_a_tool_echoes_of_a_password_stays_hidden(bench: GateBench) -> None:
    """A word that looks like nothing is known by what it was used for."""
    spec = ToolSpec(
        "site.login", "write", (Argument("password", kind="password"), Argument("pin", "integer", required=False))
    )
    given: list[Mapping[str, Json]] = []

    def login(arguments: Mapping[str, Json]) -> Json:
        given.append(arguments)
        if len(given) == 2:
            raise ValueError(f"wrong: {arguments['password']}")
        return {"said": f"welcome, {arguments['password']} is fine", "pin": arguments.get("pin")}

    gate = bench.gate(MASKED, ToolCode(spec, login))
    session = opened(gate, "read notes.md and log in with what it says")
    seen = read(gate, session, bench.root, "password: correct-horse-77\ncard: 4111111111111111")
    word, card = (found[0] for found in PLACEHOLDER.finditer(seen))
    asked = gate.call(session, "site.login", {"password": word, "pin": card})
    assert asked.status == "pending" and asked.decision.approval_id
    bench.parts.inbox.approve(asked.decision.approval_id, bench.approver)
    done = gate.call(session, "site.login", {"password": word, "pin": card})
    assert given == [{"password": "correct-horse-77", "pin": 4111111111111111}]
    assert done.result == {"said": f"welcome, {word} is fine", "pin": card}
    asked = gate.call(session, "site.login", {"password": word})
    assert asked.decision.approval_id
    bench.parts.inbox.approve(asked.decision.approval_id, bench.approver)
    failed = gate.call(session, "site.login", {"password": word})
    assert failed.status == "failed" and word in failed.error
    for text in (str(done), str(failed), everything_kept(bench)):
        assert "correct-horse-77" not in text and "4111111111111111" not in text


def test_values_hide_in_keys_lists_numbers_and_reasons(bench: GateBench) -> None:
    spec = ToolSpec("crm.list", "read", fields=(ResultField("*.id", "system", "id"),))
    rows: Json = {MAIL: [{"id": "7", "card": 5555555555554444, "password": "hunter2-hunter2"}]}
    gate = bench.gate(MASKED, ToolCode(spec, lambda arguments: rows))
    session = opened(gate)
    outcome = gate.call(session, "crm.list", {}, reason=f"because {MAIL} said so")
    text = canonical_json(outcome.result).decode()
    for value in (MAIL, "5555555555554444", "hunter2-hunter2"):
        assert value not in text and value not in everything_kept(bench)
    assert '"id":"7"' in text


@pytest.mark.parametrize(
    ("hide", "model_sees", "record_holds"),
    [
        ("everything", (False, False), False),
        ("secrets", (False, True), False),
        ("record", (True, True), False),
        ("nothing", (True, True), True),
    ],
)
def test_how_much_is_hidden_is_set_by_agent(
    bench: GateBench, hide: str, model_sees: tuple[bool, bool], record_holds: bool
) -> None:
    gate = bench.gate(
        f'{ALL}[[masking]]\nagents = ["a"]\nhide = "{hide}"\n[[masking]]\nagents = ["b"]\nhide = "everything"\n'
    )
    session = opened(gate, "read notes.md, write docs/x")
    (bench.root / "docs").mkdir()
    seen = read(gate, session, bench.root, f"key {KEY} of {MAIL}")
    assert (KEY in seen, MAIL in seen) == model_sees
    gate.call(session, "files.write", {"path": "docs/x", "content": f"key {KEY} of {MAIL}"})
    kept = everything_kept(bench)
    assert (KEY in kept, MAIL in kept) == (record_holds, record_holds)
    other = opened(gate, "read notes.md", agent="b")
    assert KEY not in read(gate, other, bench.root, KEY)


def test_the_strictest_table_holds_and_sub_agents_inherit() -> None:
    rules = (HidingRule("nothing"), HidingRule("everything", ("a",), names=("Heron",)), HidingRule("secrets", ("a/b",)))
    policy = HidingPolicy(rules)
    assert [policy.of(Principal(agent)).hide for agent in ("a", "a/b", "c")] == ["everything", "everything", "nothing"]
    assert HidingPolicy(rules[::-1]).of(Principal("a/b")) == policy.of(Principal("a/b"))
    assert policy.of(Principal("a/b/c")).names == ("Heron",)
    assert (
        HidingPolicy((HidingRule("nothing", tenants=("red",)),), "everything").of(Principal("a")).hide == "everything"
    )


def test_names_of_the_workspace_are_hidden(bench: GateBench) -> None:
    gate = bench.gate(f'{ALL}[[masking]]\nhide = "everything"\nnames = ["Blue Heron"]\n')
    session = opened(gate, "read notes.md")
    assert "Blue Heron" not in read(gate, session, bench.root, "the deal with Blue Heron is off")


def test_a_result_that_cannot_be_masked_is_withheld(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = bench.gate(MASKED)
    session = opened(gate, "read notes.md")
    monkeypatch.setattr(Vault, "seal", lambda *args: 1 / 0)
    (bench.root / "notes.md").write_text(KEY)
    outcome = gate.call(session, "files.read", {"path": "notes.md"})
    assert (outcome.status, outcome.result) == ("failed", None)
    assert "withheld" in outcome.error and KEY not in str(outcome)


def test_a_yes_counts_in_the_agents_next_session_once_and_for_nobody_else(bench: GateBench) -> None:
    gate = bench.gate(MASKED)
    call: Mapping[str, Json] = {"to": MAIL, "body": "hello"}
    asked = gate.call(opened(gate), "mail.send", call)
    assert asked.decision.approval_id is not None
    bench.parts.inbox.approve(asked.decision.approval_id, bench.approver)
    assert gate.call(opened(gate, agent="b"), "mail.send", call).status == "pending"
    assert gate.call(opened(gate), "mail.send", {**call, "body": "hello!"}).status == "pending"
    done = gate.call(opened(gate), "mail.send", call)
    assert (done.status, done.decision.approval_id) == ("done", asked.decision.approval_id)
    assert gate.call(opened(gate), "mail.send", call).status == "pending"
    assert bench.sent == [{"to": MAIL, "body": "hello"}]


def test_whoever_writes_into_the_inbox_cannot_show_one_call_and_have_another_run(
    bench: GateBench, database: Database
) -> None:
    gate = bench.gate(MASKED)
    session = opened(gate, "mail bob@example.org that all is well")
    evil: Mapping[str, Json] = {"to": "mallory@evil.example", "body": "hello"}
    wanted = gate.call(session, "mail.send", evil)
    assert wanted.status == "pending" and wanted.decision.approval_id is not None
    item = bench.parts.inbox.get(wanted.decision.approval_id)
    # A question that shows a friendly call, with the hash of the evil one, and everything else made to fit.
    friendly = {**item.bound, "arguments": {"to": "bob@example.org", "body": "all is well"}}
    fake = bench.parts.inbox.add(
        "approval", "a friendly question", friendly, session="ses_x", tenant="default", agent="a"
    )
    bench.parts.inbox.approve(fake.id, bench.approver)
    assert gate.call(session, "mail.send", evil).status == "pending"
    assert gate.call(opened(gate), "mail.send", evil).status == "pending"
    assert bench.sent == []
