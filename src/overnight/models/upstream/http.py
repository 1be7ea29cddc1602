"""The HTTP/1.1 client towards providers: kept-alive connections, streams, timeouts; no redirects, no cookies."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from typing import Final, cast

import httptools

from overnight.models.upstream.target import Target, Timeouts

_HIGH_WATER_BYTES: Final = 1024 * 1024
_LARGEST_BODY_BYTES: Final = 256 * 1024 * 1024
_SPARE: Final = 64
"""Idle connections kept for one host."""


class ConnectionFailed(Exception):
    """The connection could not be made, or broke; `sent` says whether the request may have been received."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class TimedOut(ConnectionFailed):
    """Nothing was heard for too long."""


class Answer:
    """A response whose head has arrived. Read its body with `read` or `pieces`; always `release` it."""

    def __init__(self, client: "HttpClient", connection: "_Connection", timeouts: Timeouts) -> None:
        self._client = client
        self._connection = connection
        self._timeouts = timeouts
        self.status = connection.status
        self.headers = connection.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives.

        Raises:
            ConnectionFailed: it broke off.
        """
        while True:
            piece = await self._connection.next_piece(self._timeouts.idle_s)
            if piece is None:
                return
            yield piece

    async def read(self) -> bytes:
        """The whole body.

        Raises:
            ConnectionFailed: it broke off.
        """
        found, size = [], 0
        async for piece in self.pieces():
            found.append(piece)
            size += len(piece)
            if size > _LARGEST_BODY_BYTES:
                raise ConnectionFailed("the answer is larger than 256 MB", sent=True)
        return b"".join(found)

    def release(self) -> None:
        """Give the connection back, or close it if the body was not read to its end."""
        self._client.give_back(self._connection)


class HttpClient:
    """Connections to any number of hosts. One event loop's own."""

    def __init__(self) -> None:
        self._idle: dict[tuple[bool, str, int], deque[_Connection]] = {}

    async def post(
        self, target: Target, path: str, headers: Mapping[str, str], body: bytes, limits: Timeouts
    ) -> Answer:
        """Send a POST; the answer once its head is there.

        Raises:
            ConnectionFailed: it could not be sent, or no answer came.
        """
        lines = [f"POST {target.path}{path} HTTP/1.1", f"host: {_host(target)}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + body
        while True:
            connection, fresh = await self._connection(target, limits.connect_s)
            try:
                await connection.ask(data, limits.first_s)
            except ConnectionFailed as problem:
                connection.close()
                # A kept connection that the host had closed meanwhile never carried the request.
                if fresh or connection.heard or isinstance(problem, TimedOut):
                    raise
                continue
            except BaseException:
                connection.close()
                raise
            return Answer(self, connection, limits)

    def give_back(self, connection: "_Connection") -> None:
        """Keep `connection` for the next request if it can be."""
        if connection.reusable:
            idle = self._idle.setdefault(connection.key, deque())
            if len(idle) < _SPARE:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close every idle connection."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    async def _connection(self, target: Target, timeout_s: float) -> tuple["_Connection", bool]:
        key = (target.tls, target.host, target.port)
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection, False
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, made = await loop.create_connection(
                    lambda: _Connection(key), target.host, target.port, ssl=_tls() if target.tls else None
                )
        except TimeoutError:
            raise TimedOut(f"no connection to {_host(target)} within {timeout_s:g}s", sent=False) from None
        except OSError as problem:
            raise ConnectionFailed(f"no connection to {_host(target)}: {problem}", sent=False) from problem
        return made, True


class _Connection(asyncio.Protocol):
    """One connection to a host; carries one request at a time."""

    def __init__(self, key: tuple[bool, str, int]) -> None:
        self.key = key
        self.status = 0
        self.headers: dict[str, str] = {}
        self.heard = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._head = False
        self._complete = True
        self._lost: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def reusable(self) -> bool:
        """Whether the last answer was read to its end and the host keeps the connection."""
        return self._complete and not self._pieces and self._lost is None and self._transport is not None

    async def ask(self, data: bytes, timeout_s: float) -> None:
        assert self._complete and self._transport is not None
        self.status, self.headers, self.heard = 0, {}, False
        self._head = self._complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(data)
        await self._wait(timeout_s, lambda: self._head)

    async def next_piece(self, timeout_s: float) -> bytes | None:
        if not self._pieces and not self._complete:
            await self._wait(timeout_s, lambda: bool(self._pieces) or self._complete)
        if not self._pieces:
            return None
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._paused and self._buffered < _HIGH_WATER_BYTES // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._complete and self._head and not self._framed:
            # A body without a length ends with the connection.
            self._complete = True
        if self._lost is None:
            self._lost = str(exc) if exc else "the connection was closed"
        self._notify()

    def data_received(self, data: bytes) -> None:
        if self._complete:
            # Nobody asked.
            self.close()
            return
        self.heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._lost = "the answer is not HTTP/1.1"
            self.close()
        self._notify()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self.status, self._head = status, True
            if len(self.headers) > 256:
                self._lost = "the answer has too many headers"
                self.close()
        else:
            self.headers = {}

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._buffered += len(body)
        if self._buffered > _HIGH_WATER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._head:
            self._complete = True
            if not self._parser.should_keep_alive():
                self._lost = "the host closes it"

    @property
    def _framed(self) -> bool:
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    async def _wait(self, timeout_s: float, there: Callable[[], bool]) -> None:
        deadline = self._loop.time() + timeout_s
        while not there():
            if self._lost is not None:
                raise ConnectionFailed(self._lost, sent=True)
            self._waiter = self._loop.create_future()
            timer = self._loop.call_at(deadline, self._expire, self._waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
            if self._loop.time() >= deadline and not there():
                raise TimedOut(f"nothing was heard for {timeout_s:g}s", sent=True)

    def _expire(self, waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            waiter.set_result(None)

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _host(target: Target) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.port == (443 if target.tls else 80) else f"{host}:{target.port}"


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    # Loading the system's certificates takes 20 ms and more.
    return ssl.create_default_context()
