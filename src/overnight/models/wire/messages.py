"""Anthropic's messages."""

import json
from typing import Any, Final

from overnight.models.usage import Usage
from overnight.models.wire import errors, sse
from overnight.models.wire.fields import count, flag, listed, number, parsed, table, text, texts, words
from overnight.models.wire.messages_stream import FINISH, MessagesReader, MessagesWriter, executes, usage_body, usage_of
from overnight.models.wire.neutral import (
    Answer,
    Ask,
    BadRequest,
    Body,
    Finish,
    Media,
    Message,
    Part,
    Piece,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    WireName,
)

_STOP: Final[dict[Finish, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "error": "end_turn",
}


class Messages:
    """See `Wire`."""

    name: WireName = "messages"
    path = "/messages"

    def parse(self, body: Body) -> Request:
        """See `Wire`."""
        messages: list[Message] = []
        for n, raw in enumerate(listed(body.get("messages"), "messages")):
            message = table(raw, f"messages[{n}]")
            role = message.get("role")
            if role not in ("user", "assistant", "system"):
                raise BadRequest(f"messages[{n}] has the role {role!r}", hint="known: user, assistant")
            parts = _parts(message.get("content"), f"messages[{n}].content")
            results = tuple(part for part in parts if isinstance(part, ToolResult))
            rest = tuple(part for part in parts if not isinstance(part, ToolResult))
            if results:
                messages.append(Message("tool", results))
            if rest or not results:
                messages.append(Message(role, rest))
        system = body.get("system")
        choice = body.get("tool_choice")
        chosen = choice.get("type", "") if isinstance(choice, dict) else ""
        return Request(
            model=text(body.get("model"), "model"),
            system=tuple(part.text for part in _parts(system, "system") if isinstance(part, Text)),
            messages=tuple(messages),
            tools=tuple(_tool(item) for item in listed(body.get("tools"), "tools")),
            tool_choice=str(choice.get("name", "")) if isinstance(choice, dict) and chosen == "tool" else chosen,
            max_tokens=count(body.get("max_tokens"), "max_tokens"),
            temperature=number(body.get("temperature"), "temperature"),
            top_p=number(body.get("top_p"), "top_p"),
            stop=texts(body.get("stop_sequences"), "stop_sequences"),
            stream=flag(body.get("stream"), "stream"),
            usage_wanted=True,
            schema=_schema(body),
        )

    def forward(self, body: Body, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        sent = {**body, **ask.params, "model": ask.model}
        if sent.get("max_tokens") is None:
            sent["max_tokens"] = ask.max_tokens
        return sent

    def render(self, request: Request, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        turns: list[dict[str, Any]] = []
        for message in request.messages:
            role = "assistant" if message.role == "assistant" else "user"
            content = [block for part in message.parts if (block := _block(part)) is not None]
            if not content:
                continue
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += content
            else:
                turns.append({"role": role, "content": content})
        sent: dict[str, Any] = {"model": ask.model, "messages": turns, "max_tokens": ask.max_tokens}
        if request.system:
            sent["system"] = "\n\n".join(request.system)
        if request.tools and request.tool_choice != "none":
            sent["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema) or _ANYTHING}
                for tool in request.tools
            ]
            if request.tool_choice:
                known = request.tool_choice in ("auto", "any")
                sent["tool_choice"] = (
                    {"type": request.tool_choice} if known else {"type": "tool", "name": request.tool_choice}
                )
        if request.temperature is not None:
            # OpenAI's scale ends at 2, Anthropic's at 1.
            sent["temperature"] = min(request.temperature, 1.0)
        if request.top_p is not None:
            sent["top_p"] = request.top_p
        if request.stop:
            sent["stop_sequences"] = list(request.stop)
        if request.stream:
            sent["stream"] = True
        if request.schema is not None:
            if not request.schema:
                raise BadRequest("JSON without a schema cannot be had from this model's provider", hint="send a schema")
            sent["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
        return self.forward(sent, ask)

    def parse_answer(self, body: Body) -> Answer:
        """See `Wire`."""
        parts = tuple(_parts(body.get("content"), "content"))
        finish = FINISH.get(words(body.get("stop_reason")), "stop")
        executions = sum(executes(block) for block in listed(body.get("content"), "content") if isinstance(block, dict))
        usage = usage_of(body.get("usage"), executions)
        return Answer(str(body.get("id", "")), str(body.get("model", "")), parts, finish, usage)

    def render_answer(self, answer: Answer, request: Request) -> dict[str, Any]:
        """See `Wire`."""
        return {
            "id": answer.id or "msg_0",
            "type": "message",
            "role": "assistant",
            "model": answer.model or request.model,
            "content": [block for part in answer.parts if (block := _block(part)) is not None],
            "stop_reason": _STOP[answer.finish],
            "stop_sequence": None,
            "usage": usage_body(answer.usage or Usage()),
        }

    def reader(self) -> MessagesReader:
        """See `Wire`."""
        return MessagesReader()

    def writer(self, request: Request) -> MessagesWriter:
        """See `Wire`."""
        return MessagesWriter(request.model, _STOP)

    def error(self, kind: errors.ErrorKind, message: str) -> dict[str, Any]:
        """See `Wire`."""
        return errors.anthropic(kind, message)

    def broken(self, kind: errors.ErrorKind, message: str) -> bytes:
        """See `Wire`."""
        return sse.event(errors.anthropic(kind, message), "error")

    def hidden(self, body: Body, data: Body) -> bool:
        """See `Wire`."""
        return False

    def pieces(self, data: dict[str, Any]) -> list[Piece]:
        """See `Wire`."""
        delta = data.get("delta")
        if data.get("type") != "content_block_delta" or not isinstance(delta, dict):
            return []
        at = data.get("index", 0)
        return [
            Piece(f"{at} {kind}", delta, key, json=key == "partial_json")
            for kind, key in _WRITTEN
            if delta.get("type") == kind and isinstance(delta.get(key), str)
        ]

    def ends(self, text_id: str, event: str, data: Body) -> bool:
        """See `Wire`."""
        return data.get("type") == "content_block_stop" and data.get("index", 0) == int(text_id.partition(" ")[0])

    def extra(self, text_id: str, text: str, data: Body) -> tuple[str, dict[str, Any]]:
        """See `Wire`."""
        at, _, kind = text_id.partition(" ")
        delta = {"type": kind, dict(_WRITTEN)[kind]: text}
        return "content_block_delta", {"type": "content_block_delta", "index": int(at), "delta": delta}


_WRITTEN: Final = (("text_delta", "text"), ("input_json_delta", "partial_json"), ("thinking_delta", "thinking"))
_ANYTHING: Final = {"type": "object", "properties": {}}


def _parts(content: Any, where: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    found: list[Part] = []
    for raw in listed(content, where):
        block = table(raw, where)
        match block.get("type"):
            case "text":
                found.append(Text(text(block.get("text"), "text")))
            case "thinking":
                found.append(
                    Thinking(text(block.get("thinking"), "thinking"), text(block.get("signature"), "signature"))
                )
            case "redacted_thinking":
                found.append(Thinking("", text(block.get("data"), "data")))
            case "tool_use" | "server_tool_use":
                arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
                found.append(ToolCall(text(block.get("id"), "id"), text(block.get("name"), "name"), arguments))
            case "tool_result":
                inner = _parts(block.get("content"), "tool_result.content")
                joined = "\n".join(part.text for part in inner if isinstance(part, Text))
                failed = block.get("is_error") is True
                found.append(ToolResult(text(block.get("tool_use_id"), "tool_use_id"), joined, failed))
                found += [part for part in inner if isinstance(part, Media)]
            case "image" | "document" as kind:
                source = table(block.get("source", {}), "source")
                media_type = str(source.get("media_type") or kind)
                found.append(Media(media_type, str(source.get("data") or ""), str(source.get("url") or "")))
            case kind:
                found.append(Text(json.dumps(block, ensure_ascii=False)) if kind else Media("unknown", ""))
    return found


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(words):
            return {"type": "text", "text": words} if words else None
        case Thinking():
            # Another provider's reasoning has no signature that this one would take.
            return None
        case ToolCall(id_, name, arguments):
            return {"type": "tool_use", "id": id_, "name": name, "input": parsed(arguments)}
        case ToolResult(id_, words, failed):
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": id_, "content": words}
            return {**block, "is_error": True} if failed else block
        case Media(media_type, data, url):
            source = {"type": "url", "url": url} if url else {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "image", "source": source}


def _schema(body: Body) -> Any:
    config = body.get("output_config")
    shape = config.get("format") if isinstance(config, dict) else body.get("output_format")
    return shape.get("schema") if isinstance(shape, dict) and isinstance(shape.get("schema"), dict) else None


def _tool(raw: Any) -> Tool:
    item = table(raw, "tools")
    schema = item.get("input_schema")
    if not isinstance(schema, dict):
        return Tool(str(item.get("name") or item.get("type") or ""), json.dumps(item), {})
    return Tool(text(item.get("name"), "tools.name"), text(item.get("description"), "tools.description"), schema)
