"""Leases: what many processes spend without asking again never adds up to more than the limit, and nothing leaks."""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.core.errors import StoreError, UsageError
from overnight.kernel.ledger.clock import LedgerClock
from overnight.kernel.ledger.lease import IDLE_MS, Leases
from overnight.kernel.ledger.ledger import Exceeded, Ledger, Reservation
from overnight.kernel.ledger.limits import WINDOW_MS, Limit, Subject, Window
from overnight.kernel.ledger.pool import Lease, accounts_of
from overnight.store.database import Database

ME = Subject("researcher/scout", "red", roles=("reader",), tool="models.author", family="models", key="k1", run="r1")

RUNS = itertools.count()


class HandClock(LedgerClock):
    """A clock moved by hand, in place of hours of waiting."""

    def __init__(self) -> None:
        self.boot = "by hand"
        self.at_ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


def admitted(leases: Leases, limits: list[Limit], subject: Subject = ME, **amounts: float) -> Lease | None:
    wanted, asked = accounts_of(limits, subject), amounts or {"calls": 1}
    found = leases.take(wanted, asked) or leases.reserve(wanted, asked)  # type: ignore[arg-type]  # keywords are text
    return found if isinstance(found, Lease) else None


def refused(leases: Leases, limits: list[Limit], **amounts: float) -> Exceeded:
    found = leases.reserve(accounts_of(limits, ME), amounts or {"calls": 1})  # type: ignore[arg-type]  # the same
    assert isinstance(found, Exceeded)
    return found


def used(database: Database, limits: list[Limit], clock: LedgerClock | None = None) -> list[float]:
    """What everybody else is told of the accounts."""
    return [use.used for use in Ledger(database, limits, clock=clock).usage()]


def spent(leases: Leases, lease: Lease, **amounts: float) -> None:
    if leases.settle(lease, amounts):  # type: ignore[arg-type]  # the same
        leases.tidy()


def books(database: Database) -> list[Path]:
    return list(database.path.parent.glob("*-leases-*"))


def test_room_is_leased_spent_and_given_back(database: Database) -> None:
    limits, leases = [Limit("usd", 1000.0)], Leases(database)
    first = admitted(leases, limits, usd=1.0)
    assert first is not None
    assert used(database, limits) == [33.0], "for 32 calls more, which reports count as used"
    assert leases.take(accounts_of(limits, ME), {"usd": 1.0}) is not None, "asks nobody"
    spent(leases, first, usd=0.25)
    spent(leases, first, usd=0.0)
    leases.close()
    assert used(database, limits) == [1.25], "the first cost that, the second was never settled"
    assert books(database) == [] and database.rows("SELECT * FROM ledger_leases") == []


def test_near_the_end_every_call_is_exact(database: Database) -> None:
    limits = [Limit("usd", 1.0)]
    one, two = Leases(database), Leases(database)
    first = admitted(one, limits, usd=0.75)
    assert first is not None
    exceeded = refused(two, limits, usd=0.5)
    assert (exceeded.used, exceeded.wanted, exceeded.retry_after_s) == (0.75, 0.5, None)
    spent(one, first, usd=0.25)
    assert used(database, limits) == [0.25]
    second = admitted(two, limits, usd=0.75)
    assert second is not None
    refused(one, limits, usd=1e-9)
    spent(two, second, usd=0.0)
    third = admitted(one, limits, usd=0.75)
    assert third is not None
    spent(one, third, usd=1.0)
    assert used(database, limits) == [1.25], "what happened is counted, also beyond the limit"
    refused(two, limits, usd=1e-9)


def test_all_limits_or_none(database: Database) -> None:
    limits, leases = [Limit("calls", 100), Limit("tokens", 50), Limit("bytes", 10)], Leases(database)
    assert admitted(leases, limits, calls=1, tokens=50, bytes=1)
    assert refused(leases, limits, calls=1, tokens=1, bytes=1).limit.unit == "tokens"
    assert refused(leases, limits, calls=1, bytes=10).limit.unit == "bytes"
    leases.close()
    assert used(database, limits) == [1, 50, 1]


def test_an_account_named_twice_is_held_to_the_stricter_limit(database: Database) -> None:
    limits, leases = [Limit("calls", 5), Limit("calls", 2), Limit("calls", 9)], Leases(database)
    assert [admitted(leases, limits) is not None for _ in range(3)] == [True, True, False]


