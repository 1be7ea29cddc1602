"""The gateway: one place that all model traffic goes through, ours and that of any agent pointed at it.

    key → release → masking → budget → provider(s) → budget → trace → client

It speaks OpenAI's chat completions, responses, embeddings and models, and Anthropic's messages, to clients and to
providers, and translates where the two differ. See `docs/models.md`.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from overnight.core.errors import NotFound, OvernightError
from overnight.models.budget import Budget
from overnight.models.gateway.cache import AnswerCache, Cached, name_of
from overnight.models.gateway.call import Call, Kept, note_input, settled_row
from overnight.models.gateway.conversation import Conversations
from overnight.models.gateway.exchange import EVENTS, GONE, JSON, Exchange, Parts, end_call
from overnight.models.gateway.http import HttpServer, Reply, Request
from overnight.models.gateway.keys import Key, Keys
from overnight.models.gateway.recorder import Recorder
from overnight.models.queue.providers import SharedProviders
from overnight.models.release import Release, Releases
from overnight.models.settings import ModelSettings
from overnight.models.upstream.upstream import Failure, Upstreams
from overnight.models.usage import Usage
from overnight.models.wire import WIRES, BadRequest, Wire
from overnight.models.wire.errors import ErrorKind
from overnight.models.wire.fields import to_json
from overnight.models.wire.neutral import size_of
from overnight.trace import names
from overnight.trace.span import Place, Span
from overnight.trace.storage import TraceStore

_PATHS: Final[Mapping[str, Wire]] = {f"/v1{wire.path}": wire for wire in WIRES.values()}
_KNOWN_PATHS: Final = (*_PATHS, "/v1/messages/count_tokens", "/v1/models")
_LONG_BYTES: Final = 65_536
"""A request longer than this is masked in a thread of its own, so that others don't wait for it."""


class Configuration(Protocol):
    """Where the settings come from. Called with every request: it has to be fast when nothing has changed."""

    def current(self) -> ModelSettings:
        """The settings in force now; the same object as long as they stay the same. Never fails."""


