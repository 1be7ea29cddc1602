"""Time-sharing of a scarce model."""

import asyncio
import contextlib
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.models.queue.queue import FairQueue, Priority
from overnight.models.queue.shared import Holder, SharedQueue, holders, waiting
from overnight.models.queue.turns import Preempted, TimeSharing
from overnight.store.database import Database

AGENTS = ("a", "b", "c")
COST = st.floats(min_value=1, max_value=1000)


@given(
    st.lists(st.tuples(st.sampled_from(AGENTS), COST), min_size=1, max_size=60),
    st.dictionaries(st.sampled_from(AGENTS), st.floats(min_value=0.1, max_value=10)),
)
def test_agents_that_both_wait_get_their_shares_to_within_one_request_of_each(
    requests: list[tuple[str, float]], shares: dict[str, float]
) -> None:
    queue = FairQueue(shares)
    waiting: Counter[str] = Counter()
    for agent, cost in requests:
        queue.push(agent, "batch", cost, 0.0)
        waiting[agent] += 1
    most: dict[str, float] = defaultdict(float)
    for agent, cost in requests:
        most[agent] = max(most[agent], cost / shares.get(agent, 1.0))
    got: dict[str, float] = defaultdict(float)
    while (ticket := queue.pop(0.0)) is not None:
        got[ticket.agent] += ticket.cost / shares.get(ticket.agent, 1.0)
        waiting[ticket.agent] -= 1
        backlogged = [agent for agent in waiting if waiting[agent] > 0]
        for one in backlogged:
            for other in backlogged:
                # Goyal, Vin and Cheng's theorem 1.
                assert abs(got[one] - got[other]) <= most[one] + most[other] + 1e-6


@given(st.lists(st.tuples(st.sampled_from(AGENTS), st.sampled_from(("interactive", "batch")), COST), max_size=60))
def test_interactive_goes_before_batch_and_everybody_is_served_once(
    requests: list[tuple[str, Priority, float]],
) -> None:
    queue = FairQueue()
    tickets = [queue.push(agent, priority, cost, 0.0) for agent, priority, cost in requests]
    served = []
    while (ticket := queue.pop(1.0)) is not None:
        served.append(ticket)
    assert sorted(item.number for item in served) == [item.number for item in tickets]
    kinds = [item.priority for item in served]
    assert kinds == sorted(kinds, key=lambda kind: kind == "batch")
    for agent in AGENTS:
        for kind in ("interactive", "batch"):
            mine = [item.number for item in served if item.agent == agent and item.priority == kind]
            assert mine == sorted(mine)


def test_batch_that_waited_long_is_not_starved() -> None:
    queue = FairQueue(patience_s=60.0)
    night = queue.push("night", "batch", 10, 0.0)
    for _ in range(5):
        queue.push("person", "interactive", 10, 59.0)
    first = queue.pop(59.0)
    assert first is not None and first.agent == "person"
    assert queue.pop(61.0) == night


def test_idleness_earns_no_credit() -> None:
    queue = FairQueue()
    for _ in range(50):
        queue.push("busy", "batch", 10, 0.0)
        queue.pop(0.0)
    queue.push("late", "batch", 10, 0.0)
    served = []
    for _ in range(6):
        queue.push("busy", "batch", 10, 0.0)
        queue.push("late", "batch", 10, 0.0)
        ticket = queue.pop(0.0)
        assert ticket is not None
        served.append(ticket.agent)
    assert 2 <= served.count("busy") <= 4


@given(st.lists(st.tuples(st.sampled_from(AGENTS), COST, st.booleans()), max_size=30))
def test_leaving_takes_no_share(requests: list[tuple[str, float, bool]]) -> None:
    queue, without = FairQueue(), FairQueue()
    for agent, cost, leaves in requests:
        if leaves:
            queue.leave(queue.push(agent, "batch", cost, 0.0))
        else:
            queue.push(agent, "batch", cost, 0.0)
            without.push(agent, "batch", cost, 0.0)
    while True:
        one, other = queue.pop(0.0), without.pop(0.0)
        if one is None or other is None:
            assert one is other
            return
        assert (one.agent, one.cost) == (other.agent, other.cost)


@contextlib.contextmanager
def sharing(slots: int = 1) -> Iterator[tuple[TimeSharing, Database]]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        database = Database(Path(folder) / "overnight.db")
        holder = Holder(holders(database))
        queue = SharedQueue(database, "box", holder)
        queue.slots = slots
        yield TimeSharing(queue, thread), database
        thread.shutdown()
        holder.close()
        database.close()


async def until_they_wait(database: Database, number: int) -> None:
    while waiting(database, "box") != number:
        await asyncio.sleep(0.005)


def test_a_question_is_answered_before_the_rest_of_a_nights_batch() -> None:
    order = []

    async def ask(shared: TimeSharing, agent: str, priority: Priority) -> None:
        async with shared.turn(agent, priority, 100, limit_s=120):
            order.append(agent)
            await asyncio.sleep(0.01)

    async def scene(shared: TimeSharing) -> None:
        night = [asyncio.create_task(ask(shared, "night", "batch")) for _ in range(10)]
        await asyncio.sleep(0)
        await ask(shared, "person", "interactive")
        await asyncio.gather(*night)

    with sharing() as (shared, _):
        asyncio.run(scene(shared))
    assert order.index("person") <= 1 and len(order) == 11