def test_a_limit_that_is_lowered_holds_at_once(database: Database) -> None:
    leases = Leases(database)
    assert admitted(leases, [Limit("calls", 1000)])
    assert refused(leases, [Limit("calls", 1)]).used == 1
    assert admitted(leases, [Limit("calls", 2)])
    refused(leases, [Limit("calls", 2)])


@pytest.mark.parametrize("window", ["second", "minute", "day"])
def test_a_window_slides(database: Database, window: Window) -> None:
    clock = HandClock()
    limits, leases = [Limit("calls", 3, window)], Leases(database, clock=clock)
    assert admitted(leases, limits)
    clock.at_ms += WINDOW_MS[window] // 2
    assert admitted(leases, limits) and admitted(leases, limits)
    wait_s = refused(leases, limits).retry_after_s
    assert wait_s is not None
    before_ms = clock.at_ms
    clock.at_ms += round(wait_s * 1000) - 1
    refused(leases, limits)
    clock.at_ms = before_ms + round(wait_s * 1000)
    assert admitted(leases, limits)
    refused(leases, limits)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from([0, 0, 30, 120, 400]),
            st.integers(1, 9),
            st.integers(0, 12),
            st.booleans(),
        ),
        min_size=1,
        max_size=80,
    ),
    limit=st.integers(1, 150),
    window=st.sampled_from(["second", "total"]),
)
def test_no_stretch_of_a_windows_length_ever_holds_more(
    database: Database, steps: list[tuple[int, int, int, int, bool]], limit: int, window: Window
) -> None:
    """Three processes' worth of leases: admitted at their worst they fit, and in the end what was spent is counted."""
    run = str(next(RUNS))
    clock, subject = HandClock(), Subject("a", run=run)
    limits = [Limit("tokens", limit, window, only=(("run", run),))]
    processes = [Leases(database, clock=clock) for _ in range(3)]
    taken: list[list[int]] = []  # when, how much: of what was settled, what it took
    for who, wait_ms, tokens, took, settle in steps:
        clock.at_ms += wait_ms
        within = [item for item in taken if window == "total" or item[0] > clock.at_ms - 1000]
        lease = admitted(processes[who], limits, subject, tokens=tokens)
        if lease is not None:
            assert sum(item[1] for item in within) + tokens <= max(limit, sum(item[1] for item in within))
            taken.append([clock.at_ms, tokens])
            if settle:
                spent(processes[who], lease, tokens=took)
                taken[-1][1] = took
        if wait_ms > 300:
            processes[who].rest()
    for leases in processes:
        leases.close()
    assert database.rows("SELECT * FROM ledger_leases") == []
    if window == "total":
        assert sum(used(database, limits, clock)) == sum(item[1] for item in taken)


def test_what_is_spent_later_is_counted_later(database: Database) -> None:
    """A lease of one slice is not spent in the next: it would leave the window too early."""
    clock = HandClock()
    limits, one, two = [Limit("calls", 100, "second")], Leases(database, clock=clock), Leases(database, clock=clock)
    assert admitted(one, limits)
    clock.at_ms += 900
    assert all(admitted(one, limits) for _ in range(24))
    clock.at_ms += 300
    assert sum(admitted(two, limits) is not None for _ in range(100)) <= 100 - 24


def test_a_lease_that_covers_a_part_of_a_call_counts_once(database: Database) -> None:
    limits, one, two = [Limit("tokens", 100)], Leases(database), Leases(database)
    assert admitted(one, limits, tokens=1), "and 24 more are leased"
    assert admitted(two, limits, tokens=65)
    assert one.take(accounts_of(limits, ME), {"tokens": 24}) is not None
    refused(one, limits, tokens=11)
    assert admitted(one, limits, tokens=10) and not admitted(two, limits, tokens=1)


def test_idle_leases_go_back(database: Database) -> None:
    clock = HandClock()
    limits, leases = [Limit("calls", 1000), Limit("tokens", 1e6, "minute")], Leases(database, clock=clock)
    running, done = admitted(leases, limits, calls=1, tokens=10), admitted(leases, limits, calls=1, tokens=10)
    assert running and done and used(database, limits, clock) == [33, 330]
    spent(leases, done, tokens=4)
    assert leases.rest() and used(database, limits, clock) == [33, 330], "not idle yet"
    clock.at_ms += IDLE_MS
    assert leases.rest() and used(database, limits, clock) == [2, 14], "what runs stays counted"
    clock.at_ms += 5000
    spent(leases, running, tokens=5)
    assert not leases.rest() and used(database, limits, clock) == [2, 9]
    assert database.rows("SELECT * FROM ledger_leases") == []


