"""The way out for commands that may reach a few named hosts: an HTTP proxy of our own, outside the sandbox.

It serves CONNECT (for TLS) and absolute-form requests (plain HTTP) to the allowed `host[:port]`s only. Names are
resolved here, once, and the connection goes to the address that was checked. An address that is not public is refused
unless the allow-list names it as such (an address, or `localhost`), so that a name cannot be pointed at the machine
itself.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Self
from urllib.parse import urlsplit

from overnight.sandbox.addresses import is_address, is_public, parse_hosts, split_endpoint

_HEAD_BYTES = 32 * 1024
_HEAD_S, _CONNECT_S, _IDLE_S = 30.0, 20.0, 600.0
_CONNECTIONS = 64
_HOP_BY_HOP = (b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host")


class Egress:
    """A proxy while its context lasts.

    Args:
        hosts: allow-list, see `parse_hosts`.
        path: UNIX socket to listen at; None listens at a free TCP port of 127.0.0.1.

    Raises:
        UsageError: on construction, an entry of the allow-list is malformed.
    """

    def __init__(self, hosts: Iterable[str], path: str | None) -> None:
        self._allowed = parse_hosts(hosts)
        self._refused: dict[str, None] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._stopping = threading.Event()
        self._open: set[socket.socket] = set()
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=_CONNECTIONS)
            self.port = int(self._listener.getsockname()[1])
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(path)
            self._listener.listen(_CONNECTIONS)
            self.port = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._spawn(threading.Thread(target=self._accept, name="egress", daemon=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with self._lock:
            for end in (self._listener, *self._open):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # wakes whoever waits on it
        for thread in self._threads:
            thread.join(timeout=1.0)
        self._listener.close()

    @property
    def refused(self) -> tuple[str, ...]:
        """What was asked for in vain, in order, each once."""
        with self._lock:
            return tuple(self._refused)

    def _spawn(self, thread: threading.Thread) -> None:
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._slots.acquire(blocking=False):
                self._spawn(threading.Thread(target=self._serve, args=(client,), daemon=True))
            else:
                client.close()

    def _serve(self, client: socket.socket) -> None:
        try:
            with self._tracked(client), contextlib.suppress(OSError):
                self._answer(client)
        finally:
            self._slots.release()

    @contextlib.contextmanager
    def _tracked(self, end: socket.socket) -> Iterator[None]:
        """Closes `end` afterwards; a stop meanwhile wakes whoever waits on it."""
        with end:
            with self._lock:
                self._open.add(end)
            try:
                yield
            finally:
                with self._lock:
                    self._open.discard(end)

    def _answer(self, client: socket.socket) -> None:
        head, rest = self._read_head(client)
        request = _Request.parse(head)
        if request is None:
            _refuse(client, b"400 Bad Request", b"not a proxy request\n")
            return
        if (request.host, request.port) not in self._allowed:
            self._note(request)
            _refuse(client, b"403 Forbidden", f"{request.endpoint} is not an allowed host\n".encode())
            return
        server = self._connect(request)
        if isinstance(server, str):
            status = b"403 Forbidden" if server.startswith("refused") else b"502 Bad Gateway"
            _refuse(client, status, f"{request.endpoint}: {server}\n".encode())
            return
        with self._tracked(server):
            if request.forward is None:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(request.forward)
            if rest:
                server.sendall(rest)
            self._relay(client, server)

    def _note(self, request: "_Request") -> None:
        with self._lock:
            if len(self._refused) < 100:
                self._refused[request.endpoint] = None

    def _read_head(self, client: socket.socket) -> tuple[bytes, bytes]:
        data = b""
        deadline = time.monotonic() + _HEAD_S
        while b"\r\n\r\n" not in data and len(data) < _HEAD_BYTES and (left_s := deadline - time.monotonic()) > 0:
            client.settimeout(left_s)
            piece = client.recv(4096)
            if not piece:
                break
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        return head, rest

    def _connect(self, request: "_Request") -> socket.socket | str:
        """A connection to where the name leads, or why there is none."""
        named_as_such = request.host == "localhost" or is_address(request.host)
        try:
            found = socket.getaddrinfo(request.host, request.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return f"cannot be resolved: {error}"
        problem = "has no address"
        for family, kind, protocol, _, address in found:
            if not named_as_such and not is_public(str(address[0])):
                self._note(request)
                problem = f"refused: the name leads to {address[0]}, which is not public"
                continue
            server = socket.socket(family, kind, protocol)
            server.settimeout(_CONNECT_S)
            try:
                server.connect(address)
            except OSError as error:
                server.close()
                problem = f"cannot be reached: {error}"
                continue
            return server
        return problem

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """Copy both ways until both sides are done, nothing moves for long, or we stop."""
        poll = select.poll()
        other = {client: server, server: client}
        by_fd = {end.fileno(): end for end in other}
        for end in other:
            end.settimeout(_IDLE_S)
            poll.register(end, select.POLLIN)
        reading = set(other)
        while reading and not self._stopping.is_set():
            ready = poll.poll(_IDLE_S * 1000)
            if not ready:
                return
            for fd, _ in ready:
                end = by_fd[fd]
                data = end.recv(65536)
                if data:
                    other[end].sendall(data)
                else:
                    poll.unregister(end)
                    reading.discard(end)
                    with contextlib.suppress(OSError):
                        other[end].shutdown(socket.SHUT_WR)


def proxy_variables(port: int) -> dict[str, str]:
    """Environment that makes HTTP clients use the proxy at 127.0.0.1:`port`."""
    url = f"http://127.0.0.1:{port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {**dict.fromkeys(names, url), "NO_PROXY": "", "no_proxy": ""}


def _refuse(client: socket.socket, status: bytes, words: bytes) -> None:
    head = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    client.sendall(head % (status, len(words)) + words)


class _Request:
    """What a client of the proxy asked for.

    Attributes:
        host, port: where to.
        forward: what the server gets of the head; None for a tunnel.
    """

    def __init__(self, host: str, port: int, forward: bytes | None) -> None:
        self.host = host
        self.port = port
        self.forward = forward

    @property
    def endpoint(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, head: bytes) -> "_Request | None":
        """None if it is not one that we serve."""
        line, *fields = head.split(b"\r\n")
        try:
            method, target, version = line.decode("ascii").split(" ")
        except ValueError:
            return None
        if not version.startswith("HTTP/1.") or not method.isalpha():
            return None
        if method == "CONNECT":
            endpoint = split_endpoint(target, None)
            return cls(endpoint[0], endpoint[1], None) if endpoint is not None and endpoint[1] is not None else None
        try:
            url = urlsplit(target)
        except ValueError:
            return None
        endpoint = split_endpoint(url.netloc, 80) if url.scheme == "http" else None
        if endpoint is None or endpoint[1] is None:
            return None
        # One request a connection, to the server that was checked, and by its name: the client cannot say otherwise.
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in _HOP_BY_HOP]
        kept = [field for field in kept if not field.lower().startswith(b"proxy-")]
        lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: " + url.netloc.encode(), *kept, b"Connection: close"]
        return cls(endpoint[0], endpoint[1], b"\r\n".join(lines) + b"\r\n\r\n")
