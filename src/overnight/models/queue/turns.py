"""Waiting for one's turn at a scarce model, and having it for so long at most."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, TypeVar

from overnight.core.errors import OvernightError
from overnight.models.queue.queue import Priority, Ticket
from overnight.models.queue.shared import SharedQueue

T = TypeVar("T")
LOOK_S: Final = 0.05
"""How often a queue in which somebody waits is looked at, for what other processes did meanwhile."""


class Preempted(OvernightError):
    """A generation held the model longer than its limit, and was ended."""


@dataclass
class Turn:
    """A stretch in which a request has the model; set `used` to the tokens it took, where they are known."""

    ticket: Ticket
    used: float | None = None


class TimeSharing:
    """A model that is shared by turns. One event loop's own; the queue is used in the executor's only thread."""

    def __init__(self, queue: SharedQueue, thread: Executor) -> None:
        self.queue = queue
        self._thread = thread
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._looked = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def turn(self, agent: str, priority: Priority, cost: float, limit_s: float) -> AsyncIterator[Turn]:
        """Wait for a turn, then have the model for the block, for `limit_s` at most.

        Raises:
            Preempted: the block took longer; it was cancelled, and the next request has the model.
            DatabaseError: the queue cannot be read or written.
        """
        joining = self._do(lambda: self.queue.push(agent, priority, cost, limit_s))
        turn: Turn | None = None
        try:
            turn = Turn(await asyncio.shield(joining))
            await self._admitted(turn.ticket)
            try:
                async with asyncio.timeout(limit_s) as limit:
                    yield turn
            except TimeoutError:
                # One of the block's own goes on as it is.
                if not limit.expired():
                    raise
                raise Preempted(f"it held the model for {limit_s:g} s, as long as it may") from None
        finally:
            # Nobody waits for it: whoever was cancelled must not be kept, and the thread keeps the order.
            used = turn.used if turn else None
            joining.add_done_callback(lambda done: self._left(done, used))

    def _left(self, joined: "asyncio.Future[Ticket]", used: float | None) -> None:
        if not joined.cancelled() and joined.exception() is None:
            ticket = joined.result()
            self._do(lambda: self.queue.end(ticket, used)).add_done_callback(lambda done: self._seen(done))

    def _seen(self, done: "asyncio.Future[None]") -> None:
        # What could not be written is freed when this process ends, or at the turn's limit.
        if not done.cancelled():
            done.exception()
        self._looked.set()

    async def _admitted(self, ticket: Ticket) -> None:
        waiter = self._waiters[ticket.number] = asyncio.get_running_loop().create_future()
        self._looked.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await waiter
        finally:
            del self._waiters[ticket.number]

    async def _look(self) -> None:
        while self._waiters:
            self._looked.clear()
            try:
                admitted = await self._do(self.queue.admit)
            except Exception as problem:
                for waiter in self._waiters.values():
                    if not waiter.done():
                        waiter.set_exception(problem)
                return
            for number in admitted:
                if number in self._waiters and not self._waiters[number].done():
                    self._waiters[number].set_result(None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._looked.wait(), LOOK_S)

    def _do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._thread, work)
