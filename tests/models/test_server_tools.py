"""Tools that a provider runs itself are charged by the use, set aside before the call, and refused where nobody knows."""

import json
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.kernel.ledger.limits import Limit
from overnight.models.gateway.server_tools import bounded
from overnight.models.prices import price_of
from overnight.models.settings import ProviderSettings, ReleaseSettings
from overnight.testing import RunningGateway, ScriptedModels, say
from overnight.trace import names

SEARCH: Any = {"type": "web_search_20250305", "name": "web_search"}
HOSTED: Any = {"type": "web_search"}
FEES = {"web_search": 0.01, "code_execution": 0.05}


@pytest.fixture
def fees(gateway: RunningGateway) -> RunningGateway:
    providers = {name: replace(item, fees=FEES, tool_uses=3) for name, item in gateway.settings.providers.items()}
    gateway.settings = replace(gateway.settings, providers=providers)
    return gateway


def claude(gateway: RunningGateway, tools: list[Any], stream: bool = False, **more: Any) -> Any:
    with anthropic.Anthropic(base_url=gateway.url, api_key=gateway.key(**more), max_retries=0) as client:
        asked: Any = {
            "model": "claude",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "news?"}],
            "tools": tools,
        }
        if not stream:
            return client.messages.create(**asked)
        with client.messages.stream(**asked) as events:
            return events.get_final_message()


def gpt(gateway: RunningGateway, tools: list[Any], stream: bool = False, name: str = "openai", **more: Any) -> Any:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key(name), max_retries=0) as client:
        if not stream:
            return client.responses.create(model="author", input="news?", tools=tools, **more)
        return list(client.responses.create(model="author", input="news?", tools=tools, stream=True, **more))


def tokens_usd(gateway: RunningGateway) -> float:
    return float(sum(call["input_tokens"] + call["output_tokens"] for call in gateway.calls())) / 1e6


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("ask", "tool"), [(claude, SEARCH), (gpt, HOSTED)])
def test_uses_are_charged_as_reported(
    fees: RunningGateway, models: ScriptedModels, ask: Any, tool: Any, stream: bool
) -> None:
    models.script(say("it rains", used={"web_search": 2}))
    ask(fees, [tool], stream)
    assert fees.spent_usd == pytest.approx(tokens_usd(fees) + 0.02)
    (client,) = [span for span in fees.spans() if span.kind == "client"]
    assert client.attributes[names.TOOL_USES] == ["web_search: 2"]


def test_uses_get_a_bound_where_the_request_has_none(fees: RunningGateway, models: ScriptedModels) -> None:
    claude(fees, [SEARCH])
    claude(fees, [{**SEARCH, "max_uses": 7}], name="two")
    gpt(fees, [HOSTED])
    sent = [request.body for request in models.requests]
    assert [body["tools"][0].get("max_uses") for body in sent] == [3, 7, None] and sent[2]["max_tool_calls"] == 3


def test_a_budget_holds_for_them_before_the_call(fees: RunningGateway, models: ScriptedModels) -> None:
    """Three searches at a cent do not fit into two and a half; nor do two, if each may find as much as the model takes."""
    fees.change("claude", context=1000)
    with pytest.raises(anthropic.RateLimitError):
        claude(fees, [SEARCH], limits=[Limit("usd", 0.025)])
    assert not models.requests
    claude(fees, [{**SEARCH, "max_uses": 2}], name="two", limits=[Limit("usd", 0.025)])
    assert len(models.requests) == 1
    fees.change("claude", context=10_000)
    with pytest.raises(anthropic.RateLimitError):
        claude(fees, [{**SEARCH, "max_uses": 2}], name="three", limits=[Limit("usd", 0.025)])


FETCH: Any = {"type": "web_fetch_20250910", "name": "web_fetch"}
MCP: Any = {"type": "mcp", "server_label": "x", "server_url": "https://x.example", "require_approval": "never"}


@pytest.mark.parametrize(("ask", "tool"), [(claude, FETCH), (gpt, MCP)])
def test_what_a_tool_without_a_fee_reads_is_set_aside_too(
    fees: RunningGateway, models: ScriptedModels, ask: Any, tool: Any
) -> None:
    """A page of a thousand tokens, three times, at a dollar a million."""
    fees.change("claude", context=1000)
    fees.change("author", context=1000)
    fees.set(limits=(Limit("usd", 0.003),))
    with pytest.raises((anthropic.RateLimitError, openai.RateLimitError)):
        ask(fees, [tool])
    fees.set(limits=(Limit("usd", 1.0),))
    ask(fees, [tool], name="two")
    assert len(models.requests) == 1 and fees.spent_usd == pytest.approx(tokens_usd(fees))


