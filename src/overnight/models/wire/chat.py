"""OpenAI's chat completions, which also most local servers speak."""

import json
import time
from typing import Any, Final

from overnight.models.usage import Usage
from overnight.models.wire import errors, sse
from overnight.models.wire.chat_stream import FINISH, ChatReader, ChatWriter, usage_body, usage_of
from overnight.models.wire.fields import count, flag, inner, items, listed, media, number, table, text, texts, words
from overnight.models.wire.neutral import (
    Answer,
    Ask,
    BadRequest,
    Body,
    Media,
    Message,
    Part,
    Piece,
    Request,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    WireName,
)


class Chat:
    """See `Wire`."""

    name: WireName = "chat"
    path = "/chat/completions"

    def parse(self, body: Body) -> Request:
        """See `Wire`."""
        system: list[str] = []
        messages: list[Message] = []
        for n, raw in enumerate(listed(body.get("messages"), "messages")):
            message = table(raw, f"messages[{n}]")
            role = message.get("role")
            if role in ("system", "developer"):
                system += [part.text for part in _parts(message, n) if isinstance(part, Text)]
            elif role in ("user", "assistant", "tool", "function"):
                messages.append(_message(message, "tool" if role == "function" else role, n))
            else:
                raise BadRequest(f"messages[{n}] has the role {role!r}", hint="known: system, user, assistant, tool")
        choice = body.get("tool_choice")
        named = ""
        if isinstance(choice, dict) and "function" in choice:
            named = text(table(choice["function"], "tool_choice.function").get("name"), "tool_choice.function.name")
        return Request(
            model=text(body.get("model"), "model"),
            system=tuple(system),
            messages=tuple(messages),
            tools=tuple(_tool(item) for item in listed(body.get("tools"), "tools")),
            tool_choice={"required": "any"}.get(choice, choice) if isinstance(choice, str) else named,
            max_tokens=_max_tokens(body),
            temperature=number(body.get("temperature"), "temperature"),
            top_p=number(body.get("top_p"), "top_p"),
            stop=texts(body.get("stop"), "stop"),
            stream=flag(body.get("stream"), "stream"),
            usage_wanted=_usage_wanted(body),
            choices=count(body.get("n"), "n") or 1,
            schema=_schema(body.get("response_format")),
        )

    def forward(self, body: Body, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        sent = {**body, **ask.params, "model": ask.model}
        if sent.get("max_completion_tokens") is None and sent.get("max_tokens") is None:
            sent["max_completion_tokens" if ask.kind == "openai" else "max_tokens"] = ask.max_tokens
        if body.get("stream") is True:
            options = body.get("stream_options")
            sent["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        return sent

    def render(self, request: Request, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": item} for item in request.system]
        for message in request.messages:
            messages += _render(message)
        sent: dict[str, Any] = {"model": ask.model, "messages": messages}
        if request.tools:
            sent["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
                }
                for tool in request.tools
            ]
        if request.tool_choice:
            known = {"auto": "auto", "none": "none", "any": "required"}
            chosen = known.get(request.tool_choice)
            sent["tool_choice"] = chosen or {"type": "function", "function": {"name": request.tool_choice}}
        for name in ("temperature", "top_p"):
            if getattr(request, name) is not None:
                sent[name] = getattr(request, name)
        if request.stop:
            sent["stop"] = list(request.stop)
        if request.schema is not None:
            named = {"name": "answer", "schema": dict(request.schema)}
            sent["response_format"] = (
                {"type": "json_schema", "json_schema": named} if request.schema else {"type": "json_object"}
            )
        if request.stream:
            sent["stream"] = True
        return self.forward(sent, ask)

    def parse_answer(self, body: Body) -> Answer:
        """See `Wire`."""
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = choice.get("message")
        parts: tuple[Part, ...] = ()
        if isinstance(message, dict):
            parts = _message(message, "assistant", 0).parts
        finish = FINISH.get(words(choice.get("finish_reason")), "stop")
        return Answer(str(body.get("id", "")), str(body.get("model", "")), parts, finish, usage_of(body.get("usage")))

    def render_answer(self, answer: Answer, request: Request) -> dict[str, Any]:
        """See `Wire`."""
        (message,) = _render(Message("assistant", answer.parts)) or [{"role": "assistant", "content": ""}]
        return {
            "id": answer.id or "chatcmpl-0",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": answer.model or request.model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}],
            "usage": usage_body(answer.usage or Usage()),
        }

    def reader(self) -> ChatReader:
        """See `Wire`."""
        return ChatReader()

    def writer(self, request: Request) -> ChatWriter:
        """See `Wire`."""
        return ChatWriter(request.model, request.usage_wanted)

    def error(self, kind: errors.ErrorKind, message: str) -> dict[str, Any]:
        """See `Wire`."""
        return errors.openai(kind, message)

    def broken(self, kind: errors.ErrorKind, message: str) -> bytes:
        """See `Wire`."""
        return sse.event(errors.openai(kind, message))

    def hidden(self, body: Body, data: Body) -> bool:
        """See `Wire`."""
        return not _usage_wanted(body) and data.get("choices") == [] and isinstance(data.get("usage"), dict)

    def pieces(self, data: dict[str, Any]) -> list[Piece]:
        """See `Wire`."""
        found = []
        for choice in items(data.get("choices")):
            delta, at = inner(choice.get("delta")), choice.get("index", 0)
            found += [Piece(f"{at} {key}", delta, key) for key in _WRITTEN if isinstance(delta.get(key), str)]
            for call in items(delta.get("tool_calls")):
                function = inner(call.get("function"))
                if isinstance(function.get("arguments"), str):
                    found.append(Piece(f"{at} tool {call.get('index', 0)}", function, "arguments", json=True))
        return found

    def ends(self, text_id: str, event: str, data: Body) -> bool:
        """See `Wire`."""
        index = int(text_id.partition(" ")[0])
        return any(
            choice.get("index", 0) == index and choice.get("finish_reason") for choice in items(data.get("choices"))
        )

    def extra(self, text_id: str, text: str, data: Body) -> tuple[str, dict[str, Any]]:
        """See `Wire`."""
        index, _, key = text_id.partition(" ")
        delta: dict[str, Any] = {key: text}
        if key.startswith("tool "):
            delta = {"tool_calls": [{"index": int(key[5:]), "function": {"arguments": text}}]}
        choice = {"index": int(index), "delta": delta, "finish_reason": None}
        return "", {**{k: v for k, v in data.items() if k != "usage"}, "choices": [choice]}


_WRITTEN: Final = ("content", "reasoning_content", "reasoning", "refusal")


def _max_tokens(body: Body) -> int | None:
    # Both names are passed on, and which of them a provider heeds is its own business: the larger one is set aside for.
    asked = [count(body.get(name), name) for name in ("max_completion_tokens", "max_tokens")]
    return max((tokens for tokens in asked if tokens is not None), default=None)


def _usage_wanted(body: Body) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _message(message: Body, role: Role, n: int) -> Message:
    parts: list[Part] = []
    if role == "tool":
        joined = "\n".join(part.text for part in _parts(message, n) if isinstance(part, Text))
        return Message("tool", (ToolResult(text(message.get("tool_call_id"), "tool_call_id"), joined),))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        parts.append(Thinking(reasoning))
    parts += _parts(message, n)
    if isinstance(message.get("refusal"), str):
        parts.append(Text(message["refusal"]))
    for raw in listed(message.get("tool_calls"), f"messages[{n}].tool_calls"):
        function = table(table(raw, "tool_calls").get("function", {}), "tool_calls.function")
        arguments = text(function.get("arguments"), "arguments")
        parts.append(ToolCall(text(raw.get("id"), "tool_calls.id"), text(function.get("name"), "name"), arguments))
    return Message(role, tuple(parts))


def _parts(message: Body, n: int) -> list[Part]:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    found: list[Part] = []
    for raw in listed(content, f"messages[{n}].content"):
        part = table(raw, f"messages[{n}].content")
        match part.get("type"):
            case "text" | "input_text" | "output_text":
                found.append(Text(text(part.get("text"), "text")))
            case "image_url":
                image = part.get("image_url")
                found.append(media(text(image.get("url") if isinstance(image, dict) else image, "image_url")))
            case "refusal":
                found.append(Text(text(part.get("refusal"), "refusal")))
            case kind:
                inner = part.get(str(kind))
                data = str(inner.get("data") or inner.get("file_data") or "") if isinstance(inner, dict) else ""
                found.append(Media(str(kind), data))
    return found


def _render(message: Message) -> list[dict[str, Any]]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    found: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": item.id, "content": item.text} for item in results]
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Media):
            url = part.url or f"data:{part.media_type};base64,{part.data}"
            content.append({"type": "image_url", "image_url": {"url": url}})
    if content or calls or not found:
        plain = "".join(item["text"] for item in content) if all(item["type"] == "text" for item in content) else None
        rendered: dict[str, Any] = {"role": message.role, "content": content if plain is None else plain or None}
        if rendered["content"] is None and message.role == "user":
            rendered["content"] = ""
        if calls:
            rendered["tool_calls"] = [
                {"id": item.id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}
                for item in calls
            ]
        found.append(rendered)
    return found


def _tool(raw: Any) -> Tool:
    item = table(raw, "tools")
    function = item.get("function")
    if not isinstance(function, dict):
        return Tool(str(item.get("name") or item.get("type") or ""), json.dumps(item), {})
    schema = function.get("parameters")
    description = text(function.get("description"), "description")
    return Tool(text(function.get("name"), "tools.name"), description, schema if isinstance(schema, dict) else {})


def _schema(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return None
    if raw.get("type") == "json_object":
        return {}
    if raw.get("type") != "json_schema":
        return None
    named = table(raw.get("json_schema"), "response_format.json_schema")
    return table(named.get("schema", {}), "response_format.json_schema.schema")
