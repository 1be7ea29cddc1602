"""What broke others, tried here: each trick fails, and works again as soon as its one protection is taken away."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import OvernightError
from overnight.core.ids import new_id
from overnight.kernel.approval import inbox
from overnight.kernel.approval.approver import Approver
from overnight.kernel.approval.inbox import Inbox, Item
from overnight.kernel.approval.item import ballot
from overnight.kernel.canonical import Json
from overnight.kernel.journal import verify as journal_verify
from overnight.kernel.journal.head import Head, OutsideHead
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.keys import create_private
from overnight.kernel.ledger import limits
from overnight.kernel.ledger.accounts import Accounts
from overnight.kernel.ledger.ledger import Ledger, Reservation
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.store.database import Database

HARMLESS: dict[str, Json] = {"tool": "mail.send", "arguments": {"to": "bob@example.org"}}
HARMFUL: dict[str, Json] = {"tool": "mail.send", "arguments": {"to": "eve@example.org"}}
Off = Callable[[pytest.MonkeyPatch], None]


@dataclass
class House:
    database: Database
    journal: Journal
    inbox: Inbox
    config: Path


@pytest.fixture
def house(database: Database, config: Path) -> Iterator[House]:
    journal = Journal.open(database)
    yield House(database, journal, Inbox(database, Approver(), journal), config)
    journal.close()


def approve_one_run_another(house: House) -> None:
    item = house.inbox.add("approval", "mail bob", HARMLESS)
    house.inbox.approve(item.id, Approver().create("ada"))
    house.inbox.use(item.id, HARMFUL)


def show_one_approve_another(house: House) -> None:
    item = house.inbox.add("approval", "mail eve", HARMFUL)
    house.database.execute("UPDATE inbox_items SET request = replace(request, 'eve@', 'bob@')")
    house.inbox.approve(item.id, Approver().create("ada"))
    house.inbox.use(item.id, HARMFUL)


def put_another_question_under_a_known_id(house: House) -> None:
    seen = house.inbox.add("approval", "mail bob", HARMLESS)
    other = house.inbox.add("approval", "mail eve", HARMFUL)
    house.database.execute("DELETE FROM inbox_items WHERE id = ?", (seen.id,))
    house.database.execute("UPDATE inbox_items SET id = ? WHERE id = ?", (seen.id, other.id))
    house.inbox.approve(seen.id, Approver().create("ada"))
    house.inbox.use(seen.id, HARMFUL)


def give_a_question_a_friendly_title(house: House) -> None:
    item = house.inbox.add("approval", "mail eve", HARMFUL)
    house.database.execute("UPDATE inbox_items SET title = 'mail bob'")
    house.inbox.approve(item.id, Approver().create("ada"))


def use_a_yes_again_after_beginning_the_journal_anew(house: House) -> None:
    item = house.inbox.add("approval", "mail bob", HARMLESS)
    house.inbox.approve(item.id, Approver().create("ada"))
    house.inbox.use(item.id, HARMLESS)
    house.journal.close()
    house.database.execute("DELETE FROM journal_entries")
    house.database.execute("DELETE FROM journal_heads")
    house.database.execute("UPDATE inbox_items SET used_at = NULL")
    house.journal = Journal.open(house.database)
    Inbox(house.database, Approver(), house.journal).use(item.id, HARMLESS)


def approve_oneself_in_the_database(house: House) -> None:
    ada = Approver().create("ada")
    item = house.inbox.add("approval", "mail eve", HARMFUL)
    house.database.execute(
        "INSERT INTO inbox_votes (item, approver, verdict, why, at, signature) VALUES (?, ?, 'approve', '', 0, '00')",
        (item.id, ada.id),
    )
    house.inbox.use(item.id, HARMFUL)


def use_a_yes_twice(house: House) -> None:
    item = house.inbox.add("approval", "mail bob", HARMLESS)
    house.inbox.approve(item.id, Approver().create("ada"))
    house.inbox.use(item.id, HARMLESS)
    house.database.execute("UPDATE inbox_items SET used_at = NULL")
    house.inbox.use(item.id, HARMLESS)


def answer_too_late(house: House) -> None:
    item = house.inbox.add("approval", "mail bob", HARMLESS, expires_s=0.01)
    time.sleep(0.02)
    house.inbox.approve(item.id, Approver().create("ada"))


def enrol_oneself(house: House) -> None:
    Approver().create("ada")
    Approver(house.config / "elsewhere").create("eve")
    planted = (house.config / "elsewhere" / "approvers" / "eve.json").read_bytes()
    create_private(house.config / "approvers" / "eve.json", planted)
    item = house.inbox.add("approval", "mail eve", HARMFUL)
    house.inbox.approve(item.id, Approver(house.config / "elsewhere").credential())
    house.inbox.use(item.id, HARMFUL)


def spread_calls_over_sub_agents(house: House) -> None:
    ledger = Ledger(house.database, [Limit("calls", 3, per=("agent",))])
    for number in range(9):
        charge(ledger, Subject(f"researcher/scout{number}"))


def restart(house: House) -> None:
    for _ in range(2):
        charge(Ledger(Database(house.database.path), [Limit("calls", 1, "day")]))


def cut_the_tail_off(house: House) -> None:
    early = house.database.row("SELECT * FROM journal_heads")
    assert early is not None
    for number in range(3):
        house.journal.append(Draft("note", {"n": number}))
    house.database.execute("DELETE FROM journal_entries WHERE seq > 1")
    house.database.execute("DELETE FROM journal_heads")
    house.database.execute(f"INSERT INTO journal_heads VALUES ({', '.join('?' * 9)})", tuple(early))
    assert_verifies(house)


def sign_with_a_key_of_ones_own(house: House) -> None:
    house.database.execute("UPDATE journal_heads SET signature = ?", ("00" * 64,))
    assert_verifies(house)


def charge(ledger: Ledger, subject: Subject | None = None) -> None:
    if not isinstance(ledger.reserve(subject or Subject("researcher"), {"calls": 1}), Reservation):
        raise OvernightError("refused")


def assert_verifies(house: House) -> None:
    found = journal_verify.verify(house.database, house.journal.public, house.config)
    if not found.ok:
        raise OvernightError(found.problem)


def patched(module: Any, name: str, value: object) -> Off:
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


def any_id(item: Item) -> str:
    return item.id or new_id("ask")


TRICKS: list[tuple[Callable[[House], None], list[Off]]] = [
    (approve_one_run_another, [patched(inbox, "content_hash", lambda value: "same")]),
    (
        show_one_approve_another,
        [patched(inbox, "content_hash", lambda value: "same"), patched(inbox, "identity", any_id)],
    ),
    (put_another_question_under_a_known_id, [patched(inbox, "identity", any_id)]),
    (give_a_question_a_friendly_title, [patched(inbox, "identity", any_id)]),
    (use_a_yes_again_after_beginning_the_journal_anew, [patched(inbox, "ballot", lambda _, *said: ballot("", *said))]),
    (approve_oneself_in_the_database, [patched(inbox, "signed_by", lambda *_: True)]),
    (use_a_yes_twice, [patched(Journal, "of_action", lambda *_: [])]),
    (
        answer_too_late,
        [patched(inbox, "time", type("Stopped", (), {"time": lambda: 0.0, "monotonic": time.monotonic}))],
    ),
    (enrol_oneself, [patched(Approver, "_enrolled", lambda *_: True)]),
    (spread_calls_over_sub_agents, [patched(limits, "_values", lambda subject, name: [getattr(subject, name)])]),
    (restart, [patched(Accounts, "add", lambda *_: None)]),
    (cut_the_tail_off, [patched(OutsideHead, "read", lambda _: None)]),
    (
        sign_with_a_key_of_ones_own,
        [patched(Head, "signed_by", lambda *_: True)],
    ),
]


@pytest.mark.parametrize("trick", [trick for trick, _ in TRICKS], ids=lambda trick: trick.__name__)
def test_the_trick_fails(house: House, trick: Callable[[House], None]) -> None:
    with pytest.raises(OvernightError):
        trick(house)


@pytest.mark.parametrize(("trick", "off"), TRICKS, ids=[trick.__name__ for trick, _ in TRICKS])
def test_without_its_protection_the_trick_works(
    house: House, trick: Callable[[House], None], off: list[Off], monkeypatch: pytest.MonkeyPatch
) -> None:
    for switch in off:
        switch(monkeypatch)
    trick(house)
