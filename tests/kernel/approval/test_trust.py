from dataclasses import replace
from pathlib import Path

import pytest

from overnight.core.errors import Refused, SettingsError, StoreError
from overnight.kernel import gate as gates
from overnight.kernel.approval.trust import Trust
from overnight.kernel.keys import SigningKey
from overnight.kernel.opening import open_gate
from overnight.kernel.rules.policy_files import policy_in_force, settle
from overnight.kernel.session import Principal
from overnight.kernel.simulation import Simulation
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.testing.gate_bench import GateBench
from overnight.workspace.workspace import Workspace

RULES = '```permissions\n[[rule]]\ntools = ["files.read"]\ndecision = "allow"\n```\n'
READ = ToolSpec("files.read", "read", (Argument("path", kind="path"),))


@pytest.fixture
def trust(bench: GateBench, config: Path) -> Trust:
    return Trust(bench.root, bench.parts.database, bench.parts.journal, SigningKey.open(config, "trust"))


def verdict(trust: Trust, agent: str = "a", path: str = "x") -> str:
    return policy_in_force(trust).matrix.rule(Principal(agent), READ, {"path": path}, {}).verdict


def test_a_change_waits_and_the_trusted_copy_rules(bench: GateBench, trust: Trust) -> None:
    rules = bench.root / "AGENTS.md"
    rules.write_text(RULES)
    assert verdict(trust) == "deny"
    (waiting,) = trust.pending()
    assert (waiting.path, waiting.known) == ("AGENTS.md", False)
    trust.trust([waiting], bench.approver)
    assert verdict(trust) == "allow"
    assert trust.pending() == []
    rules.write_text(RULES.replace('"allow"', '"ask"'))
    (waiting,) = trust.pending()
    assert '-decision = "allow"' in waiting.diff and '+decision = "ask"' in waiting.diff
    assert verdict(trust) == "allow"
    trust.trust([waiting], bench.approver)
    assert verdict(trust) == "ask"
    assert [entry.body["by"] for entry in bench.entries("trust")] == ["alex", "alex"]


def test_only_what_was_shown_is_trusted(bench: GateBench, trust: Trust) -> None:
    rules = bench.root / "AGENTS.md"
    rules.write_text(RULES)
    waiting = trust.pending()
    rules.write_text(RULES.replace('"files.read"', '"*"'))
    with pytest.raises(Refused, match="changed since"):
        trust.trust(waiting, bench.approver)
    assert trust.in_force("AGENTS.md") is None


def test_a_row_written_into_the_database_trusts_nothing(bench: GateBench, trust: Trust) -> None:
    (bench.root / "AGENTS.md").write_text(RULES)
    trust.trust(trust.pending(), bench.approver)
    bench.parts.database.execute("UPDATE trusted_files SET content = ?", (b"anything",))
    with pytest.raises(StoreError, match="was changed in the database"):
        policy_in_force(trust)
    other = Trust(bench.root, bench.parts.database, bench.parts.journal, SigningKey(b"k" * 32))
    with pytest.raises(StoreError):
        other.in_force("AGENTS.md")
    assert [item.path for item in trust.pending()] == ["AGENTS.md"]  # and it can be mended
    trust.trust(trust.pending(), bench.approver)
    assert trust.in_force("AGENTS.md") == RULES.encode()


def test_a_deleted_file_rules_until_its_deletion_is_trusted(bench: GateBench, trust: Trust) -> None:
    rules = bench.root / "AGENTS.md"
    rules.write_text(RULES)
    trust.trust(trust.pending(), bench.approver)
    rules.unlink()
    (waiting,) = trust.pending()
    assert waiting.sha256 == ""
    assert verdict(trust) == "allow"
    trust.trust([waiting], bench.approver)
    assert verdict(trust) == "deny"


def test_the_first_run_at_a_terminal_trusts_and_says_so(bench: GateBench, trust: Trust) -> None:
    program = bench.root / "arenas" / "one" / "program.md"
    program.parent.mkdir(parents=True)
    program.write_text("---\n---\n")
    with pytest.raises(Refused, match="never trusted"):
        trust.trust_first(["arenas/one/program.md"], by_person_at_terminal=False)
    assert trust.trust_first(["arenas/one/program.md"], by_person_at_terminal=True) == ["arenas/one/program.md"]
    assert trust.trust_first(["arenas/one/program.md"], by_person_at_terminal=False) == []
    program.write_text("changed")
    assert trust.trust_first(["arenas/one/program.md"], by_person_at_terminal=True) == []
    assert trust.in_force("arenas/one/program.md") == b"---\n---\n"


def test_nested_files_narrow_and_never_grant(bench: GateBench, trust: Trust) -> None:
    nested = bench.root / "docs" / "AGENTS.md"
    nested.parent.mkdir()
    nested.write_text(RULES)
    trust.trust(trust.pending(), bench.approver)
    assert verdict(trust, path="docs/x") == "deny"
    (bench.root / "AGENTS.md").write_text(RULES)
    own = bench.root / "agents" / "b" / "AGENTS.md"
    own.parent.mkdir(parents=True)
    own.write_text(RULES.replace('"allow"', '"ask"'))
    nested.write_text(RULES.replace('"allow"', '"deny"'))
    trust.trust(trust.pending(), bench.approver)
    assert verdict(trust, path="docs/x") == "deny"
    assert verdict(trust, path="src/x") == "allow"
    assert verdict(trust, "b", path="src/x") == "ask"
    assert verdict(trust, "b/c", path="src/x") == "ask"


