"""The `search` author: turns the knobs of the champion, without any model."""

import functools
import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from overnight.core.errors import UsageError
from overnight.loop.authors.base import Brief, Exhausted, KnobValue, Proposal
from overnight.loop.authors.results import WINDOW, Reading, Result, Results, key, window
from overnight.loop.knobs import Knob, find_all_knobs, set_knobs
from overnight.loop.knobs.space import Space, widened

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController

    from overnight.loop.authors import surrogate

    Array = NDArray[np.floating[Any]]

_CANDIDATES = 288
# Results before the models have a say. Regret on four functions of benchmarks/search.py after 24 evaluations: 0.10 with
# this, 0.14 with 8; after 60 no difference.
_STARTUP = 4
# Each choice among values without order gets this share of its fair part of so many recent proposals.
_SHARE, _RECENT = 0.25, 96
# From so many results on, what the models learn about the function as a whole is learnt anew with every fourth only,
# and with every twelfth once there are more than the models see.
_RELEARN_FROM, _RELEARN = 12, 4
_UNSAFE = re.compile(r"[^\w .,+\-\[\]()→]")


class SearchAuthor:
    """Proposes values for all knobs of the champion, from the record alone.

    Two of three proposals come from a Gaussian process over the record (expected improvement), every third from
    Optuna's TPE; the first few alternate between anywhere and near the champion. What is kept between proposals only
    saves reading the record again, and randomness comes from the run's seed and the experiment's number only: the same
    brief gives the same proposal in any process, so a resumed run goes on as if nothing had happened. Safe to call from
    several threads.
    """

    def __init__(self, name: str = "search") -> None:
        self.name = name
        self._record = Results(name)
        self._shapes: dict[Hashable, surrogate.Shape] = {}
        self._latest: tuple[Hashable, Space, dict[Hashable, Array]] | None = None

    def propose(self, brief: Brief) -> Proposal:
        """New values for the knobs; never a setting that was tried or is being tried.

        Raises:
            Exhausted: every setting was tried.
            UsageError: there is nothing to turn, or all annotations are broken.
        """
        knobs, notes = _usable(brief.champion)
        start = next((past.knobs for past in brief.history if past.n == 0), {})
        space, rows = self._space(knobs, start)
        here: dict[str, KnobValue] = {knob.id: knob.value for knob in knobs}
        search = _Search(brief, space, rows, here, self._record.read(brief, here), self._shapes)
        # The matrices are small: a second thread finds nothing to do and spins, which took 25 ms of the evaluator's
        # cores per experiment (benchmarks/harness.py).
        with _arithmetic().limit(limits=1):
            values, how = search.choose()
        files = dict(brief.champion)
        for path in {knob.path for knob in knobs}:
            files[path] = set_knobs(
                path, files[path], {knob.id: values[knob.id] for knob in knobs if knob.path == path}
            )
        return Proposal(
            files={path: data for path, data in files.items() if data != brief.champion[path]},
            hypothesis=_hypothesis(
                knobs, values, start, f"{how}, {len(search.results)} result{'s' if len(search.results) != 1 else ''}"
            ),
            knobs=values,
            notes=notes,
            scout=True,
        )

    def _space(self, knobs: Sequence[Knob], start: Mapping[str, KnobValue]) -> "tuple[Space, dict[Hashable, Array]]":
        """The space of these knobs, and where settings lie in it as far as that was asked; the last one is kept."""
        wanted = (tuple(knobs), key(start))
        known = self._latest
        if known is None or known[0] != wanted:
            space = Space(tuple(widened(knob, start.get(knob.id)) for knob in knobs))
            known = self._latest = (wanted, space, {})
        return known[1], known[2]

    def repair(self, brief: Brief, proposal: Proposal, error: str) -> Proposal | None:
        """None: a setting that crashes is a result."""
        return None


