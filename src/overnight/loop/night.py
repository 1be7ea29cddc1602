"""What a run is while it lives: the champion, the experiments so far, and all that the loop works with.

`begin` starts a run from a folder as it stands; `take_up` makes the same object again from the record.
"""

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overnight.core.errors import UsageError
from overnight.loop.arena.arena import Arena
from overnight.loop.attempt import Attempt
from overnight.loop.authors.base import Author, Brief, KnobValue, Past, Proposal
from overnight.loop.evaluation.engine import Engine
from overnight.loop.judge.claim import final_plan
from overnight.loop.judge.judge import Judge
from overnight.loop.judge.terms import JudgeSettings
from overnight.loop.knobs import find_all_knobs
from overnight.loop.progress import Watch
from overnight.loop.record import findings
from overnight.loop.record.experiment import Experiment, Finding, Measurement, Mode
from overnight.loop.record.history import History
from overnight.loop.record.record import Record
from overnight.store.blobs import Blobs
from overnight.store.git.repository import Entry, Files, Repository
from overnight.trace.tracer import Tracer

# Files larger than this are not put before authors as text; they see them in their checkout by name only.
_VISIBLE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """When a run ends: after so many experiments, so many seconds of wall clock, or never by itself (None)."""

    experiments: int | None = None
    for_s: float | None = None


@dataclass(frozen=True)
class _Unwritten:
    """A verdict that is not yet in git and the database; its measurements are."""

    experiment: Experiment
    measurements: Sequence[Measurement]
    parent: str
    spent_s: float
    then: Callable[[Experiment], None]


