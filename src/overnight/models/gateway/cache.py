"""Answers given again: to the very same request of the same tenant, where the tenant's settings ask for it.

In memory only, since answers hold what was masked before it left: nothing of it is ever written down.
"""

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from overnight.models.release import Release

LARGEST_BYTES: Final = 64 * 1024 * 1024
"""Of all answers together; the ones used longest ago go first."""


@dataclass(frozen=True)
class Cached:
    """An answer as it was sent, by its content type."""

    content_type: str
    body: bytes


class AnswerCache:
    """The answers of one gateway. One event loop's own."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[float, Cached]] = OrderedDict()
        self._bytes = 0
        self._running: dict[str, asyncio.Future[Cached | None]] = {}

    def get(self, name: str, at_most_s: float) -> Cached | None:
        """The answer kept under `name`, if it is not older than that."""
        found = self._answers.get(name)
        if found is None or time.monotonic() - found[0] > at_most_s:
            return None
        self._answers.move_to_end(name)
        return found[1]

    def put(self, name: str, answer: Cached) -> None:
        """Keep an answer."""
        self._drop(name)
        self._answers[name] = (time.monotonic(), answer)
        self._bytes += len(answer.body)
        while self._bytes > LARGEST_BYTES:
            self._drop(next(iter(self._answers)))

    def running(self, name: str) -> "asyncio.Future[Cached | None] | None":
        """What the same request, sent already, will come to: None if it fails."""
        return self._running.get(name)

    def begin(self, name: str) -> bool:
        """The request is being sent, and others may wait for it; False if one of them is the first already."""
        if name in self._running:
            return False
        self._running[name] = asyncio.get_running_loop().create_future()
        return True

    def end(self, name: str, answer: Cached | None) -> None:
        """It was answered, or not."""
        future = self._running.pop(name)
        if not future.done():
            future.set_result(answer)

    def _drop(self, name: str) -> None:
        found = self._answers.pop(name, None)
        if found is not None:
            self._bytes -= len(found[1].body)


def name_of(tenant: str, wire: str, release: Release, body: dict[str, Any]) -> str:
    """The name under which an answer is kept: whose it is, what was asked, and of whom."""
    asked = [tenant, wire, release.name, release.provider_name, release.model, dict(release.settings.params), body]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
