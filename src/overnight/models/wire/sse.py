"""Server-sent events, as all providers stream: split from bytes, and put together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from overnight.models.wire.fields import to_json


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name (may be empty), its data, and the bytes it came as."""

    name: str
    data: str
    raw: bytes


class Splitter:
    """Cuts a stream of bytes into events, wherever the pieces are cut."""

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that `piece` completes."""
        data = self._waiting + piece
        if b"\r" in data:
            # A lone carriage return at the end may be half of a line end.
            whole, tail = (data[:-1], b"\r") if data.endswith(b"\r") else (data, b"")
            data = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        *complete, self._waiting = data.split(b"\n\n")
        for block in complete:
            event = _event(block)
            if event is not None:
                yield event

    def finish(self) -> Iterator[Event]:
        """What a stream without a last empty line still holds."""
        block, self._waiting = self._waiting, b""
        event = _event(block.replace(b"\r", b"\n")) if block.strip() else None
        if event is not None:
            yield event


def _event(block: bytes) -> Event | None:
    name, data = "", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    if not data and not name:
        return None
    return Event(name, b"\n".join(data).decode("utf-8", "replace"), block + b"\n\n")


def event(data: Any, name: str = "") -> bytes:
    """An event of JSON, with a name where a format wants one."""
    head = f"event: {name}\n" if name else ""
    return head.encode() + b"data: " + to_json(data) + b"\n\n"


DONE = b"data: [DONE]\n\n"
