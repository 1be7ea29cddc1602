"""Time-sharing of a scarce model."""

import asyncio
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.models.queue import FairQueue, Preempted, Priority, TimeSharing

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


def test_a_question_is_answered_before_the_rest_of_a_nights_batch() -> None:
    order = []

    async def ask(sharing: TimeSharing, agent: str, priority: Priority) -> None:
        async with sharing.turn(agent, priority, 100, limit_s=10):
            order.append(agent)
            await asyncio.sleep(0)

    async def scene() -> None:
        sharing = TimeSharing()
        night = [asyncio.create_task(ask(sharing, "night", "batch")) for _ in range(10)]
        await asyncio.sleep(0)
        await ask(sharing, "person", "interactive")
        await asyncio.gather(*night)

    asyncio.run(scene())
    assert order.index("person") <= 1 and len(order) == 11


def test_a_stuck_generation_is_ended_at_its_limit_and_the_next_goes_on() -> None:
    async def scene() -> str:
        sharing = TimeSharing()

        async def stuck() -> None:
            async with sharing.turn("stuck", "batch", 1, limit_s=0.02):
                await asyncio.Event().wait()

        held = asyncio.create_task(stuck())
        await asyncio.sleep(0)
        async with sharing.turn("next", "batch", 1, limit_s=10):
            with pytest.raises(Preempted, match=r"0\.02 s"):
                await held
            return "went on"

    assert asyncio.run(asyncio.wait_for(scene(), 30)) == "went on"


def test_whoever_gives_up_waiting_frees_its_place() -> None:
    async def scene() -> None:
        sharing = TimeSharing()
        async with sharing.turn("one", "batch", 1, limit_s=10):
            waiting = [
                asyncio.create_task(sharing.turn(name, "batch", 1, 10).__aenter__()) for name in ("two", "three")
            ]
            await asyncio.sleep(0)
            assert sharing.waiting == 2
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert sharing.waiting == 0
        async with sharing.turn("four", "batch", 1, limit_s=10):
            pass

    asyncio.run(asyncio.wait_for(scene(), 30))


@given(st.lists(st.sampled_from(AGENTS), max_size=20), st.integers(1, 4))
def test_never_more_at_a_time_than_there_are_slots(agents: list[str], slots: int) -> None:
    running = peak = 0

    async def one(sharing: TimeSharing, agent: str) -> None:
        nonlocal running, peak
        async with sharing.turn(agent, "batch", 5, limit_s=10):
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0)
            running -= 1

    async def scene() -> None:
        sharing = TimeSharing(slots)
        await asyncio.gather(*(one(sharing, agent) for agent in agents))

    asyncio.run(scene())
    assert peak <= slots and peak == min(slots, len(agents))
