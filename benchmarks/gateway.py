"""The gateway: CPU per request, throughput, added latency, cold start, budget overshoot; `--soak N` for memory.

Everything on the loopback, the load, the trivial upstream and the gateway each in a process of its own. Full trace and
four limits are on in every figure. `floor` is the same machinery with no work in it: parse, pass on, answer.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from overnight.kernel.ledger.limits import Limit
from overnight.models.gateway.http import HttpServer, Reply, Request
from overnight.models.gateway.keys import Keys
from overnight.models.upstream.http import HttpClient
from overnight.models.upstream.target import Target, Timeouts
from overnight.store.database import Database
from overnight.testing import Received, Scripted, ScriptedModels, fail
from overnight.testing import say as say_

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "The file has been changed as asked; the tests pass."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 250, "completion_tokens": 12, "total_tokens": 262},
}
WORDS = [
    "the",
    "loop",
    "keeps",
    "a",
    "change",
    "only",
    "where",
    "the",
    "evaluator",
    "says",
    "so",
    "and",
    "writes",
    "every",
    "experiment",
    "into",
    "the",
    "record",
    "with",
    "its",
    "reason",
    "its",
    "numbers",
    "and",
    "its",
    "seeds",
    "so",
    "that",
    "in",
    "the",
    "morning",
    "a",
    "person",
    "can",
    "see",
    "what",
    "was",
    "tried",
    "what",
    "was",
    "kept",
    "and",
    "why",
]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def upstream() -> None:
    body = json.dumps(ANSWER).encode()
    raw = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    class Trivial(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport: Any = transport
            self._buffer = b""

        def data_received(self, data: bytes) -> None:
            self._buffer += data
            while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
                head = self._buffer[:end].lower()
                at = head.find(b"content-length:")
                size = int(head[at + 15 :].split(b"\r\n")[0])
                if len(self._buffer) < end + 4 + size:
                    return
                self._buffer = self._buffer[end + 4 + size :]
                self._transport.write(raw)

    server = await asyncio.get_running_loop().create_server(Trivial, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def floor(port: int) -> None:
    client, target, limits = HttpClient(), Target.of(f"http://127.0.0.1:{port}/v1"), Timeouts()

    async def handle(request: Request, reply: Reply) -> None:
        body = json.dumps(json.loads(request.body)).encode()
        answer = await client.post(target, "/chat/completions", {"content-type": "application/json"}, body, limits)
        raw = await answer.read()
        answer.release()
        json.loads(raw)
        reply.send(200, raw, {"content-type": "application/json"})

    server = HttpServer(handle)
    print(await server.listen("127.0.0.1", 0), flush=True)
    await asyncio.Event().wait()


@contextmanager
def child(*arguments: str) -> Iterator[tuple[int, str]]:
    """A process that says on its first line where it listens; its pid and that line."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().strip().split(" ")[-1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fresh_text(size: int = 1024) -> str:
    """Sentences with capitals, numbers, a path and a line of code in them; nothing to be masked."""
    found: list[str] = []
    while sum(map(len, found)) < size:
        words = random.choices(WORDS, k=random.randrange(8, 18))
        number = random.choice((f"{random.randrange(200)}", f"{random.random():.3f}", "p95"))
        found.append(f"{' '.join(words).capitalize()}, at {number} ms. ")
        if random.random() < 0.2:
            found.append(
                f"See `src/{words[0]}/{words[1]}.py`:\n    {words[2]}_{words[3]} = {words[4]}(x, n={number[:1]})\n"
            )
    return "".join(found)[:size]