def test_a_change_can_be_approved_in_the_inbox(bench: GateBench, trust: Trust) -> None:
    rules = bench.root / "AGENTS.md"
    rules.write_text(RULES)
    inbox = bench.parts.inbox
    assert settle(trust, inbox) == []
    assert inbox.pending() == []  # what was never trusted is not sneaked in by a yes to something else
    trust.trust(trust.pending(), bench.approver)
    rules.write_text(RULES.replace('"allow"', '"ask"'))
    assert settle(trust, inbox) == []
    (item,) = inbox.pending(kind="trust")
    assert '+decision = "ask"' in str(item.context["difference"])
    inbox.approve(item.id, bench.approver)
    rules.write_text(RULES.replace('"allow"', '"deny"'))  # another change than the one that was approved
    assert settle(trust, inbox) == []
    assert verdict(trust) == "allow"
    rules.write_text(RULES.replace('"allow"', '"ask"'))
    assert settle(trust, inbox) == ["AGENTS.md"]
    assert verdict(trust) == "ask"


def test_links_and_huge_files_are_not_trusted(bench: GateBench, trust: Trust, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(RULES)
    (bench.root / "AGENTS.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="plain file"):
        trust.pending()


def test_skills_settings_and_programs_are_watched_and_other_files_are_not(bench: GateBench, trust: Trust) -> None:
    for path in ("skills/x/SKILL.md", "skills/x/run.py", "overnight.toml", "program.md", "README.md", ".git/AGENTS.md"):
        (bench.root / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / path).write_text("x")
    assert [item.path for item in trust.pending()] == [
        "overnight.toml", "program.md", "skills/x/SKILL.md", "skills/x/run.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (RULES.replace("files.read", "files.reed").encode(), "did you mean 'files.read'"),
        (b"```permissions\n# \xff\xfe\n```\n", "AGENTS.md: not UTF-8 at byte 17"),
    ],
)
def test_a_file_with_a_mistake_is_not_put_in_force(bench: GateBench, content: bytes, words: str) -> None:
    (bench.root / "AGENTS.md").write_bytes(content)
    simulation = Simulation.open(Workspace.at(bench.root), compile_rules=False)
    try:
        waiting = simulation.trust.pending()
        with pytest.raises(SettingsError, match=words):
            simulation.check_rules(waiting)
        with pytest.raises(Refused, match="changed"):
            simulation.trust.trust([replace(waiting[0], sha256="0" * 64)], bench.approver)
    finally:
        simulation.close()


def test_a_byte_order_mark_hides_no_block(bench: GateBench, trust: Trust) -> None:
    (bench.root / "AGENTS.md").write_bytes(b"\xef\xbb\xbf" + RULES.encode())
    trust.trust(trust.pending(), bench.approver)
    assert verdict(trust) == "allow"


def test_combinations_of_two_files_have_names_of_their_own(bench: GateBench, trust: Trust) -> None:
    text = '```permissions\n[[combination]]\nname = "x"\nafter = [{ content = ["web"] }]\nthen = { effects = ["egress"] }\n```\n'
    (bench.root / "AGENTS.md").write_text(text)
    (bench.root / "sub").mkdir()
    (bench.root / "sub" / "AGENTS.md").write_text(text)
    first, second = trust.pending()
    trust.trust([first], bench.approver)
    simulation = Simulation.open(Workspace.at(bench.root))
    with pytest.raises(SettingsError, match="called 'x' already"):
        simulation.check_rules([second])
    simulation.close()
    trust.trust([second], bench.approver)
    with pytest.raises(SettingsError, match="called 'x' already"):
        policy_in_force(trust)


CLOCK = (
    '[[tool]]\nid = "clock.read"\neffect = "read"\n[[rule]]\ntools = ["clock.read", "files.list"]\ndecision = "allow"\n'
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"allow"', '"deny"'), ["rule_deny", "rule_deny"]),
        ((', "files.list"', ""), ["grant_denies", "allowed"]),
        (('effect = "read"', 'effect = "write"'), ["gate_failed"]),
    ],
)
def test_a_running_gate_goes_by_what_is_trusted_later(
    bench: GateBench, trust: Trust, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], said: list[str]
) -> None:
    monkeypatch.setattr(gates, "RENEW_S", 0.0)
    rules = bench.root / "AGENTS.md"
    rules.write_text(f"```permissions\n{CLOCK}```\n")
    trust.trust(trust.pending(), bench.approver)
    gate = open_gate(Workspace.at(bench.root))
    gate.implement("clock.read", lambda arguments: "noon")
    session = gate.open(Principal("a"), on_denied="continue")
    rules.write_text(rules.read_text().replace(*change))
    assert gate.call(session, "clock.read", {}).status == "done", "nobody trusted the change"
    trust.trust(trust.pending(), bench.approver)
    for _ in range(2):
        assert gate.call(session, "clock.read", {}).decision.reasons[0].code == said[0]
    for code in said[1:]:
        fresh = gate.open(Principal("a"), on_denied="continue")
        assert gate.call(fresh, "clock.read", {}).decision.reasons[0].code == code
    gate.close()
