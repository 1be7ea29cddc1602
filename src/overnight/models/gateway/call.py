"""One call: what the client wants, whom it may be asked of, what is kept of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from overnight.models.gateway.conversation import Conversation
from overnight.models.gateway.keys import Key
from overnight.models.release import Release
from overnight.models.settings import TenantSettings
from overnight.models.usage import Size, Usage
from overnight.models.wire import Wire
from overnight.models.wire.fields import to_json
from overnight.models.wire.neutral import (
    Answer,
    Media,
    Message,
    Part,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    record,
    record_part,
)
from overnight.store.database import Database
from overnight.trace import names
from overnight.trace.span import Attribute, Span
from overnight.trace.storage import TraceStore, body_name

Outcome = Literal["ok", "error", "cancelled", "cached"]
Mask = Callable[[str], str] | None

OPERATIONS: Mapping[str, names.Operation] = {"embeddings": "embeddings"}


@dataclass(frozen=True, slots=True)
class Record:
    """What is written together.

    Attributes:
        spans: that have ended.
        bodies: what was said in them, by the names it is kept under.
        settled: row of the usage report, of an attempt.
    """

    spans: list[Span]
    bodies: list[tuple[str, bytes]]
    settled: tuple[str | int, ...] | None = None


@dataclass
class Call:
    """A request that was understood.

    Attributes:
        wire: the client's format.
        key: whose it is.
        tenant: whose settings apply.
        body: as the client sent it, parsed.
        sent: the same, masked where that is asked for.
        request: the neutral form of `body`.
        size: of the request.
        headers: the client's.
        conversation: it belongs to.
        kept: messages that an earlier request of the conversation had.
        after: that request's span; empty if there is none.
        span: of the whole call.
        spans: ended and not yet written.
        bodies: what was said, masked, and not yet written, by the names it is kept under.
        tried: attempts so far.
    """

    wire: Wire
    key: Key
    tenant: TenantSettings
    body: dict[str, Any]
    sent: dict[str, Any]
    request: Request
    size: Size
    headers: Mapping[str, str]
    conversation: Conversation
    kept: int
    after: str
    span: Span
    spans: list[Span] = field(default_factory=list)
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    tried: int = 0

    @property
    def operation(self) -> names.Operation:
        """The conventions' word for it."""
        return OPERATIONS.get(self.wire.name, "chat")

    def record(self, settled: tuple[str | int, ...] | None = None) -> Record:
        """What there is to be written by now."""
        spans, self.spans = self.spans, []
        bodies, self.bodies = self.bodies, []
        return Record(spans, bodies, settled)

    def keep(self, said: Any) -> str:
        """Have something that was said kept with the next writing; the name it is kept under."""
        content = to_json(said)
        name = body_name(content)
        self.bodies.append((name, content))
        return name

    def attempt_span(self, release: Release) -> Span:
        """A span for the next attempt."""
        self.tried += 1
        request = self.request
        attributes: dict[str, Attribute] = {
            names.OPERATION: self.operation,
            names.PROVIDER: release.provider.prices or release.provider_name,
            names.REQUEST_MODEL: release.model,
            names.RELEASE: release.name,
            names.TIER: release.settings.tier,
            names.SERVER_ADDRESS: release.target.host,
            names.SERVER_PORT: release.target.port,
            names.ATTEMPT: self.tried,
            names.REQUEST_TEMPERATURE: request.temperature,
            names.REQUEST_TOP_P: request.top_p,
            names.REQUEST_STOP: list(request.stop) or None,
            names.REQUEST_CHOICES: request.choices if request.choices > 1 else None,
            names.STREAM: request.stream or None,
        }
        return Span.start(f"{self.operation} {release.model}", self.span.place, kind="client", attributes=attributes)


class Kept:
    """Writes calls to the database; each method is one transaction's work."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store

    def write(self, database: Database, records: Sequence[Record]) -> None:
        """Keep what is recorded, all of it or nothing of what are rows."""
        store = self._store.through(database)
        store.keep_bodies([body for record in records for body in record.bodies])
        store.write([span for record in records for span in record.spans])
        settled = [record.settled for record in records if record.settled is not None]
        if settled:
            database.execute_many(_INSERT, settled)


def settled_row(
    call: Call, release: Release, span: Span, usage: Usage, cost_usd: float, outcome: Outcome
) -> tuple[str | int, ...]:
    """One attempt, for the reports of usage."""
    key = call.key
    return (
        span.place.span_id,
        span.place.trace_id,
        span.ended_us,
        key.tenant,
        key.agent,
        key.run,
        key.id,
        call.request.model,
        release.provider_name,
        release.model,
        outcome,
        usage.input,
        usage.cache_read,
        usage.output,
        usage.reasoning,
        round(cost_usd * 1e9),
        int(usage.estimated),
    )


_INSERT = (
    "INSERT INTO model_calls (span, trace, at_us, tenant, agent, run, key, release, provider, model, outcome,"
    " input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_nano, estimated)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def note_input(call: Call) -> None:
    """What was said that is new, onto the call's span."""
    attributes = call.span.attributes
    mask: Mask = call.conversation.mask if call.tenant.masking != "nothing" else None
    new = call.request.messages[call.kept :]
    attributes[names.INPUT] = [call.keep(record(_masked(message, mask))) for message in new]
    if call.after:
        attributes[names.INPUT_AFTER], attributes[names.INPUT_KEPT] = call.after, call.kept
    if call.request.system:
        attributes[names.INSTRUCTIONS] = call.keep([mask(item) if mask else item for item in call.request.system])
    if call.request.tools:
        tools = [[tool.name, tool.description, tool.schema] for tool in call.request.tools]
        attributes[names.TOOLS] = call.keep(call.conversation.mask_json(tools) if mask else tools)
    attributes[names.MASKED] = call.conversation.found or None


def note_output(call: Call, span: Span, answer: Answer, usage: Usage) -> None:
    """What was answered, and what the answer says about itself, onto the attempt's span."""
    mask: Mask = call.conversation.mask if call.tenant.masking != "nothing" else None
    parts = [record_part(_masked_part(part, mask)) for part in answer.parts]
    span.attributes |= {
        names.RESPONSE_ID: answer.id or None,
        names.RESPONSE_MODEL: answer.model or None,
        names.RESPONSE_FINISH: [answer.finish],
        names.INPUT_TOKENS: usage.input,
        names.OUTPUT_TOKENS: usage.output,
        names.CACHE_READ_TOKENS: usage.cache_read or None,
        names.CACHE_CREATION_TOKENS: usage.cache_write or None,
        names.REASONING_TOKENS: usage.reasoning or None,
        names.USAGE_ESTIMATED: usage.estimated or None,
        names.OUTPUT: call.keep({"role": "assistant", "parts": parts}) if parts else None,
    }


def _masked(message: Message, mask: Mask) -> Message:
    if mask is None:
        return message
    return Message(message.role, tuple(_masked_part(part, mask) for part in message.parts))


def _masked_part(part: Part, mask: Mask) -> Part:
    if mask is None or isinstance(part, Media):
        return part
    if isinstance(part, ToolCall):
        return replace(part, arguments=mask(part.arguments))
    assert isinstance(part, Text | Thinking | ToolResult)
    return replace(part, text=mask(part.text))
