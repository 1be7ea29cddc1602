import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.core.errors import SettingsError, StoreError, UsageError
from overnight.kernel.ledger.clock import LedgerClock
from overnight.kernel.ledger.ledger import Exceeded, Ledger, Reservation
from overnight.kernel.ledger.limits import SLICES, WINDOW_MS, Limit, Subject, Window
from overnight.store.database import Database

SCOUT = Subject("researcher/scout", "red", roles=("reader",), tool="mail.send", family="mail", key="k1", run="r1")


class HandClock(LedgerClock):
    """A clock moved by hand, in place of hours of waiting."""

    def __init__(self) -> None:
        self.boot = "by hand"
        self.at_ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


def admitted(ledger: Ledger, subject: Subject = SCOUT, **amounts: float) -> Reservation | None:
    found = ledger.reserve(subject, amounts or {"calls": 1})  # type: ignore[arg-type]  # keywords are text
    return found if isinstance(found, Reservation) else None


def refused(ledger: Ledger, subject: Subject = SCOUT, **amounts: float) -> Exceeded:
    found = ledger.reserve(subject, amounts or {"calls": 1})  # type: ignore[arg-type]  # keywords are text
    assert isinstance(found, Exceeded)
    return found


def test_without_limits_nothing_is_counted(database: Database) -> None:
    ledger = Ledger(database, [])
    reservation = admitted(ledger, calls=1, usd=1e9)
    assert reservation is not None and reservation.entries == ()
    ledger.settle(reservation, {"usd": 5})
    assert ledger.usage() == []


def test_money_is_reserved_settled_and_refunded(database: Database) -> None:
    ledger = Ledger(database, [Limit("usd", 1.0)])
    first = admitted(ledger, usd=0.75)
    assert first is not None
    exceeded = refused(ledger, usd=0.5)
    assert (exceeded.used, exceeded.wanted, exceeded.retry_after_s) == (0.75, 0.5, None)
    assert "1 usd in total" in exceeded.sentence
    ledger.settle(first, {"usd": 0.25})
    ledger.settle(first, {"usd": 0.0})
    ledger.refund(first)
    assert [use.used for use in ledger.usage()] == [0.25]
    second = admitted(ledger, usd=0.75)
    assert second is not None
    ledger.refund(second)
    third = admitted(ledger, usd=0.5)
    assert third is not None
    ledger.settle(third, {"usd": 0.9})
    assert ledger.usage()[0].used == pytest.approx(1.15), "what happened is counted, also beyond the limit"
    refused(ledger, usd=1e-9)


def test_small_charges_add_up(database: Database) -> None:
    ledger = Ledger(database, [Limit("usd", 1e-6)])
    count = 0
    while admitted(ledger, usd=1e-9 / 3):
        count += 1
        assert count < 2000
    assert count == 1000


def test_all_limits_or_none(database: Database) -> None:
    ledger = Ledger(database, [Limit("calls", 100), Limit("tokens", 50), Limit("bytes", 10)])
    assert admitted(ledger, calls=1, tokens=50, bytes=1)
    assert refused(ledger, calls=1, tokens=1, bytes=1).limit.unit == "tokens"
    assert refused(ledger, calls=1, bytes=10).limit.unit == "bytes"
    assert [use.used for use in ledger.usage()] == [1, 50, 1]


def test_a_spoofed_principal_finds_no_fresh_budget_and_sub_agents_share_their_parents(database: Database) -> None:
    ledger = Ledger(database, [Limit("calls", 2, per=("agent",))])
    assert admitted(ledger, Subject("researcher"))
    assert admitted(ledger, Subject("researcher/scout"))
    exceeded = refused(ledger, Subject("researcher/guard"))
    assert exceeded.account.endswith('{"agent":"researcher"}')
    assert admitted(ledger, Subject("writer"))
    assert admitted(ledger, Subject("researchers"))


def test_limits_count_apart_what_they_say_and_only_what_matches(database: Database) -> None:
    limit = Limit("calls", 1, per=("tenant", "tool"), only=(("agent", "researcher"), ("tool", "mail.*")))
    ledger = Ledger(database, [limit])
    assert admitted(ledger, Subject("researcher/scout", "red", tool="mail.send"))
    assert admitted(ledger, Subject("researcher", "blue", tool="mail.send"))
    assert admitted(ledger, Subject("researcher", "red", tool="mail.read"))
    refused(ledger, Subject("researcher", "red", tool="mail.send"))
    for _ in range(3):
        assert admitted(ledger, Subject("writer", "red", tool="mail.send"))
        assert admitted(ledger, Subject("researcher", "red", tool="web.get"))


