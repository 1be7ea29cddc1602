"""The scripted models speak the wire formats as the real SDKs read them, without a gateway in between."""

import json
from typing import Any

import anthropic
import openai
import pytest

from overnight.testing import ScriptedModels, call_tool, fail, say


def test_what_arrives_is_kept_and_the_script_is_played_in_order() -> None:
    with (
        ScriptedModels(say("one"), say("two")) as models,
        openai.OpenAI(base_url=f"{models.url}/v1", api_key="x", max_retries=0) as client,
    ):
        said = [
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"ask {n}"}])
            .choices[0]
            .message.content
            for n in range(3)
        ]
        assert said == ["one", "two", "ok"]
        assert [request.said for request in models.requests] == ["ask 0", "ask 1", "ask 2"]
        assert models.requests[0].headers["authorization"] == "Bearer x"


@pytest.mark.parametrize("stream", [False, True])
def test_tools_in_all_three_formats(stream: bool) -> None:
    with ScriptedModels(otherwise=lambda _: call_tool("read", {"path": "a b"})) as models:
        called: list[Any]
        with openai.OpenAI(base_url=f"{models.url}/v1", api_key="x", max_retries=0) as client:
            if stream:
                with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}]) as chunks:
                    message = chunks.get_final_completion().choices[0].message
                with client.responses.stream(model="m", input="x") as events:
                    output = events.get_final_response().output
                called = [message.tool_calls[0].function.arguments if message.tool_calls else "", output[0]]
            else:
                whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
                calls = whole.choices[0].message.tool_calls or []
                assert calls[0].type == "function"
                called = [calls[0].function.arguments, client.responses.create(model="m", input="x").output[0]]
        assert json.loads(called[0]) == {"path": "a b"}
        assert json.loads(called[1].arguments) == {"path": "a b"}
        with anthropic.Anthropic(base_url=models.url, api_key="x", max_retries=0) as theirs:
            if stream:
                with theirs.messages.stream(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]
                ) as blocks:
                    block = blocks.get_final_message().content[0]
            else:
                block = theirs.messages.create(  # type: ignore[assignment]  # the same, unparsed
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]
                ).content[0]
        assert block.type == "tool_use" and block.input == {"path": "a b"}


def test_failures_disconnects_and_silence() -> None:
    with (
        ScriptedModels(
            fail(429, "slow down", headers={"retry-after": "7"}),
            say("", breaks_after=0),
            say("a b c", breaks_after=2),
            say("late", pause_s=5),
        ) as models,
        openai.OpenAI(base_url=f"{models.url}/v1", api_key="x", max_retries=0) as client,
    ):
        with pytest.raises(openai.RateLimitError, match="slow down") as limited:
            client.embeddings.create(model="m", input="x")
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.APIConnectionError):
            client.embeddings.create(model="m", input="x")
        with pytest.raises(openai.APIConnectionError):
            list(client.chat.completions.create(model="m", messages=[], stream=True))
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.5).responses.create(model="m", input="x")
