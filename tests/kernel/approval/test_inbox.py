import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from overnight.core.errors import NotFound, Refused, UsageError
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.approval.inbox import Inbox
from overnight.kernel.canonical import Json
from overnight.kernel.journal.journal import Journal
from overnight.store.database import Database

MAIL: dict[str, Json] = {"tool": "mail.send", "arguments": {"to": "bob@example.org"}}
OTHER: dict[str, Json] = {"tool": "mail.send", "arguments": {"to": "eve@example.org"}}


@pytest.fixture
def journal(database: Database) -> Iterator[Journal]:
    journal = Journal.open(database)
    yield journal
    journal.close()


@pytest.fixture
def inbox(database: Database, journal: Journal) -> Inbox:
    return Inbox(database, Approver(), journal)


@pytest.fixture
def ada(config: Path) -> Credential:
    return Approver().create("ada")


def test_a_question_waits_and_a_yes_is_good_for_one_use_of_exactly_that(inbox: Inbox, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL)
    assert [waiting.id for waiting in inbox.pending()] == [item.id]
    with pytest.raises(Refused, match="is pending"):
        inbox.use(item.id, MAIL)
    assert inbox.approve(item.id, ada, "known address") == "approved"
    assert inbox.pending() == []
    with pytest.raises(Refused) as other:
        inbox.use(item.id, OTHER)
    assert other.value.reason == "approval_mismatch"
    assert inbox.use(item.id, MAIL).id == item.id
    with pytest.raises(Refused) as again:
        inbox.use(item.id, MAIL)
    assert again.value.reason == "approval_used"


def test_a_no_is_final(inbox: Inbox, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL, needed=2)
    assert inbox.deny(item.id, ada, "not this one") == "denied"
    assert [(vote.name, vote.verdict, vote.why) for vote in inbox.votes(item.id)] == [("ada", "deny", "not this one")]
    with pytest.raises(Refused, match="denied already"):
        inbox.approve(item.id, ada)
    with pytest.raises(Refused, match="is denied"):
        inbox.use(item.id, MAIL)


def test_what_nobody_answers_in_time_is_a_no(inbox: Inbox, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL, expires_s=0.05)
    assert inbox.wait(item.id, 60) == "expired"
    assert inbox.pending() == []
    with pytest.raises(Refused, match="expired"):
        inbox.approve(item.id, ada)


def test_a_yes_that_is_not_used_in_time_expires(inbox: Inbox, ada: Credential, monkeypatch: pytest.MonkeyPatch) -> None:
    item = inbox.add("approval", "send a mail", MAIL, expires_s=600)
    inbox.approve(item.id, ada)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 601)
    with pytest.raises(Refused, match="expired"):
        inbox.use(item.id, MAIL)


def test_two_of_two_must_be_different_people(inbox: Inbox, ada: Credential) -> None:
    bob = Approver().create("bob", by=ada)
    item = inbox.add("approval", "delete it all", MAIL, needed=2)
    assert inbox.approve(item.id, ada) == "pending"
    with pytest.raises(Refused) as twice:
        inbox.approve(item.id, ada)
    assert twice.value.reason == "approval_quorum"
    with pytest.raises(Refused):
        inbox.use(item.id, MAIL)
    assert inbox.approve(item.id, bob) == "approved"
    inbox.use(item.id, MAIL)


def test_an_agent_that_tries_again_does_not_ask_twice(inbox: Inbox, ada: Credential) -> None:
    first = inbox.add("approval", "send", MAIL, session="ses_1")
    assert inbox.add("approval", "send please", MAIL, session="ses_1").id == first.id
    assert inbox.add("approval", "send", OTHER, session="ses_1").id != first.id
    assert inbox.add("approval", "send", MAIL, session="ses_2").id != first.id
    assert inbox.add("approval", "send", MAIL, session="ses_1", needed=2).id != first.id
    inbox.approve(first.id, ada)
    inbox.use(first.id, MAIL)
    later = inbox.add("approval", "send", MAIL, session="ses_1")
    assert inbox.state(later.id) == "pending"


def test_writing_to_the_database_approves_nothing(inbox: Inbox, database: Database, tmp_path: Path) -> None:
    eve = Approver(tmp_path / "elsewhere").create("eve")
    ada = Approver().create("ada")
    item = inbox.add("approval", "send a mail", MAIL)
    twin = inbox.add("approval", "send another", OTHER)
    with pytest.raises(Refused, match="no approver here"):
        inbox.approve(item.id, eve)
    inbox.approve(twin.id, ada)
    vote = "INSERT INTO inbox_votes (item, approver, verdict, why, at, signature) VALUES (?, ?, 'approve', '', ?, ?)"
    borrowed = database.row("SELECT * FROM inbox_votes WHERE item = ?", (twin.id,))
    assert borrowed is not None
    for approver, at, signature in [
        (ada.id, 0.0, "00" * 64),
        (ada.id, 0.0, "not hex"),
        (eve.id, 0.0, eve.key.sign(b"yes").hex()),
        (ada.id, borrowed["at"], borrowed["signature"]),
    ]:
        database.execute(vote, (item.id, approver, at, signature))
        assert inbox.state(item.id) == "pending"
        with pytest.raises(Refused):
            inbox.use(item.id, MAIL)
        database.execute("DELETE FROM inbox_votes WHERE item = ?", (item.id,))


