"""OpenAI's wire formats as its servers write them, from its published API; shares nothing with `overnight.models`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from overnight.testing.script import Scripted

Body = Mapping[str, Any]
Event = tuple[str, Any]
"""Name (empty: none) and data; text is sent as it is."""


def error(reply: Scripted) -> dict[str, Any]:
    """An error's body."""
    known = {429: "rate_limit_error"}
    kind = known.get(reply.status, "invalid_request_error" if reply.status < 500 else "server_error")
    return {"error": {"message": reply.text, "type": kind, "param": None, "code": None}}


def chat(reply: Scripted, body: Body) -> dict[str, Any]:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(reply.calls)
        ]
    choices = [
        {"index": n, "message": message, "logprobs": None, "finish_reason": reply.finished}
        for n in range(body.get("n") or 1)
    ]
    answer = {"id": "chatcmpl-scripted", "object": "chat.completion", "created": 1, "model": body.get("model")}
    return {**answer, "choices": choices, **({"usage": _usage(reply, body)} if reply.usage else {})}


def chat_events(reply: Scripted, body: Body) -> Iterator[Event]:
    """The same as a stream."""
    head = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}

    def chunk(delta: Body, finish: str | None = None) -> Event:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in reply.words:
        yield chunk({"content": word})
    for n, (name, arguments) in enumerate(reply.calls):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": n, "id": f"call_{n}", "type": "function", "function": function}]})
        for piece in _cut(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
    yield chunk({}, reply.finished)
    options = body.get("stream_options")
    if reply.usage and isinstance(options, dict) and options.get("include_usage"):
        yield "", {**head, "choices": [], "usage": _usage(reply, body)}
    yield "", "[DONE]"


def response(reply: Scripted, body: Body) -> dict[str, Any]:
    """A response."""
    into, out = reply.counted(body)
    usage = {
        "input_tokens": into,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": into + out,
    }
    return {**_response(body), "status": "completed", "output": _items(reply), "usage": usage if reply.usage else None}


def response_events(reply: Scripted, body: Body) -> Iterator[Event]:
    """The same as a stream."""
    count = 0

    def event(kind: str, **fields: Any) -> Event:
        nonlocal count
        count += 1
        return kind, {"type": kind, "sequence_number": count - 1, **fields}

    yield event("response.created", response={**_response(body), "status": "in_progress"})
    for at, item in enumerate(_items(reply)):
        place = {"item_id": item["id"], "output_index": at}
        if item["type"] == "message":
            part = item["content"][0]
            yield event("response.output_item.added", output_index=at, item={**item, "content": []})
            yield event("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            for word in reply.words:
                yield event("response.output_text.delta", **place, content_index=0, delta=word, logprobs=[])
            yield event("response.output_text.done", **place, content_index=0, text=reply.text, logprobs=[])
            yield event("response.content_part.done", **place, content_index=0, part=part)
        elif item["type"] != "function_call":
            yield event("response.output_item.added", output_index=at, item={**item, "status": "in_progress"})
        else:
            yield event("response.output_item.added", output_index=at, item={**item, "arguments": ""})
            for piece in _cut(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **place, **done)
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.completed", response=response(reply, body))


def embeddings(reply: Scripted, body: Body) -> dict[str, Any]:
    """Vectors that depend on the texts alone."""
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    data = [
        {"object": "embedding", "index": n, "embedding": [len(str(text)) / 100, str(text).count("e") / 10, 0.5]}
        for n, text in enumerate(texts)
    ]
    into, _ = reply.counted(body)
    usage = {"prompt_tokens": into, "total_tokens": into}
    answer = {"object": "list", "model": body.get("model"), "data": data}
    return {**answer, **({"usage": usage} if reply.usage else {})}


def _usage(reply: Scripted, body: Body) -> dict[str, Any]:
    into, out = reply.counted(body)
    return {
        "prompt_tokens": into,
        "completion_tokens": out,
        "total_tokens": into + out,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _response(body: Body) -> dict[str, Any]:
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 1,
        "model": body.get("model"),
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def _items(reply: Scripted) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for tool, number in reply.used.items():
        items += [{"type": f"{tool}_call", "id": f"{tool}_{n}", "status": "completed"} for n in range(number)]
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": "msg_scripted", "status": "completed", "role": "assistant"}
        items.append({**message, "content": [part]})
    for n, (name, arguments) in enumerate(reply.calls):
        call = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": name, "status": "completed"}
        items.append({**call, "arguments": json.dumps(arguments)})
    return items


def _cut(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]
