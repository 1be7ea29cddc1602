"""What the gateway promises besides formats and budgets: retries, fallbacks, records, reloads, caches, going away."""

import contextlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from overnight.kernel.ledger.lease import Leases
from overnight.kernel.ledger.ledger import Ledger
from overnight.kernel.ledger.limits import Limit
from overnight.models.settings import ProviderSettings, TenantSettings
from overnight.store.database import Database
from overnight.testing import RunningGateway, ScriptedModels, fail, say
from overnight.trace import names
from overnight.trace.tree import document

HELLO = {"model": "author", "messages": [{"role": "user", "content": "hello"}]}


def post(
    gateway: RunningGateway, key: str, body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str
) -> tuple[int, bytes]:
    request = urllib.request.Request(
        gateway.url + path, json.dumps(body).encode(), {"authorization": f"Bearer {key}", **headers}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, problem.read()


def sent(gateway: RunningGateway, key: str, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request has been sent."""
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=300)
    connection.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def hang_up(gateway: RunningGateway, key: str, body: dict[str, Any], after: Callable[[bytes], bool]) -> None:
    """Send a request, read until what has come is enough, and go away."""
    with sent(gateway, key, body) as connection:
        connection.settimeout(0.01)
        got, end = b"", time.monotonic() + 300
        while not after(got):
            assert time.monotonic() < end, got
            with contextlib.suppress(TimeoutError):
                got += connection.recv(4096)


def until(what: Any, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_a_failure_that_may_pass_is_tried_again_and_every_attempt_is_on_record(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    models.script(fail(503, "busy"), fail(429, "slow down", headers={"retry-after": "0.1"}), say("here"))
    status, answer = post(gateway, gateway.key(), HELLO)
    assert status == 200 and b"here" in answer
    attempts = [span for span in gateway.spans() if span.kind == "client"]
    assert [span.attributes[names.HTTP_STATUS] for span in attempts] == [503, 429, 200]
    assert [span.status for span in attempts] == ["error", "error", "ok"]
    (whole,) = [span for span in gateway.spans() if span.kind == "server"]
    assert {span.parent for span in attempts} == {whole.place.span_id}
    waits = [fields[names.WAITED_S] for _, name, fields in whole.events if name == "retry"]
    assert len(waits) == 2 and float(str(waits[1])) >= 0.1


def test_the_failed_attempts_before_a_fallback_are_on_record(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", fallbacks=("claude", "local"), attempts=1)
    models.script(fail(500, "first"), fail(401, "our key"), say("third"))
    status, answer = post(gateway, gateway.key(), HELLO)
    assert status == 200 and b"third" in answer
    attempts = [span for span in gateway.spans() if span.kind == "client"]
    assert [span.attributes[names.RELEASE] for span in attempts] == ["author", "claude", "local"]
    assert attempts[0].attributes.get(names.REASON) == "first"
    (whole,) = [span for span in gateway.spans() if span.kind == "server"]
    assert whole.attributes[names.CANDIDATES] == ["author", "claude", "local"] and whole.status == "ok"
    assert [call["outcome"] for call in gateway.calls()] == ["error", "error", "ok"]


def test_what_is_wrong_with_a_request_is_tried_nowhere_else(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", fallbacks=("claude",))
    models.script(fail(400, "no such parameter"))
    status, answer = post(gateway, gateway.key(), HELLO)
    assert status == 400 and b"no such parameter" in answer and len(models.requests) == 1


def test_a_provider_that_keeps_failing_is_left_alone(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", attempts=1)
    models.otherwise = lambda _: fail(500)
    key = gateway.key()
    assert [post(gateway, key, HELLO)[0] for _ in range(7)] == [500] * 5 + [503] * 2
    assert len(models.requests) == 5
    assert post(gateway, key, {**HELLO, "model": "local"})[0] == 500, "other providers are asked as before"


def test_a_provider_that_cannot_be_reached(gateway: RunningGateway, models: ScriptedModels) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = ProviderSettings("openai", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        gateway.settings = type(gateway.settings)(
            {**gateway.settings.providers, "openai": nobody}, gateway.settings.models, gateway.settings.gateway
        )
        gateway.change("author", attempts=2, fallbacks=("local",))
        models.script(say("instead"))
        status, answer = post(gateway, gateway.key(), HELLO)
    assert status == 200 and b"instead" in answer
    assert [span.attributes.get(names.ERROR_TYPE) for span in gateway.spans() if span.kind == "client"] == [
        "upstream",
        "upstream",
        None,
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_takes_the_call_to_the_provider_along(
    gateway: RunningGateway, models: ScriptedModels, stream: bool
) -> None:
    gateway.set(limits=(Limit("concurrent", 1),))
    models.script(say("word " * 900, piece_pause_s=0.02, until=None if stream else threading.Event()))
    key = gateway.key()
    if stream:
        hang_up(gateway, key, {**HELLO, "stream": True}, lambda got: b"word" in got)
    else:
        hang_up(gateway, key, HELLO, lambda _: bool(models.requests))
    until(lambda: models.gone == 1)
    until(lambda: gateway.calls())
    (call,) = gateway.calls()
    assert call["outcome"] == "cancelled" and call["cost_nano"] > 0
    if stream:
        assert 1 <= call["output_tokens"] < 900, "what was made so far is charged, not more"
    until(lambda: len(gateway.spans()) == 2)
    assert post(gateway, key, HELLO)[0] == 200, "its place is free again"


@pytest.mark.parametrize("broken", ["breaks_after", "error_after", "the client goes"])
def test_what_was_written_of_an_answer_that_broke_off_is_on_record(
    gateway: RunningGateway, models: ScriptedModels, broken: str
) -> None:
    asked, key = {**HELLO, "stream": True}, gateway.key()
    if broken == "the client goes":
        models.script(say("one two " * 200, piece_pause_s=0.02))
        hang_up(gateway, key, asked, lambda got: b"two" in got)
    else:
        models.script(say("one two three four", **{broken: 3}))
        post(gateway, key, asked)
    until(lambda: len(gateway.spans()) == 2)
    (call,) = gateway.calls()
    for span in gateway.spans():
        assert span.status == "error" and span.attributes[names.OUTPUT_TOKENS] == call["output_tokens"] > 0
        (said,) = document(gateway.store, [span])
        assert said["attributes"][names.OUTPUT]["parts"][0]["content"].startswith("one two")


def test_a_release_is_swapped_without_a_restart(gateway: RunningGateway, models: ScriptedModels) -> None:
    """A model label must not go on serving what it stood for yesterday."""
    key = gateway.key()
    post(gateway, key, HELLO)
    gateway.change("author", provider="anthropic", model="other-x", params={"temperature": 0})
    post(gateway, key, HELLO)
    assert [request.body["model"] for request in models.requests] == ["gpt-x", "other-x"]
    assert models.requests[1].path == "/v1/messages" and models.requests[1].body["temperature"] == 0


def test_a_server_that_cuts_the_context_is_found_out(gateway: RunningGateway, models: ScriptedModels) -> None:
    models.script(say("ok", input_tokens=300), say("ok", input_tokens=2000))
    key, long = gateway.key(), {**HELLO, "messages": [{"role": "user", "content": "word " * 2000}]}
    post(gateway, key, long)
    post(gateway, key, long)
    cut, whole = [span for span in gateway.spans() if span.kind == "client"]
    assert "cut the context" in str(cut.attributes[names.WARNING]) and names.WARNING not in whole.attributes


def test_an_answer_given_again_is_only_the_tenant_s_own(gateway: RunningGateway, models: ScriptedModels) -> None:
    count = iter(range(100))
    models.otherwise = lambda _: say(f"answer {next(count)}")
    gateway.set(tenants={"red": TenantSettings(cache=60.0), "blue": TenantSettings(cache=60.0)})
    red, blue, other = (gateway.key(name, tenant=name) for name in ("red", "blue", "other"))
    first, again = post(gateway, red, HELLO), post(gateway, red, HELLO)
    assert first == again and len(models.requests) == 1
    assert b"answer 1" in post(gateway, blue, HELLO)[1], "another tenant asks for itself"
    assert b"answer 2" in post(gateway, other, HELLO)[1] and b"answer 3" in post(gateway, other, HELLO)[1]
    assert b"answer 4" in post(gateway, red, {**HELLO, "temperature": 1})[1]
    streamed = post(gateway, red, {**HELLO, "stream": True})
    assert streamed == post(gateway, red, {**HELLO, "stream": True}) and streamed[1].endswith(b"data: [DONE]\n\n")
    gateway.change("author", model="gpt-y")
    assert b"answer 6" in post(gateway, red, HELLO)[1], "another model is another answer"
    outcomes = [call["outcome"] for call in gateway.calls() if call["tenant"] == "red"]
    assert outcomes == ["ok", "cached", "ok", "ok", "cached", "ok"]


def test_the_same_request_at_the_same_time_is_sent_once_where_asked_for(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    joined = threading.Event()
    models.otherwise = lambda _: say("shared", until=joined)
    gateway.set(tenants={"red": TenantSettings(coalesce=True)})
    key, other = gateway.key("red", tenant="red"), gateway.key("other")
    together = [sent(gateway, key, HELLO) for _ in range(8)]
    until(lambda: models.requests)
    # By the time that these have gone all the way, the gateway has read what was sent before them.
    models.script(say("apart"), say("apart"), say("apart"))
    with ThreadPoolExecutor(3) as pool:
        assert {status for status, _ in pool.map(lambda _: post(gateway, other, HELLO), range(3))} == {200}
    assert len(models.requests) == 4
    joined.set()
    for connection in together:
        with connection, connection.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
    assert len(models.requests) == 4


def test_traces_go_on_while_others_write_to_the_database(gateway: RunningGateway, tmp_path: Path) -> None:
    """Another process holds the write lock for a while, and several threads trace at the same time."""
    key = gateway.key()
    other = sqlite3.connect(gateway.store.database.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    release.start()
    with ThreadPoolExecutor(16) as pool:
        statuses = [status for status, _ in pool.map(lambda _: post(gateway, key, HELLO), range(48))]
    release.join()
    other.close()
    assert statuses == [200] * 48 and len(gateway.calls()) == 48 and len(gateway.spans()) == 96


def test_without_a_record_no_answer_is_given(gateway: RunningGateway, models: ScriptedModels) -> None:
    """Tracing must not go silent: a call that cannot be recorded fails, and says so."""
    key = gateway.key()
    gateway.store.database.execute("ALTER TABLE spans RENAME TO elsewhere")
    status, answer = post(gateway, key, HELLO)
    assert status == 503 and b"spans" in answer
    gateway.store.database.execute("ALTER TABLE elsewhere RENAME TO spans")
    assert post(gateway, key, HELLO)[0] == 200


def test_a_provider_s_key_is_needed_when_it_is_asked_not_before(
    gateway: RunningGateway, models: ScriptedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = ProviderSettings("openai", f"{models.url}/v1", api_key_env="GATEWAY_TEST_KEY")
    gateway.settings = type(gateway.settings)(
        {**gateway.settings.providers, "openai": provider}, gateway.settings.models, gateway.settings.gateway
    )
    key = gateway.key()
    status, answer = post(gateway, key, HELLO)
    assert status == 500 and b"$GATEWAY_TEST_KEY" in answer and models.requests == []
    monkeypatch.setenv("GATEWAY_TEST_KEY", "sk-real")
    assert post(gateway, key, HELLO)[0] == 200
    assert models.requests[0].headers["authorization"] == "Bearer sk-real", "the client's key stays here"
    assert key not in str(models.requests)


def test_nothing_is_needed_to_import_it() -> None:
    code = "import overnight.models.gateway.gateway, overnight.cli.gateway, overnight.testing"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": os.environ["PATH"]}, timeout=300)


def test_a_traceparent_puts_the_call_into_the_caller_s_trace(gateway: RunningGateway) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    post(gateway, gateway.key(), HELLO, traceparent=parent)
    (whole,) = [span for span in gateway.spans() if span.kind == "server"]
    assert whole.place.trace_id == "a" * 32 and whole.parent == "b" * 16
    post(gateway, gateway.key("two"), HELLO, traceparent="00-zz-11-01")
    assert len({span.place.trace_id for span in gateway.spans()}) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"model":"author"}', 200),
        (b'{"model":1,"messages":[]}', 400),
        (b'{"model":"nobody","messages":[]}', 404),
        (b'{"messages":[]}', 400),
        (b'{"model":"author","messages":[],"stream":"yes"}', 400),
        (b'{"model":"claude","messages":[],"response_format":{"type":"json_schema","json_schema":{"schema":1}}}', 400),
        (b'{"model":"author","messages":[{"role":"x"}]}', 400),
        (b"[" * 100_000, 400),
    ],
)
def test_malformed_requests_are_refused_in_the_client_s_format(
    gateway: RunningGateway, body: bytes, status: int
) -> None:
    request = urllib.request.Request(
        f"{gateway.url}/v1/chat/completions", body, {"authorization": f"Bearer {gateway.key()}"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request) as answer:
            assert answer.status == status
    except urllib.error.HTTPError as problem:
        with problem:
            assert problem.code == status and "message" in json.loads(problem.read())["error"]


def test_a_path_that_is_not_served_names_those_that_are(gateway: RunningGateway) -> None:
    status, answer = post(gateway, gateway.key(), HELLO, "/v1/completions")
    assert status == 404 and b"/v1/completions is not served" in answer and b"/v1/responses" in answer
    assert json.loads(answer)["error"]["code"] is None, "no model is missing"


@pytest.mark.parametrize("raw", [b"<html>", b"[]", b'{"choices": 3}', b'{"choices": [{"message": {"content": 7}}]}'])
def test_an_answer_of_no_format_is_a_failure_of_the_provider(
    gateway: RunningGateway, models: ScriptedModels, raw: bytes
) -> None:
    models.script(say("", raw=raw))
    status, answer = post(gateway, gateway.key(), HELLO)
    assert status == (200 if raw == b'{"choices": 3}' else 502), answer


SERVE = """
import sys
from overnight.cli.main import main
sys.argv = ["overnight", "gateway", "--port", "0", "--workspace", sys.argv[1]]
main()
"""


def test_kill_9_loses_no_settled_call(models: ScriptedModels, tmp_path: Path) -> None:
    """Every answer that a client has received is on record, whole, however the gateway ends."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "overnight.toml").write_text(
        f'[providers.openai]\nkind = "openai"\nbase_url = "{models.url}/v1"\n'
        '[models.author]\nprovider = "openai"\nmodel = "gpt-x"\nprice = { input = 1.0, output = 1.0 }\n'
        '[[gateway.limits]]\nunit = "calls"\namount = 1e6\nwindow = "day"\n[[gateway.limits]]\nunit = "usd"\namount = 1e3\n'
    )
    from overnight.models.gateway.keys import Keys

    database = Database(workspace / ".overnight" / "overnight.db")
    key = Keys(database).make("me")[1]
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(workspace)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    url = first.strip().rpartition(" ")[2]
    answered: list[str] = []

    def ask(n: int) -> None:
        for _ in range(10_000):
            body = {**HELLO, "stream": n % 2 == 0}
            request = urllib.request.Request(
                f"{url}/v1/chat/completions", json.dumps(body).encode(), {"authorization": f"Bearer {key}"}
            )
            try:
                with urllib.request.urlopen(request, timeout=300) as answer:
                    data = answer.read()
                    if body["stream"] and not data.endswith(b"data: [DONE]\n\n"):
                        return
                    answered.append(answer.headers["x-overnight-trace"])
            except (OSError, http.client.HTTPException):
                return

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(answered) >= 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    for thread in threads:
        thread.join()
    settled = {row["trace"] for row in database.rows("SELECT trace FROM model_calls WHERE outcome = 'ok'")}
    whole = {row["trace"] for row in database.rows("SELECT trace FROM spans WHERE kind = 'server'")}
    attempts = {row["trace"] for row in database.rows("SELECT trace FROM spans WHERE kind = 'client'")}
    assert set(answered) <= settled and settled == whole == attempts
    for row in database.rows("SELECT attributes FROM spans WHERE kind = 'client'"):
        name = json.loads(row["attributes"])[names.OUTPUT]
        assert database.row("SELECT 1 FROM trace_bodies WHERE hash = ?", (name,)) is not None
    ledger = Ledger(database, [Limit("calls", 1e6, "day"), Limit("usd", 1e3)])
    leased = [use.used for use in ledger.usage()]
    Leases(database).close()
    calls, usd = (use.used for use in ledger.usage())
    recorded = database.row("SELECT COUNT(*) AS calls, SUM(cost_nano) / 1e9 AS usd FROM model_calls")
    assert recorded is not None and leased[0] >= calls and leased[1] >= usd, (
        "what was leased and not used is free again"
    )
    # What was running when it died stays counted in full: eight answers of 8,192 tokens at most.
    assert recorded["calls"] <= calls <= recorded["calls"] + 8
    assert recorded["usd"] - 1e-6 <= usd <= recorded["usd"] + 8 * 0.01


@pytest.mark.soak
def test_memory_stays_flat_over_50_000_requests(tmp_path: Path) -> None:
    benchmark = Path(__file__).parents[2] / "benchmarks" / "gateway.py"
    done = subprocess.run(
        [sys.executable, str(benchmark), "--soak", "50000"], capture_output=True, text=True, timeout=3600, check=True
    )
    found = json.loads(done.stdout)
    assert found["refused"] == 0 and found["recorded"] == found["soak_requests"]
    assert found["resident_mb"][-1] < 1.1 * found["resident_mb"][3], found