def test_a_use_cannot_be_taken_back_in_the_database(inbox: Inbox, database: Database, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL)
    inbox.approve(item.id, ada)
    inbox.use(item.id, MAIL)
    database.execute("UPDATE inbox_items SET used_at = NULL")
    with pytest.raises(Refused) as again:
        inbox.use(item.id, MAIL)
    assert again.value.reason == "approval_used"


def test_what_is_shown_is_what_is_approved(inbox: Inbox, database: Database, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL)
    database.execute("UPDATE inbox_items SET request = replace(request, 'bob@', 'ann@')")
    with pytest.raises(Refused, match="changed after it was asked"):
        inbox.approve(item.id, ada)
    database.execute("UPDATE inbox_items SET needed = 0")
    assert inbox.state(item.id) == "pending"
    with pytest.raises(Refused):
        inbox.use(item.id, MAIL)


def test_a_quorum_lowered_in_the_database_needs_new_votes(inbox: Inbox, database: Database, ada: Credential) -> None:
    item = inbox.add("approval", "delete it all", MAIL, needed=2)
    inbox.approve(item.id, ada)
    database.execute("UPDATE inbox_items SET needed = 1")
    assert inbox.state(item.id) == "pending"
    with pytest.raises(Refused):
        inbox.use(item.id, MAIL)


def test_a_waiting_caller_resumes_when_somebody_says_yes(inbox: Inbox, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL)
    found: list[str] = []
    waiter = threading.Thread(target=lambda: found.append(inbox.wait(item.id, 120)))
    waiter.start()
    inbox.approve(item.id, ada)
    waiter.join(60)
    assert found == ["approved"]
    assert inbox.wait(inbox.add("approval", "x", OTHER).id, 0.01) == "pending"


def test_a_yes_from_another_process_reaches_the_waiting_one(inbox: Inbox, ada: Credential, database: Database) -> None:
    item = inbox.add("approval", "send a mail", MAIL)
    script = f"""
from pathlib import Path
from overnight.kernel.approval.approver import Approver
from overnight.kernel.canonical import Json
from overnight.kernel.approval.inbox import Inbox
from overnight.kernel.journal.journal import Journal
from overnight.store.database import Database
database = Database(Path({str(database.path)!r}))
journal = Journal.open(database)
Inbox(database, Approver(), journal).approve({item.id!r}, Approver().credential())
journal.close()
"""
    child = subprocess.Popen([sys.executable, "-c", script])
    assert inbox.wait(item.id, 120) == "approved"
    assert child.wait() == 0


def test_only_one_of_many_uses_a_yes(inbox: Inbox, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL)
    inbox.approve(item.id, ada)
    outcomes: list[bool] = []

    def use() -> None:
        try:
            inbox.use(item.id, MAIL)
            outcomes.append(True)
        except Refused:
            outcomes.append(False)

    threads = [threading.Thread(target=use) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 11 + [True]


def test_a_person_sees_escapes_spelt_out(inbox: Inbox) -> None:
    item = inbox.add(
        "approval",
        "run \x1b[2Jrm",
        {"arguments": {"to\u202e": "a\nApproved: yes", "n": 3}},
        context={"why": "\u200bplease", "reasons": ["one\x07"]},
    )
    text = inbox.get(item.id).text()
    assert "\\x1b[2Jrm" in text and "to\\u202e: a\\nApproved: yes" in text and "\\u200bplease" in text
    assert all(character.isprintable() or character == "\n" for character in text)
    assert json.loads(json.dumps(item.to_json()))["context"]["why"] == "\u200bplease"


def test_every_step_is_in_the_journal(inbox: Inbox, journal: Journal, ada: Credential) -> None:
    item = inbox.add("approval", "send a mail", MAIL, session="ses_1", tenant="default", agent="researcher")
    inbox.approve(item.id, ada)
    inbox.use(item.id, MAIL)
    entries = journal.of_action(item.id)
    assert [next(iter({"asked", "vote", "used"} & set(entry.body))) for entry in entries] == ["asked", "vote", "used"]
    assert {entry.agent for entry in entries} == {"researcher"}


def test_kinds_and_tenants_are_listed_apart(inbox: Inbox) -> None:
    first = inbox.add("approval", "a", MAIL, tenant="red")
    second = inbox.add("trust", "b", {"path": "AGENTS.md"}, tenant="blue")
    assert [item.id for item in inbox.pending()] == [first.id, second.id]
    assert [item.id for item in inbox.pending(kind="trust")] == [second.id]
    assert [item.id for item in inbox.pending(tenant="red")] == [first.id]


def test_questions_that_will_not_do(inbox: Inbox) -> None:
    with pytest.raises(NotFound, match="ask_none"):
        inbox.state("ask_none")
    with pytest.raises(UsageError, match="positive"):
        inbox.add("approval", "a", MAIL, needed=0)
    with pytest.raises(UsageError, match="positive"):
        inbox.add("approval", "a", MAIL, expires_s=0)
    with pytest.raises(UsageError, match="not a JSON value"):
        inbox.add("approval", "a", {"x": float("nan")})
