"""The inner loop: discover → plan → execute → verify → keep or roll back, until the budget is spent.

One thread (the caller's) owns the record, the judge and the champion. Authors think in a pool of threads, evaluations
run on the slots of the engine; both only hand results back. Whatever is interrupted here goes on from the record.
"""

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from overnight.core.errors import ArenaError
from overnight.loop.attempt import REPAIRS, Attempt
from overnight.loop.baseline import baseline_experiment, measure_baseline
from overnight.loop.evaluation.engine import Batch, Done, Task
from overnight.loop.evaluation.measured import Measured
from overnight.loop.evaluation.telling import telling_line
from overnight.loop.final import measure_final
from overnight.loop.judge.terms import Ask, Verdict
from overnight.loop.night import Night
from overnight.loop.progress import Progress, count
from overnight.loop.proposals import Thinking, Thought, make_attempt, objection
from overnight.loop.record import findings
from overnight.loop.record.experiment import Experiment, Finding, Inflight, Measurement, Role, RunState, Status
from overnight.loop.record.history import now

TICK_S = 0.5
HEARTBEAT_S = 5.0
# An author that fails this often in a row, with nothing measured in between, is broken rather than unlucky.
FAILURES_IN_A_ROW = 25


class Loop:
    """One stretch of a run. `night` holds what the run is; see night.py for how it is begun or taken up again."""

    def __init__(self, night: Night) -> None:
        self.night = night
        self.engine, self.judge, self.record = night.engine, night.judge, night.record
        self._thinking = Thinking(night, self._left)
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
            while not self.night.stop.is_set() and (self._propose() or self._attempts):
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
            self._thinking.close()
            self.night.close()

    def _baseline(self) -> None:
        measured = measure_baseline(self.night, self.engine, self._wait, self._measurement)
        if measured is not None:
            self._conclude(baseline_experiment(self.night, measured), measured)

    def _propose(self) -> bool:
        """Ask authors for as many changes as there are free slots; whether any is being thought of."""
        while len(self._attempts) + self._thinking.count() < self.engine.slots and self._may_propose():
            self._thinking.ask(heapq.heappop(self._free) if self._free else self.night.next_number(), self._attempts)
        return self._thinking.count() > 0

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
        for thought in self._thinking.ended():
            self._proposed(thought)

    def _wait(self) -> Sequence[Done]:
        if not self._thinking.count():  # nobody waits for us: evaluations run meanwhile
            self.night.catch_up()
        ended = self.engine.collect(TICK_S)
        for done in ended:
            if done.failure is not None:
                raise done.failure
            self._evaluations += len(done.results)
        moment = time.monotonic()
        if moment - self._beat > HEARTBEAT_S:
            self._beat = moment
            self.night.catch_up()
            self.record.beat(self.night.run, self._spent_s())
        self._show("experiments" if self.night.champion else "baseline")
        return ended

    def _proposed(self, thought: Thought) -> None:
        """A plan was made: give it a tree, refuse what is out of scope or known, and hand the rest to the judge."""
        asked, old = thought.asked, thought.asked.attempt
        if thought.exhausted or (self.night.stop.is_set() and old is None):
            if thought.exhausted and asked.author in self.night.authors:
                self.night.authors.remove(asked.author)
                self._exhausted.append(f"{asked.author.name}: {thought.exhausted}")
            heapq.heappush(self._free, asked.n)
            return
        if self.night.stop.is_set():
            return
        if old is not None:
            self._attempts.pop(old.n)
        if thought.proposal is None:  # the author cannot mend it
            assert old is not None
            self._end(old, *_why_failed(old.measurements[-1]))
            return
        attempt = make_attempt(self.night, asked, thought.proposal)
        status, why = objection(self.night, asked, attempt, thought.proposal, self._attempts.values())
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
            if stale:  # it says nothing about the champion of now
                attempt.examination.skip(ask)
                continue
            if measured.value is not None:
                attempt.examination.add(ask, measured.value)
            elif ask.side == "challenger" and measured.mendable and attempt.repairs < REPAIRS and attempt.author:
                self._thinking.ask_to_mend(attempt, measured.error)
                return
            else:
                attempt.examination.crashed(ask)
                failed = measured if ask.side == "challenger" else failed
        if failed is not None:
            self._end(attempt, *_why_failed(failed))
        elif self._out_of_time() and isinstance(attempt.examination.next(), list):
            self._end(attempt, "discard", "the time ran out before it could be told from the champion")
        elif not self.night.stop.is_set():
            self._step(attempt)

    def _out_of_time(self) -> bool:
        """What is left is needed for measuring the gain afresh."""
        limit = self.night.limits.for_s
        return limit is not None and self._spent_s() + self.night.closing_s() >= limit

    def _note(self, attempt: Attempt, ask: Ask, measured: Measured, slot: int, stale: bool) -> None:
        role: Role = ask.side
        tree = attempt.tree if role == "challenger" else attempt.champion_tree
        told: dict[str, Any] = {"side": ask.side, "seed_index": ask.seed_index, "stage": ask.stage}
        if stale:
            told["stale"] = True
        item = self._measurement(attempt.n, role, tree, self.night.seed(ask.seed_index), slot, measured, told)
        attempt.measurements.append(item)
        if attempt.story is not None:
            attempt.story.measured(item)
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
                    attempt, "rejected", f"better, but a check failed: {command}: {telling_line(item.error)}", verdict
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
        detail: dict[str, Any] = {"knobs": dict(attempt.knobs), "notes": attempt.notes}
        detail |= {"simpler": attempt.simpler, "scout": attempt.scout}
        if verdict is not None:
            detail["evidence"] = {**verdict.evidence, "low": verdict.low, "high": verdict.high}
        if attempt.repairs:
            detail["repairs"] = attempt.repairs
        if measured and measured[-1].error:
            detail["error"] = measured[-1].error
        if measured and measured[-1].scorer_error:  # the reason quotes the scorer, whose words no author may read
            detail["told"] = telling_line(measured[-1].error) or f"no usable {night.arena.metric} came of it"
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
            attempt.story.ended if attempt.story is not None else lambda done: None,
        )
        attempt.examination.close()
        if status == "keep":
            assert metric is not None
            self.judge.champion_changed(metric)

    def _conclude(
        self,
        experiment: Experiment,
        measurements: Sequence[Measurement],
        then: Callable[[Experiment], None] = lambda done: None,
    ) -> None:
        learnt = self._learnt(experiment)
        self.night.conclude(experiment, measurements, learnt, self._spent_s(), self.judge.mode, then)
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
        self.night.catch_up()
        self.record.set_state(self.night.run, "interrupted", spent_s=self._spent_s(), summary={"stopped": why})
        return "interrupted"

    def _spent_s(self) -> float:
        return self.night.spent_s + time.monotonic() - self._began

    def _ended(self) -> int:
        return max(0, len(self.night.experiments) - 1)

    def _underway(self) -> int:
        return len(self._attempts) + self._thinking.count()

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


def _why_failed(failed: Measured | Measurement) -> tuple[Status, str]:
    status: Status = "crash" if failed.outcome == "ok" else failed.outcome
    return status, telling_line(failed.scorer_error or failed.error) or f"the evaluation ended as {failed.outcome}"
