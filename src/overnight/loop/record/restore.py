"""A run taken up again: the record replayed into the judge, the champion, and what had no verdict yet."""

from collections.abc import Sequence
from typing import Any

from overnight.loop.attempt import Attempt
from overnight.loop.judge.terms import Ask
from overnight.loop.night import Night
from overnight.loop.record.experiment import Experiment, Measurement


def restore(night: Night, measurements: Sequence[Measurement]) -> None:
    """Replay the record: the judge's state, the champion, and what had no verdict when the run stopped."""
    night.measurements = list(measurements)
    recorded = {item.n: item for item in night.record.experiments(night.run)}
    inflight = {item.n: item for item in night.record.inflight(night.run)}
    if 0 not in recorded:
        night.go_on_after(max((item.seq for item in measurements), default=0), 0)
        return
    baseline = {item.ask["k"]: item for item in measurements if item.role == "baseline" and item.value is not None}
    for k, ask in enumerate(night.judge.baseline_plan()):
        value = baseline[k].value
        assert value is not None
        night.judge.add_baseline(ask, value)
    night.remember(recorded[0])
    events: list[tuple[int, int, Any]] = []
    events += [(item.seq, 1, item) for item in measurements if item.role in ("challenger", "champion")]
    events += [(item.opened, 0, item) for n, item in recorded.items() if n]
    events += [(item.closed, 2, item) for n, item in recorded.items() if n]
    events += [(item.opened, 0, item) for item in inflight.values()]
    events.sort(key=lambda event: event[:2])
    open_ones: dict[int, Any] = {}
    for _, kind, item in events:
        if kind == 0:
            said = item.detail if isinstance(item, Experiment) else item.proposal
            open_ones[item.n] = night.judge.open(
                item.n, simpler=bool(said.get("simpler")), scout=bool(said.get("scout"))
            )
        elif kind == 1:
            _replay(open_ones.get(item.n), item)
        else:
            open_ones.pop(item.n).close()
            night.remember(item)
            if item.status == "keep":
                night.judge.champion_changed(item.metric)
    last = [item.seq for item in measurements] + [item.closed for item in recorded.values()]
    number = max([*recorded, *inflight])
    night.go_on_after(max(last + [item.opened for item in inflight.values()]), number)
    night.free = sorted(set(range(1, number)) - recorded.keys() - inflight.keys())
    for n, item in inflight.items():
        files = night.repository.read_files(item.tree)
        night.attempts.append(
            Attempt(
                n=n,
                author_name=item.proposal["author"],
                hypothesis=item.proposal["hypothesis"],
                knobs=item.proposal["knobs"],
                notes=[*item.proposal["notes"], "interrupted, and taken up again"],
                files=files,
                tree=item.tree,
                opened=item.opened,
                at=item.at,
                examination=open_ones[n],
                simpler=item.proposal["simpler"],
                scout=bool(item.proposal.get("scout")),
                measurements=[one for one in measurements if one.n == n],
            )
        )


def _replay(examination: Any, item: Measurement) -> None:
    if examination is None or item.ask.get("stale"):
        return
    ask = Ask(item.ask["side"], item.ask["seed_index"], item.ask["stage"])
    if item.value is not None:
        examination.add(ask, item.value)
    elif item.role == "champion" or item.outcome != "crash":
        examination.crashed(ask)
