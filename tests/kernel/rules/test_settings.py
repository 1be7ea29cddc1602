"""What the root AGENTS.md sets besides rules, how mistakes in it are said, and that it is in force as last trusted."""

from dataclasses import replace
from pathlib import Path

import pytest

from overnight.core.errors import SettingsError
from overnight.kernel.approval.trust import Trust
from overnight.kernel.keys import SigningKey
from overnight.kernel.ledger.burst import Burst
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.rules.policy_files import policy_in_force
from overnight.kernel.rules.rulebook import parse
from overnight.kernel.rules.settings import RuleSettings
from overnight.kernel.session import Principal
from overnight.testing.gate_bench import GateBench

ALL = '[[rule]]\nagents = ["a"]\ntools = ["*"]\ndecision = "allow"\n'
WEB_THEN_MAIL = """[[combination]]
name = "web then mail"
after = [{ content = ["web"] }]
then = { tools = ["mail.send"] }
"""


def settings(block: str) -> RuleSettings:
    return parse(f"# Rules\n\nText.\n\n```permissions\n{block}\n```\n", "AGENTS.md").settings


def test_thresholds_limits_and_quorum_are_read() -> None:
    found = settings(
        """[breaker]
calls_per_s = 2
sustained = "30s"
fragments = "2h"
families.mail = { calls_per_s = 1, sustained = "5s" }
families.files = "never"

[[limit]]
amount = 3
unit = "calls"
window = "minute"
per = ["agent"]
only = { tool = "mail.*" }

[approvals]
destructive = 2
"""
    )
    assert found.bursts.default == Burst(2, 30)
    assert found.bursts.families == {"mail": Burst(1, 5), "files": None}
    assert found.fragments_s == 7200
    assert found.limits == (Limit("calls", 3, "minute", ("agent",), (("tool", "mail.*"),)),)
    assert found.destructive_quorum


def test_families_may_be_a_table_of_their_own() -> None:
    assert settings('[breaker.families]\nfiles = "never"').bursts.families == {"files": None}


