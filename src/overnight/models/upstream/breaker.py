"""The circuit breaker of a provider: after several failures in a row it is left alone for a while, then tried once."""

import time
from typing import Final

FAILURES: Final = 5
REST_S: Final = 15.0


class Breaker:
    """Counts failures that say something about the provider, not about a request. For one thread."""

    def __init__(self) -> None:
        self._failures = 0
        self._closed_until = 0.0
        self._trying = False

    def refuses(self) -> float:
        """Seconds until the provider may be tried again; 0 if it may be now, and then one call is on trial."""
        if self._failures < FAILURES:
            return 0.0
        now = time.monotonic()
        if now < self._closed_until:
            return self._closed_until - now
        if self._trying:
            return 1.0
        self._trying = True
        return 0.0

    def succeeded(self) -> None:
        """The provider answered."""
        self._failures, self._trying = 0, False

    def failed(self) -> None:
        """The provider failed."""
        self._failures += 1
        self._trying = False
        self._closed_until = time.monotonic() + REST_S

    def gave_up(self) -> None:
        """A call ended without saying anything about the provider."""
        self._trying = False
