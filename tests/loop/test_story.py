"""Each experiment leaves a trace: the author's turn, every measurement, the verdict and its reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overnight.loop.record.story import METRIC, VERDICT
from overnight.trace import names
from overnight.workspace.gateway import trace_store


def test_an_experiment_is_one_trace_from_proposal_to_verdict(
    arena: Callable[..., Path], spend: Any, authored: Any
) -> None:
    script = (
        "import json, os\nn = json.load(open(os.environ['OVERNIGHT_CONTEXT']))['experiment']\n"
        "open('art.py', 'a').write(['', '\\nX = 6.0\\n', '\\nraise ValueError(1)\\n'][n])"
    )
    result = spend(arena(), 2, **authored(script))
    store = trace_store(result.workspace)
    told = {}
    for summary in store.recent(10):
        spans = store.spans(summary.trace_id)
        (root,) = [span for span in spans if span.parent is None]
        told[root.name] = (root, [span for span in spans if span.parent == root.place.span_id])
    kept, parts = told["experiment 1"]
    assert kept.attributes[VERDICT] == "keep" and str(kept.attributes[names.REASON]).startswith("better by")
    assert kept.attributes[names.RUN] == "night"
    assert sorted(span.name for span in parts) == ["evaluate challenger", "evaluate challenger", "propose command"]
    assert {span.attributes.get(METRIC) for span in parts if span.name.startswith("evaluate")} == {-5.0}
    crashed, _ = told["experiment 2"]
    assert (crashed.status, crashed.attributes[VERDICT]) == ("error", "crash")
