"""The real SDKs of OpenAI and Anthropic against the gateway: on their own provider's format, and on the other's."""

import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from overnight.models.gateway.keys import REVOKED_WITHIN_S
from overnight.testing import RunningGateway, ScriptedModels, call_tool, fail, say

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Place(pydantic.BaseModel):
    city: str


@pytest.fixture
def chat(gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key("openai"), max_retries=0) as client:
        yield client


@pytest.fixture
def messages(gateway: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway.url, api_key=gateway.key("anthropic"), max_retries=0) as client:
        yield client


@pytest.mark.parametrize("release", ["author", "claude", "local"])
def test_openai_chat(chat: openai.OpenAI, models: ScriptedModels, release: str) -> None:
    models.script(say("good morning", input_tokens=11, output_tokens=3))
    answer = chat.chat.completions.create(
        model=release,
        messages=[{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}],
        temperature=0.5,
    )
    assert answer.choices[0].message.content == "good morning"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None and (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 3)
    (sent,) = models.requests
    assert sent.body["temperature"] == 0.5 and "be kind" in json.dumps(sent.body) and sent.said == "hello"


@pytest.mark.parametrize("release", ["author", "claude", "local"])
def test_openai_chat_streams(chat: openai.OpenAI, models: ScriptedModels, release: str) -> None:
    models.script(say("one two three", input_tokens=5, output_tokens=3))
    chunks = list(
        chat.chat.completions.create(
            model=release,
            messages=[{"role": "user", "content": "count"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "one two three"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert usage is not None and usage.prompt_tokens == 5


@pytest.mark.parametrize("release", ["author", "claude", "local"])
@pytest.mark.parametrize("stream", [False, True])
def test_openai_chat_calls_tools(chat: openai.OpenAI, models: ScriptedModels, release: str, stream: bool) -> None:
    models.script(call_tool("weather", {"city": "Łódź"}), say("sunny"))
    tools: Any = [{"type": "function", "function": {"name": "weather", "description": "now", "parameters": TOOL}}]
    said: list[Any] = [{"role": "user", "content": "weather in Łódź?"}]
    message: Any
    if stream:
        with chat.chat.completions.stream(model=release, messages=said, tools=tools) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = chat.chat.completions.create(model=release, messages=said, tools=tools).choices[0].message
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.type == "function" and call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Łódź"}
    said += [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": call.function.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"},
    ]
    assert chat.chat.completions.create(model=release, messages=said, tools=tools).choices[0].message.content == "sunny"
    sent = json.dumps(models.requests[-1].body, ensure_ascii=False)
    assert "21 degrees" in sent and call.id in sent and "Łódź" in sent


@pytest.mark.parametrize("release", ["author", "claude", "local"])
def test_answers_by_a_schema_are_asked_for_in_every_provider_s_way(
    chat: openai.OpenAI, messages: anthropic.Anthropic, models: ScriptedModels, release: str
) -> None:
    models.otherwise = lambda _: say('{"city": "Łódź"}')
    asked = [{"role": "user", "content": "where?"}]
    read = chat.chat.completions.parse(model=release, messages=asked, response_format=Place)  # type: ignore[arg-type]  # literals
    assert read.choices[0].message.parsed == Place(city="Łódź")
    assert chat.responses.parse(model=release, input="where?", text_format=Place).output_parsed == Place(city="Łódź")
    told = messages.messages.parse(model=release, max_tokens=99, messages=asked, output_format=Place)  # type: ignore[arg-type]  # literals
    assert told.parsed_output == Place(city="Łódź")
    for request in models.requests:
        sent = {"chat": "response_format", "resp": "text", "mess": "output_config"}[request.path[4:8]]
        assert "city" in json.dumps(request.body[sent])


def test_json_without_a_schema_is_passed_on_or_refused(chat: openai.OpenAI, models: ScriptedModels) -> None:
    models.otherwise = lambda _: say("{}")
    chat.responses.create(model="local", input="JSON", text={"format": {"type": "json_object"}})
    assert models.requests[0].body["response_format"] == {"type": "json_object"}
    with pytest.raises(openai.BadRequestError, match="send a schema"):
        chat.responses.create(model="claude", input="JSON", text={"format": {"type": "json_object"}})


@pytest.mark.parametrize("release", ["claude", "author", "local"])
def test_anthropic_messages(messages: anthropic.Anthropic, models: ScriptedModels, release: str) -> None:
    models.script(say("good morning", input_tokens=11, output_tokens=3))
    answer = messages.messages.create(
        model=release, max_tokens=100, system="be kind", messages=[{"role": "user", "content": "hello"}]
    )
    assert [block.text for block in answer.content if block.type == "text"] == ["good morning"]
    assert answer.stop_reason == "end_turn" and (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 3)
    assert "be kind" in json.dumps(models.requests[0].body)


@pytest.mark.parametrize("release", ["claude", "author", "local"])
@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_messages_call_tools(
    messages: anthropic.Anthropic, models: ScriptedModels, release: str, stream: bool
) -> None:
    models.script(call_tool("weather", {"city": "Łódź"}, "let me look"), say("sunny"))
    tools: Any = [{"name": "weather", "description": "now", "input_schema": TOOL}]
    said: list[Any] = [{"role": "user", "content": "weather in Łódź?"}]
    answer: Any
    if stream:
        with messages.messages.stream(model=release, max_tokens=99, messages=said, tools=tools) as events:
            answer = events.get_final_message()
    else:
        answer = messages.messages.create(model=release, max_tokens=99, messages=said, tools=tools)
    assert answer.stop_reason == "tool_use"
    assert [block.type for block in answer.content] == ["text", "tool_use"]
    call = answer.content[1]
    assert call.type == "tool_use" and call.name == "weather" and call.input == {"city": "Łódź"}
    said += [
        {"role": "assistant", "content": [block.model_dump() for block in answer.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees"}]},
    ]
    last = messages.messages.create(model=release, max_tokens=99, messages=said, tools=tools)
    assert last.content[0].type == "text" and last.content[0].text == "sunny"
    assert "21 degrees" in json.dumps(models.requests[-1].body)


@pytest.mark.parametrize("release", ["author", "claude", "local"])
@pytest.mark.parametrize("stream", [False, True])
def test_openai_responses(chat: openai.OpenAI, models: ScriptedModels, release: str, stream: bool) -> None:
    models.script(call_tool("weather", {"city": "Łódź"}, "let me look", input_tokens=7, output_tokens=9))
    tools: Any = [{"type": "function", "name": "weather", "description": "now", "parameters": TOOL, "strict": False}]
    if stream:
        with chat.responses.stream(model=release, input="weather?", instructions="be kind", tools=tools) as events:
            answer: Any = events.get_final_response()
    else:
        answer = chat.responses.create(model=release, input="weather?", instructions="be kind", tools=tools)
    assert answer.output_text == "let me look"
    call = answer.output[-1]
    assert call.type == "function_call" and json.loads(call.arguments) == {"city": "Łódź"}
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 9)
    models.script(say("sunny"))
    items: Any = [
        {"role": "user", "content": "weather?"},
        {"type": "function_call", "call_id": call.call_id, "name": "weather", "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"},
    ]
    assert chat.responses.create(model=release, input=items, tools=tools).output_text == "sunny"
    assert "21 degrees" in json.dumps(models.requests[-1].body)


def test_openai_embeddings(chat: openai.OpenAI, models: ScriptedModels, gateway: RunningGateway) -> None:
    answer = chat.embeddings.create(model="author", input=["one", "three"], encoding_format="float")
    assert [len(item.embedding) for item in answer.data] == [3, 3]
    (call,) = gateway.calls()
    assert call["input_tokens"] > 0 and call["output_tokens"] == 0 and call["cost_nano"] > 0
    with pytest.raises(openai.BadRequestError):
        chat.embeddings.create(model="claude", input="one")


def test_both_list_the_releases(chat: openai.OpenAI, messages: anthropic.Anthropic) -> None:
    assert {model.id for model in chat.models.list()} == {"author", "claude", "local"}
    assert {model.id for model in messages.models.list()} == {"author", "claude", "local"}
    assert chat.models.retrieve("author").owned_by == "openai"
    with pytest.raises(openai.NotFoundError):
        chat.models.retrieve("gpt-4")


def test_anthropic_counts_tokens(messages: anthropic.Anthropic) -> None:
    counted = messages.messages.count_tokens(model="claude", messages=[{"role": "user", "content": "word " * 100}])
    assert 100 <= counted.input_tokens <= 500


STATUSES: list[tuple[int, type[openai.APIStatusError], type[anthropic.APIStatusError]]] = [
    (400, openai.BadRequestError, anthropic.BadRequestError),
    (404, openai.NotFoundError, anthropic.NotFoundError),
    (429, openai.RateLimitError, anthropic.RateLimitError),
    (500, openai.InternalServerError, anthropic.InternalServerError),
]


@pytest.mark.parametrize(("status", "ours", "theirs"), STATUSES)
@pytest.mark.parametrize("release", ["author", "claude"])
@pytest.mark.parametrize("stream", [False, True])
def test_failures_of_one_format_do_not_leak_into_the_other(
    chat: openai.OpenAI,
    messages: anthropic.Anthropic,
    models: ScriptedModels,
    gateway: RunningGateway,
    status: int,
    ours: type[openai.APIStatusError],
    theirs: type[anthropic.APIStatusError],
    release: str,
    stream: bool,
) -> None:
    gateway.change(release, attempts=1)
    models.script(fail(status, "the provider's words"), fail(status, "the provider's words"))
    with pytest.raises(ours, match="the provider's words") as openais:
        chat.chat.completions.create(model=release, messages=[{"role": "user", "content": "x"}], stream=stream)
    assert isinstance(openais.value.body, dict) and set(openais.value.body) == {"message", "type", "param", "code"}
    with pytest.raises(theirs, match="the provider's words") as anthropics:
        messages.messages.create(
            model=release, max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=stream
        )
    assert isinstance(anthropics.value.body, dict) and anthropics.value.body["type"] == "error"
    assert all(call["cost_nano"] == 0 for call in gateway.calls()), "a refused call costs nothing"


def test_a_stream_that_fails_midway_fails_for_the_client(
    chat: openai.OpenAI, messages: anthropic.Anthropic, models: ScriptedModels, gateway: RunningGateway
) -> None:
    models.script(say("one two three four", error_after=3), say("one two three four", breaks_after=5))
    with pytest.raises(openai.APIError):
        list(chat.chat.completions.create(model="author", messages=[{"role": "user", "content": "x"}], stream=True))
    with pytest.raises(anthropic.APIStatusError):
        list(
            messages.messages.create(
                model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True
            )
        )
    assert [call["outcome"] for call in gateway.calls()] == ["error", "error"]
    assert all(call["estimated"] and call["cost_nano"] > 0 for call in gateway.calls()), "what was made is charged"


def test_a_key_is_needed_and_can_be_revoked(gateway: RunningGateway, models: ScriptedModels) -> None:
    key = gateway.key()
    for wrong in ("", "sk-something", key[:-1] + ("a" if key[-1] != "a" else "b"), f"{key} "[:-2]):
        with (
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=wrong or "x", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()
    with (
        anthropic.Anthropic(base_url=gateway.url, api_key="wrong", max_retries=0) as theirs,
        pytest.raises(anthropic.AuthenticationError),
    ):
        theirs.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}])
    gateway.keys.revoke("me")
    time.sleep(REVOKED_WITHIN_S)
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    assert models.requests == [] and gateway.calls() == []
    assert key not in str([tuple(row) for row in gateway.store.database.rows("SELECT * FROM gateway_keys")])
