"""Providers by way of `any-llm-sdk`, the extra `[any-llm]`: those that speak a format of their own.

The SDK answers as OpenAI's chat completions do; here that becomes the same answer that a connection gives.
"""

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from overnight.models.release import Release
from overnight.models.upstream.http import ConnectionFailed, TimedOut
from overnight.models.wire.fields import to_json

INSTALL: Final = "pip install 'overnight[any-llm]'"
_STATUS: Final[Mapping[str, int]] = {
    "RateLimitError": 429,
    "AuthenticationError": 401,
    "MissingApiKeyError": 401,
    "InsufficientFundsError": 402,
    "ModelNotFoundError": 404,
    "InvalidRequestError": 400,
    "ContextLengthExceededError": 400,
    "ContentFilterError": 400,
    "UnsupportedParameterError": 400,
    "UnsupportedProviderError": 400,
    "GatewayTimeoutError": 504,
    "UpstreamProviderError": 502,
}


def missing() -> str:
    """Why providers of this kind cannot be had, as a sentence; "" if they can."""
    return "" if find_spec("any_llm") else f"any-llm-sdk is not installed: {INSTALL}"


class AnyLlm:
    """Its clients, one for each provider. One event loop's own."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str, str], Any] = {}

    async def send(self, release: Release, body: Mapping[str, Any], key: str) -> "SdkAnswer":
        """Ask; the answer once it begins, whatever its status.

        Args:
            release: whom to ask.
            body: a chat completion's.
            key: of the provider; "" leaves it to the SDK, which looks into the provider's usual variable.

        Raises:
            ConnectionFailed: no answer came.
            LookupError: the SDK, or its part for this provider, is not installed.
        """
        try:
            client = self._client(release, key)
        except ImportError as problem:
            via = release.provider.via
            raise LookupError(f"{problem}; pip install 'any-llm-sdk[{via}]'") from problem
        except Exception as problem:
            return _refused(problem)
        try:
            async with asyncio.timeout(release.timeouts.first_s):
                answer = await client.acompletion(**{**body, "model": release.model})
        except TimeoutError as problem:
            raise TimedOut(f"nothing was heard for {release.timeouts.first_s:g}s", sent=True) from problem
        except Exception as problem:
            return _refused(problem)
        if body.get("stream"):
            return SdkAnswer(200, stream=answer, idle_s=release.timeouts.idle_s)
        return SdkAnswer(200, to_json(_plain(answer)))

    async def close(self) -> None:
        """Close every client, as far as its SDK can."""
        for client in self._clients.values():
            close = getattr(getattr(client, "client", None), "close", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    closing = close()
                    if inspect.isawaitable(closing):
                        await closing
        self._clients.clear()

    def _client(self, release: Release, key: str) -> Any:
        provider = release.provider
        name = (provider.via, provider.base_url, key)
        client = self._clients.get(name)
        if client is None:
            if problem := missing():
                raise LookupError(problem)
            sdk: Any = import_module("any_llm")
            how = {"api_key": key or None, "api_base": provider.base_url or None, "unified_exceptions": True}
            try:
                # What is tried again has to be set aside again, so it is ours to do.
                client = sdk.AnyLLM.create(provider.via, **how, max_retries=0)
            except sdk.UnsupportedParameterError:
                client = sdk.AnyLLM.create(provider.via, **how)
            self._clients[name] = client
        return client


class SdkAnswer:
    """See `upstream.HttpAnswer`."""

    def __init__(self, status: int, body: bytes = b"", stream: Any = None, idle_s: float = 0.0) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self._body = body
        self._stream = stream
        self._idle_s = idle_s
        self._closing: asyncio.Future[Any] | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """See `upstream.HttpAnswer`."""
        if self._stream is None:
            yield self._body
            return
        chunks = aiter(self._stream)
        while True:
            try:
                async with asyncio.timeout(self._idle_s):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                yield b"data: [DONE]\n\n"
                return
            except TimeoutError as problem:
                raise TimedOut(f"nothing was heard for {self._idle_s:g}s", sent=True) from problem
            except Exception as problem:
                raise ConnectionFailed(str(problem), sent=True) from problem
            yield b"data: " + to_json(_plain(chunk)) + b"\n\n"

    async def read(self) -> bytes:
        """See `upstream.HttpAnswer`."""
        return self._body

    def release(self) -> None:
        """See `upstream.HttpAnswer`."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            self._closing = asyncio.ensure_future(close())
            self._closing.add_done_callback(lambda done: done.cancelled() or done.exception())


def _plain(answer: Any) -> dict[str, Any]:
    """As OpenAI writes it; the SDK's `reasoning` is an object of its own."""
    found: dict[str, Any] = answer.model_dump(mode="json", exclude_none=True)
    for choice in found.get("choices", ()):
        for said in (choice.get("message"), choice.get("delta")):
            if isinstance(said, dict) and isinstance(said.get("reasoning"), dict):
                said["reasoning_content"] = str(said.pop("reasoning").get("content") or "")
    return found


def _refused(problem: Exception) -> SdkAnswer:
    status = getattr(problem, "status_code", None)
    if not isinstance(status, int) or status < 400:
        status = _STATUS.get(type(problem).__name__, 502)
    answer = SdkAnswer(status, json.dumps({"error": {"message": str(problem)}}).encode())
    wait = getattr(problem, "retry_after", None)
    if wait is not None:
        answer.headers["retry-after"] = str(wait)
    return answer
