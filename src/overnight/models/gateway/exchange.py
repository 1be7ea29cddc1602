"""A call on its way: candidates in order, attempts at each, each within the budget, each in the record.

    for every candidate, for every attempt:   reserve → send → answer → settle, span and bodies in one transaction

The last byte of an answer leaves after its settlement is committed, so that what a client has received is on record
whatever happens next.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overnight.core.errors import Refused, StoreError
from overnight.kernel.ledger.ledger import Exceeded
from overnight.models.budget import Budget, Held
from overnight.models.gateway.call import Call, Outcome, Record, note_output, settled_row
from overnight.models.gateway.http import Reply
from overnight.models.gateway.recorder import Recorder
from overnight.models.gateway.reveal import reveal_json
from overnight.models.gateway.server_tools import bounded, charged, set_aside
from overnight.models.gateway.stream import StreamBroken, Streaming
from overnight.models.prices import dearer
from overnight.models.queue.providers import SharedProviders
from overnight.models.queue.turns import Preempted
from overnight.models.release import Release, Releases
from overnight.models.upstream.http import ConnectionFailed
from overnight.models.upstream.upstream import (
    LONGEST_WAIT_S,
    Failure,
    HttpAnswer,
    Upstreams,
    failed,
    refused,
    wait_s,
    wire_for,
)
from overnight.models.usage import Usage, estimate_tokens, truncation
from overnight.models.wire import Wire
from overnight.models.wire.errors import ErrorKind
from overnight.models.wire.fields import to_json
from overnight.models.wire.neutral import Ask, BadRequest, Collector, words_of
from overnight.trace import names
from overnight.trace.span import Span

EVENTS = "text/event-stream; charset=utf-8"
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Parts:
    """What every exchange works with."""

    upstreams: Upstreams
    recorder: Recorder[Record]
    budget: Budget
    shared: SharedProviders


class Exchange:
    """One call's way to an answer."""

    def __init__(self, parts: Parts, releases: Releases, call: Call, reply: Reply) -> None:
        self._parts = parts
        self._releases = releases
        self._call = call
        self._reply = reply
        self._uses: Mapping[str, int] = {}
        self._so_far: Usage | None = None

    async def run(self, candidates: list[Release]) -> Failure | None:
        """Answer the client; or say why nobody did, while the client has not been told anything yet.

        Raises:
            CancelledError: the client went away; what was used is settled.
        """
        failure: Failure | None = None
        for release in candidates:
            for tried in range(1, release.settings.attempts + 1):
                failure = await self._attempt(release)
                if failure is None or self._reply.started:
                    return None
                wait = wait_s(failure, tried)
                if not failure.retryable or wait > LONGEST_WAIT_S or tried == release.settings.attempts:
                    break
                self._call.span.add("retry", {names.WAITED_S: round(wait, 3), names.REASON: failure.message})
                await asyncio.sleep(wait)
            if failure is not None and not failure.elsewhere:
                break
        assert failure is not None
        return failure

    async def _attempt(self, release: Release) -> Failure | None:
        call, span = self._call, self._call.attempt_span(release)
        breaker = self._parts.upstreams.breaker(release.provider_name)
        rest = breaker.refuses()
        if rest:
            return self._skip(
                span,
                Failure(
                    "overloaded",
                    503,
                    f"{release.provider_name} failed several times and is left alone for {rest:.0f}s",
                    retry_after_s=rest,
                ),
            )
        held: Held | None = None
        self._so_far = None
        try:
            wire = wire_for(release, call.wire)
            body = self._body(release, wire)
            if beyond := dearer(body, release.settings.params):
                raise _Skipped(Failure("permission", 403, beyond))
            body, self._uses = bounded(wire.name, body, release.provider.tool_uses)
            tokens = self._answer_tokens(release)
            span.attributes[names.REQUEST_MAX_TOKENS] = tokens
            async with self._parts.shared.turn(release, call.key.agent, call.headers, call.size.expected + tokens):
                held = await self._hold(release)
                span.attributes[names.RESERVED_USD] = held.usd
                answer = await self._parts.upstreams.send(release, wire, body, call.headers)
                try:
                    failure = await self._take(release, wire, answer, held, span)
                finally:
                    answer.release()
        except Preempted as problem:
            breaker.gave_up()
            return await self._preempted(release, held, span, problem)
        except _Skipped as skipped:
            breaker.gave_up()
            span.attributes[names.RULE] = skipped.rule or None
            return self._skip(span, skipped.failure)
        except ConnectionFailed as problem:
            assert held is not None
            failure = failed(problem)
            await self._settle(release, held, span, None, "error", failure)
        except LookupError as problem:
            assert held is not None
            breaker.gave_up()
            failure = Failure("internal", 500, str(problem.args[0]))
            await self._settle(release, held, span, None, "error", failure)
            return failure
        except asyncio.CancelledError:
            breaker.gave_up()
            if held is not None and not span.ended_us:
                # The client has gone; how much of the answer was made nobody knows, unless it was streamed.
                self._settling(release, held, span, self._so_far, "cancelled", GONE)
            raise
        except Exception as problem:
            # A defect: what was set aside stays counted, and the record says so.
            breaker.gave_up()
            if held is not None and not span.ended_us:
                defect = Failure("internal", 500, f"the gateway failed: {problem!r}", lost=True)
                await self._settling(release, held, span, None, "error", defect)
            raise
        if failure is None:
            breaker.succeeded()
        elif failure.blame:
            breaker.failed()
        else:
            breaker.gave_up()
        return failure

    async def _preempted(self, release: Release, held: Held | None, span: Span, problem: Preempted) -> Failure:
        failure = Failure("timeout", 504, problem.message, lost=True)
        if held is not None and not span.ended_us:
            await self._settle(release, held, span, self._so_far, "error", failure)
        if self._reply.started:
            await self._reply.write(self._call.wire.broken(failure.kind, failure.message))
            self._reply.end()
        return failure

    async def _take(self, release: Release, wire: Wire, answer: HttpAnswer, held: Held, span: Span) -> Failure | None:
        span.attributes[names.HTTP_STATUS] = answer.status
        if answer.status != 200:
            failure = refused(answer.status, answer.headers, await answer.read())
            await self._settle(release, held, span, None, "error", failure)
            return failure
        if self._call.request.stream:
            return await self._stream(release, wire, answer, held, span)
        raw = await answer.read()
        call = self._call
        try:
            body = json.loads(raw)
            found = wire.parse_answer(body)
        except (ValueError, BadRequest, AttributeError, TypeError):
            failure = Failure("upstream", 502, "the provider's answer is not of its format", lost=True, blame=True)
            await self._settle(release, held, span, None, "error", failure)
            return failure
        usage = found.usage or Usage(call.size.expected, estimate_tokens(str(found.parts)), estimated=True)
        note_output(call, span, found, usage)
        await self._settle(release, held, span, usage, "ok", None)
        if wire is not call.wire:
            body = call.wire.render_answer(found, call.request)
        elif not (call.conversation.hides and b"MASKED_" in raw):
            self._reply.send(200, raw, self._headers(release, span))
            return None
        shown = reveal_json(call.conversation, body) if call.conversation.hides else body
        self._reply.send(200, to_json(shown), self._headers(release, span))
        return None

    async def _stream(self, release: Release, wire: Wire, answer: HttpAnswer, held: Held, span: Span) -> Failure | None:
        call, collector = self._call, Collector()
        streaming = Streaming(call, wire, self._reply, collector, span)
        try:
            await streaming.run(answer, self._headers(release, span))
        except (StreamBroken, ConnectionFailed) as problem:
            kind: ErrorKind = "upstream" if isinstance(problem, StreamBroken) else failed(problem).kind
            failure = Failure(kind, 502, f"the answer broke off: {problem}", True, blame=True, lost=True)
            await self._settle(release, held, span, self._broken(span, collector), "error", failure)
            if self._reply.started:
                await self._reply.write(call.wire.broken(kind, failure.message))
                self._reply.end()
            return failure
        except asyncio.CancelledError:
            # Who ended it, the client or the model's limit, is told apart further up.
            self._so_far = self._broken(span, collector)
            raise
        usage = self._used(collector)
        note_output(call, span, collector.answer, usage)
        await self._settle(release, held, span, usage, "ok", None)
        await streaming.finish()
        return None

    def _broken(self, span: Span, collector: Collector) -> Usage:
        """The same of an answer that broke off, with what there is of it noted."""
        usage = self._used(collector)
        note_output(self._call, span, collector.answer, usage)
        return usage

    def _used(self, collector: Collector) -> Usage:
        """What an answer that wasn't finished, or that says nothing of it, has used."""
        reported = collector.usage or Usage()
        if collector.finish is not None and collector.usage is not None and not reported.estimated:
            return reported
        written = estimate_tokens(collector.written)
        into = reported.input or self._call.size.expected
        return Usage(
            into,
            max(reported.output, written),
            reported.cache_read,
            reported.cache_write,
            reported.cache_write_long,
            reported.reasoning,
            estimated=True,
        )

    def _body(self, release: Release, wire: Wire) -> dict[str, Any]:
        call = self._call
        ask = Ask(release.model, release.provider.kind, self._wanted(release), release.settings.params)
        try:
            if wire is call.wire:
                return wire.forward(call.sent, ask)
            if call.wire.name == "embeddings":
                raise BadRequest(f"embeddings cannot be had from provider {release.provider_name!r}")
            return wire.render(call.wire.parse(call.sent), ask)
        except BadRequest as problem:
            told = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
            raise _Skipped(Failure("invalid_request", 400, told)) from problem

    def _wanted(self, release: Release) -> int:
        wanted = self._call.request.max_tokens
        return release.settings.max_tokens if wanted is None else wanted

    def _answer_tokens(self, release: Release) -> int:
        """The most that all choices together may have."""
        return self._wanted(release) * self._call.request.choices

    async def _hold(self, release: Release) -> Held:
        call = self._call
        try:
            price = self._releases.price(release)
        except Refused as problem:
            raise _Skipped(Failure("permission", 403, f"{problem.message}; {problem.hint}")) from problem
        price, unpriced = set_aside(price, self._uses, release.provider_name)
        if unpriced:
            raise _Skipped(Failure("permission", 403, unpriced))
        answer_tokens, first = self._answer_tokens(release), call.tried == 1
        limits, name = self._releases.settings.gateway.limits, call.request.model
        try:
            held = await self._parts.budget.hold(limits, call.key, name, price, call.size, answer_tokens, first=first)
        except StoreError as problem:
            raise _Skipped(Failure("internal", 503, f"the budget cannot be read: {problem.message}")) from problem
        if isinstance(held, Exceeded):
            kind: ErrorKind = "budget" if held.retry_after_s is None else "rate_limit"
            # People know keys by their names.
            id_, called = f"key {call.key.id}", f"key {call.key.name}"
            failure = Failure(kind, 429, held.sentence.replace(id_, called), retry_after_s=held.retry_after_s)
            raise _Skipped(failure, str(held.limit).replace(id_, called))
        return held

    def _skip(self, span: Span, failure: Failure) -> Failure:
        """Note an attempt that was not made."""
        span.fail(failure.kind, failure.message)
        span.attributes[names.OUTCOME] = "not sent"
        span.end()
        self._call.spans.append(span)
        return failure

    async def _settle(
        self, release: Release, held: Held, span: Span, usage: Usage | None, outcome: Outcome, failure: Failure | None
    ) -> None:
        await self._settling(release, held, span, usage, outcome, failure)
        await self._parts.budget.settled()

    def _settling(
        self, release: Release, held: Held, span: Span, usage: Usage | None, outcome: Outcome, failure: Failure | None
    ) -> "asyncio.Future[None]":
        """Settle an attempt and write its span; done even if nobody waits for it."""
        call, budget = self._call, self._parts.budget
        if usage is not None and self._uses:
            usage = charged(wire_for(release, call.wire).name, usage, self._uses)
        if usage is not None and usage.uses:
            span.attributes[names.TOOL_USES] = [f"{tool}: {number}" for tool, number in usage.uses]
        span.end()
        span.attributes[names.OUTCOME] = outcome
        if failure is not None:
            span.fail(failure.kind, failure.message)
        keep = usage is None and (failure is None or failure.lost)
        counted = usage or (Usage(call.size.expected, 0, estimated=True) if keep else Usage())
        warning = truncation(call.size, counted, lambda: words_of(call.request))
        if warning:
            span.attributes[names.WARNING] = warning
        cost = held.price.cost_usd(usage) if usage is not None else held.usd if keep else 0.0
        span.attributes[names.COST_USD] = cost
        call.spans.append(span)
        ends = outcome != "error" or self._reply.started
        if ends:
            end_call(call, span, failure)
        if usage is not None:
            budget.settle(held, usage)
        elif keep:
            budget.keep(held)
        else:
            budget.give_back(held)
        return self._parts.recorder.record(call.record(settled_row(call, release, span, counted, cost, outcome)))

    def _headers(self, release: Release, span: Span) -> dict[str, str]:
        headers = {
            "content-type": EVENTS if self._call.request.stream else JSON["content-type"],
            "x-overnight-trace": span.place.trace_id,
            "x-overnight-release": release.name,
            "cache-control": "no-store",
        }
        if names.WARNING in span.attributes:
            headers["x-overnight-warning"] = str(span.attributes[names.WARNING])
        return headers


def end_call(call: Call, attempt: Span | None, failure: Failure | None) -> None:
    """End the span of the whole call, with what the attempt that decided it says."""
    span = call.span
    if attempt is not None:
        for name in (names.OUTPUT, names.COST_USD, names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.RESPONSE_FINISH):
            if name in attempt.attributes:
                span.attributes[name] = attempt.attributes[name]
    span.attributes[names.ATTEMPT] = call.tried
    if failure is not None:
        span.fail(failure.kind, failure.message)
    span.end()
    call.spans.append(span)


class _Skipped(Exception):
    """An attempt that must not be made."""

    def __init__(self, failure: Failure, rule: str = "") -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.rule = rule


GONE = Failure("timeout", 499, "the client went away", lost=True)
