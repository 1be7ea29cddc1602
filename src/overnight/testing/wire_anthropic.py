"""Anthropic's wire format as its servers write it, from its published API; shares nothing with `overnight.models`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from overnight.testing.script import Scripted

Body = Mapping[str, Any]
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error(reply: Scripted) -> dict[str, Any]:
    """An error's body."""
    return {"type": "error", "error": {"type": _ERRORS.get(reply.status, "api_error"), "message": reply.text}}


def message(reply: Scripted, body: Body) -> dict[str, Any]:
    """A message."""
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    for n, (name, arguments) in enumerate(reply.calls):
        content.append({"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": dict(arguments)})
    return {**_head(body), "content": content, "stop_reason": _STOPS[reply.finished], "usage": _usage(reply, body)}


def message_events(reply: Scripted, body: Body) -> Iterator[tuple[str, Any]]:
    """The same as a stream."""

    def event(kind: str, **fields: Any) -> tuple[str, Any]:
        return kind, {"type": kind, **fields}

    usage = _usage(reply, body)
    used = {"server_tool_use": usage.pop("server_tool_use")} if reply.used else {}
    yield event("message_start", message={**_head(body), "content": [], "usage": {**usage, "output_tokens": 1}})
    yield event("ping")
    at = 0
    if reply.text:
        yield event("content_block_start", index=at, content_block={"type": "text", "text": ""})
        for word in reply.words:
            yield event("content_block_delta", index=at, delta={"type": "text_delta", "text": word})
        yield event("content_block_stop", index=at)
        at += 1
    for n, (name, arguments) in enumerate(reply.calls):
        block = {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": {}}
        yield event("content_block_start", index=at, content_block=block)
        written = json.dumps(arguments)
        for start in range(0, len(written), 7):
            delta = {"type": "input_json_delta", "partial_json": written[start : start + 7]}
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
        at += 1
    stop = {"stop_reason": _STOPS[reply.finished], "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={**used, "output_tokens": usage["output_tokens"]})
    yield event("message_stop")


def _head(body: Body) -> dict[str, Any]:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(reply: Scripted, body: Body) -> dict[str, Any]:
    if not reply.usage:
        return {"input_tokens": 0, "output_tokens": 0}
    into, out = reply.counted(body)
    used = {f"{tool}_requests": number for tool, number in reply.used.items()}
    return {
        **({"server_tool_use": used} if used else {}),
        "input_tokens": into - reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
        "output_tokens": out,
    }
