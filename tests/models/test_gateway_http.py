"""The server and the client of HTTP, against what real peers do to them."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from overnight.models.gateway.http import LARGEST_HEAD_BYTES, HttpServer, Reply, Request
from overnight.models.upstream.http import ConnectionFailed, HttpClient, TimedOut
from overnight.models.upstream.target import Target, Timeouts

Serve = Callable[[Request, Reply], Awaitable[None]]


async def echo(request: Request, reply: Reply) -> None:
    if request.path == "/slow":
        await asyncio.sleep(30)
    if request.path == "/stream":
        reply.start(200, {"content-type": "text/plain"})
        for _ in range(3):
            await reply.write(b"piece ")
        reply.end()
        return
    reply.send(200, request.method.encode() + b" " + request.target.encode() + b" " + request.body, {"x-a": "b"})


def talk(data: list[bytes], until: bytes = b"", serve: Serve = echo) -> bytes:
    """Send `data` piece by piece to a server of its own; what it said until it hung up, or until `until` came."""

    async def go() -> bytes:
        server = HttpServer(serve)
        port = await server.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        got = b""
        for piece in data:
            writer.write(piece)
            await asyncio.sleep(0.005)
        async with asyncio.timeout(60):
            while not until or until not in got:
                more = await reader.read(65536)
                if not more:
                    break
                got += more
        writer.close()
        await server.close(0.1)
        return got

    return asyncio.run(go())


def test_requests_are_read_however_they_are_cut() -> None:
    raw = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
    for size in (1, 7, len(raw)):
        answer = talk([raw[at : at + size] for at in range(0, len(raw), size)], b"hello")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nx-a: b\r\n") and answer.endswith(b"POST /a?b=c hello")


def test_chunked_bodies_and_expectations() -> None:
    head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"
    answer = talk([head, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"], b"abcde")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\n") and answer.endswith(b"POST / abcde")


def test_requests_sent_at_once_are_answered_in_order() -> None:
    answer = talk([b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % n for n in range(5))], b"GET /4")
    assert [answer.find(b"GET /%d" % n) for n in range(5)] == sorted(answer.find(b"GET /%d" % n) for n in range(5))
    assert answer.count(b"200 OK") == 5


def test_a_stream_is_chunked_and_for_old_clients_ends_with_the_connection() -> None:
    assert talk([b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n"], b"0\r\n\r\n").count(b"6\r\npiece \r\n") == 3
    old = talk([b"GET /stream HTTP/1.0\r\n\r\n"])
    assert b"chunked" not in old and old.endswith(b"piece piece piece ")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", b"400"),
        (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", b"400"),
        (
            b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            b"200",
        ),
        (b"GET / HTTP/1.1\r\na: " + b"x" * LARGEST_HEAD_BYTES + b"\r\n\r\n", b"431"),
    ],
)
def test_what_is_no_request_of_ours_ends_the_connection(raw: bytes, status: bytes) -> None:
    assert talk([raw]).startswith(b"HTTP/1.1 " + status)


def test_header_values_cannot_split_a_reply() -> None:
    async def careless(_: Request, reply: Reply) -> None:
        reply.send(200, b"", {"x-warning": "a\r\nset-cookie: b=c"})

    answer = talk([b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"], serve=careless)
    assert b"\r\nset-cookie" not in answer


def test_a_handler_s_defect_is_an_answer_and_not_a_hang() -> None:
    async def broken(_: Request, reply: Reply) -> None:
        raise ZeroDivisionError

    assert b"500" in talk([b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"], serve=broken)


def test_a_client_that_hangs_up_cancels_the_handler() -> None:
    async def go() -> None:
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def slow(_: Request, reply: Reply) -> None:
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        server = HttpServer(slow)
        port = await server.listen("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(20):
            await started.wait()
            writer.close()
            await cancelled.wait()
        await server.close(0.1)

    asyncio.run(go())


def test_a_slow_reader_is_waited_for() -> None:
    """A stream is written no faster than it is read: the rest stays with the provider, not in our memory."""

    async def go() -> tuple[int, int]:
        written = 0

        async def much(_: Request, reply: Reply) -> None:
            nonlocal written
            reply.start(200, {})
            for _turn in range(400):
                await reply.write(b"x" * 100_000)
                written += 100_000
            reply.end()

        server = HttpServer(much)
        port = await server.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=65536)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await asyncio.sleep(0.3)
        early = written
        got = len(await reader.read())
        writer.close()
        await server.close(0.1)
        return early, got

    early, got = asyncio.run(go())
    assert early < 20_000_000 and got > 40_000_000


def ask(replies: list[bytes], requests: int, timeouts: Timeouts | None = None, keep: bool = True) -> list[Any]:
    """What the client makes of a server that answers each connection's requests with `replies` in turn."""

    async def go() -> list[Any]:
        left = list(replies)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                except (asyncio.IncompleteReadError, ConnectionError):
                    break
                reply = left.pop(0) if left else b""
                if not reply:
                    break
                writer.write(reply)
                if not keep:
                    break
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        target = Target.of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        client = HttpClient()
        found: list[Any] = []
        for _ in range(requests):
            try:
                answer = await client.post(target, "/x", {}, b"hello", timeouts or Timeouts())
                try:
                    found.append((answer.status, await answer.read()))
                finally:
                    answer.release()
            except ConnectionFailed as problem:
                found.append(problem)
            await asyncio.sleep(0.02)
        client.close()
        server.close()
        await asyncio.sleep(0.05)
        return found

    return asyncio.run(go())


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_answers_of_every_framing() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    assert ask([OK, chunked, OK], 3) == [(200, b"ok")] * 3
    assert ask([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], 1) == [(200, b"ok")]
    assert ask([b"HTTP/1.0 200 OK\r\n\r\nok"], 1, keep=False) == [(200, b"ok")]


def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    assert ask([OK, OK, OK], 3, keep=False) == [(200, b"ok")] * 3


def test_answers_that_break_off_are_failures() -> None:
    short = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"
    cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nok"
    for reply in (short, cut, b"HTTP/1.1 200 OK\r\n", b"nonsense\r\n\r\n"):
        (problem,) = ask([reply], 1, keep=False)
        assert isinstance(problem, ConnectionFailed) and problem.sent, reply


def test_silence_is_a_timeout_and_not_tried_again() -> None:
    begun = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"
    found = ask([OK, begun], 2, Timeouts(first_s=2, idle_s=0.2))
    assert found[0] == (200, b"ok") and isinstance(found[1], TimedOut)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        nobody.listen(1)

        async def go() -> None:
            target = Target.of(f"http://127.0.0.1:{nobody.getsockname()[1]}")
            with pytest.raises(TimedOut):
                await HttpClient().post(target, "/", {}, b"", Timeouts(first_s=0.1))

        asyncio.run(go())


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://api.example.com/v1/", Target(True, "api.example.com", 443, "/v1")),
        ("http://[::1]:8080", Target(False, "::1", 8080, "")),
    ],
)
def test_targets(url: str, target: Target) -> None:
    assert Target.of(url) == target