def test_a_stuck_generation_is_ended_at_its_limit_and_the_next_goes_on() -> None:
    async def scene(shared: TimeSharing) -> str:
        async def stuck() -> None:
            async with shared.turn("stuck", "batch", 1, limit_s=0.05):
                await asyncio.Event().wait()

        held = asyncio.create_task(stuck())
        await asyncio.sleep(0)
        async with shared.turn("next", "batch", 1, limit_s=120):
            with pytest.raises(Preempted, match=r"0\.05 s"):
                await held
            return "went on"

    with sharing() as (shared, _):
        assert asyncio.run(asyncio.wait_for(scene(shared), 120)) == "went on"


def test_whoever_gives_up_waiting_frees_its_place() -> None:
    async def scene(shared: TimeSharing, database: Database) -> None:
        async with shared.turn("one", "batch", 1, limit_s=120):
            patient = [
                asyncio.create_task(shared.turn(name, "batch", 1, 120).__aenter__()) for name in ("two", "three")
            ]
            await until_they_wait(database, 2)
            for task in patient:
                task.cancel()
            await asyncio.gather(*patient, return_exceptions=True)
            await until_they_wait(database, 0)
        async with shared.turn("four", "batch", 1, limit_s=120):
            pass

    with sharing() as (shared, database):
        asyncio.run(asyncio.wait_for(scene(shared, database), 120))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(AGENTS), max_size=12), st.integers(1, 4))
def test_never_more_at_a_time_than_there_are_slots(agents: list[str], slots: int) -> None:
    running = peak = 0

    async def one(shared: TimeSharing, agent: str) -> None:
        nonlocal running, peak
        async with shared.turn(agent, "batch", 5, limit_s=120):
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0.005)
            running -= 1

    async def scene(shared: TimeSharing) -> None:
        await asyncio.gather(*(one(shared, agent) for agent in agents))

    with sharing(slots) as (shared, _):
        asyncio.run(scene(shared))
    assert peak <= slots and (peak > 0) == bool(agents)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "overnight.db")
    yield opened
    opened.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(AGENTS), COST, st.integers(0, 2)), min_size=1, max_size=12))
def test_several_processes_are_served_as_one_queue_would(requests: list[tuple[str, float, int]]) -> None:
    """Whoever asks through whichever process: the order is that of one fair queue."""
    one = FairQueue({"a": 2.0})
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "overnight.db")
        queues = [SharedQueue(database, "box", Holder(holders(database))) for _ in range(3)]
        for queue in queues:
            queue.shares = {"a": 2.0}
        tickets = {}
        for agent, cost, place in requests:
            ticket = queues[place].push(agent, "batch", cost, 60)
            tickets[ticket.number] = (ticket, queues[place])
            assert one.push(agent, "batch", cost, 0.0).number == ticket.number
        while (expected := one.pop(0.0)) is not None:
            queues[0].admit()
            (served,) = [number for queue in queues for number in queue.admit()]
            assert served == expected.number
            ticket, queue = tickets.pop(served)
            queue.end(ticket, ticket.cost / 2)
            one.settle(expected, expected.cost / 2)
        assert waiting(database, "box") == 0 and not tickets
        database.close()


def test_what_a_process_held_is_free_once_it_has_gone(database: Database) -> None:
    folder = holders(database)
    dying, living = Holder(folder), Holder(folder)
    gone, here = SharedQueue(database, "box", dying), SharedQueue(database, "box", living)
    held, behind = gone.push("a", "batch", 5, 60), gone.push("a", "batch", 5, 60)
    mine = here.push("b", "batch", 5, 60)
    assert gone.admit() == {held.number} and here.admit() == set() and waiting(database, "box") == 2
    dying.close()
    assert waiting(database, "box") == 1, "who has died waits no more"
    assert here.admit() == {mine.number} and not (folder / dying.name).exists()
    gone.end(behind, None)
    here.end(mine, 5)
    assert not database.rows("SELECT * FROM model_turns")
    living.close()


def test_a_process_that_hangs_loses_its_turn_after_its_limit(database: Database) -> None:
    stopped, other = (SharedQueue(database, "box", Holder(holders(database))) for _ in range(2))
    held, mine = stopped.push("a", "batch", 5, 0.0), other.push("b", "batch", 5, 60)
    assert stopped.admit() == {held.number} and other.admit() == set()
    database.execute("UPDATE model_turns SET since_s = since_s - 6 WHERE number = ?", (held.number,))
    assert other.admit() == {mine.number}
    stopped.end(held, 5)
    assert other.admit() == {mine.number}


def test_what_killed_processes_left_is_removed(database: Database) -> None:
    folder = holders(database)
    living = Holder(folder)
    old, fresh = folder / "1-dead", folder / "2-fresh"
    for path in (old, fresh, folder / living.name):
        path.touch()
        os.utime(path, (0, 0) if path != fresh else None)
    other = Holder(folder)
    assert {path.name for path in folder.iterdir()} == {living.name, fresh.name, other.name}
    for holder in (living, other):
        holder.close()
