"""Budgets hold on every endpoint, with any number of callers, for streams, retries and fallbacks."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import SettingsError
from overnight.kernel.ledger.ledger import Ledger
from overnight.kernel.ledger.limits import Limit
from overnight.models.settings import PriceSettings, ProviderSettings, ReleaseSettings
from overnight.testing import RunningGateway, ScriptedModels, fail, say
from overnight.testing.models import Received
from overnight.testing.script import Scripted

Post = Callable[[str, str, dict[str, Any]], tuple[int, bytes]]

# An answer of exactly 1,000 tokens at a dollar a token; what is set aside for the few words of a question comes on top.
DEAR = PriceSettings(input=0.0, output=1e6)
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1000}),
    "responses": ("/v1/responses", {"input": "x", "max_output_tokens": 1000}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1000}),
}


def post(gateway: RunningGateway, key: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    request = urllib.request.Request(
        gateway.url + path, json.dumps(body).encode(), {"authorization": f"Bearer {key}"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, problem.read()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("format_", list(BODIES))
@pytest.mark.parametrize("release", ["author", "claude"])
def test_32_callers_at_once_overshoot_by_nothing(
    gateway: RunningGateway, models: ScriptedModels, format_: str, release: str, stream: bool
) -> None:
    """Three fit into the budget. A tenth of the attempts fail and are tried again."""
    count = iter(range(10_000))

    def answering(_: Received) -> Scripted:
        return fail(503, headers={"retry-after": "0"}) if next(count) % 10 == 9 else say("x", output_tokens=1000)

    models.otherwise = answering
    gateway.change(release, price=DEAR)
    gateway.set(limits=(Limit("usd", 3_999.0),))
    key = gateway.key()
    path, body = BODIES[format_]
    start = threading.Barrier(32)

    def ask(_: int) -> int:
        start.wait()
        return post(gateway, key, path, {**body, "model": release, "stream": stream})[0]

    with ThreadPoolExecutor(32) as pool:
        statuses = list(pool.map(ask, range(32)))
    assert statuses.count(200) == 3 and statuses.count(429) == 29
    assert gateway.spent_usd == 3000.0
    assert sum(call["outcome"] == "ok" for call in gateway.calls()) == 3


def test_a_streamed_call_without_usage_is_priced_by_our_own_count(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    key = gateway.key()
    for release, format_ in (("author", "chat"), ("local", "chat"), ("claude", "messages"), ("author", "responses")):
        models.script(say("one two three four five", usage=False))
        path, body = BODIES[format_]
        assert post(gateway, key, path, {**body, "model": release, "stream": True})[0] == 200
        call = gateway.calls()[-1]
        assert call["estimated"] == 1 and call["output_tokens"] >= 5 and call["cost_nano"] > 0


def test_usage_is_asked_for_and_kept_from_clients_that_did_not_ask(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    models.script(say("a b", input_tokens=1234, output_tokens=2))
    path, body = BODIES["chat"]
    _, answer = post(gateway, gateway.key(), path, {**body, "model": "author", "stream": True})
    assert models.requests[0].body["stream_options"] == {"include_usage": True}
    assert b"1234" not in answer and b'"choices":[]' not in answer.replace(b" ", b"")
    assert gateway.calls()[0]["input_tokens"] == 1234 and not gateway.calls()[0]["estimated"]


def test_cached_and_written_tokens_have_their_own_prices(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("claude", price=PriceSettings(input=10, output=0, cache_read=1, cache_write=20))
    models.script(say("x", input_tokens=1_000_000, cached_tokens=900_000))
    path, body = BODIES["messages"]
    post(gateway, gateway.key(), path, {**body, "model": "claude"})
    assert gateway.spent_usd == pytest.approx(0.1 * 10 + 0.9 * 1)


def test_an_unpriced_model_is_refused_or_costs_the_worst(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", price=None, model="nobody-knows-this-model")
    path, body = BODIES["chat"]
    key = gateway.key()
    status, answer = post(gateway, key, path, {**body, "model": "author"})
    assert status == 403 and b"nobody knows" in answer and models.requests == []
    gateway.set(unpriced=PriceSettings(50.0, 100.0))
    models.script(say("x", input_tokens=1_000_000, output_tokens=0))
    assert post(gateway, key, path, {**body, "model": "author"})[0] == 200
    assert gateway.spent_usd == pytest.approx(50.0)


def test_a_listed_model_has_the_list_s_price(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", price=None, model="gpt-4o-mini")
    models.script(say("x", input_tokens=1_000_000, output_tokens=1_000_000))
    path, body = BODIES["chat"]
    assert post(gateway, gateway.key(), path, {**body, "model": "author"})[0] == 200
    assert gateway.spent_usd == pytest.approx(0.15 + 0.60)


def test_a_longer_answer_than_asked_for_cannot_be_smuggled_in(gateway: RunningGateway, models: ScriptedModels) -> None:
    """Several choices, each of the full length, are set aside for; and an answer without a limit gets one."""
    gateway.change("author", price=DEAR)
    gateway.set(limits=(Limit("usd", 1_999.0),))
    key, (path, body) = gateway.key(), BODIES["chat"]
    assert post(gateway, key, path, {**body, "model": "author", "n": 2})[0] == 429
    assert post(gateway, key, path, {"messages": body["messages"], "model": "author"})[0] == 200
    assert models.requests[0].body["max_completion_tokens"] == 1000
    assert post(gateway, key, path, {**body, "model": "author", "max_tokens": "many"})[0] == 400
    assert post(gateway, key, path, {**body, "model": "author", "max_tokens": -1})[0] == 400


def test_of_two_limits_the_larger_one_is_set_aside_for(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", price=DEAR)
    models.otherwise = lambda received: say("x", output_tokens=received.body["max_tokens"])
    key, (path, body) = gateway.key(limits=[Limit("usd", 500.0)]), BODIES["chat"]
    for short, long in ((1, 1000), (1000, 1)):
        asked = {**body, "model": "author", "max_completion_tokens": short, "max_tokens": long}
        assert post(gateway, key, path, asked)[0] == 429
    assert gateway.spent_usd == 0


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "model", "stream"])
def test_parameters_of_the_configuration_cannot_make_a_call_dearer_than_what_is_set_aside(name: str) -> None:
    with pytest.raises(SettingsError, match=f"params.{name}"):
        ReleaseSettings("openai", "gpt-x", params={name: 50_000})


def test_what_costs_more_than_the_known_price_is_not_asked_for(gateway: RunningGateway, models: ScriptedModels) -> None:
    key, (path, body) = gateway.key(), BODIES["chat"]
    status, answer = post(gateway, key, path, {**body, "model": "author", "service_tier": "priority"})
    assert status == 403 and b"service_tier" in answer and not models.requests
    status, answer = post(gateway, key, BODIES["messages"][0], {**body, "model": "claude", "speed": "fast"})
    assert status == 403 and b"speed" in answer and not models.requests
    assert post(gateway, key, path, {**body, "model": "author", "service_tier": "flex"})[0] == 200
    gateway.change("author", params={"service_tier": "priority"})
    assert post(gateway, key, path, {**body, "model": "author"})[0] == 200
    assert models.requests[-1].body["service_tier"] == "priority"


def test_each_key_has_its_own_budget_and_limits(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", price=DEAR)
    models.otherwise = lambda _: say("x", output_tokens=1000)
    one, two = gateway.key("one", limits=(Limit("usd", 1_500.0),)), gateway.key("two", limits=(Limit("calls", 1),))
    path, body = BODIES["chat"]
    assert [post(gateway, one, path, {**body, "model": "author"})[0] for _ in range(2)] == [200, 429]
    assert [post(gateway, two, path, {**body, "model": "author"})[0] for _ in range(2)] == [200, 429]


def test_a_refusal_calls_the_key_by_its_name(gateway: RunningGateway) -> None:
    path, body = BODIES["chat"]
    status, answer = post(
        gateway, gateway.key("nightly", limits=[Limit("usd", 0.0)]), path, {**body, "model": "author"}
    )
    assert status == 429 and b"of key nightly" in answer


def test_requests_a_minute_say_when_to_come_again(gateway: RunningGateway) -> None:
    key = gateway.key(limits=(Limit("calls", 1, "minute"),))
    path, body = BODIES["chat"]
    assert post(gateway, key, path, {**body, "model": "author"})[0] == 200
    request = urllib.request.Request(
        gateway.url + path, json.dumps({**body, "model": "author"}).encode(), {"x-api-key": key}, method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value as answer:
        assert answer.code == 429 and 1 <= int(answer.headers["retry-after"]) <= 62
        assert answer.headers["x-should-retry"] == "true"


def test_failed_calls_cost_nothing_and_lost_ones_all_that_was_set_aside(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    gateway.change("author", price=DEAR, attempts=1)
    key, (path, body) = gateway.key(), BODIES["chat"]
    models.script(fail(500))
    assert post(gateway, key, path, {**body, "model": "author"})[0] == 500
    assert gateway.spent_usd == 0
    gateway.settings = type(gateway.settings)(
        {**gateway.settings.providers, "openai": ProviderSettings("openai", f"{models.url}/v1", timeout=0.2)},
        gateway.settings.models,
        gateway.settings.gateway,
    )
    models.script(say("too late", until=threading.Event()))
    assert post(gateway, key, path, {**body, "model": "author"})[0] == 504
    assert gateway.spent_usd == 1000.0, "what was worked on for nobody may be on the bill"


def test_a_fallback_is_held_to_the_budget_too(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.change("author", fallbacks=("claude",), attempts=1)
    gateway.change("claude", price=DEAR)
    gateway.set(limits=(Limit("usd", 10.0),))
    models.script(fail(500))
    path, body = BODIES["chat"]
    status, answer = post(gateway, gateway.key(), path, {**body, "model": "author"})
    assert status == 429 and b"limit of 10 usd" in answer
    assert len(models.requests) == 1
    rules = [span.attributes.get("overnight.rule") for span in gateway.spans()]
    assert "10 usd in total" in rules


def test_money_is_set_aside_before_the_call(gateway: RunningGateway, models: ScriptedModels) -> None:
    asked = threading.Event()
    models.script(say("slow", until=asked))
    gateway.change("author", price=DEAR)
    gateway.set(limits=(Limit("usd", 1_500.0),))
    key, (path, body) = gateway.key(), BODIES["chat"]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, gateway, key, path, {**body, "model": "author"})
        while not models.requests:
            time.sleep(0.005)
        assert post(gateway, key, path, {**body, "model": "author"})[0] == 429
        asked.set()
        assert first.result()[0] == 200


def test_a_background_response_cannot_be_counted_and_is_refused(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    path, body = BODIES["responses"]
    assert post(gateway, gateway.key(), path, {**body, "model": "author", "background": True})[0] == 400
    assert models.requests == []


def test_a_conversation_kept_by_the_provider_is_counted_at_its_longest(gateway: RunningGateway) -> None:
    gateway.change("author", price=PriceSettings(input=1e6, output=0.0))
    gateway.set(limits=(Limit("usd", 100_000.0),))
    path, body = BODIES["responses"]
    asked = {**body, "model": "author", "previous_response_id": "resp_1"}
    assert post(gateway, gateway.key(), path, asked)[0] == 429


@pytest.mark.parametrize(
    ("format_", "part"),
    [
        ("chat", {"type": "file", "file": {"file_id": "file-1"}}),
        ("responses", {"type": "input_file", "file_url": "http://x/long.pdf"}),
        ("messages", {"type": "document", "source": {"type": "url", "url": "http://x/long.pdf"}}),
        ("messages", {"type": "document", "source": {"type": "file", "file_id": "file-1"}}),
    ],
)
def test_a_file_that_is_only_named_is_counted_as_all_that_the_model_takes(
    gateway: RunningGateway, models: ScriptedModels, format_: str, part: dict[str, Any]
) -> None:
    """How long it is nobody here can see."""
    gateway.change("author", price=PriceSettings(input=1.0, output=0.0), context=400_000)
    path, body = BODIES[format_]
    said = [{"role": "user", "content": [part]}]
    asked = {**body, "model": "author", ("input" if format_ == "responses" else "messages"): said}
    assert post(gateway, gateway.key("short", limits=[Limit("usd", 0.39)]), path, asked)[0] == 429
    assert post(gateway, gateway.key("enough", limits=[Limit("usd", 0.41)]), path, asked)[0] == 200
    assert len(models.requests) == 1


def test_what_a_gateway_leases_is_soon_back_in_the_accounts(gateway: RunningGateway, models: ScriptedModels) -> None:
    """Two gateways on one workspace, and reports: each finds what the others don't use."""
    limits = (Limit("calls", 1000), Limit("tokens", 1e6, "minute"))
    gateway.set(limits=limits)
    models.otherwise = lambda _: say("x", input_tokens=7, output_tokens=3)
    path, body = BODIES["chat"]
    key, ledger = gateway.key(), Ledger(gateway.store.database, limits)
    for _ in range(3):
        assert post(gateway, key, path, {**body, "model": "author"})[0] == 200
    end = time.monotonic() + 300
    while [use.used for use in ledger.usage()] != [3, 30]:
        assert time.monotonic() < end, ledger.usage()
        time.sleep(0.02)
    gateway.stop()
    assert [use.used for use in ledger.usage()] == [3, 30]


