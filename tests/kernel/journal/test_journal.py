import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from overnight.core.errors import NotFound, SettingsError, StoreError, UsageError
from overnight.kernel.journal.journal import BODY_LIMIT, Change, Draft, Journal
from overnight.kernel.journal.writer import BACKLOG
from overnight.store.database import Database


@pytest.fixture
def journal(database: Database) -> Iterator[Journal]:
    journal = Journal.open(database)
    yield journal
    journal.close()


def note(text: str) -> Draft:
    return Draft("note", {"text": text})


def texts(journal: Journal) -> list[object]:
    return [entry.body["text"] for entry in journal.entries(kind="note")]


def test_what_was_appended_is_read_back_as_it_was(journal: Journal) -> None:
    draft = Draft(
        "result",
        {"ok": True, "said": "grüße \u202e\x1b[31m\n\ud800", "n": [1, 2.5, None]},
        action="act_1",
        session="ses_1",
        tenant="default",
        agent="researcher/scout",
        tool="files.write",
        changes=(Change("file:a.txt", None, "aa"), Change("file:b.txt", "bb", None)),
    )
    receipt = journal.append(note("first"), draft)
    entry = journal.entry(receipt.last)
    assert (receipt.first, receipt.last) == (2, 3)
    assert entry.body == draft.body
    assert entry.changes == draft.changes
    assert (entry.kind, entry.action, entry.agent, entry.tool) == ("result", "act_1", "researcher/scout", "files.write")
    assert journal.of_action("act_1") == [entry]
    assert [found.seq for found in journal.entries(changed=True)] == [3]
    assert [found.seq for found in journal.entries(agent="researcher/scout", after=1, until=3)] == [3]
    line = json.dumps(entry.to_json())
    assert json.loads(line)["body"]["said"] == draft.body["said"]


def test_a_fresh_journal_verifies_and_is_anchored_in_the_configuration_folder(journal: Journal, config: Path) -> None:
    journal.append(note("one"))
    found = journal.verify()
    assert found.ok and found.anchored
    assert (found.entries, found.anchored_size, found.first_bad) == (2, 2, None)
    assert found.head == journal.head()
    [head] = (config / "journals").glob(f"{journal.id}.*.head")
    assert head.stat().st_mode & 0o777 == 0o600
    assert (config / "journal.key").stat().st_mode & 0o777 == 0o600
    assert config.stat().st_mode & 0o777 == 0o700


def test_entries_of_many_threads_are_all_there_in_each_threads_order(journal: Journal) -> None:
    def work(name: int) -> None:
        for number in range(25):
            receipt = journal.append(note(f"{name}.{number}"), note(f"{name}.{number}b"))
            assert receipt.last == receipt.first + 1

    threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = [str(text) for text in texts(journal)]
    assert len(written) == 16 * 25 * 2
    for name in range(16):
        own = [text for text in written if text.startswith(f"{name}.")]
        assert own == [f"{name}.{number}{end}" for number in range(25) for end in ("", "b")]
    assert journal.verify().ok


def test_later_entries_follow_by_themselves_and_never_out_of_order(journal: Journal) -> None:
    later = [journal.append(note(f"later {number}"), durable=False) for number in range(5)]
    journal.append(note("now"))
    assert texts(journal) == [*(f"later {number}" for number in range(5)), "now"]
    assert [receipt.first for receipt in later] == [2, 3, 4, 5, 6]
    alone = journal.append(note("alone"), durable=False)
    assert alone.wait().first == 8
    journal.append(note("last"), durable=False)
    journal.sync()
    assert texts(journal)[-1] == "last"


def test_a_durable_entry_within_a_transaction_is_refused_at_once(journal: Journal, database: Database) -> None:
    """The writer could not write before the transaction ends, and the transaction would not end before it wrote."""
    began_s = time.monotonic()
    with database.transaction():
        for waiting in (lambda: journal.append(note("never")), journal.sync):
            with pytest.raises(StoreError, match="within a transaction of the same thread"):
                waiting()
        later = journal.append(note("later"), durable=False)
        with pytest.raises(StoreError, match="within a transaction of the same thread"):
            assert later.first
        database.execute("CREATE TABLE mine (x)")
    assert time.monotonic() - began_s < 60
    journal.append(note("after"))
    assert texts(journal) == ["later", "after"] and later.first == 2
    assert database.row("SELECT count(*) FROM mine") is not None, "the transaction itself went through"
    # A transaction of another thread is only waited for.
    with database.transaction():
        other = threading.Thread(target=journal.append, args=(note("other"),))
        other.start()
    other.join(60)
    assert texts(journal)[-1] == "other"