class Client(asyncio.Protocol):
    """Sends one request after the other over one connection; made beforehand, so that the load costs little."""

    def __init__(self, requests: list[bytes], done: "asyncio.Future[None]") -> None:
        self.latencies: list[float] = []
        self.refused = 0
        self._requests = requests
        self._done = done
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._send()

    def _send(self) -> None:
        if not self._requests:
            self._transport.close()
            self._done.set_result(None)
            return
        self._begun = time.perf_counter()
        self._transport.write(self._requests.pop())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        if len(self._buffer) < end + 4 + int(head[at + 15 :].split(b"\r\n")[0]):
            return
        self.latencies.append(time.perf_counter() - self._begun)
        self.refused += b" 200 " not in head
        self._buffer = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the gateway closed the connection"))


def request(key: str, limit_tokens: int) -> bytes:
    body = json.dumps(
        {"model": "author", "max_tokens": limit_tokens, "messages": [{"role": "user", "content": fresh_text()}]}
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def load(port: int, key: str, clients: int, count: int, limit_tokens: int = 64) -> tuple[list[float], int, float]:
    """Latencies in seconds, answers that weren't 200, and how long it took."""
    loop = asyncio.get_running_loop()
    made = [
        Client([request(key, limit_tokens) for _ in range(count // clients)], loop.create_future())
        for _ in range(clients)
    ]
    begun = time.perf_counter()
    for client in made:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]  # bound now
    await asyncio.gather(*[client._done for client in made])
    took = time.perf_counter() - begun
    return [second for client in made for second in client.latencies], sum(client.refused for client in made), took


def spread(values: list[float], digits: int = 3) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
    }


class Figures:
    """What the rounds of one process and one number of clients came to."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.rates: list[float] = []
        self.p50s: list[float] = []
        self.p99s: list[float] = []

    def round(self, pid: int, port: int, key: str, clients: int, count: int) -> None:
        before = cpu_s(pid)
        latencies, refused, seconds = asyncio.run(load(port, key, clients, count))
        assert refused == 0, f"{refused} requests failed"
        self.costs.append((cpu_s(pid) - before) / len(latencies) * 1000)
        self.rates.append(len(latencies) / seconds)
        latencies.sort()
        self.p50s.append(latencies[len(latencies) // 2] * 1000)
        self.p99s.append(latencies[int(len(latencies) * 0.99)] * 1000)

    def document(self) -> dict[str, Any]:
        return {
            "cpu_ms": spread(self.costs),
            "requests_per_s": spread(self.rates, 0),
            "p50_ms": spread(self.p50s, 2),
            "p99_ms": spread(self.p99s, 2),
        }


SETTINGS = """
[providers.openai]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"
[models.author]
provider = "openai"
model = "gpt-5"
[[gateway.limits]]
unit = "usd"
amount = {budget}
window = "day"
[[gateway.limits]]
unit = "tokens"
amount = 1e12
window = "minute"
per = ["agent"]
[[gateway.limits]]
unit = "calls"
amount = 1e9
window = "minute"
per = ["tenant"]
[gateway.tenants.default]
masking = "{masking}"
"""


@contextmanager
def gateway(folder: Path, port: int, masking: str, budget: float = 1e6) -> Iterator[tuple[int, int, str, float]]:
    """Its pid, port, a key with a limit of its own, and the CPU seconds its start took."""
    workspace = folder / f"{masking}-{budget:g}"
    workspace.mkdir()
    (workspace / "overnight.toml").write_text(SETTINGS.format(port=port, masking=masking, budget=budget))
    _, key = Keys(Database(workspace / ".overnight" / "overnight.db")).make("me", limits=(Limit("usd", 1e9),))
    command = ("-m", "overnight", "gateway", "--port", "0", "--workspace", str(workspace))
    with child(*command) as (pid, url):
        yield pid, int(url.rpartition(":")[2]), key, cpu_s(pid)


def figures(folder: Path, port: int, count: int, rounds: int) -> dict[str, Any]:
    """Everything runs side by side, and every round measures all of it one after the other."""
    starts: list[float] = []
    with ExitStack() as stack:
        processes: dict[str, tuple[int, int, str]] = {}
        pid, own = stack.enter_context(child(__file__, "--floor", str(port)))
        processes["floor"] = (pid, int(own), "x")
        for masking in ("nothing", "everything"):
            pid, own_port, key, start_s = stack.enter_context(gateway(folder, port, masking))
            processes[f"masking_{masking}"] = (pid, own_port, key)
            starts.append(round(start_s, 2))
        found = {(name, clients): Figures() for name in processes for clients in (1, 32)}
        direct: list[float] = []
        for n in range(rounds):
            for (name, clients), figures_ in found.items():
                if n == 0:
                    asyncio.run(load(*processes[name][1:], clients, count // 4))
                figures_.round(*processes[name], clients, count)
            latencies, _, _ = asyncio.run(load(port, "x", 1, count))
            direct.append(statistics.median(latencies) * 1000)
            say(
                f"round {n + 1}: "
                + ", ".join(f"{name} {clients}: {f.costs[-1]:.2f}" for (name, clients), f in found.items())
            )
    return {
        "requests_a_round": count,
        "rounds": rounds,
        "cold_start_cpu_s": starts,
        **{f"{name}_{clients}": figures_.document() for (name, clients), figures_ in found.items()},
        "upstream_p50_ms": spread(direct, 2),
        **{
            f"added_p50_ms_{name}": spread(
                [with_ - without for with_, without in zip(found[name, 1].p50s, direct, strict=True)], 2
            )
            for name in processes
        },
        "budget": overshoot(folder),
    }


def overshoot(folder: Path) -> dict[str, Any]:
    """32 callers at once, three of whose answers fit into the budget; a tenth of the attempts fail and are tried again."""
    count = iter(range(10_000))

    def answer(_: Received) -> Scripted:
        return fail(503) if next(count) % 10 == 9 else say_("done", output_tokens=64_000, pause_s=0.05)

    # 64,000 tokens at 10 dollars a million are 0.64 dollars.
    with (
        ScriptedModels(otherwise=answer) as models,
        gateway(folder, int(models.url.rpartition(":")[2]), "nothing", budget=2.0) as (_, own_port, key, _),
    ):
        latencies, refused, _ = asyncio.run(load(own_port, key, 32, 32, limit_tokens=64_000))
        return {"callers": 32, "fit": 3, "admitted": len(latencies) - refused}


def soak(folder: Path, port: int, count: int) -> dict[str, Any]:
    """The gateway's memory after each tenth of many requests, and whether each of them is on record."""
    sizes: list[float] = []
    refused = 0
    with gateway(folder, port, "everything") as (pid, own_port, key, _):
        before = cpu_s(pid)
        for _ in range(10):
            refused += asyncio.run(load(own_port, key, 32, count // 10))[1]
            sizes.append(round(memory_bytes(pid) / 1e6, 1))
            say(f"{sizes[-1]} MB")
        cpu_ms = (cpu_s(pid) - before) / count * 1000
    database = Database(next(folder.glob("everything-*")) / ".overnight" / "overnight.db")
    row = database.row("SELECT COUNT(*) AS calls, COUNT(DISTINCT trace) AS traces FROM model_calls")
    assert row is not None
    return {
        "soak_requests": count // 10 // 32 * 32 * 10,
        "refused": refused,
        "recorded": row["calls"],
        "traces": row["traces"],
        "cpu_ms": round(cpu_ms, 3),
        "resident_mb": sizes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=640, help="of each kind in each of the rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--soak", type=int, default=0, metavar="N")
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--floor", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream or options.floor:
        asyncio.run(upstream() if options.upstream else floor(options.floor))
        return
    with tempfile.TemporaryDirectory() as folder, child(__file__, "--upstream") as (_, port):
        if options.soak:
            found = soak(Path(folder), int(port), options.soak)
        else:
            found = figures(Path(folder), int(port), options.requests, options.rounds)
    found["load_average"] = round(os.getloadavg()[0], 1)
    print(json.dumps({"benchmark": "gateway", **found}))


if __name__ == "__main__":
    main()