class _Search:
    """One choice of values."""

    def __init__(
        self,
        brief: Brief,
        space: Space,
        rows: "dict[Hashable, Array]",
        here: Mapping[str, KnobValue],
        read: Reading,
        shapes: "dict[Hashable, surrogate.Shape]",
    ) -> None:
        import numpy as np

        self.results = read.results
        self._shapes = shapes
        self._n = brief.n
        self._noise = brief.noise
        self._space = space
        self._rows = rows
        self._rng = np.random.default_rng([brief.seed % 2**63, brief.n])
        self._centre = space.points([here])[0]
        self._pending = space.points(brief.pending)
        self._tried = read.tried | {key(here), *map(key, brief.pending)}

    def choose(self) -> tuple[dict[str, KnobValue], str]:
        """Values nobody tried, and how they were found."""
        import numpy as np

        losses = [result.loss for result in self.results if result.loss < math.inf]
        if len(losses) < 2 or len(self.results) <= _STARTUP:
            if self._n % 2:
                return self._first_fresh(self._space.uniform(self._rng, 64)), "exploring"
            return self._first_fresh(self._space.near(self._centre, self._rng, np.full(64, 0.2))), "near the champion"
        seen = window(self.results)
        points = self._points(seen)
        filled = np.minimum([result.loss for result in seen], max(losses))
        # Regret relative to TPE alone on six functions of 2 and 6 knobs after 60 evaluations: the process alone 0.24
        # without noise and 0.70 with; every other ask by TPE 0.34 and 0.63. A third is the compromise, and a hedge.
        if self._n % 3 == 0:
            from overnight.loop.authors import tpe

            seed = int(self._rng.integers(2**31))
            values = self._space.values(tpe.ask(self._space, points, filled, self._pending, seed))
            if key(values) not in self._tried:
                return values, "TPE"
        runs = np.array([float(result.runs) for result in seen])
        return self._most_promising(points, filled, runs), "surrogate"

    def _points(self, results: Sequence[Result]) -> "Array":
        import numpy as np

        new = [result for result in results if result.key not in self._rows]
        for result, row in zip(new, self._space.points([result.values for result in new]), strict=True):
            self._rows[result.key] = row
        return np.array([self._rows[result.key] for result in results])

    def _shape(self) -> "surrogate.Shape":
        """The shape learnt from all results but the newest few: one that was learnt already serves several proposals.

        It follows from the record alone, whichever proposals this process made before.
        """
        import numpy as np

        from overnight.loop.authors import surrogate

        count = len(self.results)
        step = _RELEARN if count < WINDOW else 3 * _RELEARN
        seen = window(self.results[: count - count % step])
        losses = [result.loss for result in seen]
        finite = [loss for loss in losses if loss < math.inf]
        if count < _RELEARN_FROM or len(finite) < 2:
            seen = window(self.results)
            losses = [result.loss for result in seen]
            finite = [loss for loss in losses if loss < math.inf]
        known, unit = surrogate.standardised(np.minimum(losses, max(finite)))
        floor = surrogate.noise_floor(self._noise / unit)
        ranges = tuple((knob.id, knob.low, knob.high, knob.choices, knob.value) for knob in self._space.knobs)
        found_for = (tuple(losses), key(seen[-1].values), floor, ranges)
        shape = self._shapes.get(found_for)
        if shape is None:
            points = self._points(seen)
            runs = np.array([float(result.runs) for result in seen])
            shape = surrogate.learn(self._space.features(points), known, floor, runs)
            self._shapes.clear()
            self._shapes[found_for] = shape
        return shape

    def _most_promising(self, points: "Array", losses: "Array", runs: "Array") -> dict[str, KnobValue]:
        import numpy as np

        from overnight.loop.authors import surrogate

        space, rng = self._space, self._rng
        known, _ = surrogate.standardised(losses)
        # What is being evaluated counts as middling until it is known, so that workers spread out.
        unknown = len(self._pending)
        model = surrogate.fit(
            space.features(np.concatenate([points, self._pending])),
            np.concatenate([known, np.zeros(unknown)]),
            self._shape(),
            np.concatenate([runs, np.ones(unknown)]),
        )
        expected = model.mean(space.features(points))
        best = points[int(np.argmin(expected))]
        quarter = _CANDIDATES // 4
        steps = 10.0 ** rng.uniform(-2.5, -0.5, size=2 * quarter)
        candidates = space.snapped(
            np.concatenate(
                [
                    space.uniform(rng, 2 * quarter),
                    space.near(best, rng, steps[:quarter]),
                    space.near(self._centre, rng, steps[quarter:]),
                ]
            )
        )
        if neglected := self._neglected():
            column, code = neglected
            candidates[:, column] = code
        mean, spread = model.predict(space.features(candidates))
        gain = surrogate.expected_improvement(mean, spread, float(expected.min()))
        return self._first_fresh(candidates[np.argsort(-gain, kind="stable")])

    def _neglected(self) -> tuple[int, int] | None:
        """The knob and choice that had too few of the recent proposals: what else it needs may not be found yet."""
        recent = self.results[-_RECENT:]
        worst, found = 1.0, None
        for column, knob in enumerate(self._space.knobs):
            if not self._space.categories[column]:
                continue
            fair = _SHARE * len(recent) / len(knob.choices)
            counts = Counter(
                (type(value), value) for result in recent if (value := result.values.get(knob.id)) is not None
            )
            for code, choice in enumerate(knob.choices):
                share = (counts[type(choice), choice] + 1) / (fair + 1)
                if share < worst:
                    worst, found = share, (column, code)
        return found

    def _first_fresh(self, points: "Array") -> dict[str, KnobValue]:
        """The values of the first point nobody tried; of any such point in the space if there is none."""
        for point in points[:32].tolist():
            values = self._space.values(point)
            if key(values) not in self._tried:
                return values
        finite = self._space.size() < float("inf")
        for point in self._space.every() if finite else self._space.uniform(self._rng, 4096).tolist():
            values = self._space.values(point)
            if key(values) not in self._tried:
                return values
        raise self._exhausted()

    def _exhausted(self) -> Exhausted:
        names = ", ".join(knob.name for knob in self._space.knobs)
        return Exhausted(
            f"all settings of {names} were tried ({len(self._tried)})",
            hint="widen the ranges with '# knob:' comments, or let another author go on",
        )


