"""Which providers are shared by turns: those that say how many requests they serve at a time."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from overnight.models.queue.queue import PRIORITY_HEADER, Priority
from overnight.models.queue.shared import Holder, SharedQueue, holders
from overnight.models.queue.turns import TimeSharing, Turn
from overnight.models.release import Release
from overnight.store.database import Database


class SharedProviders:
    """The queues of a gateway's providers, shared with other processes of the workspace. One event loop's own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: dict[str, TimeSharing] = {}
        # Waiting for a turn is no haste: the database is used in a thread, however busy it may be.
        self._thread = ThreadPoolExecutor(1, "overnight-queue")
        self._holder: Holder | None = None

    @contextlib.asynccontextmanager
    async def turn(
        self, release: Release, agent: str, headers: Mapping[str, str], tokens: int
    ) -> AsyncIterator[Turn | None]:
        """Wait until the release's provider is free for `agent`; not at all where it has no number of slots.

        Raises:
            Preempted: the block held the provider longer than it may.
            StoreError: the queue cannot be read or written.
        """
        provider = release.provider
        if not provider.slots:
            yield None
            return
        sharing = self._queues.get(release.provider_name)
        if sharing is None:
            self._holder = self._holder or Holder(holders(self._database))
            queue = SharedQueue(self._database, release.provider_name, self._holder)
            sharing = self._queues[release.provider_name] = TimeSharing(queue, self._thread)
        # The settings may have changed since.
        sharing.queue.slots, sharing.queue.shares = provider.slots, provider.shares
        priority: Priority = "batch" if headers.get(PRIORITY_HEADER, "").strip().lower() == "batch" else "interactive"
        async with sharing.turn(agent, priority, max(1, tokens), provider.longest) as turn:
            yield turn

    def close(self) -> None:
        """Free what is still held."""
        self._thread.shutdown()
        if self._holder is not None:
            self._holder.close()
