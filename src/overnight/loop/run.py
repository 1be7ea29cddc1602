"""The inner loop: discover → plan → execute → verify → keep or roll back, until the budget is spent.

One thread (the caller's) owns the record, the judge and the champion. Authors think in a pool of threads, evaluations
run on the slots of the engine; both only hand results back. Whatever is interrupted here goes on from the record.
"""

import heapq
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from overnight.core.errors import ArenaError, UsageError
from overnight.loop import findings, turns
from overnight.loop.attempt import REPAIRS, Attempt, changed, is_simpler
from overnight.loop.authors.base import Author, Brief, Exhausted, Proposal
from overnight.loop.engine import Batch, Done, Task
from overnight.loop.evaluate import Measured
from overnight.loop.experiment import Experiment, Finding, Inflight, Measurement, Role, RunState, Status
from overnight.loop.final import measure_final
from overnight.loop.history import now
from overnight.loop.judge.terms import Ask, Verdict
from overnight.loop.night import Night
from overnight.loop.progress import Progress, count
from overnight.loop.scope import check_files

TICK_S = 0.5
HEARTBEAT_S = 5.0
# An author that fails this often in a row, with nothing measured in between, is broken rather than unlucky.
FAILURES_IN_A_ROW = 25


@dataclass(frozen=True)
class _Asked:
    n: int
    author: Author
    brief: Brief
    attempt: Attempt | None = None  # a repair of it


