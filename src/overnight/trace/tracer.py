"""Making spans: a context manager, and a thread that writes them in batches."""

import atexit
import contextlib
import contextvars
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from overnight.core.errors import StoreError
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace.span import Attribute, Kind, Place, Span
from overnight.trace.storage import TraceStore

LOSS_WINDOW_S: Final = 0.5
"""What `kill -9` may cost: spans that ended less than this ago. Settled model calls are not among them."""
_BATCH: Final = 1000

_current: contextvars.ContextVar[Place | None] = contextvars.ContextVar("overnight_span", default=None)


def current() -> Place | None:
    """Where in a trace the caller stands; None outside every span."""
    return _current.get()


class Tracer:
    """Makes and keeps spans. Thread-safe. `close` it, or the last half second may be lost.

    A span below one of another thread names its parent: context variables stay within a thread, unless it was started
    with a copied context.
    """

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.store = TraceStore(database, blobs)
        self._ended: list[Span] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def span(
        self,
        name: str,
        *,
        parent: Place | None = None,
        kind: Kind = "internal",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Iterator[Span]:
        """A span around a block: below `parent`, else below the block's own span, else the root of a new trace.

        An exception that leaves the block marks the span as failed; it goes on to the caller.
        """
        span = Span.start(name, parent or _current.get(), kind=kind, attributes=attributes)
        token = _current.set(span.place)
        try:
            yield span
        except BaseException as problem:
            if span.status == "ok":
                span.fail(type(problem).__name__, str(problem)[:500])
            raise
        finally:
            _current.reset(token)
            span.end()
            self.keep(span)

    def keep(self, span: Span) -> None:
        """Hand over an ended span; it is written within `LOSS_WINDOW_S`."""
        with self._lock:
            self._ended.append(span)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._write_on, name="overnight-tracer", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            full = len(self._ended) >= _BATCH
        if full or self._closed:
            self.flush() if self._closed else self._wake.set()

    def flush(self) -> None:
        """Write everything handed over so far.

        Raises:
            StoreError: it cannot be written; it is kept for the next try.
        """
        with self._writing:
            with self._lock:
                batch, self._ended = self._ended, []
            if not batch:
                return
            try:
                self.store.write(batch)
            except StoreError:
                with self._lock:
                    self._ended = batch + self._ended
                raise

    def close(self) -> None:
        """Write the rest and stop. Spans handed over later are written at once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join()
            atexit.unregister(self.close)
        self.flush()

    def _write_on(self) -> None:
        complained = False
        while not self._closed:
            self._wake.wait(LOSS_WINDOW_S)
            self._wake.clear()
            try:
                self.flush()
            except StoreError as problem:
                # Work goes on without its trace; that it does is said once, not every half second.
                if not complained:
                    print(f"overnight: spans cannot be written: {problem}", file=sys.stderr)
                complained = True
                with self._lock:
                    del self._ended[: -10 * _BATCH]
