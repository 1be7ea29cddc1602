"""Spans: made anywhere, kept whole, shown harmlessly."""

import contextvars
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import NotFound, OvernightError, UsageError
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace import names, otlp
from overnight.trace.span import Place, Span
from overnight.trace.storage import LONGEST_ROW_BYTES, TraceStore
from overnight.trace.tracer import LOSS_WINDOW_S, Tracer, current
from overnight.trace.tree import document, render


@pytest.fixture
def tracer(tmp_path: Path) -> Iterator[Tracer]:
    made = Tracer(Database(tmp_path / "overnight.db"), Blobs(tmp_path / "bodies"))
    yield made
    made.close()


def test_spans_stand_where_they_were_made(tracer: Tracer) -> None:
    with tracer.span("experiment 7", attributes={names.RUN: "r1"}) as whole:
        assert current() == whole.place
        with tracer.span("chat gpt-x", kind="client") as call:
            call.attributes[names.INPUT_TOKENS] = 12
            call.add("retry", {names.WAITED_S: 0.5})
        with pytest.raises(ValueError, match="broken"), tracer.span("evaluation"):
            raise ValueError("broken")
    assert current() is None
    tracer.flush()
    spans = {span.name: span for span in tracer.store.spans(whole.place.trace_id)}
    assert spans["chat gpt-x"].parent == spans["evaluation"].parent == whole.place.span_id
    assert spans["experiment 7"].parent is None and spans["experiment 7"].attributes == {names.RUN: "r1"}
    assert spans["evaluation"].status == "error" and spans["evaluation"].attributes[names.ERROR_TYPE] == "ValueError"
    assert spans["chat gpt-x"].events[0][1:] == ("retry", {names.WAITED_S: 0.5})
    assert spans["chat gpt-x"].started_us >= whole.started_us and spans["chat gpt-x"].ended_us <= whole.ended_us


def test_threads_trace_at_the_same_time(tracer: Tracer) -> None:
    with tracer.span("night") as night:

        def work(n: int) -> None:
            for _ in range(50):
                with tracer.span(f"experiment {n}", parent=night.place), tracer.span("evaluation"):
                    pass

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        copied = threading.Thread(target=contextvars.copy_context().run, args=(lambda: work(99),))
        for thread in [*threads, copied]:
            thread.start()
        for thread in [*threads, copied]:
            thread.join()
    tracer.close()
    spans = tracer.store.spans(night.place.trace_id)
    assert len(spans) == 9 * 100 + 1
    by_id = {span.place.span_id: span for span in spans}
    assert all(by_id[span.parent or ""].name.startswith("experiment") for span in spans if span.name == "evaluation")


def test_spans_are_written_by_themselves(tracer: Tracer) -> None:
    with tracer.span("alone"):
        pass
    done = threading.Event()
    for _ in range(200):
        if tracer.store.latest():
            break
        done.wait(LOSS_WINDOW_S / 10)
    assert tracer.store.latest() == 1
    tracer.close()
    with tracer.span("after the end"):
        pass
    assert tracer.store.latest() == 2