def test_each_role_is_charged(database: Database) -> None:
    ledger = Ledger(database, [Limit("calls", 2, per=("role",)), Limit("calls", 3, only=(("role", "writer"),))])
    assert admitted(ledger, Subject("a", roles=("reader", "writer")))
    assert admitted(ledger, Subject("b", roles=("writer",)))
    assert refused(ledger, Subject("c", roles=("editor", "writer"))).account.endswith('{"role":"writer"}')
    assert admitted(ledger, Subject("c", roles=("reader",)))
    refused(ledger, Subject("c", roles=("reader",)))
    assert admitted(ledger, Subject("d"))


def test_values_cannot_run_into_one_another(database: Database) -> None:
    ledger = Ledger(database, [Limit("calls", 1, per=("key", "run"))])
    assert admitted(ledger, Subject("a", key='x","run":"y', run="z"))
    assert admitted(ledger, Subject("a", key="x", run='y","run":"z'))


@pytest.mark.parametrize("window", ["second", "minute", "day"])
def test_a_window_slides(database: Database, window: Window) -> None:
    clock = HandClock()
    ledger = Ledger(database, [Limit("calls", 3, window)], clock=clock)
    length_ms = WINDOW_MS[window]
    assert admitted(ledger)
    clock.at_ms += length_ms // 2
    assert admitted(ledger) and admitted(ledger)
    exceeded = refused(ledger)
    assert exceeded.retry_after_s is not None
    before_ms = clock.at_ms
    clock.at_ms += round(exceeded.retry_after_s * 1000) - 1
    refused(ledger)
    clock.at_ms = before_ms + round(exceeded.retry_after_s * 1000)
    assert admitted(ledger)
    refused(ledger)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(st.integers(0, 700), st.integers(1, 4)), min_size=1, max_size=40),
    limit=st.integers(1, 8),
    name=st.uuids(),
)
def test_no_stretch_of_a_windows_length_ever_holds_more(
    database: Database, steps: list[tuple[int, int]], limit: int, name: object
) -> None:
    clock = HandClock()
    ledger = Ledger(database, [Limit("calls", limit, "second", only=(("run", str(name)),))], clock=clock)
    taken: list[tuple[int, int]] = []
    for wait_ms, calls in steps:
        clock.at_ms += wait_ms
        if admitted(ledger, Subject("a", run=str(name)), calls=calls):
            taken.append((clock.at_ms, calls))
        within = sum(count for at_ms, count in taken if at_ms > clock.at_ms - 1000)
        assert within <= limit
    rows = database.row("SELECT COUNT(*) AS rows FROM ledger_used WHERE account LIKE 'calls.second.%'")
    assert rows is not None


def test_memory_of_a_window_is_bounded(database: Database) -> None:
    clock = HandClock()
    ledger = Ledger(database, [Limit("calls", 10, "second")], clock=clock)
    for _ in range(500):
        clock.at_ms += 50
        admitted(ledger)
    count = database.row("SELECT COUNT(*) AS slices FROM ledger_used")
    assert count is not None and count["slices"] <= 2 * SLICES["second"] + 2


def test_counts_survive_a_restart(database: Database) -> None:
    limits = [Limit("calls", 3, "minute"), Limit("usd", 1, "day")]
    assert admitted(Ledger(database, limits), calls=2, usd=0.5)
    again = Ledger(Database(database.path), limits)
    assert refused(again, calls=2).used == 2
    raised = Ledger(Database(database.path), [Limit("calls", 5, "minute")])
    assert admitted(raised, calls=3), "another amount keeps the count"
    refused(raised)


def test_a_reboot_with_the_clock_set_back_resets_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [Limit("calls", 1, "day")]
    first = LedgerClock(database, "boot one")
    assert admitted(Ledger(database, limits, clock=first))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 400 * 86400)
    second = LedgerClock(database, "boot two")
    refused(Ledger(database, limits, clock=second))
    assert second.now_ms() - first.now_ms() >= -900_000, "at most back to the start of the last slice"
    assert LedgerClock(database, "boot two").now_ms() >= second.now_ms()


