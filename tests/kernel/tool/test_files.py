from pathlib import Path

import pytest

from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.files import file_tools
from overnight.testing.gate_bench import GateBench

RULES = '[[rule]]\ntools = ["files.*"]\narguments.path = { under = ["docs"] }\ndecision = "allow"'


@pytest.fixture
def session(bench: GateBench) -> Session:
    (bench.root / "docs").mkdir()
    return bench.gate(RULES).open(Principal("a"), "write docs/a.md", on_denied="continue")


def call(bench: GateBench, session: Session, tool: str, **arguments: str) -> object:
    gate = bench.gate(RULES)
    for code in file_tools(gate.paths):
        gate._tools[code.spec.id] = code
        if code.spec.id not in gate.catalogue:
            gate.catalogue.add(code.spec)
    outcome = gate.call(session, tool, arguments)
    return outcome.result if outcome.status == "done" else (outcome.status, outcome.error)


def test_files_are_written_read_listed_and_deleted_below_what_the_rule_allows(
    bench: GateBench, session: Session
) -> None:
    assert call(bench, session, "files.write", path="docs/a.md", content="grün") == {"bytes": 5}
    assert call(bench, session, "files.write", path="docs/a.md", content="x") == {"bytes": 1}
    assert call(bench, session, "files.read", path="docs/a.md") == "x"
    assert call(bench, session, "files.list", path="docs") == ["a.md"]
    assert call(bench, session, "files.delete", path="docs/a.md") is None
    assert not (bench.root / "docs" / "a.md").exists()


def test_what_is_no_plain_file_is_neither_read_nor_written(bench: GateBench, session: Session) -> None:
    import os

    os.mkfifo(bench.root / "docs" / "pipe")
    assert call(bench, session, "files.read", path="docs/pipe")[0] == "failed"  # type: ignore[index]
    assert call(bench, session, "files.read", path="docs")[0] == "failed"  # type: ignore[index]


def test_a_deleted_file_can_be_had_back(bench: GateBench, session: Session) -> None:
    place = Path(bench.root / "docs" / "a.md")
    place.write_text("precious")
    assert call(bench, session, "files.delete", path="docs/a.md") is None
    (entry,) = [entry for entry in bench.entries("result") if entry.changes]
    (change,) = entry.changes
    assert change.after is None
    assert bench.parts.blobs.get(str(change.before)) == b"precious"
