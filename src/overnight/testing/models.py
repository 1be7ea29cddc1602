"""A server of scripted models on this machine, which speaks the wire formats of OpenAI and Anthropic.

`python -m overnight.testing --port 4200` serves one from the command line: it repeats what it is asked, and a
message like `!fail 503` or `!tool NAME {"a": 1}` makes it do something else. As the author of a run it changes knobs.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from overnight.models.gateway.background import Background
from overnight.models.gateway.http import HttpServer, Reply, Request
from overnight.testing import wire_anthropic, wire_openai
from overnight.testing.author import proposal
from overnight.testing.script import Scripted, call_tool, fail, say

Answering = Callable[["Received"], Scripted]
Events = Callable[[Scripted, Mapping[str, Any]], Iterator[tuple[str, Any]]]
Whole = Callable[[Scripted, Mapping[str, Any]], dict[str, Any]]
Failing = Callable[[Scripted], dict[str, Any]]

_FORMATS: dict[str, tuple[Whole, Events | None, Failing]] = {
    "/chat/completions": (wire_openai.chat, wire_openai.chat_events, wire_openai.error),
    "/responses": (wire_openai.response, wire_openai.response_events, wire_openai.error),
    "/embeddings": (wire_openai.embeddings, None, wire_openai.error),
    "/messages": (wire_anthropic.message, wire_anthropic.message_events, wire_anthropic.error),
}


@dataclass(frozen=True)
class Received:
    """A request that arrived.

    Attributes:
        path: such as `/v1/chat/completions`.
        headers: with lower-case names.
        body: parsed.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def said(self) -> str:
        """The last thing a user said, as text."""
        for message in reversed(self.body.get("messages") or []):
            if message.get("role") == "user":
                content = message.get("content")
                if isinstance(content, str):
                    return content
                return " ".join(part.get("text", "") for part in content or () if isinstance(part, dict))
        given = self.body.get("input")
        return given if isinstance(given, str) else ""


class ScriptedModels:
    """The server, in a thread of its own: replies in the order of the script, then as `otherwise` says.

    Attributes:
        requests: what arrived, in order.
        otherwise: decides the reply when the script is at its end; may be changed.
        gone: how many clients went away before their answer was complete.
    """

    def __init__(self, *script: Scripted, otherwise: Answering = lambda _: say("ok"), port: int = 0) -> None:
        self.requests: list[Received] = []
        self.gone = 0
        self.url = ""
        self._script = list(script)
        self.otherwise = otherwise
        self._port = port
        self._background = Background("scripted-models", self._serving)

    def __enter__(self) -> Self:
        self.url = self._background.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.stop()

    def script(self, *replies: Scripted) -> None:
        """Add replies to the script."""
        self._script += replies

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[str]:
        server = HttpServer(self._answer)
        port = await server.listen("127.0.0.1", self._port)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await server.close(grace_s=0.1)

    async def _answer(self, request: Request, reply: Reply) -> None:
        path = next((end for end in _FORMATS if request.path.endswith(end)), "")
        if not path:
            reply.send(404, json.dumps(wire_openai.error(fail(404, f"no {request.path}"))).encode())
            return
        received = Received(request.path, request.headers, json.loads(request.body))
        self.requests.append(received)
        scripted = self._script.pop(0) if self._script else self.otherwise(received)
        try:
            await self._play(path, received, scripted, reply)
        except asyncio.CancelledError:
            self.gone += 1
            raise

    async def _play(self, path: str, received: Received, scripted: Scripted, reply: Reply) -> None:
        whole, events, failing = _FORMATS[path]
        if scripted.pause_s:
            await asyncio.sleep(scripted.pause_s)
        while scripted.until is not None and not scripted.until.is_set():
            await asyncio.sleep(0.005)
        head = {"content-type": "application/json", **scripted.headers}
        if scripted.raw is not None:
            reply.send(scripted.status, scripted.raw, head)
        elif scripted.status != 200:
            reply.send(scripted.status, json.dumps(failing(scripted)).encode(), head)
        elif scripted.breaks_after == 0:
            reply.abort()
        elif not received.body.get("stream") or events is None:
            reply.send(200, json.dumps(whole(scripted, received.body)).encode(), head)
        else:
            reply.start(200, {"content-type": "text/event-stream", **scripted.headers})
            await self._stream(events(scripted, received.body), scripted, failing, reply)

    async def _stream(
        self, events: Iterator[tuple[str, Any]], scripted: Scripted, failing: Failing, reply: Reply
    ) -> None:
        for count, (name, data) in enumerate(events):
            if count == scripted.breaks_after:
                reply.abort()
                return
            if count == scripted.error_after:
                name, data = "error", failing(fail(529, "scripted failure within the stream"))
            text = data if isinstance(data, str) else json.dumps(data)
            head = f"event: {name}\n" if name else ""
            await reply.write(f"{head}data: {text}\n\n".encode())
            if count == scripted.error_after:
                break
            if scripted.piece_pause_s:
                await asyncio.sleep(scripted.piece_pause_s)
        reply.end()


def repeating(received: Received) -> Scripted:
    """Repeats what it is asked; `!fail STATUS` and `!tool NAME JSON` do what they say; an author's question is answered
    with a change of a knob.
    """
    said = received.said
    # The number of turns is not known to a model; the length of what it sees is as good for one change after another.
    if change := proposal(said, len(said)):
        return say(change)
    command, _, rest = said.partition(" ")
    with contextlib.suppress(ValueError):
        if command == "!fail":
            return fail(int(rest))
        if command == "!tool":
            name, _, arguments = rest.partition(" ")
            return call_tool(name, json.loads(arguments or "{}"))
    return say(f"You said: {said}")