@pytest.mark.parametrize(
    ("block", "line", "words"),
    [
        ("[breaker]\ncalls_per_sec = 2", 7, "did you mean 'calls_per_s'"),
        ("[breaker]\n\ncalls_per_s = 0", 6, "no burst"),
        ('[breaker]\nsustained = "soon"', 7, "not a duration"),
        ('[breaker]\nfamilies.mail = { calls_per_s = 2, sustaind = "1s" }', 7, "did you mean 'sustained'"),
        ('[breaker]\nfamilies.mail = "off"', 7, '"never"'),
        ('[breaker.families]\nmail = "off"', 7, '"never"'),
        ("[breakr]\ncalls_per_s = 2", 6, "did you mean 'breaker'"),
        ('[[masking]]\nhide = "all"', 7, "known: everything, nothing, record, secrets"),
        ('[[masking]]\nhide = "secrets"\nagent = ["a"]', 8, "did you mean 'agents'"),
        ('[[masking]]\nhide = "secrets"\nagents = ["A b"]', 6, "can never match"),
        ('[[masking]]\nhide = "secrets"\nnames = [" "]', 6, "hide everything"),
        ('[[limit]]\namount = 1\nunit = "cals"', 8, "did you mean 'calls'"),
        ('[[limit]]\namount = -1\nunit = "calls"', 6, "is none"),
        ('[[limit]]\namount = 1\nunit = "calls"\nper = ["person"]', 6, "cannot be per"),
        ('[[limit]]\namount = 1\nunit = "calls"\nonly = { tol = "x" }', 9, "did you mean 'tool'"),
        ("[approvals]\ndestructive = 3", 6, "one approver, or two"),
        ("[approvals]\ndestructiv = 2", 7, "did you mean 'destructive'"),
        (WEB_THEN_MAIL + 'fragment = "1h"', 10, "did you mean 'fragments'"),
    ],
)
def test_a_mistake_is_an_error_with_its_line_and_a_suggestion(block: str, line: int, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(block)
    assert caught.value.message.startswith(f"AGENTS.md:{line}:"), caught.value.message
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_a_table_that_holds_for_all_stands_once() -> None:
    with pytest.raises(SettingsError, match=r"AGENTS.md:5: \[breaker\] stands at AGENTS.md:2 already"):
        parse("```permissions\n[breaker]\n```\n```permissions\n[breaker]\n```\n", "AGENTS.md")


@pytest.mark.parametrize(
    "block",
    [
        '[[masking]]\nhide = "nothing"',
        "[breaker]\ncalls_per_s = 900",
        '[[limit]]\namount = 9\nunit = "calls"',
        "[approvals]",
    ],
)
def test_nested_files_loosen_nothing(block: str) -> None:
    for where in ({"agent": "a"}, {"folder": "docs"}):
        with pytest.raises(SettingsError, match="nested file cannot set"):
            parse(f"```permissions\n{block}\n```\n", "x/AGENTS.md", **where)


def test_settings_are_in_force_as_last_trusted(bench: GateBench, config: Path) -> None:
    trust = Trust(bench.root, bench.parts.database, bench.parts.journal, SigningKey.open(config, "trust"))
    file = bench.root / "AGENTS.md"
    file.write_text(f"```permissions\n{ALL}{WEB_THEN_MAIL}```\n")
    assert policy_in_force(trust).hiding.of(Principal("a")).hide == "everything", "also before anything is trusted"
    trust.trust(trust.pending(), bench.approver)
    before = policy_in_force(trust)
    assert before.hiding.of(Principal("a")).hide == "everything"
    assert [rule.within_s for rule in before.combinations if rule.twin] == [3600]
    block = f'{ALL}{WEB_THEN_MAIL}[breaker]\ncalls_per_s = 1\nfragments = "5m"\n[[masking]]\nhide = "secrets"\n'
    file.write_text(f"```permissions\n{block}```\n")
    assert policy_in_force(trust).hash == before.hash
    trust.trust(trust.pending(), bench.approver)
    after = policy_in_force(trust)
    assert after.hash != before.hash
    assert after.bursts.default == Burst(1, 10)
    assert [rule.within_s for rule in after.combinations if rule.twin] == [300]
    assert after.hiding.of(Principal("a")).hide == "secrets"


@pytest.mark.parametrize(("fragments", "expected"), [('"5m"', [300.0]), ("0", [])])
def test_a_combination_may_have_its_own_window(
    bench: GateBench, config: Path, fragments: str, expected: list[float]
) -> None:
    trust = Trust(bench.root, bench.parts.database, bench.parts.journal, SigningKey.open(config, "trust"))
    block = f'{ALL}{WEB_THEN_MAIL}fragments = {fragments}\n[breaker]\nfragments = "2h"\n'
    (bench.root / "AGENTS.md").write_text(f"```permissions\n{block}```\n")
    trust.trust(trust.pending(), bench.approver)
    assert [rule.within_s for rule in policy_in_force(trust).combinations if rule.twin] == expected


def test_the_gate_stops_at_the_speed_that_is_set(bench: GateBench) -> None:
    gate = bench.gate(
        ALL + '[breaker]\nfamilies.files = { calls_per_s = 3, sustained = "1s" }\nfamilies.mail = "never"\n'
    )
    session = gate.open(Principal("a"), "list .", on_denied="continue")
    assert all(gate.call(session, "mail.read", {}).status == "done" for _ in range(60))
    (bench.root / "x").write_text("x")
    session = gate.open(Principal("a"), "read x", on_denied="continue")
    codes = [gate.call(session, "files.read", {"path": "x"}).decision.reasons[0].code for _ in range(4)]
    assert codes == ["allowed", "allowed", "breaker", "session_stopped"]


def test_a_limit_that_is_set_holds(bench: GateBench) -> None:
    gate = bench.gate(ALL + '[[limit]]\namount = 2\nunit = "calls"\nonly = { tool = "mail.*" }\n')
    session = gate.open(Principal("a"), on_denied="continue")
    codes = [gate.call(session, "mail.read", {}).decision.reasons[0].code for _ in range(3)]
    assert codes == ["allowed", "allowed", "limit_exceeded"]
    other = replace(gate.policy, limits=(Limit("calls", 3, only=(("tool", "mail.*"),)),))
    gate.use_policy(other)
    session = gate.open(Principal("a"), on_denied="continue")
    assert gate.call(session, "mail.read", {}).status == "done", "what was counted stays counted, the amount is new"
    assert gate.call(session, "mail.read", {}).decision.reasons[0].code == "limit_exceeded"