class Loop:
    """One stretch of a run. `night` holds what the run is; see night.py for how it is begun or taken up again."""

    def __init__(self, night: Night) -> None:
        self.night = night
        self.engine, self.judge, self.record = night.engine, night.judge, night.record
        self._pool = ThreadPoolExecutor(self.engine.slots, thread_name_prefix="author")
        self._thinking: dict[Future[Proposal | None], _Asked] = {}
        self._attempts: dict[int, Attempt] = {attempt.n: attempt for attempt in night.attempts}
        self._free = list(night.free)
        self._failures = 0
        self._evaluations = 0
        self._began = self._beat = time.monotonic()
        self._why_stopped = ""
        self._exhausted: list[str] = []

    def run(self) -> RunState:
        """Experiment until a limit is reached, then measure the gain afresh; how the run then stands.

        Raises:
            ArenaError: the baseline cannot be measured, or `data` has gone.
            OvernightError: isolation, git, the disk or the database failed; the record is whole and can be resumed.
        """
        try:
            if not self.night.experiments:
                self._baseline()
            for attempt in list(self._attempts.values()):
                self._step(attempt)
            while not self.night.stop.is_set() and (self._propose() or self._attempts or self._thinking):
                self._collect()
            if self.night.stop.is_set():
                return self._interrupted("stopped by the person")
            return self._finish()
        except ArenaError:
            self.record.set_state(self.night.run, "failed", spent_s=self._spent_s())
            raise
        except BaseException as problem:
            self._interrupted(str(problem))
            raise
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self.night.close()

    def _baseline(self) -> None:
        """Measure the state the run starts from, on all slots at once as the run will; it is experiment 0."""
        night, plan = self.night, self.judge.baseline_plan()
        known = {item.ask["k"]: item for item in night.measurements if item.role == "baseline"}
        for k, ask in enumerate(plan):
            if k not in known:
                task = Task(night.base_tree, night.base_files, night.seed(ask.seed_index))
                self.engine.submit(Batch(k, (task,)))
        while len(known) < len(plan):
            for done in self._wait():
                for measured in done.results:
                    if measured.error == "cancelled":
                        continue
                    seed = night.seed(plan[done.id].seed_index)
                    item = self._measurement(0, "baseline", night.base_tree, seed, done.slot, measured, {"k": done.id})
                    self.record.add_measurements(night.run, [item])
                    known[done.id] = item
                    if measured.outcome != "ok":
                        raise ArenaError(
                            f"the baseline cannot be measured ({measured.outcome}): "
                            f"{measured.scorer_error or measured.error or 'no output'}".strip(),
                            hint=f"mend it, then see `overnight arena check {night.arena.folder}`",
                        )
            if night.stop.is_set():
                return
        measurements = [known[k] for k in range(len(plan))]
        values = [item.value for item in measurements if item.value is not None]
        for ask, value in zip(plan, values, strict=True):
            self.judge.add_baseline(ask, value)
        seeds = len({ask.seed_index for ask in plan})
        exact = self.judge.mode == "deterministic"
        self._conclude(
            Experiment(
                run=night.run,
                n=0,
                commit="",
                parent=night.base_commit,
                tree=night.base_tree,
                status="baseline",
                author="person",
                hypothesis=f"{night.arena.name} as it stands",
                metric=values[0] if exact else sum(values[:seeds]) / seeds,
                delta=None,
                reason=f"measured {len(values)} times on {seeds} seeds: {'always the same' if exact else 'noisy'}",
                seconds=sum(item.seconds for item in measurements),
                at=now(),
                detail={"knobs": night.baseline_knobs(), "notes": list(night.notes)},
                files=night.keep_files(night.base_files, {}),
                opened=0,
                closed=night.next_event(),
            ),
            measurements,
        )

    def _propose(self) -> bool:
        """Ask authors for as many changes as there are free slots; whether any is being thought of."""
        while len(self._attempts) + len(self._thinking) < self.engine.slots and self._may_propose():
            n = heapq.heappop(self._free) if self._free else self.night.next_number()
            brief = self.night.brief(n, [item.knobs for item in self._attempts.values()], self._left())
            author = turns.pick(self.night.authors, brief.history, brief.seed, n)
            self._think(_Asked(n, author, brief), author.propose, brief)
        return bool(self._thinking)

    def _think(self, asked: _Asked, work: Any, *arguments: Any) -> None:
        future = self._pool.submit(work, *arguments)
        self._thinking[future] = asked
        future.add_done_callback(lambda _: self.engine.wake())

    def _may_propose(self) -> bool:
        night = self.night
        if self._why_stopped or night.stop.is_set() or not night.champion:
            return False
        if night.limits.experiments is not None and self._ended() + self._underway() >= night.limits.experiments:
            self._why_stopped = "all experiments were made"
        elif self._out_of_time():
            self._why_stopped = "the time was used up"
        elif night.target_reached():
            self._why_stopped = "the target was reached"
        elif not night.authors:
            self._why_stopped = f"nothing is left to try ({'; '.join(self._exhausted)})"
        elif self._failures >= FAILURES_IN_A_ROW:
            self._why_stopped = f"the last {self._failures} proposals could not be measured"
        return not self._why_stopped

    def _collect(self) -> None:
        for done in self._wait():
            attempt = self._attempts[done.id]
            if attempt.kept is not None:
                self._checked(attempt, done)
            else:
                self._measured(attempt, done)
        for future in [future for future in self._thinking if future.done()]:
            self._proposed(self._thinking.pop(future), future)

    def _wait(self) -> Sequence[Done]:
        ended = self.engine.collect(TICK_S)
        for done in ended:
            if done.failure is not None:
                raise done.failure
            self._evaluations += len(done.results)
        moment = time.monotonic()
        if moment - self._beat > HEARTBEAT_S:
            self._beat = moment
            self.record.beat(self.night.run, self._spent_s())
        self._show("experiments" if self.night.champion else "baseline")
        return ended

    def _proposed(self, asked: _Asked, future: Future[Proposal | None]) -> None:
        """Plan made: check its scope, give it a tree, refuse repeats, and hand it to the judge."""
        try:
            proposal = future.result()
        except (Exhausted, UsageError) as nothing:
            # An author that cannot work on this arena at all is the same: the others go on without it.
            if asked.author in self.night.authors:
                self.night.authors.remove(asked.author)
                self._exhausted.append(f"{asked.author.name}: {nothing.message}")
            heapq.heappush(self._free, asked.n)
            return
        except Exception as problem:
            proposal = Proposal(
                {}, f"{asked.author.name} proposed nothing", problem=f"{type(problem).__name__}: {problem}"
            )
        if self.night.stop.is_set():
            if asked.attempt is None:
                heapq.heappush(self._free, asked.n)
            return
        if proposal is None:  # the author cannot mend it
            assert asked.attempt is not None
            self._gave_up(asked.attempt)
            return
        attempt = self._attempt(asked, proposal)
        status, why = self._objection(asked, attempt, proposal)
        if why:
            twin = self.night.measured_before(attempt.tree) if status == "discard" else None
            attempt.knobs = attempt.knobs or dict(twin.detail.get("knobs", {}) if twin else {})
            self._end(attempt, status, why, metric=twin.metric if twin else None)
            return
        self._attempts[attempt.n] = attempt
        self.record.open(
            self.night.run, Inflight(attempt.n, attempt.tree, attempt.opened, attempt.at, attempt.encoded())
        )
        self._step(attempt)

    def _objection(self, asked: _Asked, attempt: Attempt, proposal: Proposal) -> tuple[Status, str]:
        """What keeps a proposal from being measured, and what it is recorded as; the sentence is empty if nothing."""
        night = self.night
        violations = check_files(proposal.files, night.arena.editable, night.arena.hidden)
        if violations:
            return "rejected", "; ".join(violations[:4])
        if proposal.problem:
            return proposal.problem_status, proposal.problem
        if refusal := night.refuse(asked.author.name, asked.n, proposal):
            return "rejected", refusal
        if (twin := night.measured_before(attempt.tree)) is not None:
            which = "the champion" if twin == night.champion else f"experiment {twin.n}"
            return "discard", f"the same as {which}, not measured again"
        if any(item.tree == attempt.tree for item in self._attempts.values()):
            return "discard", "the same as an experiment that is being measured now"
        return "discard", ""

    def _attempt(self, asked: _Asked, proposal: Proposal) -> Attempt:
        night, old = self.night, asked.attempt
        contents = {path: content for path, content in proposal.files.items() if path in night.arena.editable}
        oids = night.repository.write_blobs([content for content in contents.values() if content is not None])
        blobs = iter(oids)
        replacements = {path: None if content is None else next(blobs) for path, content in contents.items()}
        files = changed(night.files(asked.brief.champion_n), replacements, asked.brief.executable)
        before = asked.brief.champion
        after = {path: content for path, content in {**before, **contents}.items() if content is not None}
        if old is not None:
            self._attempts.pop(old.n)
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
            examination=self.judge.open(asked.n, simpler=simpler),
            simpler=simpler,
            changes=contents,
            author=asked.author,
            brief=asked.brief,
            started=old.started if old else time.monotonic(),
            measurements=old.measurements if old else [],
            repairs=old.repairs + 1 if old else 0,
        )

    def _step(self, attempt: Attempt) -> None:
        """Send what the judge wants measured, or carry out its verdict."""
        wanted = attempt.examination.next()
        if isinstance(wanted, Verdict):
            self._decided(attempt, wanted)
            return
        champion = self.night.champion
        assert champion is not None
        attempt.asks, attempt.champion_tree = wanted, champion.tree
        sides = {"challenger": (attempt.tree, attempt.files), "champion": (champion.tree, self.night.champion_files)}
        tasks = tuple(Task(*sides[ask.side], self.night.seed(ask.seed_index)) for ask in wanted)
        self.engine.submit(Batch(attempt.n, tasks))

    def _measured(self, attempt: Attempt, done: Done) -> None:
        """Keep what was paid for, tell the judge, and go on."""
        failed: Measured | None = None
        for ask, measured in zip(attempt.asks, done.results, strict=False):
            if measured.error == "cancelled":
                return
            stale = ask.side == "champion" and attempt.champion_tree != self.night.champion_tree
            self._note(attempt, ask, measured, done.slot, stale)
            if ask.side == "challenger":
                attempt.memory_bytes = max(attempt.memory_bytes, measured.memory_bytes)
            if stale:
                continue
            if measured.value is not None:
                attempt.examination.add(ask, measured.value)
            elif ask.side == "challenger" and measured.mendable and attempt.repairs < REPAIRS and attempt.author:
                assert attempt.brief is not None
                asked = _Asked(attempt.n, attempt.author, attempt.brief, attempt)
                self._think(asked, attempt.author.repair, asked.brief, attempt.proposal(), measured.error)
                return
            else:
                attempt.examination.crashed(ask)
                failed = measured if ask.side == "challenger" else failed
        if failed is not None:
            status: Status = "crash" if failed.outcome == "ok" else failed.outcome
            self._end(attempt, status, _reason(failed))
        elif self._out_of_time() and isinstance(attempt.examination.next(), list):
            self._end(attempt, "discard", "the time ran out before it could be told from the champion")
        elif not self.night.stop.is_set():
            self._step(attempt)

    def _out_of_time(self) -> bool:
        """What is left is needed for measuring the gain afresh."""
        limit = self.night.limits.for_s
        return limit is not None and self._spent_s() + self.night.closing_s() >= limit

    def _gave_up(self, attempt: Attempt) -> None:
        last = attempt.measurements[-1]
        self._end(
            attempt, "timeout" if last.outcome == "timeout" else "crash", _first_line(last.error or last.scorer_error)
        )

    def _note(self, attempt: Attempt, ask: Ask, measured: Measured, slot: int, stale: bool) -> None:
        role: Role = ask.side
        tree = attempt.tree if role == "challenger" else attempt.champion_tree
        told: dict[str, Any] = {"side": ask.side, "seed_index": ask.seed_index, "stage": ask.stage}
        if stale:
            told["stale"] = True
        item = self._measurement(attempt.n, role, tree, self.night.seed(ask.seed_index), slot, measured, told)
        attempt.measurements.append(item)
        self.record.add_measurements(self.night.run, [item])

    def _measurement(
        self, n: int, role: Role, tree: str, seed: int | None, slot: int, measured: Measured, ask: Mapping[str, Any]
    ) -> Measurement:
        return Measurement(
            seq=self.night.next_event(),
            n=n,
            role=role,
            tree=tree,
            seed=seed,
            slot=slot,
            outcome=measured.outcome,
            value=measured.value,
            secondary=measured.secondary,
            error=measured.error,
            seconds=round(measured.seconds, 4),
            at=now(),
            scorer_error=measured.scorer_error,
            ask=ask,
        )

    def _decided(self, attempt: Attempt, verdict: Verdict) -> None:
        if verdict.keep and self.night.arena.front.checks:
            attempt.kept, attempt.champion_tree = verdict, self.night.champion_tree
            tasks = [
                Task(attempt.tree, attempt.files, None, command, "check") for command in self.night.arena.front.checks
            ]
            self.engine.submit(Batch(attempt.n, tuple(tasks)))
            return
        self._end(attempt, "keep" if verdict.keep else "discard", verdict.reason, verdict)

    def _checked(self, attempt: Attempt, done: Done) -> None:
        verdict, attempt.kept = attempt.kept, None
        assert verdict is not None
        if any(item.error == "cancelled" for item in done.results) or self.night.stop.is_set():
            return
        for command, item in zip(self.night.arena.front.checks, done.results, strict=False):
            if item.outcome != "ok":
                self._end(
                    attempt, "rejected", f"better, but a check failed: {command}: {_first_line(item.error)}", verdict
                )
                return
        if attempt.champion_tree != self.night.champion_tree:  # another was kept while the checks ran
            self._step(attempt)
            return
        self._end(attempt, "keep", verdict.reason, verdict)

    def _end(
        self, attempt: Attempt, status: Status, reason: str, verdict: Verdict | None = None, metric: float | None = None
    ) -> None:
        """Record a verdict; on a keep the branch advances and the challenger is the champion."""
        night, champion = self.night, self.night.champion
        assert champion is not None
        measured = [item for item in attempt.measurements if item.role == "challenger"]
        self._failures = 0 if measured else self._failures + 1
        values = [item.value for item in measured if item.value is not None and item.tree == attempt.tree]
        if verdict is not None:
            metric = verdict.metric
        elif values:
            metric = sum(values) / len(values)
        detail: dict[str, Any] = {"knobs": dict(attempt.knobs), "notes": attempt.notes, "simpler": attempt.simpler}
        if verdict is not None:
            detail["evidence"] = {**verdict.evidence, "low": verdict.low, "high": verdict.high}
        if attempt.repairs:
            detail["repairs"] = attempt.repairs
        if measured and measured[-1].error:
            detail["error"] = measured[-1].error
        detail["runs"] = len(values)
        detail["memory_bytes"] = attempt.memory_bytes
        self._attempts.pop(attempt.n, None)
        self._conclude(
            Experiment(
                run=night.run,
                n=attempt.n,
                commit="",
                parent=champion.commit,
                tree=attempt.tree,
                status=status,
                author=attempt.author_name,
                hypothesis=attempt.hypothesis,
                metric=metric,
                delta=verdict.delta if verdict else None,
                reason=reason,
                seconds=round(time.monotonic() - attempt.started, 4),
                at=now(),
                detail={name: value for name, value in detail.items() if value not in ((), [], {})},
                files=night.keep_files(attempt.files, night.base_files),
                opened=attempt.opened,
                closed=night.next_event(),
            ),
            attempt.measurements,
        )
        attempt.examination.close()
        if status == "keep":
            assert metric is not None
            self.judge.champion_changed(metric)

    def _conclude(self, experiment: Experiment, measurements: Sequence[Measurement]) -> None:
        learnt = self._learnt(experiment)
        self.night.conclude(experiment, measurements, learnt, self._spent_s(), self.judge.mode)
        self._show("experiments")

    def _learnt(self, experiment: Experiment) -> Finding | None:
        night = self.night
        if experiment.status == "keep":
            return findings.after_keep(
                experiment, night.arena.metric, night.champion.metric if night.champion else None
            )
        ended = self._ended() + (experiment.n != 0)
        if experiment.n and ended % findings.CYCLE == 0:
            everything = [*night.experiments, experiment]
            recent = sorted(everything[-findings.CYCLE :], key=lambda item: item.n)
            return findings.after_cycle(recent, everything, experiment.at)
        return None

    def _finish(self) -> RunState:
        self._show("final")
        final = measure_final(self.night, self.engine, self._measurement)
        if final is None:
            return self._interrupted("stopped by the person")
        self.night.finish(final, self._why_stopped, self._spent_s())
        return "finished"

    def _interrupted(self, why: str) -> RunState:
        self.night.stop.set()
        self.engine.cancel()
        self.record.set_state(self.night.run, "interrupted", spent_s=self._spent_s(), summary={"stopped": why})
        return "interrupted"

    def _spent_s(self) -> float:
        return self.night.spent_s + time.monotonic() - self._began

    def _ended(self) -> int:
        return max(0, len(self.night.experiments) - 1)

    def _underway(self) -> int:
        repairs = sum(asked.attempt is not None for asked in self._thinking.values())
        return len(self._attempts) + len(self._thinking) - repairs

    def _left(self) -> dict[str, float | None]:
        limits = self.night.limits
        return {
            "experiments": None if limits.experiments is None else limits.experiments - self._ended(),
            "seconds": None if limits.for_s is None else round(max(0.0, limits.for_s - self._spent_s()), 1),
        }

    def _show(self, phase: str) -> None:
        night = self.night
        if night.watch is None:
            return
        base = next((item for item in night.experiments if item.n == 0), None)
        night.watch(
            Progress(
                run=night.run,
                phase=phase,
                metric=night.arena.metric,
                direction=night.arena.front.direction,
                mode=self.judge.mode,
                baseline=base.metric if base else None,
                champion=night.champion,
                recent=night.experiments[-20:],
                counts=count(night.experiments),
                running=[f"{item.n}: {item.hypothesis}" for item in self._attempts.values()],
                evaluations=self._evaluations,
                elapsed_s=self._spent_s(),
                for_s=night.limits.for_s,
                limit=night.limits.experiments,
            )
        )


def _reason(failed: Measured) -> str:
    said = _first_line(failed.scorer_error or failed.error)
    return said or f"the evaluation ended as {failed.outcome}"


def _first_line(text: str) -> str:
    """The most telling line of an error: the exception at its end, else the first."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return ""
    told = lines[-1] if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b", lines[-1]) else lines[0]
    return told[:300]
