"""The nouns of the loop's record: what the database rows and the commit messages both say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["baseline", "keep", "discard", "crash", "timeout", "rejected"]
Outcome = Literal["ok", "crash", "timeout", "rejected"]
Role = Literal["baseline", "challenger", "champion", "drift", "final", "holdout"]
RunState = Literal["running", "interrupted", "finished", "failed", "imported"]
Mode = Literal["deterministic", "noise"]
Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Measurement:
    """One evaluation of one state.

    Attributes:
        seq: order of completion within the run, from 1.
        n: the experiment it was made for; 0 is the baseline.
        role: why it was made. `champion` runs are interleaved with challengers; `drift` re-measures the champion;
            `final` and `holdout` never decide a keep.
        tree: git tree of the arena folder that was measured.
        seed: what the program got as $OVERNIGHT_SEED.
        slot: the worker slot, from 0.
        value: the metric, in its own units; None unless `outcome` is ok. Always finite.
        secondary: other named numbers the evaluator reported.
        ask: what the judge asked for (side, seed index, stage), so that its state can be replayed; JSON.
        error: tail of the artifact's own output where it failed; never the scorer's.
        scorer_error: what the scorer said where it failed; for the person, never for an author.
        seconds: wall clock.
        at: when it ended, seconds since the epoch.
    """

    seq: int
    n: int
    role: Role
    tree: str
    seed: int | None
    slot: int
    outcome: Outcome
    value: float | None
    secondary: Mapping[str, float]
    error: str
    seconds: float
    at: float
    scorer_error: str = ""
    ask: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One proposed change and what became of it.

    Attributes:
        n: number within the run, from 1; 0 is the baseline.
        commit: under refs/overnight/<run>/<n>, whatever the verdict.
        parent: commit of the champion it was made from.
        tree: git tree of the arena folder with the change.
        metric: mean of the challenger's measurements, in the metric's units; None if never measured.
        delta: improvement over the champion it was judged against; positive is better, whatever the direction.
        hypothesis: one sentence by the author; untrusted text.
        reason: one sentence: why this verdict.
        seconds: wall clock from proposal to verdict.
        detail: evidence of the judge (`evidence`), knobs changed (`knobs`), what was ignored or repaired (`notes`),
            what authors are told where the reason is only for the person (`told`).
        files: path → git mode and blob of what differs from the baseline (of everything, for the baseline), None where
            deleted; enough to rebuild the tree.
        opened: its place in the run's order of events, which `seq` of measurements shares.
        closed: likewise, of its verdict.
    """

    run: str
    n: int
    commit: str
    parent: str | None
    tree: str
    status: Status
    author: str
    hypothesis: str
    metric: float | None
    delta: float | None
    reason: str
    seconds: float
    at: float
    detail: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)
    opened: int = 0
    closed: int = 0


@dataclass(frozen=True)
class Inflight:
    """An experiment that was proposed and has no verdict yet; `proposal` is what its author said, as JSON."""

    n: int
    tree: str
    opened: int
    at: float
    proposal: Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """One line learnt after experiment `n`; untrusted text."""

    n: int
    kind: Literal["keep", "cycle"]
    text: str
    at: float


@dataclass(frozen=True)
class RunInfo:
    """A run as recorded.

    `settings` is what it was started with, arena included; `spent_s` excludes the present stretch; `summary` is the
    final report object, once there is one.
    """

    run: str
    arena: str
    state: RunState
    started_at: float
    ended_at: float | None
    settings: Mapping[str, Any]
    mode: Mode
    spent_s: float
    pid: int | None
    heartbeat_at: float | None
    summary: Mapping[str, Any] | None