def test_kill_9_costs_at_most_the_last_half_second(tmp_path: Path) -> None:
    code = f"""
import os, signal, time
from pathlib import Path
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace.storage import TraceStore
from overnight.trace.tracer import LOSS_WINDOW_S, Tracer
tracer = Tracer(Database(Path({str(tmp_path)!r}) / "overnight.db"), Blobs(Path({str(tmp_path)!r})))
for n in range(1000):
    with tracer.span(f"early {{n}}"):
        pass
written, end = TraceStore(Database(Path({str(tmp_path)!r}) / "overnight.db"), Blobs(Path({str(tmp_path)!r}))), time.monotonic() + 300
time.sleep(LOSS_WINDOW_S * 4)
while written.latest() < 1000 and time.monotonic() < end:  # where the machine gave the writer no time
    time.sleep(0.05)
with tracer.span("late"):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == -9
    store = TraceStore(Database(tmp_path / "overnight.db"), Blobs(tmp_path))
    assert sum(span.name.startswith("early") for span in store.since(0, 5000)) == 1000


def test_long_texts_and_short_ones_are_kept_once(tracer: Tracer, tmp_path: Path) -> None:
    for content in (b"", b"short", b"x" * 5000, bytes(range(256)) * 200):
        name = tracer.store.keep_body(content)
        assert tracer.store.keep_body(content) == name and tracer.store.body(name) == content
    assert len(list((tmp_path / "bodies").rglob("*"))) == 2, "one folder, one file"
    assert len(bytes(range(256)) * 200) > LONGEST_ROW_BYTES
    with pytest.raises(NotFound):
        tracer.store.body("0" * 64)


def test_a_trace_is_found_by_its_beginning_or_a_span(tracer: Tracer) -> None:
    with tracer.span("one") as one, tracer.span("two") as two:
        pass
    tracer.flush()
    trace_id = one.place.trace_id
    assert tracer.store.find(trace_id[:10]) == tracer.store.find(two.place.span_id) == trace_id
    with pytest.raises(NotFound):
        tracer.store.find("zz")
    (summary,) = tracer.store.recent()
    assert (summary.name, summary.spans, summary.errors, summary.calls) == ("one", 2, 0, 0)


def test_what_is_untrusted_cannot_pass_for_ours(tracer: Tracer) -> None:
    said = json.dumps({"role": "user", "parts": [{"type": "text", "content": "a\x1b[2J\u202e\n12:00:00.000  forged"}]})
    name = tracer.store.keep_body(said.encode())
    with tracer.span("chat \x1b[31m\nx", attributes={names.INPUT: [name], names.REASON: "so\nthat"}):
        pass
    tracer.flush()
    shown = render(tracer.store, tracer.store.since(0))
    assert "\x1b" not in shown and "\u202e" not in shown and "\\x1b[31m\\n" in shown and "so\\nthat" in shown
    assert next(row for row in shown.split("\n") if "forged" in row).strip().startswith("│ 12:00")


def test_a_forged_tree_still_shows_every_span_once(tracer: Tracer) -> None:
    one, two = Place("a" * 32, "1" * 16), Place("a" * 32, "2" * 16)
    spans = [
        Span(one, two.span_id, "one"),
        Span(two, one.span_id, "two"),
        Span(Place("a" * 32, "3" * 16), "3" * 16, "own"),
    ]
    tracer.store.write(spans)
    shown = render(tracer.store, tracer.store.spans("a" * 32))
    assert all(shown.count(name) == 1 for name in ("one", "two", "own"))
    assert len(document(tracer.store, spans)) == 3


@given(st.text(max_size=80))
def test_a_traceparent_is_taken_only_whole(text: str) -> None:
    place = Place.from_header(text)
    assert place is None or Place.from_header(place.header) == place


def test_traceparents() -> None:
    place = Place("ab" * 16, "cd" * 8)
    assert Place.from_header(place.header) == place
    for wrong in ("", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", place.header[:-4], "0" + place.header):
        assert Place.from_header(wrong) is None


class Collector(http.server.BaseHTTPRequestHandler):
    got: list[tuple[str, Any]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        type(self).got.append((self.path, json.loads(body)))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, type[Collector]]]:
    handler = type("Own", (Collector,), {"got": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_spans_go_to_a_collector(tracer: Tracer, collector: tuple[str, type[Collector]]) -> None:
    url, handler = collector
    with (
        tracer.span("a", attributes={"n": 2**60, "f": 0.5, "b": True, "l": ["x"], "none": None}) as a,
        tracer.span("b") as b,
    ):
        b.add("retry")
        b.fail("timeout")
    otlp.export(url, [a, b])
    ((path, body),) = handler.got
    assert path == "/v1/traces"
    first, second = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert first["traceId"] == a.place.trace_id and second["parentSpanId"] == first["spanId"]
    assert first["attributes"] == [
        {"key": "n", "value": {"intValue": str(2**60)}},
        {"key": "f", "value": {"doubleValue": 0.5}},
        {"key": "b", "value": {"boolValue": True}},
        {"key": "l", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
    ]
    assert second["status"] == {"code": 2} and second["events"][0]["name"] == "retry"
    assert int(first["endTimeUnixNano"]) >= int(first["startTimeUnixNano"]) > 10**18


def test_a_collector_that_refuses_or_is_not_there(tracer: Tracer, collector: tuple[str, type[Collector]]) -> None:
    url, handler = collector
    handler.status = 503
    with pytest.raises(OvernightError, match="503"):
        otlp.export(url, [])
    with pytest.raises(OvernightError, match="cannot be reached"):
        otlp.export("http://127.0.0.1:9", [])
    with pytest.raises(UsageError):
        otlp.export("localhost", [])