def test_concurrent_calls_are_counted_until_they_are_closed(database: Database) -> None:
    ledger = Ledger(database, [Limit("concurrent", 2, per=("agent",))])
    first, second = admitted(ledger), admitted(ledger)
    assert first is not None and second is not None
    assert refused(ledger).retry_after_s is None
    assert ledger.usage()[0].used == 2
    ledger.settle(first, {})
    assert admitted(ledger)
    ledger.refund(second)
    ledger.refund(second)
    assert admitted(ledger)
    refused(ledger)


def test_what_a_killed_process_held_is_free_again_and_what_it_spent_is_not(database: Database) -> None:
    script = f"""
import os, signal
from pathlib import Path
from overnight.kernel.ledger.ledger import Ledger
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.store.database import Database
ledger = Ledger(Database(Path({str(database.path)!r})), [Limit("concurrent", 1), Limit("usd", 1)])
print(ledger.reserve(Subject("a"), {{"usd": 0.5}}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    ledger = Ledger(database, [Limit("concurrent", 1), Limit("usd", 1)])
    assert refused(ledger, usd=0.6).limit.unit == "usd"
    assert admitted(ledger, usd=0.5)


def test_32_threads_overshoot_by_nothing(database: Database) -> None:
    ledger = Ledger(database, [Limit("calls", 100, "day"), Limit("usd", 0.15)])
    won: list[Reservation] = []

    def work() -> None:
        for _ in range(10):
            found = admitted(ledger, calls=1, usd=0.001)
            if found:
                won.append(found)

    threads = [threading.Thread(target=work) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 100


def test_processes_overshoot_by_nothing(database: Database, tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from overnight.kernel.ledger.ledger import Ledger, Reservation
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.store.database import Database
ledger = Ledger(Database(Path({str(database.path)!r})), [Limit("calls", 90, "day"), Limit("tokens", 90)])
print(sum(isinstance(ledger.reserve(Subject("a"), {{"calls": 1, "tokens": 1}}), Reservation) for _ in range(40)))
"""
    children = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert sum(int(child.communicate()[0]) for child in children) == 90


def test_a_ledger_that_cannot_count_lets_nothing_through(database: Database) -> None:
    ledger = Ledger(database, [Limit("calls", 5)])
    held = admitted(ledger)
    assert held is not None
    database.execute("ALTER TABLE ledger_used RENAME TO gone")
    with pytest.raises(StoreError):
        ledger.reserve(SCOUT, {"calls": 1})
    with pytest.raises(StoreError):
        ledger.refund(held)
    database.execute("ALTER TABLE gone RENAME TO ledger_used")
    ledger.refund(held)
    assert ledger.usage() == []


@pytest.mark.parametrize(
    "amounts", [{"calls": -1}, {"usd": float("nan")}, {"usd": float("inf")}, {"pounds": 1}, {"concurrent": 1}]
)
def test_amounts_that_cannot_be_charged(database: Database, amounts: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="cannot be charged"):
        Ledger(database, [Limit("calls", 5)]).reserve(SCOUT, amounts)  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize(
    "arguments",
    [
        ("usd", -1.0),
        ("usd", float("nan")),
        ("usd", 1.0, "week"),
        ("pounds", 1.0),
        ("concurrent", 1.0, "day"),
        ("usd", 1.0, "day", ("planet",)),
        ("usd", 1.0, "day", (), (("planet", "*"),)),
    ],
)
def test_limits_that_are_none(arguments: tuple[object, ...]) -> None:
    with pytest.raises(SettingsError):
        Limit(*arguments)  # type: ignore[arg-type]  # what is tested


@pytest.mark.slow
def test_32_processes_with_threads_overshoot_by_nothing(database: Database) -> None:
    script = f"""
import threading
from pathlib import Path
from overnight.kernel.ledger.ledger import Ledger, Reservation
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.store.database import Database
ledger = Ledger(Database(Path({str(database.path)!r})), [Limit("calls", 500, "day"), Limit("usd", 0.777)])
won = []
def work():
    for _ in range(20):
        won.append(isinstance(ledger.reserve(Subject("a"), {{"calls": 1, "usd": 0.001}}), Reservation))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(won))
"""
    children = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(32)]
    assert sum(int(child.communicate()[0]) for child in children) == 500
