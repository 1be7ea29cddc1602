"""A streamed answer on its way through: read, counted, revealed, translated, passed on."""

import json
from collections.abc import Mapping
from typing import Any

from overnight.models.gateway.call import Call
from overnight.models.gateway.http import Reply
from overnight.models.gateway.reveal import RevealedDeltas, RevealedStream
from overnight.models.upstream.upstream import HttpAnswer
from overnight.models.wire import Wire, sse
from overnight.models.wire.neutral import Answer, BadRequest, Collector, Delta, Text, Thinking, ToolCall
from overnight.trace import names
from overnight.trace.span import Span, now_us


class StreamBroken(Exception):
    """A provider's stream that failed or ended before its answer did."""


class Streaming:
    """One stream. `run` passes on all but its end, which `finish` does once the call is settled."""

    def __init__(self, call: Call, wire: Wire, reply: Reply, collector: Collector, span: Span) -> None:
        self._call = call
        self._wire = wire
        self._reply = reply
        self._collector = collector
        self._span = span
        self._held: list[bytes] = []
        self._same = wire is call.wire
        hides = call.conversation.hides
        self._revealed = RevealedStream(call.conversation, wire) if self._same and hides else None
        self._deltas = RevealedDeltas(call.conversation) if hides else None
        self._writer = None if self._same else call.wire.writer(call.request)

    async def run(self, answer: HttpAnswer, headers: Mapping[str, str]) -> None:
        """Pass the stream on until the provider has ended it.

        Raises:
            StreamBroken: it failed or ended too early; nothing has been passed on if the reply hasn't started.
            ConnectionFailed: the connection broke.
        """
        if "text/event-stream" not in answer.headers.get("content-type", "text/event-stream"):
            await self._whole(await answer.read(), headers)
            return
        splitter, reader = sse.Splitter(), self._wire.reader()
        async for piece in answer.pieces():
            out = b"".join([self._event(event, reader.read) for event in splitter.feed(piece)])
            await self._pass_on(out, headers)
        out = b"".join([self._event(event, reader.read) for event in splitter.finish()])
        await self._pass_on(out, headers)
        if self._collector.finish is None:
            raise StreamBroken("the provider ended the stream before the answer")

    async def finish(self) -> None:
        """Pass on the end."""
        await self._reply.write(b"".join(self._held) + (self._writer.finish() if self._writer else b""))
        self._reply.end()

    def _event(self, event: sse.Event, read: Any) -> bytes:
        if event.data == "[DONE]":
            return event.raw if self._same else b""
        try:
            data = json.loads(event.data) if event.data else {}
        except ValueError:
            raise StreamBroken("the provider sent an event that is not JSON") from None
        if not isinstance(data, dict):
            return b""
        try:
            deltas: list[Delta] = read(event.name, data)
        except (AttributeError, TypeError) as problem:
            raise StreamBroken("the provider sent an event that is not of its format") from problem
        for delta in deltas:
            self._collector.add(delta)
        if self._collector.failed:
            raise StreamBroken(self._collector.failed)
        if self._same:
            if self._wire.name == "chat" and self._wire.hidden(self._call.body, data):
                return b""
            return self._revealed.feed(event.name, data) if self._revealed else event.raw
        return self._written(deltas)

    def _written(self, deltas: list[Delta]) -> bytes:
        assert self._writer is not None
        if self._deltas is None:
            return b"".join([self._writer.write(delta) for delta in deltas])
        return b"".join([self._writer.write(shown) for delta in deltas for shown in self._deltas.feed(delta)])

    async def _pass_on(self, out: bytes, headers: Mapping[str, str]) -> None:
        if not out:
            return
        if self._collector.finish is not None:
            # The end waits for the settlement.
            self._held.append(out)
            out = b""
        if not self._reply.started:
            self._span.attributes[names.TIME_TO_FIRST_CHUNK] = (now_us() - self._span.started_us) / 1e6
            self._reply.start(200, headers)
        await self._reply.write(out)

    async def _whole(self, raw: bytes, headers: Mapping[str, str]) -> None:
        """A provider that doesn't stream, though asked to."""
        try:
            answer = self._wire.parse_answer(json.loads(raw))
        except (ValueError, BadRequest, AttributeError, TypeError):
            raise StreamBroken("the provider's answer is not of its format") from None
        self._writer = self._writer or self._call.wire.writer(self._call.request)
        deltas = deltas_of(answer)
        for delta in deltas:
            self._collector.add(delta)
        await self._pass_on(self._written(deltas), headers)


def deltas_of(answer: Answer) -> list[Delta]:
    """A whole answer as the pieces of a stream."""
    found = [Delta("start", id=answer.id, name=answer.model)]
    calls = 0
    for part in answer.parts:
        match part:
            case Text(text):
                found.append(Delta("text", text))
            case Thinking(text):
                found.append(Delta("thinking", text))
            case ToolCall(id_, name, arguments):
                found.append(Delta("tool", arguments, calls, id_, name))
                calls += 1
    return [*found, Delta("finish", finish=answer.finish, usage=answer.usage)]
