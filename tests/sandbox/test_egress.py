"""The proxy, from inside of sandboxes and by hand; only ever to a server of the test's own."""

import http.server
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from overnight.sandbox import Command, Sandbox
from overnight.sandbox.egress import Egress

Make = Callable[..., Command]


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kept = {name: self.headers[name] for name in ("Host", "Proxy-Authorization", "X-Mine", "Connection")}
        body = f"{self.path} {kept}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield listening.server_address[1]
        listening.shutdown()
        thread.join()


def ask(proxy: str, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(proxy)
        client.settimeout(60)
        client.sendall(request)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
        return answer


@pytest.fixture
def proxy_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("p") / "s")


def test_only_named_hosts_from_inside(isolating: Sandbox, make: Make, server: int) -> None:
    code = f"""
import socket, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:{server}/x?y=1", timeout=300).read().decode())
for url in ("http://127.0.0.1:1/", "http://blocked.example/"):
    try: urllib.request.urlopen(url, timeout=300)
    except urllib.error.HTTPError as error: print(error.code)
try: socket.create_connection(("127.0.0.1", {server}), 5); print("direct")
except OSError: print("no way round")
"""
    finished = isolating.run(make(sys.executable, "-I", "-c", code, hosts=(f"127.0.0.1:{server}",)))
    lines = finished.stdout.decode().splitlines()
    assert lines[0].startswith("/x?y=1"), finished
    assert lines[1:] == ["403", "403", "no way round"]
    assert finished.refused_hosts == ("127.0.0.1:1", "blocked.example:80")


def test_exit_codes_come_through_the_relay(bwrap: Sandbox, make: Make) -> None:
    assert bwrap.run(make("sh", "-c", "exit 7", hosts=("a.example",))).exit_code == 7
    missing = bwrap.run(make("no-such-program", hosts=("a.example",)))
    assert missing.exit_code == 127
    assert b"no-such-program: No such file" in missing.stderr


def test_tunnels(server: int, proxy_path: str) -> None:
    with Egress([f"localhost:{server}"], proxy_path) as egress:
        request = b"CONNECT localhost:%d HTTP/1.1\r\nHost: x\r\n\r\n" % server
        answer = ask(proxy_path, request + b"GET /t HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"\r\n\r\n/t {" in answer
        assert egress.refused == ()


def test_a_plain_request_goes_where_its_address_says(server: int, proxy_path: str) -> None:
    with Egress([f"127.0.0.1:{server}"], proxy_path):
        request = (
            b"GET http://127.0.0.1:%d/p HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: secret\r\n"
            b"X-Mine: kept\r\nConnection: keep-alive\r\n\r\n"
        )
        answer = ask(proxy_path, request % server).decode()
    assert (
        f"'Host': '127.0.0.1:{server}', 'Proxy-Authorization': None, 'X-Mine': 'kept', 'Connection': 'close'" in answer
    )


def test_a_name_that_leads_to_the_machine_itself_is_refused(server: int, proxy_path: str) -> None:
    # The machine's own name resolves to an address that is not public.
    name = socket.gethostname().lower()
    try:
        socket.getaddrinfo(name, server)
    except OSError:
        pytest.skip("the machine's name does not resolve")
    with Egress([f"{name}:{server}"], proxy_path) as egress:
        answer = ask(proxy_path, b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (name.encode(), server))
        assert answer.startswith(b"HTTP/1.1 403"), answer
        assert b"not public" in answer
        assert egress.refused == (f"{name}:{server}",)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT a HTTP/1.1\r\n\r\n",
        b"GET ftp://a/ HTTP/1.1\r\n\r\n",
        b"GET http://user@a.example/ HTTP/1.1\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"CONNECT a:1 SPDY/3\r\n\r\n",
    ],
)
def test_anything_else_is_a_bad_request(request_: bytes, proxy_path: str) -> None:
    with Egress(["a:1", "a.example"], proxy_path):
        assert ask(proxy_path, request_).startswith(b"HTTP/1.1 400")


def test_leaving_ends_open_connections(server: int, proxy_path: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        with Egress([f"127.0.0.1:{server}"], proxy_path):
            client.connect(proxy_path)
            client.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % server)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        client.settimeout(60)
        assert client.recv(100) == b""
    assert not [thread for thread in threading.enumerate() if thread.name == "egress"]