class Gateway:
    """The gateway of one workspace. Made and used within one event loop."""

    def __init__(self, store: TraceStore, configuration: Configuration) -> None:
        self._configuration = configuration
        self._settings = configuration.current()
        self._releases = Releases(self._settings)
        self._releases.look_up_prices()
        self._recorder = Recorder(store.database.path, Kept(store).write)
        self._upstreams = Upstreams()
        self._conversations = Conversations()
        self._cache = AnswerCache()
        budget = Budget(self._recorder.database, self._recorder.apart)
        self._parts = Parts(self._upstreams, self._recorder, budget, SharedProviders(store.database))
        self._server = HttpServer(self.serve)
        self.keys = Keys(store.database)

    async def listen(self, host: str, port: int) -> int:
        """Serve; the port that was taken.

        Raises:
            OSError: the address cannot be had.
        """
        return await self._server.listen(host, port)

    async def close(self) -> None:
        """Let running calls end, settle everything, stop."""
        await self._server.close()
        await self._upstreams.close()
        self._parts.shared.close()
        try:
            await self._parts.budget.close()
        finally:
            await self._recorder.close()

    async def serve(self, request: Request, reply: Reply) -> None:
        """Answer one request."""
        path = request.path.rstrip("/")
        if path == "/health":
            reply.send(200, b'{"status":"ok"}', JSON)
            return
        wire = _PATHS.get(path) or (WIRES["messages"] if _anthropic(request) else WIRES["chat"])
        key = self.keys.check(_presented(request.headers))
        if key is None:
            _refuse(
                reply,
                wire,
                "authentication",
                401,
                "a key of this gateway is needed; `overnight gateway key new` makes one",
            )
            return
        if path == "/v1/models" or path.startswith("/v1/models/"):
            self._list(path.removeprefix("/v1/models").strip("/"), wire, reply)
        elif path == "/v1/messages/count_tokens" and request.method == "POST":
            self._count(request, reply)
        elif path not in _PATHS:
            _refuse(reply, wire, "no_path", 404, f"{request.path} is not served; known: {', '.join(_KNOWN_PATHS)}")
        elif request.method != "POST":
            _refuse(reply, wire, "invalid_request", 405, f"{path} takes POST")
        else:
            await self._call(request, reply, wire, key)

    async def _call(self, request: Request, reply: Reply, wire: Wire, key: Key) -> None:
        releases = self._current()
        try:
            call = await self._understood(request, wire, key)
            if not call.request.model:
                raise BadRequest("model is missing", hint=f"known: {', '.join(releases.all) or 'none yet'}")
            candidates = releases.candidates(call.request.model)
        except BadRequest as problem:
            _refuse(
                reply,
                wire,
                "invalid_request",
                400,
                f"{problem.message}; {problem.hint}" if problem.hint else problem.message,
            )
            return
        except NotFound as problem:
            _refuse(reply, wire, "not_found", 404, f"{problem.message}; {problem.hint}")
            return
        if len(candidates) > 1:
            call.span.attributes[names.CANDIDATES] = [release.name for release in candidates]
        failure: Failure | None
        try:
            failure = await self._answer(call, reply, releases, candidates)
        except OvernightError as problem:
            failure = Failure("internal", 503, problem.message)
        except asyncio.CancelledError:
            if not call.span.ended_us:
                end_call(call, None, GONE)
                self._recorder.record(call.record())
            raise
        if failure is not None:
            end_call(call, None, failure)
            with contextlib.suppress(OvernightError):
                await self._recorder.record(call.record())
            headers = {"x-overnight-trace": call.span.place.trace_id}
            if failure.retry_after_s is not None:
                headers["retry-after"] = str(max(1, round(failure.retry_after_s + 0.5)))
            _refuse(reply, wire, failure.kind, failure.status, failure.message, headers)

    async def _answer(self, call: Call, reply: Reply, releases: Releases, candidates: list[Release]) -> Failure | None:
        kept_s, together = call.tenant.cache, call.tenant.coalesce
        exchange = Exchange(self._parts, releases, call, reply)
        if kept_s is None and not together:
            return await exchange.run(candidates)
        name = name_of(call.key.tenant, call.wire.name, candidates[0], call.body)
        again = self._cache.get(name, kept_s or 0.0)
        running = self._cache.running(name) if together and again is None else None
        if running is not None:
            again = await asyncio.shield(running)
        if again is not None:
            await self._again(call, reply, candidates[0], again)
            return None
        answer: Cached | None = None
        first = together and self._cache.begin(name)
        reply.copy = []
        try:
            failure = await exchange.run(candidates)
            if failure is None and call.span.status == "ok":
                answer = Cached(EVENTS if call.request.stream else JSON["content-type"], b"".join(reply.copy))
                if kept_s is not None:
                    self._cache.put(name, answer)
            return failure
        finally:
            if first:
                self._cache.end(name, answer)

    async def _again(self, call: Call, reply: Reply, release: Release, answer: Cached) -> None:
        call.span.attributes[names.CACHE] = "hit"
        call.span.attributes[names.COST_USD] = 0.0
        end_call(call, None, None)
        await self._recorder.record(call.record(settled_row(call, release, call.span, Usage(), 0.0, "cached")))
        told = {"x-overnight-trace": call.span.place.trace_id, "x-overnight-release": release.name}
        reply.send(200, answer.body, {"content-type": answer.content_type, "x-overnight-cache": "hit", **told})

    async def _understood(self, request: Request, wire: Wire, key: Key) -> Call:
        body = _parsed(request.body)
        neutral = wire.parse(body)
        tenant = self._settings.tenant(key.tenant)
        conversation, kept, after, end = self._conversations.find(key, tenant, neutral.messages)
        parent = Place.from_header(request.headers["traceparent"]) if "traceparent" in request.headers else None
        span = Span.start(
            f"{'embeddings' if wire.name == 'embeddings' else 'chat'} {neutral.model}",
            parent,
            kind="server",
            trace_id=conversation.trace_id,
            attributes={
                names.API: wire.name,
                names.RELEASE: neutral.model,
                names.CONVERSATION: conversation.id,
                names.AGENT: key.agent,
                names.TENANT: key.tenant,
                names.RUN: key.run or None,
                names.KEY: key.name,
                names.STREAM: neutral.stream or None,
            },
        )
        call = Call(
            wire, key, tenant, body, body, neutral, size_of(neutral), request.headers, conversation, kept, after, span
        )
        if tenant.masking != "nothing":
            async with conversation.lock:
                if len(request.body) > _LONG_BYTES:
                    await asyncio.to_thread(_mask, call)
                else:
                    _mask(call)
        else:
            note_input(call)
        self._conversations.remember(conversation, end, len(neutral.messages), span.place.span_id)
        return call

    def _current(self) -> Releases:
        settings = self._configuration.current()
        if settings is not self._settings:
            self._releases, self._settings = Releases(settings), settings
            self._releases.look_up_prices()
        return self._releases

    def _list(self, name: str, wire: Wire, reply: Reply) -> None:
        releases = self._current()
        if name and name not in releases.all:
            _refuse(reply, wire, "not_found", 404, f"there is no model {name!r} here")
            return
        found = [_model(item, release.provider_name) for item, release in releases.all.items()]
        if name:
            reply.send(200, to_json(_model(name, releases.all[name].provider_name)), JSON)
            return
        ends = (
            {"first_id": found[0]["id"], "last_id": found[-1]["id"]} if found else {"first_id": None, "last_id": None}
        )
        reply.send(200, to_json({"object": "list", "data": found, "has_more": False, **ends}), JSON)

    def _count(self, request: Request, reply: Reply) -> None:
        wire = WIRES["messages"]
        try:
            size = size_of(wire.parse(_parsed(request.body)))
        except BadRequest as problem:
            _refuse(reply, wire, "invalid_request", 400, problem.message)
            return
        reply.send(200, to_json({"input_tokens": size.expected}), JSON)


def _mask(call: Call) -> None:
    if call.tenant.masking == "everything":
        call.sent = call.conversation.mask_json(call.body)
    note_input(call)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"the body is not JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise BadRequest("the body has to be a JSON object")
    return found


def _presented(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def _anthropic(request: Request) -> bool:
    return request.path.startswith("/v1/messages") or "anthropic-version" in request.headers


def _model(name: str, provider_name: str) -> dict[str, Any]:
    # Both OpenAI's and Anthropic's fields: each client reads its own.
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "display_name": name,
        "owned_by": provider_name,
    }


def _refuse(
    reply: Reply, wire: Wire, kind: ErrorKind, status: int, message: str, headers: Mapping[str, str] | None = None
) -> None:
    # The gateway has tried what is worth trying; clients that retry on top of it would multiply the load.
    again = kind == "rate_limit"
    own = {**JSON, "x-should-retry": "true" if again else "false", **(headers or {})}
    reply.send(status, to_json(wire.error(kind, message)), own)
