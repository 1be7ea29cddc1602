"""Providers: how each is spoken to, and what its failures mean."""

import json
import random
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

from overnight.models.release import Release
from overnight.models.settings import ProviderKind
from overnight.models.upstream.any_llm import AnyLlm
from overnight.models.upstream.breaker import Breaker
from overnight.models.upstream.http import ConnectionFailed, HttpClient, TimedOut
from overnight.models.upstream.keys import ProviderKeys
from overnight.models.wire import WIRES, Wire, WireName
from overnight.models.wire.errors import ErrorKind, kind_of, message_of
from overnight.models.wire.fields import to_json

SPOKEN: Final[Mapping[ProviderKind, tuple[WireName, ...]]] = {
    "openai": ("chat", "responses", "embeddings"),
    "openai-compatible": ("chat", "embeddings"),
    "anthropic": ("messages",),
    "any-llm": ("chat",),
}
RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 522, 524, 529})
LONGEST_WAIT_S: Final = 30.0
"""A provider that asks for more patience is passed over for the next in the list."""
_FIRST_WAIT_S: Final = 0.25
_LONGEST_BACKOFF_S: Final = 8.0
_ANTHROPIC_VERSION: Final = "2023-06-01"
_PASSED_ON: Final = ("anthropic-beta", "openai-beta")


@dataclass(frozen=True)
class Failure:
    """Why an attempt did not lead to an answer.

    Attributes:
        kind: for the client.
        status: for the client.
        message: for the client and the trace; may hold a provider's own words.
        retryable: the same may work a little later.
        elsewhere: another model may do it.
        blame: it says something about the provider, for its breaker.
        retry_after_s: what the provider asked for.
        lost: the request may have been worked on; what it used is not known.
    """

    kind: ErrorKind
    status: int
    message: str
    retryable: bool = False
    elsewhere: bool = True
    blame: bool = False
    retry_after_s: float | None = None
    lost: bool = False


class HttpAnswer(Protocol):
    """An answer whose head has arrived. Used by one task; always release it. Fails with `ConnectionFailed`."""

    status: int
    headers: dict[str, str]

    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""

    async def read(self) -> bytes:
        """The whole body."""

    def release(self) -> None:
        """Nothing more of it is wanted."""


class Upstreams:
    """All providers. One event loop's own."""

    def __init__(self) -> None:
        self.client = HttpClient()
        self._breakers: dict[str, Breaker] = {}
        self._keys = ProviderKeys()
        self._any_llm = AnyLlm()

    def breaker(self, provider_name: str) -> Breaker:
        """The breaker of a provider; it outlives changes of the configuration."""
        return self._breakers.setdefault(provider_name, Breaker())

    async def close(self) -> None:
        """Close every idle connection."""
        self.client.close()
        await self._any_llm.close()

    async def send(
        self, release: Release, wire: Wire, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> HttpAnswer:
        """Send a request to a release's provider; the answer once its head is there, whatever its status.

        Args:
            release: whom to ask.
            wire: the provider's format.
            body: the request in it.
            headers: the client's, of which a few are passed on.

        Raises:
            ConnectionFailed: no answer came.
            LookupError: the provider's key is nowhere.
        """
        provider = release.provider
        if provider.kind == "any-llm":
            return await self._any_llm.send(release, body, self._keys.get(release.provider_name, provider))
        sent = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "overnight"}
        sent.update((name, headers[name]) for name in _PASSED_ON if name in headers)
        key = self._keys.get(release.provider_name, provider)
        if key:
            sent.update({"x-api-key": key} if provider.kind == "anthropic" else {"authorization": f"Bearer {key}"})
        if provider.kind == "anthropic":
            sent["anthropic-version"] = headers.get("anthropic-version", _ANTHROPIC_VERSION)
        sent.update({name.lower(): value for name, value in provider.headers.items()})
        return await self.client.post(release.target, wire.path, sent, to_json(body), release.timeouts)


def wire_for(release: Release, client: Wire) -> Wire:
    """The format in which to ask a provider: the client's own if it speaks that, else its first."""
    spoken = SPOKEN[release.provider.kind]
    return client if client.name in spoken else WIRES[spoken[0]]


def refused(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an answer that isn't one means."""
    try:
        words = message_of(json.loads(body))
    except ValueError:
        words = ""
    words = words or f"the provider answered with status {status}"
    wait = retry_after_s(headers)
    retryable = status in RETRIED or status >= 500
    kind = kind_of(status)
    if status in (401, 402, 403):
        # The provider refuses our key, not the client's.
        return Failure("upstream", 502, f"the provider refused the gateway's key: {words}")
    shown = status if 400 <= status < 600 else 502
    mine = status in (400, 413, 422)
    return Failure(kind, shown, words, retryable, not mine, retryable and status != 429, wait)


def failed(problem: ConnectionFailed) -> Failure:
    """What a broken connection means."""
    if isinstance(problem, TimedOut):
        return Failure("timeout", 504, f"the provider took too long: {problem}", True, True, True, lost=problem.sent)
    return Failure("upstream", 502, f"the provider cannot be reached: {problem}", True, True, True)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What `retry-after` or `retry-after-ms` asks for, in seconds."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        if "retry-after" not in headers:
            return None
        value = headers["retry-after"].strip()
        if value.replace(".", "", 1).isdigit():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def wait_s(failure: Failure, tried: int) -> float:
    """How long to wait before the next try: what the provider asked for, else a random time that doubles its limit."""
    if failure.retry_after_s is not None:
        return failure.retry_after_s + random.uniform(0, 0.1)
    limit_s: float = min(_LONGEST_BACKOFF_S, _FIRST_WAIT_S * 2 ** (tried - 1))
    return random.uniform(0.5, 1.0) * limit_s
