"""What is said, independent of who says it how: the form in which formats are translated and traces are kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from overnight.core.errors import UsageError
from overnight.models.settings import ProviderKind
from overnight.models.usage import Size, Usage
from overnight.models.wire.errors import ErrorKind

WireName = Literal["chat", "responses", "messages", "embeddings"]
Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_calls", "content_filter", "error"]
Body = Mapping[str, Any]
"""A JSON object as a client or provider sent it."""

UNSEEN_IMAGE = 3200
"""Tokens of an image whose size isn't known: the most that current providers charge for one at high resolution."""


class BadRequest(UsageError):
    """What a client sent is not a request of its format, or asks for what cannot be had here."""


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """An image or file: a URL, or base64 of `media_type`."""

    media_type: str
    data: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model asks for a tool; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back."""

    id: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning that the provider shows; `signature` is the provider's own."""

    text: str
    signature: str = ""


Part = Text | Media | ToolCall | ToolResult | Thinking


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool on offer; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request for an answer.

    Attributes:
        model: a release's name.
        system: instructions.
        messages: the conversation, `system` aside.
        tools: on offer.
        tool_choice: `auto`, `none`, `any`, or a tool's name; empty: not said.
        max_tokens: of the answer; None: not said.
        temperature: None: not said.
        top_p: None: not said.
        stop: texts that end the answer.
        stream: whether it comes in pieces.
        usage_wanted: whether the client asked for a stream's usage.
        choices: how many answers.
        schema: JSON schema the answer must follow; an empty one: any JSON object.
        unseen: tokens of what is not in the request, see `Size`.
        whole: it refers to something of unknown length, see `Size`.
    """

    model: str
    system: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    usage_wanted: bool = False
    choices: int = 1
    schema: Mapping[str, Any] | None = None
    unseen: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, whole."""

    id: str = ""
    model: str = ""
    parts: tuple[Part, ...] = ()
    finish: Finish = "stop"
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed answer.

    Attributes:
        kind: `start` (id, model), `text`, `thinking`, `tool` (a call begins: id, name), `arguments`, `finish`.
        text: of the piece.
        index: which of the answer's tool calls.
        id: of the answer or of the tool call.
        name: of the model or of the tool.
        finish: why it ended.
        usage: as far as it is known by then.
    """

    kind: Literal["start", "text", "thinking", "tool", "arguments", "finish", "usage", "error"]
    text: str = ""
    index: int = 0
    id: str = ""
    name: str = ""
    finish: Finish = "stop"
    usage: Usage | None = None


@dataclass(slots=True)
class Collector:
    """Puts the pieces of a streamed answer together."""

    id: str = ""
    model: str = ""
    finish: Finish | None = None
    usage: Usage | None = None
    failed: str = ""
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: dict[int, tuple[str, str, list[str]]] = field(default_factory=dict)

    def add(self, delta: Delta) -> None:
        """Take in a piece."""
        match delta.kind:
            case "text":
                self.text.append(delta.text)
            case "thinking":
                self.thinking.append(delta.text)
            case "start":
                self.id, self.model = delta.id, delta.name
            case "tool":
                self.calls[delta.index] = (delta.id, delta.name, [delta.text])
            case "arguments":
                if delta.index in self.calls:
                    self.calls[delta.index][2].append(delta.text)
            case "finish":
                self.finish = delta.finish
            case "error":
                self.failed = delta.text
        if delta.usage is not None:
            self.usage = delta.usage

    @property
    def written(self) -> str:
        """Everything the model wrote so far."""
        calls = "".join(name + "".join(pieces) for _, name, pieces in self.calls.values())
        return "".join(self.thinking) + "".join(self.text) + calls

    @property
    def answer(self) -> Answer:
        """What there is so far."""
        parts: list[Part] = []
        if self.thinking:
            parts.append(Thinking("".join(self.thinking)))
        if self.text:
            parts.append(Text("".join(self.text)))
        parts += [ToolCall(id_, name, "".join(pieces)) for id_, name, pieces in self.calls.values()]
        return Answer(self.id, self.model, tuple(parts), self.finish or "error", self.usage)


@dataclass(frozen=True, slots=True)
class Ask:
    """What the gateway decides of a request: the provider's model and kind, the answer's length, fixed parameters."""

    model: str
    kind: ProviderKind
    max_tokens: int
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """A text within an event: `holder[key]` of the text `id`; `json` if what is written is JSON."""

    id: str
    holder: dict[str, Any]
    key: str
    json: bool = False


class Reader(Protocol):
    """Reads a provider's stream, event by event; keeps its place."""

    def read(self, event: str, data: Any) -> list[Delta]:
        """What an event says; `data` is its parsed JSON. Unknown events say nothing."""


