"""The client side of the gateway, for our own callers: one blocking call, by the gateway's own HTTP interface."""

import contextlib
import http.client
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from overnight.core.errors import OvernightError
from overnight.models.queue.queue import PRIORITY_HEADER
from overnight.trace.span import Place

Role = Literal["system", "user", "assistant"]


class ModelFailed(OvernightError):
    """No answer came: refused by a budget, by the provider or by the network.

    Attributes:
        status: HTTP's, 0 for none.
        final: the same call would fail again: a budget is used up, a key or a model is not known, a price is missing.
    """

    def __init__(self, message: str, *, status: int = 0, final: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.final = final


@dataclass(frozen=True)
class Words:
    """One message."""

    role: Role
    text: str


@dataclass(frozen=True)
class Wanted:
    """A call.

    Attributes:
        model: a release's name.
        messages: in order.
        max_tokens: of the answer; None takes the release's own limit.
        temperature: None takes the provider's own.
        timeout_s: from sending to the answer's last byte.
        schema: JSON schema for servers that constrain their output; the answer is checked by whoever asks, always.
        sure: ask for the probabilities of the answer's tokens.
        parent: place in a trace that the call belongs under.
        patient: nobody waits for it: where a model is shared by turns, others go first.
    """

    model: str
    messages: Sequence[Words]
    max_tokens: int | None = None
    temperature: float | None = None
    timeout_s: float = 600.0
    schema: Mapping[str, Any] | None = None
    sure: bool = False
    parent: Place | None = None
    patient: bool = False


@dataclass(frozen=True)
class Said:
    """An answer.

    Attributes:
        text: untrusted.
        release: that answered: a fallback, perhaps.
        finish: `stop`, or `length` if it was cut.
        confidence: geometric mean of its tokens' probabilities; None where the server does not report them.
        trace_id: of the call.
        warning: of the gateway, such as a context that the server cut.
    """

    text: str
    release: str
    finish: str
    input_tokens: int
    output_tokens: int
    confidence: float | None = None
    trace_id: str = ""
    warning: str = ""


class Models(Protocol):
    """Whoever answers calls within a budget. Thread-safe; every call is on record, whatever comes of it."""

    def complete(self, wanted: Wanted) -> Said:
        """The answer.

        Raises:
            ModelFailed: there is none.
        """
        ...

    def stop(self) -> None:
        """End running calls, which then fail; later ones fail at once."""
        ...


@dataclass
class GatewayClient:
    """`Models` behind a gateway's address. A connection for each call; cutting it cancels the provider's work too."""

    host: str
    port: int
    key: str
    _open: set[http.client.HTTPConnection] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def complete(self, wanted: Wanted) -> Said:
        """Ask; see `Models`."""
        body = json.dumps(_body(wanted)).encode()
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        if wanted.patient:
            headers[PRIORITY_HEADER] = "batch"
        if wanted.parent is not None:
            headers["traceparent"] = wanted.parent.header
        with self._connection() as connection:
            # The socket's timeout counts from byte to byte; the whole call has one too.
            late = threading.Event()
            timer = threading.Timer(wanted.timeout_s, _cut_late, (connection, late))
            timer.daemon = True
            timer.start()
            try:
                connection.request("POST", "/v1/chat/completions", body, headers)
                response = connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException, ValueError) as problem:
                if self._stopped:
                    raise ModelFailed("the call was stopped") from problem
                if late.is_set():
                    raise ModelFailed(
                        f"{wanted.model} gave no answer within {wanted.timeout_s:g} s", status=504
                    ) from None
                raise ModelFailed(f"the gateway cannot be reached: {problem}") from problem
            finally:
                timer.cancel()
        if response.status != 200:
            raise _refused(response.status, content)
        return _said(content, dict(response.headers.items()))

    def stop(self) -> None:
        """Cut every connection."""
        with self._lock:
            self._stopped = True
            for connection in self._open:
                _cut(connection)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection(self.host, self.port)
        try:
            connection.connect()
        except OSError as problem:
            raise ModelFailed(f"the gateway cannot be reached: {problem}") from problem
        with self._lock:
            if self._stopped:
                connection.close()
                raise ModelFailed("the call was stopped")
            self._open.add(connection)
        try:
            yield connection
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


def _cut_late(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    # Said first: whoever reads wakes up as soon as the connection is cut.
    late.set()
    _cut(connection)


def _cut(connection: http.client.HTTPConnection) -> None:
    # Closing alone does not wake a thread that reads.
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(2)


def _body(wanted: Wanted) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": wanted.model,
        "messages": [{"role": item.role, "content": item.text} for item in wanted.messages],
    }
    if wanted.max_tokens is not None:
        body["max_tokens"] = wanted.max_tokens
    if wanted.temperature is not None:
        body["temperature"] = wanted.temperature
    if wanted.schema is not None:
        shape = {"name": "answer", "schema": dict(wanted.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    if wanted.sure:
        body["logprobs"] = True
    return body


def _refused(status: int, content: bytes) -> ModelFailed:
    try:
        error = json.loads(content)["error"]
        message, code = str(error["message"]), str(error.get("code"))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, code = f"the gateway answered with status {status}", ""
    return ModelFailed(message, status=status, final=status in (401, 403, 404) or code == "insufficient_quota")


def _said(content: bytes, headers: Mapping[str, str]) -> Said:
    try:
        body = json.loads(content)
        choice, usage = body["choices"][0], body.get("usage") or {}
        text = choice["message"].get("content") or ""
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as problem:
        raise ModelFailed("the gateway's answer is not a chat completion") from problem
    return Said(
        text=text,
        release=headers.get("x-overnight-release", ""),
        finish=str(choice.get("finish_reason") or ""),
        input_tokens=int(usage.get("prompt_tokens") or 0),
        output_tokens=int(usage.get("completion_tokens") or 0),
        confidence=_confidence(choice),
        trace_id=headers.get("x-overnight-trace", ""),
        warning=headers.get("x-overnight-warning", ""),
    )


def _confidence(choice: Mapping[str, Any]) -> float | None:
    try:
        found = [float(item["logprob"]) for item in choice["logprobs"]["content"]]
    except (KeyError, TypeError, ValueError):
        return None
    return math.exp(min(0.0, sum(found) / len(found))) if found else None
