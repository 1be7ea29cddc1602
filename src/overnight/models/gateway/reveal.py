"""Answers with their masked values put back, whole or piece by piece."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from overnight.kernel.masking.vault import LONGEST, PLACEHOLDER
from overnight.models.gateway.conversation import Conversation
from overnight.models.wire import Wire, sse
from overnight.models.wire.neutral import Delta, Piece

_PARTIAL: Final = re.compile(r"M(?:ASKED|ASKE|ASK|AS|A)?\Z|MASKED_[A-Za-z0-9_]{0,40}\Z")
_WRITTEN_AS_JSON: Final = frozenset({"arguments", "partial_json"})


def reveal_text(conversation: Conversation, text: str, *, within_json: bool) -> str:
    """`text` revealed; within JSON a value that isn't fit for a JSON string is escaped."""
    if not within_json or "MASKED_" not in text:
        return conversation.reveal(text)

    def value(match: re.Match[str]) -> str:
        found = conversation.reveal(match[0])
        try:
            json.loads(f'"{found}"')
        except ValueError:
            return json.dumps(found, ensure_ascii=False)[1:-1]
        return found

    return PLACEHOLDER.sub(value, text)


def reveal_json(conversation: Conversation, value: Any, key: str = "") -> Any:
    """Every text in `value` revealed."""
    if isinstance(value, str):
        return reveal_text(conversation, value, within_json=key in _WRITTEN_AS_JSON)
    if isinstance(value, dict):
        return {conversation.reveal(name): reveal_json(conversation, item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [reveal_json(conversation, item, key) for item in value]
    return value


class _Text:
    """One text that arrives in pieces; holds back what may be the beginning of a placeholder."""

    def __init__(self, conversation: Conversation, within_json: bool) -> None:
        self._conversation = conversation
        self._within_json = within_json
        self._waiting = ""

    def feed(self, piece: str) -> str:
        text = self._waiting + piece
        partial = _PARTIAL.search(text, max(0, len(text) - LONGEST))
        cut = partial.start() if partial else len(text)
        self._waiting = text[cut:]
        return reveal_text(self._conversation, text[:cut], within_json=self._within_json)

    def finish(self) -> str:
        text, self._waiting = self._waiting, ""
        return reveal_text(self._conversation, text, within_json=self._within_json)


class RevealedStream:
    """Reveals a provider's stream event by event, in the format it comes in."""

    def __init__(self, conversation: Conversation, wire: Wire) -> None:
        self._conversation = conversation
        self._wire = wire
        self._texts: dict[str, _Text] = {}

    def feed(self, name: str, data: dict[str, Any]) -> bytes:
        """An event, revealed, with what had to wait for it before it."""
        pieces: list[Piece] = self._wire.pieces(data)
        for piece in pieces:
            text = self._texts.setdefault(piece.id, _Text(self._conversation, piece.json))
            piece.holder[piece.key] = text.feed(piece.holder[piece.key])
        out = b""
        for text_id in [text_id for text_id in self._texts if self._wire.ends(text_id, name, data)]:
            rest = self._texts.pop(text_id).finish()
            if rest:
                extra_name, extra = self._wire.extra(text_id, rest, data)
                out += sse.event(extra, extra_name)
        return out + sse.event(data if pieces else reveal_json(self._conversation, data), name)


class RevealedDeltas:
    """Reveals a stream in its neutral form."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._texts: dict[tuple[str, int], _Text] = {}

    def feed(self, delta: Delta) -> Iterable[Delta]:
        """A piece, revealed, with what had to wait for it before it."""
        if delta.kind in ("text", "thinking", "arguments"):
            text = self._texts.setdefault(
                (delta.kind, delta.index), _Text(self._conversation, delta.kind == "arguments")
            )
            yield Delta(delta.kind, text.feed(delta.text), delta.index)
            return
        for (kind, index), text in self._texts.items() if delta.kind in ("tool", "finish", "error") else ():
            rest = text.finish()
            if rest:
                assert kind in ("text", "thinking", "arguments")
                yield Delta(kind, rest, index)  # type: ignore[arg-type]  # narrowed to text by the tuple
        yield delta
