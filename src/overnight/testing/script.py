"""What a scripted model does with one request."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scripted:
    """One reply.

    Attributes:
        text: what the model says.
        calls: tools it asks for: name and arguments.
        status: of the answer; other than 200 it is an error with `text` as its message.
        headers: beside the usual ones.
        input_tokens: reported; None: the request's length in bytes by four.
        output_tokens: reported; None: one for each word.
        cached_tokens: of the input, reported as read from the cache.
        used: tools of its own that the provider ran, and how often, reported as each format does.
        usage: whether usage is reported at all.
        pause_s: before the answer begins.
        until: the answer begins no sooner than this is set; a test sets it once what it waits for has happened.
        piece_pause_s: between the pieces of a stream.
        breaks_after: the connection is cut after so many events of a stream; 0 before anything is sent.
        error_after: a stream says that it failed after so many events.
        finish: why it ended, in OpenAI's word; by default `stop`, or `tool_calls` where there are any.
        raw: sent as it is, instead of all this.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    used: Mapping[str, int] = field(default_factory=dict)
    usage: bool = True
    pause_s: float = 0.0
    until: threading.Event | None = None
    piece_pause_s: float = 0.0
    breaks_after: int | None = None
    error_after: int | None = None
    finish: str = ""
    raw: bytes | None = None

    @property
    def finished(self) -> str:
        """Why it ended, in OpenAI's word."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def words(self) -> list[str]:
        """The text in the pieces in which it is streamed: every word with the blank before it."""
        first, *rest = self.text.split(" ")
        return [first, *(f" {word}" for word in rest)] if self.text else []

    def counted(self, body: Mapping[str, Any]) -> tuple[int, int]:
        """Input and output tokens for a request."""
        into = len(json.dumps(body)) // 4 if self.input_tokens is None else self.input_tokens
        written = len(self.text.split()) + sum(len(json.dumps(arguments)) // 4 + 1 for _, arguments in self.calls)
        return into, written if self.output_tokens is None else self.output_tokens


def say(text: str, **how: Any) -> Scripted:
    """A model that says `text`; the rest as in `Scripted`."""
    return Scripted(text, **how)


def call_tool(name: str, arguments: Mapping[str, Any], text: str = "", **how: Any) -> Scripted:
    """A model that asks for a tool."""
    return Scripted(text, ((name, arguments),), **how)


def fail(status: int, message: str = "scripted failure", **how: Any) -> Scripted:
    """A provider that refuses."""
    return Scripted(message, status=status, **how)