def test_two_gateways_on_one_budget_overshoot_by_nothing(models: ScriptedModels, tmp_path: Path) -> None:
    models.otherwise = lambda _: say("x", output_tokens=1000)
    with RunningGateway(tmp_path, models) as one, RunningGateway(tmp_path, models) as two:
        for gateway in (one, two):
            gateway.change("author", price=DEAR)
            gateway.set(limits=(Limit("usd", 40_999.0),))
        key, (path, body) = one.key(), BODIES["chat"]
        with ThreadPoolExecutor(24) as pool:
            asked = [pool.submit(post, (one, two)[n % 2], key, path, {**body, "model": "author"}) for n in range(96)]
            admitted = [future.result()[0] for future in asked].count(200)
        assert admitted <= 40 and one.spent_usd == 1000.0 * admitted
        # What one of them could not have while the other had it leased, it can have once that is given back.
        ledger, end = Ledger(one.store.database, (Limit("usd", 40_999.0),)), time.monotonic() + 300
        while [use.used for use in ledger.usage()] != [1000.0 * admitted]:
            assert time.monotonic() < end, ledger.usage()
            time.sleep(0.02)
        rest = [post((one, two)[n % 2], key, path, {**body, "model": "author"})[0] for n in range(44 - admitted)]
        assert rest == [200] * (40 - admitted) + [429] * 4
