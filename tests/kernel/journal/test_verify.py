import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.core.errors import StoreError, UsageError
from overnight.kernel.journal.anchor import anchor_in_git, anchors_in_git, parse_anchor, write_anchor
from overnight.kernel.journal.entry import chained, content, genesis
from overnight.kernel.journal.head import Head
from overnight.kernel.journal.journal import Change, Draft, Journal
from overnight.kernel.journal.merkle import Tree
from overnight.kernel.journal.verify import Verification, verify
from overnight.kernel.keys import SigningKey
from overnight.store.database import Database
from overnight.store.git.repository import Repository

SIZE = 40
COLUMNS = ["at_us", "kind", "action", "session", "tenant", "agent", "tool", "objects", "body", "hash"]


class Template:
    """A journal of SIZE entries that each test damages a copy of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config"
        self.file, self.whole = folder / "data" / "workspace.db", folder / "data" / "whole.db"
        database = Database(self.file)
        journal = Journal.open(database, self.config)
        self.early: list[Head] = []
        for number in range(SIZE - 1):
            change = (Change(f"file:{number % 3}", None, f"blob{number}"),) if number % 4 == 0 else ()
            journal.append(Draft("note", {"n": number}, f"act_{number}", "ses_1", "red", "researcher", "a.b", change))
            if number % 10 == 0:
                self.early.append(journal.head())
        self.head = journal.head()
        self.id = journal.id
        journal.close()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        self.key = SigningKey.open(self.config, "journal")
        shutil.copy(self.file, self.whole)

    def damaged(self, *statements: str | tuple[str, tuple[object, ...]]) -> Database:
        for end in ("", "-wal", "-shm"):
            Path(f"{self.file}{end}").unlink(missing_ok=True)
        shutil.copy(self.whole, self.file)
        connection = sqlite3.connect(self.file, isolation_level=None)
        for statement in statements:
            connection.execute(*((statement,) if isinstance(statement, str) else statement))
        connection.close()
        return Database(self.file)

    def check(self, database: Database, *anchors: Head) -> Verification:
        found = verify(database, self.key.public, self.config, anchors)
        database.close()
        return found


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return Template(tmp_path_factory.mktemp("template"))


def test_an_untouched_journal_verifies(template: Template) -> None:
    found = template.check(template.damaged(), *template.early)
    assert (found.ok, found.entries, found.anchored, found.anchored_size) == (True, SIZE, True, SIZE)
    assert found.to_json()["ok"] is True and "first_bad" not in found.to_json()


@settings(max_examples=40, deadline=None)
@given(seq=st.integers(1, SIZE), column=st.sampled_from(COLUMNS), data=st.data())
def test_every_edit_is_found_at_its_place(template: Template, seq: int, column: str, data: st.DataObject) -> None:
    database = template.damaged()
    row = database.row(f"SELECT {column} FROM journal_entries WHERE seq = ?", (seq,))
    assert row is not None
    old = row[0]
    value = old + 1 if isinstance(old, int) else data.draw(st.text("ab01 {}\n", max_size=5)) + old[1:]
    if value == old:
        return
    database.execute(f"UPDATE journal_entries SET {column} = ? WHERE seq = ?", (value, seq))
    found = template.check(database)
    assert not found.ok and not found.anchored
    assert found.first_bad == seq


@settings(max_examples=15, deadline=None)
@given(seq=st.integers(1, SIZE), count=st.integers(1, 3))
def test_every_drop_is_found(template: Template, seq: int, count: int) -> None:
    database = template.damaged(f"DELETE FROM journal_entries WHERE seq BETWEEN {seq} AND {seq + count - 1}")
    found = template.check(database)
    assert not found.ok and found.first_bad == seq


@settings(max_examples=15, deadline=None)
@given(seq=st.integers(1, SIZE), count=st.integers(1, 3))
def test_a_drop_that_closes_the_gap_is_found(template: Template, seq: int, count: int) -> None:
    database = template.damaged(
        f"DELETE FROM journal_entries WHERE seq BETWEEN {seq} AND {seq + count - 1}",
        f"UPDATE journal_entries SET seq = -(seq - {count}) WHERE seq > {seq}",
        "UPDATE journal_entries SET seq = -seq WHERE seq < 0",
    )
    found = template.check(database)
    assert not found.ok and found.first_bad is not None and found.first_bad <= max(seq, 1)


@settings(max_examples=15, deadline=None)
@given(pair=st.lists(st.integers(1, SIZE), min_size=2, max_size=2, unique=True))
def test_every_reordering_is_found(template: Template, pair: list[int]) -> None:
    first, second = sorted(pair)
    database = template.damaged(
        f"UPDATE journal_entries SET seq = 0 WHERE seq = {first}",
        f"UPDATE journal_entries SET seq = {first} WHERE seq = {second}",
        f"UPDATE journal_entries SET seq = {second} WHERE seq = 0",
    )
    found = template.check(database)
    assert not found.ok and found.first_bad == first


@settings(max_examples=12, deadline=None)
@given(seq=st.integers(0, SIZE + 1))
def test_every_insertion_is_found(template: Template, seq: int) -> None:
    names = "at_us, kind, action, session, tenant, agent, tool, objects, body, hash"
    database = template.damaged(
        f"UPDATE journal_entries SET seq = -(seq + 1) WHERE seq >= {seq}",
        "UPDATE journal_entries SET seq = -seq WHERE seq < 0",
        f"INSERT INTO journal_entries SELECT {seq}, {names} FROM journal_entries WHERE seq = {seq - 1 if seq > 1 else 3}",
    )
    found = template.check(database)
    assert not found.ok
    assert found.first_bad == seq


def heads_up_to(size: int, template: Template) -> list[str | tuple[str, tuple[object, ...]]]:
    """Make the newest head in the database one that was honestly signed for `size` entries."""
    old = next(head for head in template.early if head.size == size)
    tree, _ = rehashed(template, size)
    return [
        "DELETE FROM journal_heads",
        (
            "INSERT INTO journal_heads VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                old.size, old.journal, old.root, old.at_us, old.signer, old.signature,
                "[" + ",".join(f'"{peak.hex()}"' for peak in tree.peaks) + "]", tree.peaks[-1].hex(),
            ),
        ),
    ]  # fmt: skip


def rehashed(template: Template, size: int, forged: int = 0) -> tuple[Tree, list[tuple[str, int]]]:
    """The tree of the first `size` entries, and every hash; the body of entry `forged` is replaced."""
    database = Database(template.whole)
    tree, tail, hashes = Tree(), genesis(template.id), []
    for row in database.rows("SELECT * FROM journal_entries WHERE seq <= ? ORDER BY seq", (size,)):
        names = "\n".join(row[name] for name in ("kind", "action", "session", "tenant", "agent", "tool"))
        body = "{}" if row["seq"] == forged else row["body"]
        tail = chained(tail, content(row["seq"], row["at_us"], names, row["objects"], body))
        tree.append(tail)
        hashes.append((tail.hex(), row["seq"]))
    database.close()
    return tree, hashes


@pytest.mark.parametrize("size", [2, 12, 22, 32])
def test_a_tail_cut_back_to_an_honest_old_head_is_found_and_nothing_runs(template: Template, size: int) -> None:
    database = template.damaged(f"DELETE FROM journal_entries WHERE seq > {size}", *heads_up_to(size, template))
    with pytest.raises(StoreError, match="tail was cut off"):
        Journal.open(database, template.config)
    found = template.check(database)
    assert not found.ok and found.first_bad == size + 1
    assert "tail was cut off" in found.problem


@pytest.mark.parametrize(
    "statement",
    [f"DELETE FROM journal_entries WHERE seq = {SIZE}", "DELETE FROM journal_entries WHERE seq > 5",
     "UPDATE journal_entries SET hash = hex(zeroblob(32)) WHERE seq = (SELECT max(seq) FROM journal_entries)"],
)  # fmt: skip
def test_nothing_runs_after_a_tail_that_was_cut_off_below_its_head(template: Template, statement: str) -> None:
    database = template.damaged(statement)
    with pytest.raises(StoreError, match="is not there as it was signed"):
        Journal.open(database, template.config)
    assert not template.check(database).ok


def test_a_tail_cut_is_invisible_without_anything_outside(template: Template, tmp_path: Path) -> None:
    # What the anchors are for: the database alone cannot tell.
    database = template.damaged("DELETE FROM journal_entries WHERE seq > 12", *heads_up_to(12, template))
    found = verify(database, template.key.public, tmp_path / "no head here")
    assert found.ok and not found.anchored
    assert not verify(database, template.key.public, tmp_path / "no head here", [template.head]).ok
    database.close()


@pytest.mark.parametrize("forged", [1, 13, 30, SIZE])
def test_a_chain_recomputed_after_an_edit_is_found(template: Template, forged: int) -> None:
    _, hashes = rehashed(template, SIZE, forged)
    database = template.damaged(
        ("UPDATE journal_entries SET body = '{}' WHERE seq = ?", (forged,)),
        *(("UPDATE journal_entries SET hash = ? WHERE seq = ?", pair) for pair in hashes),
    )
    found = template.check(database)
    assert not found.ok
    narrowed = template.check(Database(database.path), *template.early)
    assert narrowed.first_bad is not None and narrowed.first_bad <= forged < narrowed.first_bad + 10
    assert narrowed.first_bad in {1, 3, 13, 23, 33}, "damage is narrowed down between the heads that are known"


def test_a_thief_who_signs_with_another_key_is_found(template: Template) -> None:
    thief = SigningKey(bytes(32))
    tree, hashes = rehashed(template, SIZE, 20)
    head = Head.sign(thief, template.id, SIZE, tree.root(), 1)
    database = template.damaged(
        ("UPDATE journal_entries SET body = '{}' WHERE seq = 20", ()),
        *(("UPDATE journal_entries SET hash = ? WHERE seq = ?", pair) for pair in hashes),
        ("UPDATE journal_heads SET root = ?, signer = ?, signature = ?", (head.root, head.signer, head.signature)),
    )
    with pytest.raises(StoreError, match="not signed by this key"):
        Journal.open(database, template.config)
    assert "not signed by this journal's key" in template.check(database).problem


def test_even_with_the_key_the_head_outside_and_an_anchor_tell(template: Template) -> None:
    tree, hashes = rehashed(template, SIZE, 20)
    head = Head.sign(template.key, template.id, SIZE, tree.root(), 1)
    database = template.damaged(
        ("UPDATE journal_entries SET body = '{}' WHERE seq = 20", ()),
        *(("UPDATE journal_entries SET hash = ? WHERE seq = ?", pair) for pair in hashes),
        ("UPDATE journal_heads SET root = ?, signature = ?", (head.root, head.signature)),
    )
    assert not template.check(database, template.early[3]).ok
    assert not template.check(Database(database.path)).ok


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM journal_heads",
        "UPDATE journal_heads SET signature = 'zz'",
        "UPDATE journal_heads SET root = ''",
        "UPDATE journal_heads SET size = size - 1",
        "UPDATE journal_heads SET size = size + 1",
        "UPDATE journal_heads SET journal = 'jrn_other'",
        "UPDATE journal_heads SET at_us = at_us + 1",
        "UPDATE journal_heads SET retired = 1",
        "INSERT INTO journal_entries SELECT seq + 1, at_us, kind, action, session, tenant, agent, tool, objects, body,"
        " hash FROM journal_entries ORDER BY seq DESC LIMIT 1",
    ],
)
def test_damaged_heads_are_found(template: Template, statement: str) -> None:
    found = template.check(template.damaged(statement))
    assert not found.ok and found.problem


def test_an_emptied_journal_is_found(template: Template) -> None:
    found = template.check(template.damaged("DELETE FROM journal_heads", "DELETE FROM journal_entries"))
    assert not found.ok


def test_a_replaced_journal_is_found(database: Database, config: Path) -> None:
    journal = Journal.open(database)
    journal.append(Draft("note", {}))
    journal.close()
    database.close()
    for path in database.path.parent.iterdir():
        path.unlink()
    fresh = Database(database.path)
    again = Journal.open(fresh)
    found = again.verify()
    assert not found.ok and f"{journal.id} of 2 entries lay here and was replaced" in found.problem
    again.close()


def test_a_moved_workspace_takes_its_head_along_and_its_old_place_is_free(tmp_path: Path, config: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    database = Database(old / "workspace.db")
    journal = Journal.open(database)
    early = [tuple(row) for row in database.rows("SELECT * FROM journal_heads")]
    journal.append(Draft("note", {}))
    journal.close()
    database.close()
    old.rename(new)
    shutil.copytree(new, tmp_path / "cut")
    moved = Database(new / "workspace.db")
    again = Journal.open(moved)
    again.append(Draft("note", {}))
    assert again.verify().anchored_size == 3
    fresh = Journal.open(Database(old / "workspace.db"))
    assert fresh.id != again.id and fresh.verify().ok
    again.close()
    fresh.close()
    moved.execute("DELETE FROM journal_entries WHERE seq > 1")
    moved.execute("DELETE FROM journal_heads")
    moved.execute(f"INSERT INTO journal_heads VALUES ({', '.join('?' * 9)})", early[0])
    with pytest.raises(StoreError, match="tail was cut off"):
        Journal.open(moved)


def test_a_tail_cut_while_moving_is_found(tmp_path: Path, config: Path) -> None:
    database = Database(tmp_path / "old" / "workspace.db")
    journal = Journal.open(database)
    early = [tuple(row) for row in database.rows("SELECT * FROM journal_heads")]
    journal.append(Draft("note", {}))
    journal.close()
    database.execute("DELETE FROM journal_entries WHERE seq > 1")
    database.execute("DELETE FROM journal_heads")
    database.execute(f"INSERT INTO journal_heads VALUES ({', '.join('?' * 9)})", early[0])
    database.close()
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(StoreError, match="tail was cut off"):
        Journal.open(Database(tmp_path / "new" / "workspace.db"))


def test_a_copied_workspace_goes_its_own_way(tmp_path: Path, config: Path) -> None:
    first = Journal.open(Database(tmp_path / "one" / "workspace.db"))
    first.close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for name in ("one", "two", "one", "two"):
        journal = Journal.open(Database(tmp_path / name / "workspace.db"))
        journal.append(*[Draft("note", {"in": name})] * 3)
        found = journal.verify()
        assert found.ok and found.anchored_size == found.entries
        journal.close()


def test_a_damaged_head_outside_is_an_error(database: Database, config: Path) -> None:
    journal = Journal.open(database)
    journal.close()
    [head] = (config / "journals").glob("*.head")
    head.write_text("{}")
    with pytest.raises(StoreError, match="is damaged"):
        Journal.open(database)


@pytest.fixture
def journal(database: Database) -> Iterator[Journal]:
    journal = Journal.open(database)
    yield journal
    journal.close()


def test_an_anchor_file_keeps_heads_and_is_appended_to(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "anchor.jsonl"
    heads = []
    for number in range(3):
        journal.append(Draft("note", {"n": number}))
        heads.append(journal.head())
        write_anchor(path, heads[-1], journal.public)
    assert parse_anchor(path.read_text(), "anchor") == heads
    found = journal.verify(heads)
    assert found.ok and found.anchored_size == 4
    assert not journal.verify([replace(heads[0], size=3)]).ok
    assert not journal.verify([replace(heads[0], journal="jrn_other")]).ok


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"journal": 1}', '{"public": "00"}'])
def test_what_is_no_anchor(text: str) -> None:
    with pytest.raises(UsageError, match="holds no tree head"):
        parse_anchor(text, "anchor")


def test_an_anchor_in_git_is_a_chain_of_commits(journal: Journal, tmp_path: Path) -> None:
    repository = Repository.open(tmp_path)
    assert anchors_in_git(repository, journal.id) == []
    heads = []
    for number in range(3):
        journal.append(Draft("note", {"n": number}))
        heads.append(journal.head())
        ref = anchor_in_git(repository, heads[-1], journal.public)
    assert ref == f"refs/overnight-journal/{journal.id}"
    assert anchors_in_git(repository, journal.id) == heads[::-1]
    assert journal.verify(anchors_in_git(repository, journal.id)).ok
    with pytest.raises(UsageError):
        anchors_in_git(repository, "../heads/main")
    repository.close()


def test_verification_goes_on_while_others_append(journal: Journal, database: Database) -> None:
    other = Journal.open(Database(database.path))
    steps: list[Callable[[], object]] = [lambda: journal.append(Draft("note", {"x": "y" * 1000}), durable=False)] * 200
    for step in steps:
        step()
    assert other.verify().ok
    other.close()