def test_a_full_queue_does_not_stop_who_holds_a_transaction(journal: Journal, database: Database) -> None:
    began_s = time.monotonic()
    with database.transaction():
        for number in range(BACKLOG + 10):
            journal.append(note(str(number)), durable=False)
    assert time.monotonic() - began_s < 60
    journal.sync()
    assert len(texts(journal)) == BACKLOG + 10


def test_closing_writes_what_was_accepted(database: Database) -> None:
    journal = Journal.open(database)
    for number in range(10):
        journal.append(note(str(number)), durable=False)
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.append(note("after"))
    again = Journal.open(database)
    assert texts(again) == [str(number) for number in range(10)]
    again.close()


def test_two_journals_of_one_database_share_the_chain(database: Database) -> None:
    one, other = Journal.open(database), Journal.open(database)
    assert one.id == other.id
    for number in range(10):
        one.append(note(f"one {number}"))
        other.append(note(f"other {number}"))
    assert one.verify().entries == 21
    assert other.verify().ok
    one.close()
    other.close()


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        (Draft("note", {"x": float("nan")}), "not JSON"),
        (Draft("note", {"x": object()}), "not JSON"),  # type: ignore[dict-item]
        (Draft("note", {}, action="a\nb"), "cannot be an id"),
        (Draft("note", {}, agent="a" * 600), "cannot be an id"),
        (Draft("note", {"changes": []}), "'changes'"),
        (Draft("rumour", {}), "no kind of entry"),  # type: ignore[arg-type]
        (Draft("note", {"x": "y" * BODY_LIMIT}), "bytes long"),
    ],
)
def test_what_cannot_be_written_down_is_refused_whole(journal: Journal, draft: Draft, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        journal.append(note("good"), draft)
    assert texts(journal) == []


def test_a_journal_that_cannot_be_written_says_so_to_everyone_and_recovers(
    journal: Journal, database: Database
) -> None:
    database.execute(
        "CREATE TRIGGER broken BEFORE INSERT ON journal_entries BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    kept = journal.append(note("accepted"), durable=False)
    with pytest.raises(StoreError, match="disk is full"):
        journal.append(note("refused"))
    with pytest.raises(StoreError, match="disk is full"):
        journal.append(note("refused too"), durable=False)
    database.execute("DROP TRIGGER broken")
    assert kept.wait().first == 2
    journal.append(note("fine"), durable=False)
    journal.append(note("again"))
    assert texts(journal) == ["accepted", "fine", "again"]
    assert journal.verify().ok


def test_a_head_that_cannot_be_left_outside_stops_who_waits_and_doubles_nothing(journal: Journal, config: Path) -> None:
    [head] = (config / "journals").glob(f"{journal.id}.*.head")
    kept = head.read_bytes()
    head.unlink()
    head.mkdir()
    later = journal.append(note("later"), durable=False)
    with pytest.raises(StoreError, match="cannot write"):
        journal.append(note("now"))
    head.rmdir()
    head.write_bytes(kept)
    head.chmod(0o600)
    journal.append(note("again"))
    assert later.wait().first == 2
    assert texts(journal) == ["later", "now", "again"]
    assert journal.verify().ok


def test_accepted_entries_that_can_never_be_written_are_an_error_at_the_end(database: Database) -> None:
    journal = Journal.open(database)
    database.execute("CREATE TRIGGER broken BEFORE INSERT ON journal_entries BEGIN SELECT RAISE(ABORT, 'no'); END")
    journal.append(note("a"), note("b"), durable=False)
    with pytest.raises(StoreError, match="2 entries could not be written"):
        journal.close()


def test_a_full_disk_is_an_error_and_leaves_a_journal_that_verifies(tmp_path: Path, config: Path) -> None:
    # A limit on the size of files stands in for the disk.
    script = f"""
import resource, signal
from pathlib import Path
from overnight.core.errors import StoreError
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.journal.writer import BACKLOG
from overnight.store.database import Database
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal.open(Database(Path({str(tmp_path / "data" / "workspace.db")!r})))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
written = 0
try:
    while True:
        journal.append(Draft("note", {{"text": "x" * 50_000}}))
        written += 1
except StoreError as problem:
    print(written, problem.message)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    written = int(done.stdout.split()[0])
    assert written > 3
    journal = Journal.open(Database(tmp_path / "data" / "workspace.db"))
    found = journal.verify()
    assert found.ok and found.entries == written + 1
    journal.close()


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, config: Path) -> None:
    script = f"""
import sys, threading
from pathlib import Path
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.journal.writer import BACKLOG
from overnight.store.database import Database
journal = Journal.open(Database(Path({str(tmp_path / "data" / "workspace.db")!r})))
def work(name):
    for number in range(100_000):
        journal.append(Draft("note", {{"text": f"{{name}}.{{number}}"}}))
        sys.stdout.write(f"{{name}}.{{number}}\\n")
        sys.stdout.flush()
for name in range(8):
    threading.Thread(target=work, args=(name,)).start()
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    seen = [child.stdout.readline() for _ in range(200)]
    os.kill(child.pid, signal.SIGKILL)
    seen += child.stdout.readlines()
    child.stdout.close()
    child.wait()
    acknowledged = {line.strip() for line in seen if line.endswith("\n")}
    journal = Journal.open(Database(tmp_path / "data" / "workspace.db"))
    written = {str(text) for text in texts(journal)}
    assert acknowledged <= written
    assert len(written - acknowledged) <= 8, "at most the entry each thread was waiting for"
    assert journal.verify().ok
    journal.append(note("and on it goes"))
    assert journal.verify().ok
    journal.close()


def test_processes_append_to_one_chain(tmp_path: Path, config: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.journal.writer import BACKLOG
from overnight.store.database import Database
journal = Journal.open(Database(Path({str(tmp_path / "data" / "workspace.db")!r})))
for number in range(40):
    journal.append(Draft("note", {{"text": f"{{sys.argv[1]}}.{{number}}"}}))
journal.close()
"""
    children = [subprocess.Popen([sys.executable, "-c", script, str(name)]) for name in range(4)]
    assert [child.wait() for child in children] == [0, 0, 0, 0]
    journal = Journal.open(Database(tmp_path / "data" / "workspace.db"))
    assert len(texts(journal)) == 160
    found = journal.verify()
    assert found.ok and found.anchored_size == 161
    journal.close()


def test_a_process_that_just_ends_still_writes_what_was_accepted(tmp_path: Path, config: Path) -> None:
    script = f"""
from pathlib import Path
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.journal.writer import BACKLOG
from overnight.store.database import Database
journal = Journal.open(Database(Path({str(tmp_path / "data" / "workspace.db")!r})))
journal.append(Draft("note", {{"text": "last words"}}), durable=False)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    journal = Journal.open(Database(tmp_path / "data" / "workspace.db"))
    assert texts(journal) == ["last words"]
    journal.close()


def test_a_fork_needs_a_journal_of_its_own(tmp_path: Path, config: Path) -> None:
    script = f"""
import os
from pathlib import Path
from overnight.core.errors import StoreError
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.journal.writer import BACKLOG
from overnight.store.database import Database
journal = Journal.open(Database(Path({str(tmp_path / "data" / "workspace.db")!r})))
child = os.fork()
if child == 0:
    try:
        journal.append(Draft("note", {{}}))
    except StoreError:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
journal.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_keys_inside_the_workspace_are_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERNIGHT_CONFIG_DIR", str(database.path.parent / "config"))
    with pytest.raises(SettingsError, match="inside the workspace"):
        Journal.open(database)


def test_keys_that_others_can_read_are_refused(database: Database, config: Path) -> None:
    Journal.open(database).close()
    (config / "journal.key").chmod(0o644)
    with pytest.raises(StoreError, match="open to other users"):
        Journal.open(database)


def test_there_is_no_entry_past_the_end(journal: Journal) -> None:
    with pytest.raises(NotFound, match="no entry 99"):
        journal.entry(99)
    assert journal.of_action("act_none") == []


def test_opening_while_others_append_sees_no_tail_cut_off(tmp_path: Path, config: Path) -> None:
    script = f"""
from pathlib import Path
from overnight.kernel.journal.journal import Draft, Journal
from overnight.store.database import Database
journal = Journal.open(Database(Path({str(tmp_path / "data" / "workspace.db")!r})))
for number in range(400):
    journal.append(Draft("note", {{"text": str(number)}}))
journal.close()
"""
    children = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    opened = 0
    while any(child.poll() is None for child in children) or opened < 5:
        database = Database(tmp_path / "data" / "workspace.db")
        Journal.open(database).close()
        database.close()
        opened += 1
    assert [child.wait() for child in children] == [0, 0]
