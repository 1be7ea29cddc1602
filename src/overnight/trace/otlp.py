"""Spans for any collector: OpenTelemetry's OTLP over HTTP, in its JSON encoding. Needs no other package.

The encoding is that of the OTLP specification 1.x: ids in hex, 64-bit integers as text.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from overnight.core.errors import OvernightError, UsageError
from overnight.trace.span import Attribute, Span

_KINDS: Final = {"internal": 1, "server": 2, "client": 3}
_TIMEOUT_S: Final = 10.0


def encode(spans: Sequence[Span]) -> dict[str, Any]:
    """The body of one export."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "overnight"})},
                "scopeSpans": [{"scope": {"name": "overnight.trace"}, "spans": [_span(span) for span in spans]}],
            }
        ]
    }


def export(url: str, spans: Sequence[Span], headers: Mapping[str, str] | None = None) -> None:
    """Send spans to a collector.

    Args:
        url: of the collector, such as `http://localhost:4318`; `/v1/traces` is added where it has no path.
        spans: what to send.
        headers: such as a key.

    Raises:
        UsageError: it is not a URL.
        OvernightError: the collector cannot be reached, or refuses.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not the URL of a collector", hint="write it like http://localhost:4318")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    try:
        path = parts.path if parts.path.strip("/") else "/v1/traces"
        body = json.dumps(encode(spans)).encode("utf-8", "surrogatepass")
        connection.request("POST", path, body, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        said = answer.read(500)
    except (OSError, http.client.HTTPException) as problem:
        raise OvernightError(f"the collector {url} cannot be reached: {problem}", hint="check --otlp") from problem
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise OvernightError(f"the collector {url} refused: {answer.status} {said.decode('utf-8', 'replace')}")


def _span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.place.trace_id,
        "spanId": span.place.span_id,
        **({"parentSpanId": span.parent} if span.parent else {}),
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.started_us * 1000),
        "endTimeUnixNano": str(span.ended_us * 1000),
        "attributes": _attributes(span.attributes),
        "events": [
            {"timeUnixNano": str(at * 1000), "name": name, "attributes": _attributes(fields)}
            for at, name, fields in span.events
        ],
        "status": {"code": 2} if span.status == "error" else {},
    }


def _attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items() if value is not None]


def _value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(item) for item in value or ()]}}
