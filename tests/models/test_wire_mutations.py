"""Whatever a client sends is read or a `BadRequest`; whatever a provider sends is read as far as it goes."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from overnight.models.wire import WIRES
from overnight.models.wire.neutral import BadRequest, Delta, WireName, size_of

ANYTHING: list[Any] = [
    None, True, 0, -1, 1.5, "x", "", [], {}, [None], ["a", 1], {"a": 1}, [[]], {"type": "text"}, {"type": None}, 10**30,
]  # fmt: skip

TOOL = {"name": "f", "description": "d"}
REQUESTS: dict[WireName, dict[str, Any]] = {
    "embeddings": {"model": "m", "input": ["a", "b"], "dimensions": 3, "encoding_format": "float"},
    "chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}],
            },
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "r"},
        ],
        "tools": [{"type": "function", "function": {**TOOL, "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "stream_options": {"include_usage": True},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    },
    "messages": {
        "model": "m",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "i", "data": "A"}}],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text"}]}]},
        ],
        "tools": [{**TOOL, "input_schema": {}}],
        "tool_choice": {"type": "tool", "name": "f"},
        "stop_sequences": ["a"],
    },
    "responses": {
        "model": "m",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "r"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]},
        ],
        "tools": [{"type": "function", **TOOL, "parameters": {}}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {}}},
    },
}
RESPONSE = {
    "id": "1",
    "status": "incomplete",
    "incomplete_details": {"reason": "content_filter"},
    "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "reasoning", "summary": [{"text": "t"}]},
        {"type": "web_search_call"},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
}
ANSWERS: dict[WireName, dict[str, Any]] = {
    "embeddings": {"data": [{"index": 0, "embedding": [0.1, 0.2]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}},
    "chat": {
        "id": "1",
        "choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    },
    "messages": {
        "id": "1",
        "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2, "server_tool_use": {"web_search_requests": 1}},
    },
    "responses": RESPONSE,
}
EVENTS: dict[WireName, list[dict[str, Any]]] = {
    "chat": [
        {
            "id": "1",
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": "x", "tool_calls": [{"index": 0, "id": "1", "function": {"arguments": "{}"}}]},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        }
    ],
    "messages": [
        {"type": "message_start", "message": {"id": "1", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "1", "name": "f"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "error", "error": {"message": "no"}},
    ],
    "responses": [
        {"type": "response.created", "response": {"id": "1"}},
        {"type": "response.output_item.added", "item": {"type": "function_call", "id": "1", "name": "f"}},
        {"type": "response.function_call_arguments.delta", "item_id": "1", "delta": "{}"},
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.completed", "response": RESPONSE},
        {"type": "response.failed", "response": {"error": {"message": "no"}}},
    ],
}


def _mutations(value: Any) -> Iterator[Any]:
    """`value` with each of its places in turn holding anything at all."""
    for path in _paths(value):
        for thing in ANYTHING:
            changed = copy.deepcopy(value)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = thing
            yield changed


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in pairs:
        yield (*above, key)
        yield from _paths(inside, (*above, key))


@pytest.mark.parametrize("name", sorted(WIRES))
def test_a_request_is_read_or_bad(name: WireName) -> None:
    refused = 0
    for body in _mutations(REQUESTS[name]):
        try:
            request = WIRES[name].parse(body)
        except BadRequest:
            refused += 1
            continue
        hash(request.messages)
        assert size_of(request).most(0) >= size_of(request).bytes
    assert refused > 10


@pytest.mark.parametrize("name", sorted(WIRES))
def test_an_answer_is_read_as_far_as_it_goes(name: WireName) -> None:
    """Or refused with words: it was paid for, and must not end the exchange as an accident of ours."""
    counted = 0
    for body in _mutations(ANSWERS[name]):
        try:
            answer = WIRES[name].parse_answer(body)
        except BadRequest:
            continue
        counted += answer.usage is not None
    assert counted > 10


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_an_event_is_read_as_far_as_it_goes(name: WireName) -> None:
    wire: Any = WIRES[name]
    masked: Callable[[dict[str, Any]], Any] = wire.pieces
    for place, event in enumerate(EVENTS[name]):
        for changed in _mutations(event):
            reader = wire.reader()
            for earlier in EVENTS[name][:place]:
                reader.read("", earlier)
            for delta in reader.read("", changed):
                assert isinstance(delta, Delta) and isinstance(delta.text, str)
                assert isinstance(delta.index, int) and isinstance(delta.id, str)
            masked(changed)
