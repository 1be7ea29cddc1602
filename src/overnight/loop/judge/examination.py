"""One challenger under test, as the loop sees it: what to measure next, or the verdict."""

import math

from overnight.core.errors import UsageError
from overnight.loop.judge.exact import WATCH_EVERY, ExactTest
from overnight.loop.judge.noisy import SCREEN, NoisyTest
from overnight.loop.judge.state import RunState
from overnight.loop.judge.terms import SEEDS_PER_EXPERIMENT, Ask, Side, Stage, Verdict, seed_index
from overnight.loop.judge.wording import exact_verdict, given_up, noisy_verdict

# Runs of the champion that may crash in one examination before it is given up.
_CHAMPION_CRASHES = 3


class Examination:
    """Made by `Judge.open`; lives until its verdict.

    The loop measures what `next` asks for, one after the other on one worker slot, hands each value to `add`, and
    calls `next` again. If the champion changes meanwhile, the examination goes on by itself against the new champion:
    the challenger's own runs stay valid, the comparison starts anew. If the run turns out to be noisy, it starts
    afresh, because a first run that was picked for being good is no fair sample.
    """

    def __init__(self, state: RunState, n: int, simpler: bool, scout: bool) -> None:
        self.n = n
        self._state = state
        self._simpler = simpler
        self._scout = scout
        self._asked: list[Ask] = []
        self._seeds_used = 0
        self._crashes = 0
        self._closed = False
        self._ended: tuple[float, ...] = ()
        self._verdict: Verdict | None = None
        self._exact = ExactTest(state.settings, simpler)
        self._noisy: NoisyTest | None = None
        self._watched = n % WATCH_EVERY != 0
        self._catch_up()

    def next(self) -> list[Ask] | Verdict:
        """What to measure now, in this order; or the verdict, which stays the same from then on.

        Asks that were not answered yet are repeated, so calling twice does no harm.
        """
        if not self._closed and not self._asked:
            self._catch_up()
            if self._state.mode == "deterministic":
                self._plan_exact()
            else:
                self._plan_noisy()
        return self._verdict or list(self._asked)

    def add(self, ask: Ask, value: float) -> None:
        """Take in the measurement made for `ask`, metric units.

        On resume, asks rebuilt from the record are welcome: any whose seed belongs to this experiment.

        Raises:
            UsageError: `value` is NaN or infinite (that is a crash, see `crashed`), or there is a verdict already.
        """
        if not math.isfinite(value):
            raise UsageError(
                f"experiment {self.n}: {value!r} is not a measurement", hint="record a crash and call crashed()"
            )
        self._answer(ask)
        oriented = self._state.sign * value
        self._catch_up()
        if self._noisy is None:
            self._add_exact(ask.side, oriented)
        elif ask.side == "champion":
            self._state.add_champion(oriented, self._noisy, ask.seed_index)
        else:
            self._state.noise.ticks += 1
            self._noisy.add_challenger(oriented, ask.seed_index)

    def crashed(self, ask: Ask) -> None:
        """The measurement made for `ask` crashed, timed out or gave no finite value.

        A challenger that crashes gets its verdict there and then, also after good runs: who keeps it would pay for
        the crash on every use. (On its very first run the loop may rather repair it and open it anew.) A champion's
        crash is not held against the challenger: it is asked for again on another seed, at most three times.
        """
        self._answer(ask)
        if ask.side == "challenger":
            good = len(self._runs())
            after = f" after {good} good run{'s' * (good != 1)}" if good else ""
            self._finish(given_up(f"the challenger crashed{after}, so it cannot be relied on", self._values()))
            return
        if self._noisy is not None:
            self._noisy.unpairable(ask.seed_index)
        self._crashes += 1
        if self._crashes >= _CHAMPION_CRASHES:
            self._finish(
                given_up(f"the champion crashed {self._crashes} times: nothing to compare with", self._values())
            )

    def skip(self, ask: Ask) -> None:
        """There is no measurement for `ask`, through no fault of either side; it is asked for anew on another seed.

        To be called for a champion run that was in flight when the champion changed: it measured the former one.
        """
        self._answer(ask)

    def close(self) -> None:
        """End without asking for the verdict (it is on record, or the experiment was abandoned)."""
        if not self._closed:
            self._closed = True
            self._asked = []
            self._ended = self._runs()
            if self._noisy is not None:
                self._state.end_test(self._noisy, learn=True)
                self._noisy = None
        self._state.ended(self._ended)

    def _runs(self) -> tuple[float, ...]:
        return tuple(self._noisy.values if self._noisy else self._exact.values)

    def _values(self) -> list[float]:
        return [self._state.sign * value for value in self._runs()]

    def _answer(self, ask: Ask) -> None:
        if self._closed:
            raise UsageError(f"experiment {self.n} has its verdict already", hint="open the next experiment")
        if ask.seed_index // SEEDS_PER_EXPERIMENT != self.n:
            raise UsageError(
                f"seed {ask.seed_index} does not belong to experiment {self.n}",
                hint="see overnight.loop.judge.seed_index",
            )
        self._seeds_used = max(self._seeds_used, ask.seed_index % SEEDS_PER_EXPERIMENT + 1)
        for position, asked in enumerate(self._asked):
            if (asked.side, asked.seed_index) == (ask.side, ask.seed_index):
                del self._asked[position]
                break

    def _catch_up(self) -> None:
        """Follow a change of mode or of champion."""
        state = self._state
        if state.mode == "deterministic":
            return
        if self._noisy is None:
            self._noisy = state.begin_test(self.n, self._threshold(), self._scout)
        elif self._noisy.epoch != state.noise.epoch:
            old = self._noisy
            state.end_test(old, learn=False)
            self._noisy = state.begin_test(self.n, self._threshold(), self._scout)
            self._noisy.inherit(old)

    def _threshold(self) -> float:
        settings = self._state.settings
        return -settings.simpler_within if self._simpler and settings.simpler_within > 0 else settings.min_effect

    def _finish(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self.close()

    def _ask(self, side: Side, stage: Stage, seed: int) -> None:
        self._asked.append(Ask(side, seed_index(self.n, seed), stage))

    def _add_exact(self, side: Side, value: float) -> None:
        state = self._state
        if side == "champion":
            self._watched = True
            if value != state.champion:
                state.turn_noisy(state.champion, value)
            return
        self._exact.values.append(value)
        if self._exact.disagrees():
            state.turn_noisy(self._exact.values[0], value)

    def _plan_exact(self) -> None:
        state, test = self._state, self._exact
        decision = test.decision(state.champion)
        if decision is not None:
            self._finish(exact_verdict(test, decision, state.champion, state.sign))
            return
        seed = self._seeds_used
        if not self._watched:
            self._ask("champion", "screen", seed)
        self._ask("challenger", "again" if test.values else "screen", seed)

    def _plan_noisy(self) -> None:
        test = self._noisy
        assert test is not None
        stage: Stage = "screen" if test.runs < SCREEN else "confirm"
        seed = self._seeds_used
        first = test.champions_first()
        if first:
            self._champions(first, stage)
            if not test.runs:
                self._ask("challenger", stage, seed)
            return
        if test.runs:
            standing = test.standing()
            if standing.keep is not None:
                self._finish(noisy_verdict(test, standing, self._state.sign))
                return
            if standing.champions:
                self._champions(standing.champions, "confirm")
                return
            if unpaired := test.unpaired():
                self._asked = [Ask("champion", seed, stage) for seed in unpaired]
                return
        if test.partner_wanted():
            self._ask("champion", stage, seed)
        self._ask("challenger", stage, seed)

    def _champions(self, count: int, stage: Stage) -> None:
        for extra in range(count):
            self._ask("champion", stage, self._seeds_used + extra)