@functools.cache
def _arithmetic() -> "ThreadpoolController":
    """The threads of numpy's linear algebra."""
    import numpy  # noqa: F401  # what is not loaded yet cannot be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _usable(champion: Mapping[str, bytes]) -> tuple[list[Knob], tuple[str, ...]]:
    """Knobs of the champion; a file whose annotations another author broke is left out and noted."""
    files, notes, problems = dict(champion), [], []
    knobs: list[Knob] = []
    while not knobs:
        try:
            knobs = find_all_knobs(files)
            break
        except UsageError as problem:
            path = next(path for path in sorted(files) if problem.message.startswith(f"{path}:"))
            notes.append(f"knobs of {path} left alone: {problem.message}")
            problems.append(problem)
            del files[path]
    if not knobs and problems:
        raise problems[0]
    if not knobs:
        raise UsageError(
            f"nothing to turn in {', '.join(sorted(champion)) or 'no editable file'}",
            hint="give it constants such as `RATE = 0.1  # knob: 0.01..1 log`, or use another author",
        )
    return knobs, tuple(notes)


def _hypothesis(
    knobs: Sequence[Knob], values: Mapping[str, KnobValue], start: Mapping[str, KnobValue], how: str
) -> str:
    """One sentence: what changes, how it was found, and what the champion has taught."""
    lasts = [knob.name.rsplit(".", 1)[-1] for knob in knobs]
    names = {
        knob.id: last if lasts.count(last) == 1 and not last.startswith("[") else knob.name
        for knob, last in zip(knobs, lasts, strict=True)
    }
    changes = [f"{names[knob.id]} {knob.value} → {values[knob.id]}" for knob in knobs if values[knob.id] != knob.value]
    more = f" and {len(changes) - 4} more" if len(changes) > 4 else ""
    learnt = [
        f"{'higher' if knob.value > first else 'lower'} {names[knob.id]}"
        for knob in knobs
        if isinstance(first := start.get(knob.id), int | float)
        and isinstance(knob.value, int | float)
        and not isinstance(knob.value, bool)
        and knob.value != first
    ]
    so_far = f", best so far came with {' and '.join(learnt[:2])}" if learnt else ""
    return _UNSAFE.sub("?", f"{', '.join(changes[:4])}{more} ({how}{so_far})")