@dataclass
class Night:
    """One run. Owned by the loop's thread.

    Attributes:
        run: its name.
        workspace: folder whose MEMORY.md is rendered.
        arena_name: as the record names the arena.
        base_commit: HEAD when the run began; None in an empty repository.
        base_tree: git tree of the arena folder as it stood.
        secret: key of the evaluation seeds.
        seed: of the search.
        stop: set to interrupt.
        tracer: of the workspace; None traces nothing.
        spent_s: wall clock of earlier stretches.
        attempts: taken up again after an interruption.
        free: numbers below the next that no experiment has.
    """

    run: str
    workspace: Path
    arena: Arena
    arena_name: str
    repository: Repository
    record: Record
    history: History
    blobs: Blobs
    engine: Engine
    judge: Judge
    authors: list[Author]
    limits: Limits
    base_commit: str | None
    base_tree: str
    base_files: Files
    secret: bytes
    search_seed: int
    stop: threading.Event
    watch: Watch | None = None
    tracer: Tracer | None = None
    decide: Callable[[str, int, Sequence[str], str], str] = lambda author, n, paths, tree: ""
    notes: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    spent_s: float = 0.0
    experiments: list[Experiment] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    champion: Experiment | None = None
    champion_files: Files = field(default_factory=dict)
    _event: int = 0
    _number: int = 0
    _past: list[Past] = field(default_factory=list)
    _trees: dict[str, Experiment] = field(default_factory=dict)
    _champions: dict[int, Files] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _visible: tuple[int, Mapping[str, bytes]] = (-1, {})
    _findings: list[str] | None = None
    _unwritten: list[_Unwritten] = field(default_factory=list)

    @property
    def champion_tree(self) -> str:
        """Tree of the champion; "" before there is one."""
        return self.champion.tree if self.champion else ""

    def seed(self, index: int, domain: str = "seed") -> int:
        """$OVERNIGHT_SEED for a seed index: 31 bits of HMAC-SHA256 under the run's key, so no author can foresee it."""
        digest = hmac.digest(self.secret, f"{domain}:{index}".encode(), hashlib.sha256)
        return int.from_bytes(digest[:4], "big") >> 1

    def next_event(self) -> int:
        """The next place in the run's order of events."""
        self._event += 1
        return self._event

    def next_number(self) -> int:
        """The next experiment's number."""
        self._number += 1
        return self._number

    def files(self, champion_n: int) -> Files:
        """The arena folder in the state of a champion."""
        return self._champions[champion_n]

    def baseline_knobs(self) -> dict[str, KnobValue]:
        """Values of all knobs of the baseline; none where annotations are wrong (`arena check` says so)."""
        try:
            return {knob.id: knob.value for knob in find_all_knobs(self._contents(self.base_files, editable=True))}
        except UsageError:
            return {}

    def brief(self, n: int, pending: Sequence[Mapping[str, KnobValue]], left: Mapping[str, float | None]) -> Brief:
        """What the author of experiment `n` gets to know."""
        champion = self.champion
        assert champion is not None
        if self._visible[0] != champion.n:
            self._visible = (champion.n, self._contents(self.champion_files, editable=False))
        if self._findings is None:
            found = self.record.findings(arena=self.arena_name)
            self._findings = [item.text for _, item in findings.ordered(found)]
            if not found and (remembered := findings.read(self.workspace)):
                self._findings = remembered.splitlines()
        visible = self._visible[1]
        return Brief(
            n=n,
            seed=self.search_seed,
            metric=self.arena.metric,
            direction=self.arena.front.direction,
            champion={path: content for path, content in visible.items() if path in self.arena.editable},
            champion_n=champion.n,
            visible=visible,
            executable=frozenset(path for path, entry in self.champion_files.items() if entry.mode == "100755"),
            history=self._past,
            pending=pending,
            instructions=self.arena.instructions,
            findings=self._findings,
            noise=self.judge.noise().sd,
            budget=left,
        )

    def refuse(self, author: str, n: int, proposal: Proposal, tree: str) -> str:
        """Why the gate does not let an author write this; "" if it does."""
        return self.decide(author, n, sorted(proposal.files), tree)

    def measured_before(self, tree: str) -> Experiment | None:
        """The experiment that already measured this tree, if any."""
        return self._trees.get(tree)

    def keep_files(self, files: Files, against: Files) -> dict[str, str | None]:
        """Store what differs from `against` as blobs, so that the database alone could rebuild the tree.

        Returns:
            Path → git mode and blob id, None where it is deleted.
        """
        kept: dict[str, str | None] = {path: None for path in against if path not in files}
        for path, entry in files.items():
            if against.get(path) == entry:
                continue
            if entry.mode == "160000":
                kept[path] = f"{entry.mode} {entry.oid}"
            else:
                kept[path] = f"{entry.mode} {self.blobs.put(self.repository.read_blob(entry.oid))}"
        return kept

    def target_reached(self) -> bool:
        """The champion is at the arena's target, or past it."""
        target, champion = self.arena.front.target, self.champion
        if target is None or champion is None or champion.metric is None:
            return False
        return champion.metric == target or findings.better(self.arena.front.direction, champion.metric, target)

    def closing_s(self) -> float:
        """How long the final measurements will take, seconds, going by what evaluations took so far."""
        base = [item.seconds for item in self.experiments if item.n == 0]
        if not base or self.champion is None:
            return 0.0
        each = base[0] / max(1, len(self.judge.baseline_plan()))
        runs = 2 * final_plan(self.judge.mode) if self.champion.n else 0
        return each * (runs / self.engine.slots + (2 if self.arena.front.holdout else 0))

    def conclude(
        self,
        experiment: Experiment,
        measurements: Sequence[Measurement],
        learnt: Finding | None,
        spent_s: float,
        mode: Mode,
        then: Callable[[Experiment], None] = lambda done: None,
    ) -> None:
        """Record a verdict, and make it what the next experiment starts from; `then` gets it with its commit.

        A measured change that was discarded is written by the next `catch_up`: until then a kill costs no more than
        deciding it again from its measurements, which are on record.
        """
        champion = self.champion
        advance = experiment.status in ("keep", "baseline")
        parent = champion.commit if champion else self.base_commit
        same = mode == self.settings.get("mode")
        if measurements and same and learnt is None and parent and not advance:
            self.remember(experiment)
            self._unwritten.append(_Unwritten(experiment, measurements, parent, spent_s, then))
            return
        self.catch_up()
        done = self.history.commit(
            experiment,
            measurements,
            learnt,
            base=parent,
            parents=[parent] if parent else [],
            advance=advance,
            spent_s=spent_s,
            run={**self.settings, "mode": mode} if experiment.n == 0 else None,
        )
        if mode != self.settings.get("mode"):
            self.record.set_state(self.run, "running", spent_s=spent_s, mode=mode)
            self.settings = {**self.settings, "mode": mode}
        self.remember(done)
        then(done)
        if learnt is not None:
            self._findings = None
            self.render_memory()

    def catch_up(self) -> None:
        """Write the verdicts that wait for it into git and the database, in their order."""
        while self._unwritten:
            item = self._unwritten[0]
            done = self.history.commit(
                item.experiment,
                item.measurements,
                None,
                base=item.parent,
                parents=[item.parent],
                advance=False,
                spent_s=item.spent_s,
            )
            self._unwritten.pop(0)
            place = next(at for at in reversed(range(len(self.experiments))) if self.experiments[at] is item.experiment)
            self.experiments[place] = done
            self._numbers[done.commit] = done.n
            item.then(done)

    def remember(self, experiment: Experiment) -> None:
        """Take a recorded experiment into what the run knows; in the order they were closed."""
        self.experiments.append(experiment)
        runs = int(experiment.detail.get("runs", 0))
        if experiment.n == 0 or runs or experiment.status in ("crash", "timeout"):
            self._trees.setdefault(experiment.tree, experiment)
        if experiment.commit:
            self._numbers[experiment.commit] = experiment.n
        if experiment.status in ("keep", "baseline"):
            self.champion = experiment
            self.champion_files = self.repository.read_files(experiment.tree)
            self._champions[experiment.n] = self.champion_files
        self._past.append(
            Past(
                n=experiment.n,
                parent_n=self._numbers.get(experiment.parent or "") if experiment.n else None,
                author=experiment.author,
                status=experiment.status,
                hypothesis=experiment.hypothesis,
                reason=experiment.detail.get("told", experiment.reason),
                metric=experiment.metric,
                delta=experiment.delta,
                runs=runs or (len(self.judge.baseline_plan()) if experiment.n == 0 else 0),
                knobs=experiment.detail.get("knobs", {}),
                secondary=experiment.detail.get("secondary", {}),
                error=experiment.detail.get("error", ""),
            )
        )

    def render_memory(self) -> None:
        """Write MEMORY.md of the workspace from all findings on record."""
        arenas = {info.run: info.arena for info in self.record.runs()}
        found = findings.ordered(self.record.findings())
        latest = list(dict.fromkeys(arenas[run] for run, _ in found))
        rows = [(arenas[run], run, item) for run, item in found]
        rows.sort(key=lambda row: latest.index(row[0]))
        findings.write(self.workspace, findings.render(rows))

    def close(self) -> None:
        """Stop whatever still runs, and let go of git."""
        self.engine.close()
        self.repository.close()

    def finish(self, final: Any, why: str, spent_s: float) -> None:
        """Record the end of the run."""
        self.catch_up()
        summary = {"stopped": why, "final": final.encoded()}
        self.history.commit_final(self.run, self.champion, summary, self.judge.mode, spent_s)
        if self.history.behind:
            summary["behind"] = self.history.behind
        self.record.set_state(self.run, "finished", spent_s=spent_s, mode=self.judge.mode, summary=summary)

    def go_on_after(self, event: int, number: int) -> None:
        """Set what the next event and the next experiment count from; after a restart."""
        self._event, self._number = event, number

    def _contents(self, files: Mapping[str, Entry], *, editable: bool) -> dict[str, bytes]:
        wanted = {
            path: entry
            for path, entry in files.items()
            if entry.mode in ("100644", "100755")
            and path not in self.arena.hidden
            and path not in self.arena.data
            and (not editable or path in self.arena.editable)
        }
        contents = {path: self.repository.read_blob(entry.oid) for path, entry in wanted.items()}
        return {path: content for path, content in contents.items() if editable or len(content) <= _VISIBLE_BYTES}


def new_secret(seed: int | None, key: bytes) -> bytes:
    """A run's seed key: fresh, or derived from `seed` and a key of this workspace so that authors cannot compute it."""
    if seed is None:
        return secrets.token_bytes(32)
    return hmac.digest(key, f"run:{seed}".encode(), hashlib.sha256)


def judge_settings(arena: Arena) -> JudgeSettings:
    """What the arena tells the judge."""
    front = arena.front
    return JudgeSettings(front.direction, min_effect=front.min_effect, simpler_within=front.simpler_within)
