"""Streams of Anthropic's messages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from overnight.models.usage import Usage
from overnight.models.wire import sse
from overnight.models.wire.errors import message_of
from overnight.models.wire.fields import inner, tokens, words
from overnight.models.wire.neutral import Delta, Finish

FINISH: Final[dict[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class MessagesReader:
    """See `Reader`."""

    def __init__(self) -> None:
        self._usage: dict[str, Any] = {}
        self._calls: dict[int, int] = {}
        self._executions = 0

    def read(self, event: str, data: Any) -> list[Delta]:
        """See `Reader`."""
        if not isinstance(data, dict):
            return []
        match data.get("type"):
            case "message_start":
                message = inner(data.get("message"))
                self._usage.update(inner(message.get("usage")))
                usage = usage_of(self._usage)
                # What has been written is only known at the end.
                usage = usage and replace(usage, estimated=True)
                return [Delta("start", id=str(message.get("id", "")), name=str(message.get("model", "")), usage=usage)]
            case "content_block_start":
                block, at = inner(data.get("content_block")), _place(data)
                self._executions += executes(block)
                if block.get("type") in ("tool_use", "server_tool_use"):
                    index = self._calls.setdefault(at, len(self._calls))
                    return [Delta("tool", "", index, str(block.get("id", "")), str(block.get("name", "")))]
                return (
                    [Delta("text", said)] if block.get("type") == "text" and (said := words(block.get("text"))) else []
                )
            case "content_block_delta":
                return self._piece(inner(data.get("delta")), _place(data))
            case "message_delta":
                # These counts are the whole answer's so far, not this event's.
                self._usage.update({k: v for k, v in inner(data.get("usage")).items() if v is not None})
                usage = usage_of(self._usage, self._executions)
                if usage is not None and not tokens(inner(data.get("usage")), "output_tokens"):
                    usage = replace(usage, estimated=True)
                found = [Delta("usage", usage=usage)]
                reason = words(inner(data.get("delta")).get("stop_reason"))
                return [*found, Delta("finish", finish=FINISH.get(reason, "stop"))] if reason else found
            case "error":
                return [Delta("error", text=message_of(data) or "the provider broke off")]
        return []

    def _piece(self, delta: Mapping[str, Any], at: int) -> list[Delta]:
        match delta.get("type"):
            case "text_delta":
                return [Delta("text", words(delta.get("text")))]
            case "thinking_delta":
                return [Delta("thinking", words(delta.get("thinking")))]
            case "input_json_delta" if at in self._calls and (said := words(delta.get("partial_json"))):
                return [Delta("arguments", said, self._calls[at])]
        return []


def _place(data: Mapping[str, Any]) -> int:
    """Which block of the answer an event speaks of."""
    at = data.get("index", 0)
    return at if isinstance(at, int) else 0


class MessagesWriter:
    """See `Writer`."""

    def __init__(self, model: str, stops: Mapping[Finish, str]) -> None:
        self._model = model
        self._stops = stops
        self._id = "msg_0"
        self._usage = Usage()
        self._finish: Finish = "stop"
        self._started = False
        self._block = -1
        self._open = ""

    def write(self, delta: Delta) -> bytes:
        """See `Writer`."""
        if delta.usage is not None:
            self._usage = delta.usage
        match delta.kind:
            case "start":
                self._id, self._model = delta.id or self._id, delta.name or self._model
                return self._start()
            case "text":
                block = {"type": "text", "text": ""}
                return self._within("text", block) + self._delta({"type": "text_delta", "text": delta.text})
            case "tool":
                call: dict[str, Any] = {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}}
                begun = self._within(f"tool {delta.index}", call)
                return begun + (self._arguments(delta.text) if delta.text else b"")
            case "arguments":
                return self._arguments(delta.text)
            case "finish":
                self._finish = delta.finish
        return b""

    def finish(self) -> bytes:
        """See `Writer`."""
        stop = {"stop_reason": self._stops[self._finish], "stop_sequence": None}
        end = {"type": "message_delta", "delta": stop, "usage": usage_body(self._usage)}
        begun = self._start() + self._close()
        return begun + sse.event(end, "message_delta") + sse.event({"type": "message_stop"}, "message_stop")

    def _start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        message: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_body(self._usage),
        }
        return sse.event({"type": "message_start", "message": message}, "message_start")

    def _within(self, block_id: str, block: Mapping[str, Any]) -> bytes:
        if self._open == block_id:
            return b""
        begun = self._start() + self._close()
        self._block, self._open = self._block + 1, block_id
        start = {"type": "content_block_start", "index": self._block, "content_block": dict(block)}
        return begun + sse.event(start, "content_block_start")

    def _arguments(self, text: str) -> bytes:
        return self._delta({"type": "input_json_delta", "partial_json": text}) if self._open else b""

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return sse.event(
            {"type": "content_block_delta", "index": self._block, "delta": dict(delta)}, "content_block_delta"
        )

    def _close(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return sse.event({"type": "content_block_stop", "index": self._block}, "content_block_stop")


_UNCHARGED: Final = frozenset({"web_fetch", "tool_search"})


def executes(block: Mapping[str, Any]) -> bool:
    """Whether a content block is Anthropic's running code."""
    return block.get("type") == "server_tool_use" and "code_execution" in str(block.get("name", ""))


def usage_of(raw: Any, executions: int = 0) -> Usage | None:
    """What `usage` says. Anthropic counts cached tokens apart; here they are part of the input."""
    if not isinstance(raw, dict):
        return None
    read, written = tokens(raw, "cache_read_input_tokens"), tokens(raw, "cache_creation_input_tokens")
    into, out = tokens(raw, "input_tokens") + read + written, tokens(raw, "output_tokens")
    if not into + out:
        return None
    long = tokens(raw, "cache_creation", "ephemeral_1h_input_tokens")
    return Usage(
        input=into,
        output=out,
        cache_read=read,
        cache_write=written,
        cache_write_long=min(long, written),
        uses=uses_of(raw, executions),
    )


def uses_of(raw: Mapping[str, Any], executions: int) -> tuple[tuple[str, int], ...]:
    """Uses of Anthropic's own tools: as reported, and executions of code at least as often as the answer shows."""
    reported = raw.get("server_tool_use")
    names = [name.removesuffix("_requests") for name in reported] if isinstance(reported, dict) else []
    uses = {name: tokens(raw, "server_tool_use", f"{name}_requests") for name in names if name not in _UNCHARGED}
    uses["code_execution"] = max(uses.get("code_execution", 0), executions)
    return tuple((name, number) for name, number in uses.items() if number)


def usage_body(usage: Usage) -> dict[str, Any]:
    """`usage` as Anthropic writes it."""
    return {
        "input_tokens": max(0, usage.input - usage.cache_read - usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