class Writer(Protocol):
    """Writes a stream in a client's format."""

    def write(self, delta: Delta) -> bytes:
        """The piece as events; may be empty."""

    def finish(self) -> bytes:
        """What closes the stream."""


class Wire(Protocol):
    """One format. Stateless and pure; `BadRequest` is the only thing raised."""

    name: WireName
    path: str
    """Below a provider's base URL."""

    def parse(self, body: Body) -> Request:
        """A client's request."""

    def forward(self, body: Body, ask: Ask) -> dict[str, Any]:
        """A client's request for a provider of the same format: all of it that isn't ours to decide stays."""

    def render(self, request: Request, ask: Ask) -> dict[str, Any]:
        """A request for a provider, from another format's."""

    def parse_answer(self, body: Body) -> Answer:
        """A provider's answer."""

    def render_answer(self, answer: Answer, request: Request) -> dict[str, Any]:
        """An answer for a client, from another format's."""

    def reader(self) -> Reader:
        """For a provider's stream."""

    def writer(self, request: Request) -> Writer:
        """For a client's stream."""

    def error(self, kind: ErrorKind, message: str) -> dict[str, Any]:
        """A failure, as clients of this format expect it."""

    def broken(self, kind: ErrorKind, message: str) -> bytes:
        """The same as an event, where a stream has begun."""

    def hidden(self, body: Body, data: Body) -> bool:
        """Whether a stream's event is there only because `forward` asked for more than the client did."""

    def pieces(self, data: dict[str, Any]) -> list[Piece]:
        """The texts in a stream's event that the model writes piecemeal."""

    def ends(self, text_id: str, event: str, data: Body) -> bool:
        """Whether the event says that nothing more comes for the text of that id."""

    def extra(self, text_id: str, text: str, data: Body) -> tuple[str, dict[str, Any]]:
        """One more event for a text, to go before the event `data` that ends it."""


def size_of(request: Request) -> Size:
    """How much a request holds."""
    count = sum(map(_bytes, request.system))
    unseen, whole = request.unseen, request.whole
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Media):
                image = part.media_type.startswith("image")
                unseen += UNSEEN_IMAGE if image else len(part.data) + UNSEEN_IMAGE
                whole = whole or not (image or part.data)
            elif isinstance(part, ToolCall):
                count += _bytes(part.name) + _bytes(part.arguments)
            else:
                count += _bytes(part.text)
    for tool in request.tools:
        count += _bytes(tool.name) + _bytes(tool.description) + len(json.dumps(tool.schema))
    if request.schema is not None:
        count += len(json.dumps(request.schema))
    return Size(count, unseen, len(request.messages) + len(request.tools) + len(request.system), whole)


def words_of(request: Request) -> int:
    """How many words were said: no current tokenizer makes fewer tokens."""
    said = [part.text for message in request.messages for part in message.parts if isinstance(part, Text | ToolResult)]
    return sum(len(text.split()) for text in (*request.system, *said))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def record(message: Message) -> dict[str, Any]:
    """A message as traces keep it: the conventions' own JSON for `gen_ai.input.messages`."""
    return {"role": message.role, "parts": [record_part(part) for part in message.parts]}


def record_part(part: Part) -> dict[str, Any]:
    """One part of it."""
    match part:
        case Text(text):
            return {"type": "text", "content": text}
        case Thinking(text):
            return {"type": "reasoning", "content": text}
        case ToolCall(id_, name, arguments):
            return {"type": "tool_call", "id": id_, "name": name, "arguments": arguments}
        case ToolResult(id_, text, failed):
            return {"type": "tool_call_response", "id": id_, "response": text, **({"failed": True} if failed else {})}
        case Media(media_type, data, url):
            return (
                {"type": "uri", "mime_type": media_type, "uri": url}
                if url
                else {"type": "blob", "mime_type": media_type, "bytes": len(data)}
            )
