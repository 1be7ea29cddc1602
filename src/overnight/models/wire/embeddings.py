"""OpenAI's embeddings: texts in, vectors out; no stream, and no other format to translate to."""

from typing import Any

from overnight.models.usage import Usage
from overnight.models.wire import errors, sse
from overnight.models.wire.fields import text, tokens
from overnight.models.wire.neutral import (
    Answer,
    Ask,
    BadRequest,
    Body,
    Message,
    Piece,
    Reader,
    Request,
    Text,
    WireName,
    Writer,
)

_ONLY = "embeddings cannot be had from this model's provider"


class Embeddings:
    """See `Wire`."""

    name: WireName = "embeddings"
    path = "/embeddings"

    def parse(self, body: Body) -> Request:
        """See `Wire`."""
        given = body.get("input")
        items = given if isinstance(given, list) else [given]
        if not items or given is None:
            raise BadRequest("input is missing", hint="give a text or a list of texts")
        words = [item for item in items if isinstance(item, str)]
        # Token ids instead of text: each list, or the list itself, holds so many tokens.
        ids = sum(len(item) for item in items if isinstance(item, list)) + sum(isinstance(item, int) for item in items)
        if len(words) != len(items) and not ids:
            raise BadRequest("input has to be a text, a list of texts, or tokens")
        messages = tuple(Message("user", (Text(item),)) for item in words)
        return Request(text(body.get("model"), "model"), messages=messages, max_tokens=0, unseen=ids)

    def forward(self, body: Body, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        return {**body, **ask.params, "model": ask.model}

    def render(self, request: Request, ask: Ask) -> dict[str, Any]:
        """See `Wire`."""
        raise BadRequest(_ONLY)

    def parse_answer(self, body: Body) -> Answer:
        """See `Wire`."""
        usage = body.get("usage")
        count = tokens(usage, "prompt_tokens") if isinstance(usage, dict) else 0
        return Answer("", str(body.get("model", "")), (), "stop", Usage(input=count) if count else None)

    def render_answer(self, answer: Answer, request: Request) -> dict[str, Any]:
        """See `Wire`."""
        raise BadRequest(_ONLY)

    def reader(self) -> Reader:
        """See `Wire`."""
        raise BadRequest("embeddings are not streamed")

    def writer(self, request: Request) -> Writer:
        """See `Wire`."""
        raise BadRequest("embeddings are not streamed")

    def error(self, kind: errors.ErrorKind, message: str) -> dict[str, Any]:
        """See `Wire`."""
        return errors.openai(kind, message)

    def broken(self, kind: errors.ErrorKind, message: str) -> bytes:
        """See `Wire`."""
        return sse.event(errors.openai(kind, message))

    def hidden(self, body: Body, data: Body) -> bool:
        """See `Wire`."""
        return False

    def pieces(self, data: dict[str, Any]) -> list[Piece]:
        """See `Wire`."""
        return []

    def ends(self, text_id: str, event: str, data: Body) -> bool:
        """See `Wire`."""
        return False

    def extra(self, text_id: str, text: str, data: Body) -> tuple[str, dict[str, Any]]:
        """See `Wire`."""
        raise BadRequest("embeddings are not streamed")
