"""An experiment between its proposal and its verdict."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overnight.loop.authors.base import Author, Brief, KnobValue, Proposal
from overnight.loop.judge.examination import Examination
from overnight.loop.judge.terms import Ask, Verdict
from overnight.loop.record.experiment import Measurement
from overnight.loop.record.story import Story
from overnight.store.git.repository import Entry, Files

REPAIRS = 2


@dataclass
class Attempt:
    """One challenger on its way. Owned by the loop's thread.

    Attributes:
        author: None after a resume, when nobody is there to repair it.
        files: the whole arena folder with the change.
        changes: path → new content of what differs from the champion it was made from.
        opened: its place in the run's order of events.
        asks: what the batch on its way will answer, in order.
        champion_tree: the champion's tree when that batch was sent.
        memory_bytes: peak of the challenger's evaluations.
        story: its trace; None where nothing is traced, and after a resume.
        kept: a verdict of keep that waits for the arena's checks.
    """

    n: int
    author_name: str
    hypothesis: str
    knobs: Mapping[str, KnobValue]
    notes: list[str]
    files: Files
    tree: str
    opened: int
    at: float
    examination: Examination
    simpler: bool
    scout: bool = False
    changes: Mapping[str, bytes | None] = field(default_factory=dict)
    author: Author | None = None
    brief: Brief | None = None
    started: float = field(default_factory=time.monotonic)
    asks: Sequence[Ask] = ()
    champion_tree: str = ""
    measurements: list[Measurement] = field(default_factory=list)
    repairs: int = 0
    memory_bytes: int = 0
    story: Story | None = None
    kept: Verdict | None = None

    def proposal(self) -> Proposal:
        """What was proposed, as the author knows it."""
        return Proposal(self.changes, self.hypothesis, self.knobs, tuple(self.notes), self.scout)

    def encoded(self) -> dict[str, Any]:
        """What is needed to go on after a restart, as JSON."""
        return {
            "author": self.author_name,
            "hypothesis": self.hypothesis,
            "knobs": dict(self.knobs),
            "notes": list(self.notes),
            "simpler": self.simpler,
            "scout": self.scout,
        }


def is_simpler(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """The editable files have fewer lines that are not blank, or as many and fewer bytes."""

    def size(files: Mapping[str, bytes]) -> tuple[int, int]:
        lines = sum(1 for content in files.values() for line in content.splitlines() if line.strip())
        return lines, sum(len(content) for content in files.values())

    return size(after) < size(before)


def changed(files: Files, replacements: Mapping[str, str | None], executable: frozenset[str]) -> dict[str, Entry]:
    """`files` with blobs replaced (path → blob id, None deletes); new files are not executable."""
    result = dict(files)
    for path, oid in replacements.items():
        if oid is None:
            result.pop(path, None)
        else:
            result[path] = Entry("100755" if path in executable else "100644", oid)
    return result
