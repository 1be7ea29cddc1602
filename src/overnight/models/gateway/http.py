"""The HTTP/1.1 server under the gateway: httptools parses, asyncio carries, nothing else.

Measured against aiohttp on the same machine and day: a third of the CPU per request (docs/models.md).
"""

import asyncio
import contextlib
import http
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import httptools

LARGEST_BODY_BYTES: Final = 64 * 1024 * 1024
LARGEST_HEAD_BYTES: Final = 64 * 1024
IDLE_S: Final = 120.0
"""A connection on which nothing is going on for so long is closed, also one that never completes its request."""
_SWEEP_S: Final = 15.0
_ONE_LINE: Final = {ord("\r"): " ", ord("\n"): " ", 0: " "}
_REASONS: Final = {status.value: status.phrase.encode() for status in http.HTTPStatus}


@dataclass(slots=True)
class Request:
    """One request as it came. Header names are lower case; of repeated ones the last counts."""

    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class Reply:
    """What goes back. `start`, any number of `write`, `end`; or `send` for all at once."""

    def __init__(self, connection: "_Connection", keep_alive: bool, chunked: bool) -> None:
        self._connection = connection
        self._keep_alive = keep_alive
        self._chunked = chunked
        self.started = False
        self.ended = False
        self.copy: list[bytes] | None = None
        """Where a list is put here, what is sent as the body is appended to it."""

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """The whole reply."""
        assert not self.started
        self.started = self.ended = True
        if self.copy is not None:
            self.copy.append(body)
        head = self._head(status, headers or {}) + b"content-length: %d\r\n\r\n" % len(body)
        self._connection.write(head + body)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a reply whose length is not known yet."""
        assert not self.started
        self.started = True
        framing = b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"
        self._keep_alive = self._keep_alive and self._chunked
        self._connection.write(self._head(status, headers) + framing)

    async def write(self, piece: bytes) -> None:
        """Send a piece; waits while the client reads slower than it is written."""
        if piece:
            if self.copy is not None:
                self.copy.append(piece)
            self._connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)
            if self._connection.writable is not None:
                await self._connection.writable

    def end(self) -> None:
        """Complete the reply."""
        self.ended = True
        if self._chunked:
            self._connection.write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Cut the connection."""
        self._connection.abort()

    @property
    def keeps_connection(self) -> bool:
        """Whether the connection may carry another request."""
        return self._keep_alive and self.ended

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        lines = [b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, b"Unknown"))]
        # A line break in a value would begin another header.
        lines += [
            f"{name}: {value}".translate(_ONE_LINE).encode("latin-1", "replace") for name, value in headers.items()
        ]
        if not self._keep_alive:
            lines.append(b"connection: close")
        return b"\r\n".join(lines) + b"\r\n"


Handler = Callable[[Request, Reply], Awaitable[None]]
"""Answers one request. It is cancelled when the client goes away."""


class HttpServer:
    """Serves `handler` on one address. One event loop's own."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None

    async def listen(self, host: str, port: int) -> int:
        """Start; the port, chosen by the system if `port` is 0.

        Raises:
            OSError: the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=1024)
        self._sweeping = loop.create_task(self._sweep())
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self, grace_s: float = 5.0) -> None:
        """Take no new connections, let what runs end for so long, then cancel it."""
        if self._server is not None:
            self._server.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=grace_s)
        for connection in list(self.connections):
            connection.abort()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            limit = time.monotonic() - IDLE_S
            for connection in list(self.connections):
                if connection.task is None and connection.heard_at < limit:
                    connection.abort()


class _Connection(asyncio.Protocol):
    """One client's connection: parses requests and runs one at a time."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._request = Request()
        self._body: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._last = False
        self._waiting: list[tuple[Request, bool, bool]] = []
        self.heard_at = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self.writable: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.connections.discard(self)
        self._waiting.clear()
        self.resume_writing()
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.heard_at = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request is answered as any other; what comes behind it is no HTTP of ours.
            self._last = True
        except httptools.HttpParserError:
            self._refuse(400, b"not a request of HTTP/1.1")

    def pause_writing(self) -> None:
        if self.writable is None:
            self.writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self.writable is not None:
            if not self.writable.done():
                self.writable.set_result(None)
            self.writable = None

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def on_message_begin(self) -> None:
        self._request, self._body = Request(), []
        self._size = self._head_size = 0

    def on_url(self, url: bytes) -> None:
        self._request.target += url.decode("latin-1")
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        self._count_head(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._request.method = self._parser.get_method().decode("latin-1")
        if self._request.headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > LARGEST_BODY_BYTES:
            self._refuse(413, b"the body is larger than 64 MB")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._request.body = b"".join(self._body)
        self._body = []
        chunked = self._parser.get_http_version() == "1.1"
        self._waiting.append((self._request, self._parser.should_keep_alive(), chunked))
        if self.task is None:
            self._next()
        else:
            # Another request before this one is answered: read no more than that.
            self._transport.pause_reading()

    def _next(self) -> None:
        request, keep_alive, chunked = self._waiting.pop(0)
        self.task = self._loop.create_task(self._run(request, Reply(self, keep_alive, chunked)))

    async def _run(self, request: Request, reply: Reply) -> None:
        try:
            await self._server.handler(request, reply)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception as problem:
            # A handler answers its own failures; whatever comes here is a defect, and must not hang the client.
            self._loop.call_exception_handler({"message": "a request failed", "exception": problem})
            if not reply.started:
                reply.send(500, b'{"error":{"message":"the gateway failed; see its log","type":"server_error"}}')
        finally:
            self.task = None
            self.heard_at = time.monotonic()
            if self._transport is not None:
                if self._last or not reply.keeps_connection:
                    # An unfinished stream must not look finished.
                    self._transport.close() if reply.ended else self._transport.abort()
                elif self._waiting:
                    self._next()
                else:
                    with contextlib.suppress(RuntimeError):
                        self._transport.resume_reading()

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > LARGEST_HEAD_BYTES:
            self._refuse(431, b"the head is larger than 64 KB")

    def _refuse(self, status: int, why: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            if self.task is None:
                Reply(self, False, True).send(status, why, {"content-type": "text/plain"})
            self._transport.close()
