"""Which providers are shared by turns: those that say how many requests they serve at a time."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from overnight.models.queue import Priority, TimeSharing, Turn
from overnight.models.release import Release

PRIORITY_HEADER: Final = "x-overnight-priority"
"""`batch` lets others go first; everything else is `interactive`. A caller can only step back, or stay where it is."""


class SharedProviders:
    """The queues of a gateway's providers. One event loop's own."""

    def __init__(self) -> None:
        self._queues: dict[str, TimeSharing] = {}

    @contextlib.asynccontextmanager
    async def turn(
        self, release: Release, agent: str, headers: Mapping[str, str], tokens: int
    ) -> AsyncIterator[Turn | None]:
        """Wait until the release's provider is free for `agent`; not at all where it has no number of slots.

        Raises:
            Preempted: the block held the provider longer than it may.
        """
        slots = release.provider.slots
        if not slots:
            yield None
            return
        sharing = self._queues.setdefault(release.provider_name, TimeSharing())
        # The settings may have changed since.
        sharing.slots = slots
        priority: Priority = "batch" if headers.get(PRIORITY_HEADER, "").strip().lower() == "batch" else "interactive"
        async with sharing.turn(agent, priority, max(1, tokens), release.provider.longest) as turn:
            yield turn