def test_concurrent_calls_are_counted_until_they_are_settled(database: Database) -> None:
    limits, one, two = [Limit("concurrent", 2), Limit("calls", 1000)], Leases(database), Leases(database)
    first, second = admitted(one, limits), admitted(two, limits)
    assert first is not None and second is not None
    assert refused(one, limits).limit.unit == "concurrent"
    spent(one, first)
    assert admitted(two, limits)
    refused(one, limits)


def test_leases_and_the_plain_ledger_share_their_accounts(database: Database) -> None:
    limits, leases = [Limit("calls", 20)], Leases(database)
    plain = Ledger(database, limits)
    for _ in range(10):
        assert admitted(leases, limits)
        assert isinstance(plain.reserve(ME, {"calls": 1}), Reservation)
    assert isinstance(plain.reserve(ME, {"calls": 1}), Exceeded)
    refused(leases, limits)


def test_a_ledger_that_cannot_count_lets_nothing_through_and_loses_nothing(database: Database) -> None:
    limits, leases = [Limit("usd", 1.0), Limit("calls", 1000)], Leases(database)
    held = admitted(leases, limits, usd=0.5, calls=1)
    assert held is not None
    database.execute("ALTER TABLE ledger_used RENAME TO gone")
    with pytest.raises(StoreError):
        leases.reserve(accounts_of(limits, ME), {"usd": 0.1, "calls": 1})
    assert leases.settle(held, {"usd": 0.2})
    with pytest.raises(StoreError):
        leases.tidy()
    database.execute("ALTER TABLE gone RENAME TO ledger_used")
    leases.tidy()
    leases.close()
    assert used(database, limits) == [0.2, 1]


@pytest.mark.parametrize(
    "amounts", [{"calls": -1}, {"usd": float("nan")}, {"usd": float("inf")}, {"pounds": 1}, {"concurrent": 1}]
)
def test_amounts_that_cannot_be_charged(database: Database, amounts: dict[str, float]) -> None:
    wanted = accounts_of([Limit("calls", 5)], ME)
    with pytest.raises(UsageError, match="cannot be charged"):
        Leases(database).take(wanted, amounts)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(UsageError, match="cannot be charged"):
        Leases(database).reserve(wanted, amounts)  # type: ignore[arg-type]  # what is tested


def test_32_threads_overshoot_by_nothing(database: Database) -> None:
    limits, leases = [Limit("calls", 300, "day"), Limit("usd", 0.45)], Leases(database)
    won: list[float] = []

    def work(n: int) -> None:
        chance = random.Random(n)
        for _ in range(30):
            lease = admitted(leases, limits, calls=1, usd=0.003)
            if lease is not None:
                took = chance.choice([0.0, 0.001, 0.003])
                won.append(took)
                spent(leases, lease, usd=took)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leases.close()
    assert len(won) <= 300 and sum(won) <= 0.45
    assert used(database, limits) == [len(won), pytest.approx(sum(won))]


WORKER = """
import os, random, signal, sys, threading, time
from pathlib import Path
from overnight.kernel.ledger.lease import Leases
from overnight.kernel.ledger.pool import Lease, accounts_of
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.store.database import Database

path, limits, threads, calls = Path(sys.argv[1]), eval(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
leases, wanted = Leases(Database(path)), accounts_of(limits, Subject("a"))
won = []
def work(n):
    chance = random.Random(n + os.getpid())
    for _ in range(calls):
        asked = {"calls": 1, "tokens": 10}
        lease = leases.take(wanted, asked) or leases.reserve(wanted, asked)
        if isinstance(lease, Lease):
            os.write(1, b"+")
            took = chance.randrange(11)
            if leases.settle(lease, {"tokens": took}):
                leases.tidy()
            won.append(took)
        else:
            time.sleep(0.002)
running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
for thread in running: thread.start()
for thread in running: thread.join()
leases.close()
print("", len(won), sum(won))
"""


