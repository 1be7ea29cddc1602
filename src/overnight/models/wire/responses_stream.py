"""Streams and answers of OpenAI's responses."""

import time
from collections import Counter
from dataclasses import replace
from typing import Any, Final

from overnight.models.usage import Usage
from overnight.models.wire import sse
from overnight.models.wire.errors import message_of
from overnight.models.wire.fields import inner, items, tokens, words
from overnight.models.wire.neutral import Answer, Delta, Finish, Part, Text, Thinking, ToolCall


class ResponsesReader:
    """See `Reader`."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}

    def read(self, event: str, data: Any) -> list[Delta]:
        """See `Reader`."""
        if not isinstance(data, dict):
            return []
        match data.get("type"):
            case "response.created":
                response = inner(data.get("response"))
                return [Delta("start", id=str(response.get("id", "")), name=str(response.get("model", "")))]
            case "response.output_text.delta" | "response.refusal.delta":
                return [Delta("text", words(data.get("delta")))]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", words(data.get("delta")))]
            case "response.output_item.added":
                item = inner(data.get("item"))
                if item.get("type") == "function_call":
                    index = self._calls.setdefault(str(item.get("id", "")), len(self._calls))
                    return [Delta("tool", "", index, str(item.get("call_id", "")), str(item.get("name", "")))]
            case "response.function_call_arguments.delta":
                return [Delta("arguments", words(data.get("delta")), self._calls.get(str(data.get("item_id", "")), 0))]
            case "response.completed" | "response.incomplete":
                answer = output_of(inner(data.get("response")))
                return [Delta("finish", finish=answer.finish, usage=answer.usage)]
            case "response.failed" | "error":
                response = inner(data.get("response")) or data
                return [Delta("error", text=message_of(response) or str(data.get("message") or "the provider failed"))]
        return []


class ResponsesWriter:
    """See `Writer`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = "resp_0"
        self._count = 0
        self._started = False
        self._usage = Usage()
        self._finish: Finish = "stop"
        self._items: list[dict[str, Any]] = []
        self._open = ""
        self._text = ""

    def write(self, delta: Delta) -> bytes:
        """See `Writer`."""
        if delta.usage is not None:
            self._usage = delta.usage
        match delta.kind:
            case "start":
                self._id, self._model = delta.id or self._id, delta.name or self._model
                return self._start()
            case "text":
                return self._words(delta.text)
            case "tool":
                begun = self._call(delta)
                return begun + (self._arguments(delta.text) if delta.text else b"")
            case "arguments":
                return self._arguments(delta.text)
            case "finish":
                self._finish = delta.finish
        return b""

    def finish(self) -> bytes:
        """See `Writer`."""
        end = self._start() + self._close()
        name = "response.incomplete" if self._finish in ("length", "content_filter") else "response.completed"
        return end + self._event(name, response=self._response(True))

    def _start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        response = self._response(False)
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def _words(self, text: str) -> bytes:
        begun = b""
        if self._open != "text":
            begun = self._start() + self._close()
            item = {"type": "message", "id": f"msg_{len(self._items)}", "status": "in_progress", "role": "assistant"}
            self._items.append({**item, "content": []})
            self._open = "text"
            at = len(self._items) - 1
            begun += self._event("response.output_item.added", output_index=at, item=self._items[-1])
            begun += self._event("response.content_part.added", **self._place(), part=_words(""))
        self._text += text
        return begun + self._event("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _call(self, delta: Delta) -> bytes:
        begun = self._start() + self._close()
        item = {"type": "function_call", "id": f"fc_{len(self._items)}", "call_id": delta.id, "name": delta.name}
        self._items.append({**item, "arguments": "", "status": "in_progress"})
        self._open = "call"
        return begun + self._event(
            "response.output_item.added", output_index=len(self._items) - 1, item=self._items[-1]
        )

    def _arguments(self, text: str) -> bytes:
        if self._open != "call":
            return b""
        self._text += text
        place = {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1}
        return self._event("response.function_call_arguments.delta", **place, delta=text)

    def _close(self) -> bytes:
        if not self._open:
            return b""
        item, at = self._items[-1], len(self._items) - 1
        done = b""
        if self._open == "text":
            part = _words(self._text)
            item = {**item, "status": "completed", "content": [part]}
            done = self._event("response.output_text.done", **self._place(), text=self._text, logprobs=[])
            done += self._event("response.content_part.done", **self._place(), part=part)
        else:
            item = {**item, "status": "completed", "arguments": self._text}
            place = {"item_id": item["id"], "output_index": at, "name": item["name"]}
            done = self._event("response.function_call_arguments.done", **place, arguments=self._text)
        self._items[-1], self._open, self._text = item, "", ""
        return done + self._event("response.output_item.done", output_index=at, item=item)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._items[-1]["id"], "output_index": len(self._items) - 1, "content_index": 0}

    def _response(self, ended: bool) -> dict[str, Any]:
        answer = Answer(self._id, self._model, (), self._finish, self._usage if ended else None)
        status = {} if ended else {"status": "in_progress"}
        return {**whole(answer, self._model), "output": list(self._items) if ended else [], **status}

    def _event(self, name: str, /, **fields: Any) -> bytes:
        self._count += 1
        return sse.event({"type": name, "sequence_number": self._count - 1, **fields}, name)