def test_what_a_lost_answer_may_have_used_stays_counted(fees: RunningGateway, models: ScriptedModels) -> None:
    models.script(say("one two three", breaks_after=3, used={"web_search": 1}))
    with pytest.raises(Exception, match=r"."):
        claude(fees, [SEARCH], stream=True)
    assert fees.spent_usd >= 0.03


@pytest.mark.parametrize("ask", [claude, gpt])
def test_a_tool_whose_fee_nobody_knows_is_refused(fees: RunningGateway, models: ScriptedModels, ask: Any) -> None:
    with pytest.raises((anthropic.PermissionDeniedError, openai.PermissionDeniedError), match=r"fees = \{ time_travel"):
        ask(fees, [{"type": "time_travel_20301231", "name": "time_travel"}])
    assert not models.requests and fees.spent_usd == 0


@pytest.mark.parametrize(
    ("more", "usd"),
    [
        ({"web_search_options": {}}, 0.01),
        ({"extra_body": {"search_parameters": {"mode": "on", "max_search_results": 4}}}, 0.04),
        ({"extra_body": {"search_parameters": {"mode": "off"}}}, 0.0),
        ({"extra_body": {"plugins": [{"id": "web"}]}}, 0.03),
    ],
)
def test_searches_that_chat_completions_ask_for_beside_the_tools(
    fees: RunningGateway, more: dict[str, Any], usd: float
) -> None:
    with openai.OpenAI(base_url=f"{fees.url}/v1", api_key=fees.key(), max_retries=0) as client:
        client.chat.completions.create(model="author", messages=[{"role": "user", "content": "news?"}], **more)
    assert fees.spent_usd == pytest.approx(tokens_usd(fees) + usd)


def test_tools_of_the_client_cost_nothing(gateway: RunningGateway) -> None:
    function = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
    gpt(gateway, [function, {"type": "custom", "name": "shout"}])
    own = {"name": "weather", "input_schema": {"type": "object", "properties": {}}}
    claude(gateway, [own, {"type": "bash_20250124", "name": "bash"}], name="two")
    assert gateway.spent_usd == pytest.approx(tokens_usd(gateway))


def test_tools_that_the_configuration_adds_are_seen(fees: RunningGateway, models: ScriptedModels) -> None:
    fees.change("claude", params={"tools": [SEARCH]})
    models.script(say("it rains", used={"web_search": 1}))
    claude(fees, [])
    assert fees.spent_usd == pytest.approx(tokens_usd(fees) + 0.01)


def test_what_was_used_unasked_is_not_free(gateway: RunningGateway, models: ScriptedModels) -> None:
    models.script(say("it rains", used={"web_search": 1}))
    claude(gateway, [])
    assert gateway.spent_usd > tokens_usd(gateway) + 0.01


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda below: st.lists(below, max_size=3)
)
NAMES = st.sampled_from(["type", "name", "max_uses", "environment", "id", "mode", "max_search_results", "function"])
THING = st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON, max_size=3), max_size=4)


@given(
    st.sampled_from(["chat", "responses", "messages", "embeddings"]),
    st.dictionaries(
        st.sampled_from(["tools", "plugins", "web_search_options", "search_parameters", "max_tool_calls"]),
        JSON | THING | st.lists(THING | JSON, max_size=4),
        max_size=5,
    ),
)
def test_whatever_a_client_sends_has_a_bound(wire: Any, body: dict[str, Any]) -> None:
    before = json.dumps(body)
    sent, uses = bounded(wire, body, 3)
    assert json.dumps(body) == before and all(isinstance(number, int) and number >= 0 for number in uses.values())
    assert bounded(wire, sent, 3)[1] == uses, "a bound once set stays"


def test_the_price_list_knows_fees() -> None:
    provider = ProviderSettings("openai", "https://api.openai.com/v1")
    listed = price_of(ReleaseSettings("openai", "gpt-5"), "openai", provider, None)
    assert listed.fee_usd("web_search") == pytest.approx(0.01) and listed.fee_usd("time_travel") is None
    own = price_of(ReleaseSettings("openai", "gpt-5"), "openai", replace(provider, fees={"web_search": 0.5}), None)
    assert own.fee_usd("web_search") == 0.5
    sonar = price_of(ReleaseSettings("perplexity", "sonar"), "perplexity", provider, None)
    assert sonar.request_usd == pytest.approx(0.012) and sonar.most_usd(0, 0) == sonar.request_usd
