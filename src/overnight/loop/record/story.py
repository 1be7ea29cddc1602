"""The trace of one experiment: the author's turn, every measurement, the verdict, as spans below one root."""

import contextlib
from collections.abc import Iterator

from overnight.loop.record.experiment import Experiment, Measurement
from overnight.trace import names
from overnight.trace.span import Span
from overnight.trace.tracer import Tracer

EXPERIMENT = "overnight.experiment"
VERDICT = "overnight.verdict"
METRIC = "overnight.metric"
SEED = "overnight.seed"
SLOT = "overnight.slot"


class Story:
    """Told as the experiment goes; the root is kept when it ends, its parts as they end.

    `asking` may be entered in another thread than the rest is told from: what the author does there, model calls and
    tools, becomes part of it.
    """

    def __init__(self, tracer: Tracer, run: str, n: int) -> None:
        self._tracer = tracer
        self._root = Span.start(f"experiment {n}", attributes={names.RUN: run, EXPERIMENT: n})

    @contextlib.contextmanager
    def asking(self, author: str, mending: bool) -> Iterator[None]:
        """Around an author's turn."""
        name = f"{'mend' if mending else 'propose'} {author}"
        with self._tracer.span(name, parent=self._root.place, attributes={names.AGENT: author}):
            yield

    def measured(self, item: Measurement) -> None:
        """After an evaluation."""
        span = Span.start(f"evaluate {item.role}", self._root.place, attributes={SLOT: item.slot})
        span.ended_us = round(item.at * 1e6)
        span.started_us = span.ended_us - round(item.seconds * 1e6)
        if item.seed is not None:
            span.attributes[SEED] = item.seed
        if item.value is not None:
            span.attributes[METRIC] = item.value
        else:
            span.fail(item.outcome, item.error[:300])
        self._tracer.keep(span)

    def ended(self, experiment: Experiment) -> None:
        """After the verdict."""
        root = self._root
        root.attributes |= {
            names.AGENT: experiment.author,
            VERDICT: experiment.status,
            names.REASON: experiment.reason,
            "overnight.hypothesis": experiment.hypothesis,
            "overnight.commit": experiment.commit,
        }
        if experiment.metric is not None:
            root.attributes[METRIC] = experiment.metric
        if experiment.status in ("crash", "timeout"):
            root.fail(experiment.status, experiment.reason)
        root.end()
        self._tracer.keep(root)
