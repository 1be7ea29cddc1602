"""OpenAI's responses."""

import json
from collections.abc import Mapping
from typing import Any, Final

from overnight.models.wire import errors, sse
from overnight.models.wire.fields import count, flag, listed, media, number, table, text
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
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    WireName,
)
from overnight.models.wire.responses_stream import ResponsesReader, ResponsesWriter, output_of, whole

UNSEEN_CONVERSATION: Final = 128_000
"""Tokens expected of a conversation that the provider keeps; money is set aside for all that the model takes."""
_KEPT_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")


class Responses:
    """See `Wire`."""

    name: WireName = "responses"
    path = "/responses"

    def parse(self, body: Body) -> Request:
        """See `Wire`."""
        if body.get("background"):
            raise BadRequest(
                "background responses are not served: what they use could not be counted", hint="stream it instead"
            )
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else listed(given, "input")
        system = [body["instructions"]] if isinstance(body.get("instructions"), str) else []
        messages: list[Message] = []
        for n, raw in enumerate(items):
            message = _item(table(raw, f"input[{n}]"), n)
            if message.role == "system":
                system += [part.text for part in message.parts if isinstance(part, Text)]
            elif messages and message.role == messages[-1].role == "assistant":
                messages[-1] = Message("assistant", messages[-1].parts + message.parts)
            else:
                messages.append(message)
        choice = body.get("tool_choice")
        named = str(choice.get("name") or "") if isinstance(choice, dict) else ""
        shape = body.get("text")
        format_ = shape.get("format") if isinstance(shape, dict) else None
        shaped = format_ if isinstance(format_, dict) else {}
        schema: Mapping[str, Any] | None = None
        if shaped.get("type") in ("json_schema", "json_object"):
            schema = table(shaped.get("schema", {}), "text.format.schema")
        kept = any(body.get(name) for name in _KEPT_ELSEWHERE)
        return Request(
            model=text(body.get("model"), "model"),
            system=tuple(system),
            messages=tuple(messages),
            tools=tuple(_tool(item) for item in listed(body.get("tools"), "tools")),
            tool_choice={"required": "any"}.get(choice, choice) if isinstance(choice, str) else named,
            max_tokens=count(body.get("max_output_tokens"), "max_output_tokens"),
            temperature=number(body.get("temperature"), "temperature"),
            top_p=number(body.get("top_p"), "top_p"),
            stream=flag(body.get("stream"), "stream"),
            usage_wanted=True,
            schema=schema,
            unseen=UNSEEN_CONVERSATION if kept else 0,
            whole=kept,
        )

    def forward(self, body: Body, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        sent = {**body, **ask.params, "model": ask.model}
        if sent.get("max_output_tokens") is None:
            sent["max_output_tokens"] = ask.max_tokens
        return sent

    def render(self, request: Request, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        raise BadRequest("this provider is asked by chat or messages")

    def parse_answer(self, body: Body) -> Answer:
        """See `Wire`."""
        return output_of(body)

    def render_answer(self, answer: Answer, request: Request) -> dict[str, Any]:
        """See `Wire`."""
        return whole(answer, answer.model or request.model)

    def reader(self) -> ResponsesReader:
        """See `Wire`."""
        return ResponsesReader()

    def writer(self, request: Request) -> ResponsesWriter:
        """See `Wire`."""
        return ResponsesWriter(request.model)

    def error(self, kind: errors.ErrorKind, message: str) -> dict[str, Any]:
        """See `Wire`."""
        return errors.openai(kind, message)

    def broken(self, kind: errors.ErrorKind, message: str) -> bytes:
        """See `Wire`."""
        code = errors.openai(kind, message)["error"]["code"] or kind
        return sse.event(
            {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0}, "error"
        )

    def hidden(self, body: Body, data: Body) -> bool:
        """See `Wire`."""
        return False

    def pieces(self, data: dict[str, Any]) -> list[Piece]:
        """See `Wire`."""
        kind = str(data.get("type", ""))
        if kind not in _PIECEMEAL or not isinstance(data.get("delta"), str):
            return []
        place = f"{data.get('item_id', '')} {data.get('content_index', data.get('summary_index', 0))} {kind}"
        return [Piece(place, data, "delta", json="arguments" in kind)]

    def ends(self, text_id: str, event: str, data: Body) -> bool:
        """See `Wire`."""
        item, _, kind = text_id.split(" ")
        same = data.get("item_id") == item and data.get("type") == kind.removesuffix("delta") + "done"
        return same or data.get("type") in ("response.completed", "response.incomplete", "response.failed")

    def extra(self, text_id: str, text: str, data: Body) -> tuple[str, dict[str, Any]]:
        """See `Wire`."""
        item, at, kind = text_id.split(" ")
        index = "summary_index" if "summary" in kind else "content_index"
        extra = {"type": kind, "item_id": item, "output_index": data.get("output_index", 0), index: int(at)}
        return kind, {**extra, "delta": text, "sequence_number": data.get("sequence_number", 0)}


_PIECEMEAL: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.custom_tool_call_input.delta",
    }
)


def _item(item: Body, n: int) -> Message:
    match item.get("type", "message"):
        case "message":
            role = item.get("role")
            if role not in ("user", "assistant", "system", "developer"):
                raise BadRequest(f"input[{n}] has the role {role!r}", hint="known: user, assistant, system, developer")
            parts = _content(item.get("content"), f"input[{n}].content")
            return Message("system" if role in ("system", "developer") else role, parts)
        case "function_call":
            name, arguments = text(item.get("name"), "name"), text(item.get("arguments"), "arguments")
            return Message("assistant", (ToolCall(text(item.get("call_id"), "call_id"), name, arguments),))
        case "function_call_output":
            output = item.get("output")
            words = (
                output
                if isinstance(output, str)
                else "\n".join(part.text for part in _content(output, "output") if isinstance(part, Text))
            )
            return Message("tool", (ToolResult(text(item.get("call_id"), "call_id"), words),))
        case "reasoning":
            shown = [str(table(part, "summary").get("text", "")) for part in listed(item.get("summary"), "summary")]
            return Message("assistant", (Thinking("\n".join(shown), str(item.get("encrypted_content") or "")),))
        case _:
            return Message("assistant", (Text(json.dumps(item, ensure_ascii=False)),))


def _content(content: Any, where: str) -> tuple[Part, ...]:
    if content is None or isinstance(content, str):
        return (Text(content),) if content else ()
    found: list[Part] = []
    for raw in listed(content, where):
        part = table(raw, where)
        match part.get("type"):
            case "input_text" | "output_text" | "text":
                found.append(Text(text(part.get("text"), "text")))
            case "refusal":
                found.append(Text(text(part.get("refusal"), "refusal")))
            case "input_image":
                found.append(media(text(part.get("image_url"), "image_url")))
            case kind:
                found.append(Media(str(kind), str(part.get("file_data") or "")))
    return tuple(found)


def _tool(raw: Any) -> Tool:
    item = table(raw, "tools")
    if item.get("type") != "function":
        return Tool(str(item.get("name") or item.get("type") or ""), json.dumps(item), {})
    schema = item.get("parameters")
    description = text(item.get("description"), "description")
    return Tool(text(item.get("name"), "tools.name"), description, schema if isinstance(schema, dict) else {})
