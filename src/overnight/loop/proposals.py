"""Asking authors for changes, and making attempts of what they propose.

Authors may take long, so each is asked in a thread of a pool; what they said is handed to the loop's own thread.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from overnight.core.errors import UsageError
from overnight.loop import turns
from overnight.loop.attempt import Attempt, changed, is_simpler
from overnight.loop.authors.base import Author, Brief, Exhausted, Proposal
from overnight.loop.night import Night
from overnight.loop.record.experiment import Status
from overnight.loop.record.history import now
from overnight.loop.record.story import Story
from overnight.loop.scope import check_files


@dataclass(frozen=True)
class Asked:
    """A question put to an author: for a change, or for mending `attempt`."""

    n: int
    author: Author
    brief: Brief
    attempt: Attempt | None = None
    story: Story | None = None


@dataclass(frozen=True)
class Thought:
    """What came of it: a proposal, None if the author cannot mend, or why it has nothing to propose on this arena."""

    asked: Asked
    proposal: Proposal | None
    exhausted: str = ""


class Thinking:
    """The authors that are being asked. Used by the loop's thread only."""

    def __init__(self, night: Night, left: Callable[[], Mapping[str, float | None]]) -> None:
        """Ask on behalf of `night`; `left` tells what is left of its budget."""
        self._night = night
        self._left = left
        self._pool = ThreadPoolExecutor(night.engine.slots, thread_name_prefix="author")
        self._asked: dict[Future[Proposal | None], Asked] = {}

    def count(self) -> int:
        """How many changes are being thought of, those that mend an attempt aside."""
        return sum(asked.attempt is None for asked in self._asked.values())

    def ask(self, n: int, attempts: Mapping[int, Attempt]) -> None:
        """Ask whose turn it is for experiment `n`; `attempts` are being measured meanwhile."""
        brief = self._night.brief(n, [attempt.knobs for attempt in attempts.values()], self._left())
        author = turns.pick(self._night.authors, brief.history, brief.seed, n)
        tracer = self._night.tracer
        story = Story(tracer, self._night.run, n) if tracer is not None else None
        self._put(Asked(n, author, brief, story=story), lambda: author.propose(brief))

    def ask_to_mend(self, attempt: Attempt, error: str) -> None:
        """Ask its author to mend an attempt, given the tail of the artifact's own error."""
        author, brief = attempt.author, attempt.brief
        assert author is not None and brief is not None
        proposal = attempt.proposal()
        asked = Asked(attempt.n, author, brief, attempt, attempt.story)
        self._put(asked, lambda: author.repair(brief, proposal, error))

    def ended(self) -> list[Thought]:
        """What came of those that have answered since the last call."""
        return [self._thought(self._asked.pop(future), future) for future in list(self._asked) if future.done()]

    def close(self) -> None:
        """Wait for those that are being asked; nothing that they say counts any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _put(self, asked: Asked, work: Callable[[], Proposal | None]) -> None:
        def told() -> Proposal | None:
            if asked.story is None:
                return work()
            with asked.story.asking(asked.author.name, asked.attempt is not None):
                return work()

        future = self._pool.submit(told)
        self._asked[future] = asked
        future.add_done_callback(lambda _: self._night.engine.wake())

    @staticmethod
    def _thought(asked: Asked, future: Future[Proposal | None]) -> Thought:
        try:
            return Thought(asked, future.result())
        except (Exhausted, UsageError) as nothing:
            # An author that cannot work on this arena at all is the same: the others go on without it.
            if asked.attempt is not None:
                return Thought(asked, None)
            return Thought(asked, None, nothing.message)
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"
            return Thought(asked, Proposal({}, f"{asked.author.name} proposed nothing", problem=said))


def make_attempt(night: Night, asked: Asked, proposal: Proposal) -> Attempt:
    """An attempt with its tree; in place of the one it mends, whose measurements it takes over."""
    old = asked.attempt
    contents = {path: content for path, content in proposal.files.items() if path in night.arena.editable}
    blobs = iter(night.repository.write_blobs([content for content in contents.values() if content is not None]))
    replacements = {path: None if content is None else next(blobs) for path, content in contents.items()}
    files = changed(night.files(asked.brief.champion_n), replacements, asked.brief.executable)
    before = asked.brief.champion
    after = {path: content for path, content in {**before, **contents}.items() if content is not None}
    if old is not None:
        old.examination.close()
    simpler = is_simpler(before, after)
    return Attempt(
        n=asked.n,
        author_name=asked.author.name,
        hypothesis=proposal.hypothesis,
        knobs=proposal.knobs,
        notes=[*(old.notes if old else ()), *proposal.notes],
        files=files,
        tree=night.repository.write_tree(files),
        opened=night.next_event(),
        at=now(),
        examination=night.judge.open(asked.n, simpler=simpler, scout=proposal.scout),
        simpler=simpler,
        scout=proposal.scout,
        changes=contents,
        author=asked.author,
        brief=asked.brief,
        started=old.started if old else time.monotonic(),
        measurements=old.measurements if old else [],
        repairs=old.repairs + 1 if old else 0,
        story=asked.story,
    )


def objection(
    night: Night, asked: Asked, attempt: Attempt, proposal: Proposal, others: Iterable[Attempt]
) -> tuple[Status, str]:
    """What keeps a proposal from being measured, and what it is recorded as; the sentence is empty if nothing does."""
    violations = check_files(proposal.files, night.arena.editable, night.arena.hidden)
    if violations:
        return "rejected", "; ".join(violations[:4])
    if proposal.problem:
        return proposal.problem_status, proposal.problem
    if refusal := night.refuse(asked.author.name, asked.n, proposal, attempt.tree):
        return "rejected", refusal
    if (twin := night.measured_before(attempt.tree)) is not None:
        which = "the champion" if twin == night.champion else f"experiment {twin.n}"
        return "discard", f"the same as {which}, not measured again"
    if any(other.tree == attempt.tree for other in others):
        return "discard", "the same as an experiment that is being measured now"
    return "discard", ""