def worker(database: Database, limits: str, threads: int, calls: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WORKER, str(database.path), limits, str(threads), str(calls)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("processes", "threads", "calls"), [(4, 4, 120), pytest.param(16, 8, 300, marks=pytest.mark.slow)]
)
def test_processes_with_threads_overshoot_by_nothing_and_leak_nothing(
    database: Database, processes: int, threads: int, calls: int
) -> None:
    most = processes * threads * calls * 2 // 3
    text = f"[Limit('calls', {most}), Limit('tokens', {most * 6}, 'day')]"
    running = [worker(database, text, threads, calls) for _ in range(processes)]
    told = [child.communicate()[0].split() for child in running]
    limits = [Limit("calls", most), Limit("tokens", most * 6, "day")]
    count, tokens = sum(int(line[-2]) for line in told), sum(int(line[-1]) for line in told)
    assert count <= most and tokens <= most * 6
    assert used(database, limits) == [count, tokens], "to the last token"
    assert count == most or tokens > most * 6 - processes * threads * 10, "and what there was could be had"
    assert books(database) == [] and database.rows("SELECT * FROM ledger_leases") == []


def test_kill_9_forgets_nothing_that_was_admitted_and_leaks_no_lease(database: Database) -> None:
    limits = [Limit("calls", 1e6), Limit("tokens", 1e9, "day")]
    children = [worker(database, repr(limits), 4, 10**6) for _ in range(3)]
    admitted_calls = 0
    for child in children:
        assert child.stdout is not None
        admitted_calls += len(child.stdout.read(40))
    for child in children:
        child.send_signal(signal.SIGKILL)
        out, _ = child.communicate()
        admitted_calls += len(out)
    counted = used(database, limits)
    # Equal when the children died with their leases just used up; the test below holds what is left of a lease to its number.
    assert counted[0] >= admitted_calls >= 120, "leases count as used"
    Leases(database).close()
    calls, tokens = used(database, limits)
    # Each of the twelve threads may have died between its admission and saying so.
    assert admitted_calls <= calls <= admitted_calls + 12
    assert calls * 5 * 0.9 < tokens < calls * 5 * 1.1 + 120
    assert books(database) == [] and database.rows("SELECT * FROM ledger_leases") == []


def test_whoever_finds_no_room_looks_for_the_leases_of_the_dead(database: Database) -> None:
    limits = [Limit("calls", 100)]
    living, plain = Leases(database), Ledger(database, limits)
    asks: list[Callable[[], bool]] = [
        lambda: admitted(living, limits, calls=99) is not None,
        lambda: isinstance(plain.reserve(ME, {"calls": 99}), Reservation),
    ]
    for ask in asks:
        database.execute("DELETE FROM ledger_used")
        code = WORKER.replace('print("", len(won), sum(won))', "").replace(
            "leases.close()", "os.kill(os.getpid(), signal.SIGKILL)"
        )
        subprocess.run([sys.executable, "-c", code, database.path, repr(limits), "1", "1"], check=False, stdout=-3)
        assert used(database, limits) == [25], "one call, and a quarter of what was left beside it"
        assert ask()
        living.rest()


def test_after_a_power_cut_or_without_its_book_a_lease_stays_spent(database: Database) -> None:
    limits, here = [Limit("calls", 1000)], LedgerClock(database)
    first = Leases(database, clock=LedgerClock(database, "another boot"))
    assert admitted(first, limits)
    Leases(database, clock=here).close()
    assert used(database, limits, here) == [33] and database.rows("SELECT * FROM ledger_leases") == []
    second = subprocess.run(
        [
            sys.executable,
            "-c",
            WORKER.replace("leases.close()", "os.kill(os.getpid(), 9)"),
            str(database.path),
            repr(limits),
            "1",
            "1",
        ],
        check=False,
        stdout=subprocess.DEVNULL,
    )
    assert second.returncode == -signal.SIGKILL
    for book in books(database):
        os.unlink(book)
    Leases(database, clock=here).close()
    assert used(database, limits, here) == [66]


def test_a_book_without_leases_is_swept_once_nobody_has_it(database: Database) -> None:
    living = Leases(database)
    code = "import os, sys\nfrom pathlib import Path\nfrom overnight.kernel.ledger.lease import Leases\n"
    code += (
        "from overnight.store.database import Database\nLeases(Database(Path(sys.argv[1])))\nos.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(database.path)], check=False)
    assert len(books(database)) == 2
    for book in books(database):
        os.utime(book, (0, 0))
    Leases(database).close()
    assert len(books(database)) == 1
    living.close()
    assert books(database) == []
