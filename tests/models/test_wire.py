"""Formats: what is translated and back is the same; nothing that a client or provider sends is more than an error."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.models.gateway.stream import deltas_of
from overnight.models.usage import Usage
from overnight.models.wire import WIRES, BadRequest, WireName, sse
from overnight.models.wire.neutral import (
    Answer,
    Ask,
    Collector,
    Message,
    Part,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    size_of,
)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
arguments = st.dictionaries(words, st.one_of(words, st.integers(), st.none()), max_size=3).map(json.dumps)
calls = st.builds(ToolCall, words, words, arguments)
parts = st.lists(st.one_of(st.builds(Text, words), calls), min_size=1, max_size=4).map(tuple)
usages = st.builds(Usage, input=st.integers(1, 10**6), output=st.integers(1, 10**6))
answers = st.builds(Answer, st.just("id"), st.just("model"), parts, st.just("stop"), usages)
turns = st.lists(
    st.one_of(
        st.builds(Message, st.just("user"), st.builds(Text, words).map(lambda part: (part,))),
        st.builds(Message, st.just("assistant"), parts),
        st.builds(Message, st.just("tool"), st.builds(ToolResult, words, words).map(lambda part: (part,))),
    ),
    max_size=5,
).map(tuple)
requests = st.builds(
    Request,
    st.just("model"),
    st.lists(words, max_size=1).map(tuple),
    turns,
    st.lists(st.builds(Tool, words, words, st.just({"type": "object"})), max_size=2).map(tuple),
    st.sampled_from(["", "auto", "any"]),
    st.integers(1, 999),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                words,
                st.sampled_from(
                    [
                        "messages",
                        "input",
                        "content",
                        "role",
                        "type",
                        "tools",
                        "function",
                        "text",
                        "choices",
                        "delta",
                        "usage",
                        "output",
                        "message",
                        "index",
                        "system",
                    ]
                ),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


def said(given: tuple[Part, ...]) -> tuple[str, list[tuple[str, str, Any]]]:
    """An answer's words and calls; formats differ in where they may cut and how they order."""
    text = "".join(part.text for part in given if isinstance(part, Text))
    return text, [(part.id, part.name, json.loads(part.arguments)) for part in given if isinstance(part, ToolCall)]


@settings(deadline=None, max_examples=50)
@given(answer=answers, name=st.sampled_from(["chat", "messages", "responses"]))
def test_an_answer_survives_every_format(answer: Answer, name: WireName) -> None:
    wire = WIRES[name]
    back = wire.parse_answer(json.loads(json.dumps(wire.render_answer(answer, Request("model")))))
    assert said(back.parts) == said(answer.parts)
    assert back.usage is not None and answer.usage is not None
    assert (back.usage.input, back.usage.output) == (answer.usage.input, answer.usage.output)


@settings(deadline=None, max_examples=50)
@given(answer=answers, name=st.sampled_from(["chat", "messages", "responses"]), cut=st.integers(1, 97))
def test_a_stream_survives_every_format_wherever_it_is_cut(answer: Answer, name: WireName, cut: int) -> None:
    wire = WIRES[name]
    writer, reader, collector = wire.writer(Request("model", usage_wanted=True)), wire.reader(), Collector()
    raw = b"".join(writer.write(delta) for delta in deltas_of(answer)) + writer.finish()
    splitter = sse.Splitter()
    for start in range(0, len(raw), cut):
        for event in splitter.feed(raw[start : start + cut]):
            if event.data != "[DONE]":
                for delta in reader.read(event.name, json.loads(event.data)):
                    collector.add(delta)
    assert collector.finish is not None
    assert said(collector.answer.parts) == said(answer.parts)
    assert collector.usage is not None and answer.usage is not None
    assert (collector.usage.input, collector.usage.output) == (answer.usage.input, answer.usage.output)


@settings(deadline=None, max_examples=50)
@given(request=requests, name=st.sampled_from(["chat", "messages"]))
def test_a_request_survives_every_format(request: Request, name: WireName) -> None:
    wire = WIRES[name]
    body = json.loads(json.dumps(wire.render(request, Ask("other", "openai-compatible", request.max_tokens or 1))))
    back = wire.parse(body)
    assert back.model == "other" and back.system == request.system and back.max_tokens == request.max_tokens
    assert [tool.name for tool in back.tools] == [tool.name for tool in request.tools]

    def flat(messages: tuple[Message, ...]) -> list[Any]:
        # Neighbours of one side may be joined, with results before words and words before calls.
        found: list[Any] = []
        for message in messages:
            text, called = said(message.parts)
            results = [(part.id, part.text) for part in message.parts if isinstance(part, ToolResult)]
            side = "model" if message.role == "assistant" else "client"
            if found and found[-1][0] == side:
                found[-1] = (side, found[-1][1] + text, found[-1][2] + called, found[-1][3] + results)
            else:
                found.append((side, text, called, results))
        return found

    assert flat(back.messages) == flat(request.messages)


@settings(deadline=None, max_examples=80)
@given(
    body=st.dictionaries(
        st.sampled_from(
            [
                "model",
                "messages",
                "input",
                "system",
                "tools",
                "tool_choice",
                "max_tokens",
                "stop",
                "text",
                "instructions",
                "response_format",
                "n",
            ]
        ),
        json_values,
    ),
    name=st.sampled_from(sorted(WIRES)),
)
def test_no_request_is_more_than_a_bad_one(body: dict[str, Any], name: WireName) -> None:
    try:
        request = WIRES[name].parse(body)
    except BadRequest:
        return
    hash(request.messages)
    assert size_of(request).most(0) >= size_of(request).bytes


@pytest.mark.parametrize(
    "tokens", [b"data: {}\r\n\r\n", b"event: a\ndata: 1\ndata: 2\n\n", b": comment\n\ndata: x\n\n", b"data: \xff\n\n"]
)
def test_events_are_split_as_browsers_split_them(tokens: bytes) -> None:
    whole = [(event.name, event.data) for event in sse.Splitter().feed(tokens)]
    splitter = sse.Splitter()
    single = [(event.name, event.data) for at in range(len(tokens)) for event in splitter.feed(tokens[at : at + 1])]
    assert single == whole and len(whole) == 1


def test_a_stream_of_small_pieces_is_linear() -> None:
    splitter = sse.Splitter()
    count = sum(1 for _ in range(2000) for _ in splitter.feed(b"data: {}\n\n"))
    assert count == 2000
