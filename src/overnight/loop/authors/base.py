"""The seam between the loop and whoever makes changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from overnight.core.errors import OvernightError
from overnight.loop.record.experiment import Direction, Status

KnobValue = float | int | bool | str


class Exhausted(OvernightError):
    """The author has nothing left to propose; the loop goes on with the others, or ends."""


@dataclass(frozen=True)
class Past:
    """A finished experiment, as an author may know it.

    Attributes:
        parent_n: the champion it was judged against; None for the baseline.
        metric: mean of its measurements, metric units; None if it was never measured.
        delta: improvement over that champion, positive is better.
        runs: how many measurements `metric` is the mean of.
        knobs: values of all knobs in its tree, where the author recorded them.
        error: tail of the artifact's own error, if it crashed.
    """

    n: int
    parent_n: int | None
    author: str
    status: Status
    hypothesis: str
    reason: str
    metric: float | None
    delta: float | None
    runs: int
    knobs: Mapping[str, KnobValue]
    secondary: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Brief:
    """All that an author gets to know before it proposes.

    Attributes:
        n: number the experiment will have.
        seed: the run's search seed; with `n` it makes a seeded author repeatable.
        champion: content of the editable files, by path relative to the arena.
        visible: every file the author may read, editable ones included; nothing hidden.
        executable: those of them that have the executable bit.
        history: finished experiments in the order they ended, the baseline (n = 0) first.
        pending: knob values of experiments being evaluated at this moment.
        instructions: prose of program.md, written by the person.
        findings: what was learnt, newest first; untrusted text.
        noise: standard deviation of one measurement, metric units; 0 where the metric is deterministic.
        budget: what is left, for authors that pace themselves: `experiments`, `seconds`; None is no limit.
    """

    n: int
    seed: int
    metric: str
    direction: Direction
    champion: Mapping[str, bytes]
    champion_n: int
    visible: Mapping[str, bytes]
    executable: frozenset[str]
    history: Sequence[Past]
    pending: Sequence[Mapping[str, KnobValue]]
    instructions: str
    findings: Sequence[str]
    noise: float
    budget: Mapping[str, float | None]


@dataclass(frozen=True)
class Proposal:
    """A change: the new content of the files that differ from the champion's.

    Attributes:
        files: path → new content; None deletes the file.
        hypothesis: one sentence; untrusted text, never part of a command line.
        knobs: values of all knobs after the change, if the author thinks in knobs.
        notes: what the record should say about how it came about (files ignored, repairs, assumptions).
        scout: one of many that the author proposes to see where to go on; in noise it is measured again only if it
            stands out (`Judge.open`).
        problem: why there is no usable change (the author crashed, ran out of time, or broke a rule); "" if there is.
        problem_status: what the experiment is recorded as then.
    """

    files: Mapping[str, bytes | None]
    hypothesis: str
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scout: bool = False
    problem: str = ""
    problem_status: Status = "crash"


class Author(Protocol):
    """Makes changes.

    `propose` and `repair` may be called from several threads at once and may take long; they must not touch the
    person's folder or the record. What they return is checked by the loop (scope, repeats): an author is not trusted.
    They raise `Exhausted` when nothing is left; any other exception is recorded as a crash of the experiment.
    """

    name: str

    def propose(self, brief: Brief) -> Proposal:
        """One change to the champion."""
        ...

    def repair(self, brief: Brief, proposal: Proposal, error: str) -> Proposal | None:
        """The same change mended after a crash, given the tail of the artifact's own error; None to leave it."""
        ...