def output_of(body: Any) -> Answer:
    """An answer from a `response` object."""
    parts: list[Part] = []
    finish: Finish = "stop"
    for item in items(body.get("output")):
        match item.get("type"):
            case "message":
                for part in items(item.get("content")):
                    parts.append(Text(str(part.get("text") or part.get("refusal") or "")))
            case "reasoning":
                shown = "\n".join(str(part.get("text", "")) for part in items(item.get("summary")))
                parts.append(Thinking(shown, str(item.get("encrypted_content") or "")))
            case "function_call":
                finish = "tool_calls"
                parts.append(ToolCall(*(str(item.get(key) or "") for key in ("call_id", "name", "arguments"))))
    if body.get("status") == "incomplete":
        why = inner(body.get("incomplete_details")).get("reason")
        finish = "content_filter" if why == "content_filter" else "length"
    usage = usage_of(body.get("usage"))
    if usage is not None and (uses := _uses(body)):
        usage = replace(usage, uses=uses)
    return Answer(str(body.get("id", "")), str(body.get("model", "")), tuple(parts), finish, usage)


_CLIENTS: Final = frozenset({"function", "custom_tool", "local_shell", "computer", "mcp", "apply_patch", "tool_search"})


def _uses(body: Any) -> tuple[tuple[str, int], ...]:
    """Uses of OpenAI's own tools: an item of the output stands for each."""
    found: Counter[str] = Counter()
    for item in items(body.get("output")):
        name, call, rest = str(item.get("type", "")).rpartition("_call")
        if call and not rest and name not in _CLIENTS:
            found[{"code_interpreter": "code_execution", "shell": "code_execution"}.get(name, name)] += 1
    return tuple(found.items())


def usage_of(raw: Any) -> Usage | None:
    """What `usage` says."""
    if not isinstance(raw, dict) or not tokens(raw, "input_tokens") + tokens(raw, "output_tokens"):
        return None
    return Usage(
        input=tokens(raw, "input_tokens"),
        output=tokens(raw, "output_tokens"),
        cache_read=tokens(raw, "input_tokens_details", "cached_tokens"),
        reasoning=tokens(raw, "output_tokens_details", "reasoning_tokens"),
    )


def whole(answer: Answer, model: str) -> dict[str, Any]:
    """A `response` object."""
    usage = answer.usage
    cut = answer.finish in ("length", "content_filter")
    reason = "max_output_tokens" if answer.finish == "length" else answer.finish
    return {
        "id": answer.id or "resp_0",
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [item for n, part in enumerate(answer.parts) if (item := _output(part, n)) is not None],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": usage
        and {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.total,
        },
    }


def _output(part: Part, n: int) -> dict[str, Any] | None:
    match part:
        case Text(words):
            item = {"type": "message", "id": f"msg_{n}", "status": "completed", "role": "assistant"}
            return {**item, "content": [_words(words)]}
        case ToolCall(id_, name, arguments):
            item = {"type": "function_call", "id": f"fc_{n}", "call_id": id_, "name": name}
            return {**item, "arguments": arguments, "status": "completed"}
    return None


def _words(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
