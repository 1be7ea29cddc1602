"""Streams of chat completions."""

import time
from typing import Any, Final

from overnight.models.usage import Usage
from overnight.models.wire import sse
from overnight.models.wire.errors import message_of
from overnight.models.wire.fields import inner, items, tokens, words
from overnight.models.wire.neutral import Delta, Finish

FINISH: Final[dict[str, Finish]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class ChatReader:
    """See `Reader`. Of several choices the first is read; what the others cost is in the usage."""

    def __init__(self) -> None:
        self._started = False

    def read(self, event: str, data: Any) -> list[Delta]:
        """See `Reader`."""
        if not isinstance(data, dict):
            return []
        if "error" in data:
            return [Delta("error", text=message_of(data) or "the provider broke off")]
        found: list[Delta] = []
        if not self._started and data.get("id"):
            self._started = True
            found.append(Delta("start", id=str(data["id"]), name=str(data.get("model", ""))))
        usage = usage_of(data.get("usage"))
        if usage is not None:
            found.append(Delta("usage", usage=usage))
        for choice in items(data.get("choices")):
            if choice.get("index", 0) != 0:
                continue
            delta = inner(choice.get("delta"))
            reasoning = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(reasoning, str) and reasoning:
                found.append(Delta("thinking", reasoning))
            for key in ("content", "refusal"):
                if isinstance(delta.get(key), str) and delta[key]:
                    found.append(Delta("text", delta[key]))
            for call in items(delta.get("tool_calls")):
                function, index = inner(call.get("function")), call.get("index", 0)
                if not isinstance(index, int):
                    continue
                call_id, name = words(call.get("id")), words(function.get("name"))
                arguments = words(function.get("arguments"))
                if call_id or name:
                    found.append(Delta("tool", arguments, index, call_id, name))
                elif arguments:
                    found.append(Delta("arguments", arguments, index))
            if choice.get("finish_reason"):
                finish: Finish = FINISH.get(words(choice["finish_reason"]), "stop")
                found.append(Delta("finish", finish=finish))
        return found


class ChatWriter:
    """See `Writer`."""

    def __init__(self, model: str, usage_wanted: bool = True) -> None:
        self._model = model
        self._id = "chatcmpl-0"
        self._created = int(time.time())
        self._usage_wanted = usage_wanted
        self._usage: Usage | None = None
        self._finish: Finish = "stop"
        self._role_sent = False

    def write(self, delta: Delta) -> bytes:
        """See `Writer`."""
        if delta.usage is not None:
            self._usage = delta.usage
        match delta.kind:
            case "start":
                self._id, self._model = delta.id or self._id, delta.name or self._model
                return b""
            case "text":
                return self._chunk({"content": delta.text})
            case "thinking":
                return self._chunk({"reasoning_content": delta.text})
            case "tool":
                function = {"name": delta.name, "arguments": delta.text}
                call = {"index": delta.index, "id": delta.id, "type": "function", "function": function}
                return self._chunk({"tool_calls": [call]})
            case "arguments":
                return self._chunk({"tool_calls": [{"index": delta.index, "function": {"arguments": delta.text}}]})
            case "finish":
                self._finish = delta.finish
        return b""

    def finish(self) -> bytes:
        """See `Writer`."""
        end = self._chunk({}, self._finish)
        if self._usage_wanted and self._usage is not None:
            end += sse.event({**self._head(), "choices": [], "usage": usage_body(self._usage)})
        return end + sse.DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        if not self._role_sent:
            self._role_sent = True
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse.event({**self._head(), "choices": [choice]})

    def _head(self) -> dict[str, Any]:
        return {"id": self._id, "object": "chat.completion.chunk", "created": self._created, "model": self._model}


def usage_of(raw: Any) -> Usage | None:
    """What `usage` says."""
    if not isinstance(raw, dict) or not tokens(raw, "prompt_tokens") + tokens(raw, "completion_tokens"):
        return None
    return Usage(
        input=tokens(raw, "prompt_tokens"),
        output=tokens(raw, "completion_tokens"),
        cache_read=tokens(raw, "prompt_tokens_details", "cached_tokens"),
        reasoning=tokens(raw, "completion_tokens_details", "reasoning_tokens"),
    )


def usage_body(usage: Usage) -> dict[str, Any]:
    """`usage` as OpenAI writes it."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
