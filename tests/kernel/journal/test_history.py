import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from overnight.core.errors import NotFound, Refused, StoreError, UsageError
from overnight.kernel.approval.approver import Approver
from overnight.kernel.journal.export import verify_export
from overnight.kernel.journal.history import History
from overnight.kernel.journal.journal import Change, Draft, Journal
from overnight.store.blobs import Blobs
from overnight.store.database import Database


@dataclass
class Past:
    journal: Journal
    history: History
    blobs: Blobs
    database: Database


@pytest.fixture
def past(database: Database, tmp_path: Path) -> Iterator[Past]:
    journal, blobs = Journal.open(database), Blobs(tmp_path / "blobs")
    yield Past(journal, History(database, journal, blobs), blobs, database)
    journal.close()


def change(journal: Journal, thing: str, before: str | None, after: str | None) -> int:
    return journal.append(Draft("result", {"grüße": 1.5}, "act", changes=(Change(thing, before, after),))).last


def test_the_state_of_every_object_at_any_entry(past: Past) -> None:
    one, two = past.blobs.put(b"one"), past.blobs.put(b"two")
    steps = [
        change(past.journal, "file:a", None, one),
        change(past.journal, "git:refs/heads/x", None, "c1"),
        change(past.journal, "file:a", one, two),
        change(past.journal, "file:a", two, None),
    ]
    assert past.history.state_at(1) == {}
    assert past.history.state_at(steps[0]) == {"file:a": one}
    assert past.history.state_at(steps[2]) == {"file:a": two, "git:refs/heads/x": "c1"}
    assert past.history.state_at(steps[3]) == {"file:a": None, "git:refs/heads/x": "c1"}
    assert past.history.before(steps[3]) == {"file:a": two}
    assert past.blobs.get(two) == b"two"
    with pytest.raises(NotFound, match="not 99"):
        past.history.state_at(99)


def test_an_export_is_checked_without_the_database(past: Past, tmp_path: Path) -> None:
    for number in range(5):
        change(past.journal, f"file:{number}", None, "x")
    path = tmp_path / "out.jsonl"
    head = past.history.export(path)
    assert verify_export(path, past.journal.public) == head == verify_export(path)
    lines = path.read_text().splitlines()
    assert len(lines) == 8 and all(json.loads(line) for line in lines)
    with pytest.raises(UsageError, match="exists already"):
        past.history.export(path)
    with pytest.raises(StoreError):
        past.history.export(tmp_path / "no" / "such" / "folder")


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: lines[:-1],
        lambda lines: [*lines[:3], *lines[4:]],
        lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
        lambda lines: [*lines[:-2], lines[-1]],
        lambda lines: [*lines, lines[2]],
        lambda lines: [line.replace("1.5", "1.6") for line in lines],
        lambda lines: [line.replace('"act"', '"act2"', 1) for line in lines],
        lambda lines: ["{}", *lines[1:]],
        lambda lines: ["[]"],
        lambda lines: [],
    ],
)
def test_a_changed_export_is_refused(past: Past, tmp_path: Path, damage: object) -> None:
    for number in range(5):
        change(past.journal, f"file:{number}", None, "x")
    path = tmp_path / "out.jsonl"
    past.history.export(path)
    assert callable(damage)
    path.write_text("".join(f"{line}\n" for line in damage(path.read_text().splitlines())))
    with pytest.raises(UsageError):
        verify_export(path, past.journal.public)


def test_an_export_of_another_key_is_refused(past: Past, tmp_path: Path) -> None:
    past.history.export(tmp_path / "out.jsonl")
    with pytest.raises(UsageError, match="not those that were signed"):
        verify_export(tmp_path / "out.jsonl", bytes(32))


def test_retired_entries_go_into_an_export_and_the_rest_still_verifies(past: Past, tmp_path: Path) -> None:
    ada = Approver().create("ada")
    for number in range(2500):
        past.journal.append(Draft("note", {"n": number}), durable=number % 500 == 0)
    change(past.journal, "file:a", None, "x")
    change(past.journal, "file:b", None, "y")
    before = past.history.state_at(past.journal.head().size)
    went = past.history.retire(2200, tmp_path / "old.jsonl", ada, Approver())
    assert 0 < went <= 2200
    assert verify_export(tmp_path / "old.jsonl", past.journal.public).size == went
    found = past.journal.verify()
    assert found.ok and found.retired == went and found.anchored
    assert past.history.state_at(past.journal.head().size) == before
    with pytest.raises(NotFound, match="retired to"):
        past.history.state_at(1)
    later = past.history.retire(past.journal.head().size, tmp_path / "newer.jsonl", ada, Approver())
    assert later > went
    assert verify_export(tmp_path / "newer.jsonl", past.journal.public).size == later
    assert past.history.state_at(past.journal.head().size) == before
    change(past.journal, "file:a", "x", "z")
    reopened = Journal.open(Database(past.database.path))
    assert reopened.verify().ok
    reopened.close()


def test_entries_dropped_without_retiring_them_are_missed(past: Past, tmp_path: Path) -> None:
    ada = Approver().create("ada")
    for number in range(1100):
        past.journal.append(Draft("note", {"n": number}), durable=number % 200 == 0)
    past.journal.sync()
    past.history.retire(1000, tmp_path / "old.jsonl", ada, Approver())
    first = past.database.row("SELECT MIN(seq) AS seq FROM journal_entries")
    assert first is not None
    past.database.execute("DELETE FROM journal_entries WHERE seq = ?", (first["seq"],))
    assert past.journal.verify().first_bad == first["seq"]


def test_retiring_needs_the_approver_and_something_to_retire(past: Past, tmp_path: Path) -> None:
    ada = Approver().create("ada")
    eve = Approver(tmp_path / "elsewhere").create("eve")
    with pytest.raises(Refused, match="no approver here"):
        past.history.retire(10, tmp_path / "old.jsonl", eve, Approver())
    past.journal.append(Draft("note", {}))
    past.database.execute("UPDATE journal_entries SET agent = 'other' WHERE seq = 2")
    with pytest.raises(StoreError, match="entry 2 is not as it was written"):
        past.history.retire(10, tmp_path / "old.jsonl", ada, Approver())
    past.database.execute("UPDATE journal_entries SET agent = '' WHERE seq = 2")
    with pytest.raises(UsageError, match="no signed head"):
        past.history.retire(0, tmp_path / "old.jsonl", ada, Approver())
