"""The space the knobs span: values as points of the unit cube and back, moves, sizes, enumeration."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from overnight.loop.knobs.knob import Knob, Scale, Value
from overnight.loop.knobs.ranges import infer_range

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.floating[Any]]

# Written values keep as few digits as leave them within this share of the range; finer steps are not told apart.
RESOLUTION = 2e-4


@dataclass(frozen=True)
class Space:
    """Points are rows with one number for each knob: 0..1 along its range, or the index of its choice.

    Numbers to choose from are a range with few stops, because 16 is closer to 24 than to 256.
    """

    knobs: tuple[Knob, ...]

    @cached_property
    def categories(self) -> tuple[bool, ...]:
        """Which knobs pick among values that have no order."""
        return tuple(bool(knob.choices) and not ordered(knob) for knob in self.knobs)

    @cached_property
    def _stops(self) -> tuple[tuple[int | float, ...], ...]:
        return tuple(ordered(knob) for knob in self.knobs)

    @cached_property
    def _codes(self) -> tuple[Mapping[tuple[type, Value], float], ...]:
        """Where each choice lies, by type and value: 1 is not 1.0, nor True."""
        found = []
        for knob, stops in zip(self.knobs, self._stops, strict=True):
            numbers = [
                (stops.index(choice) + 0.5) / len(stops) if stops else i for i, choice in enumerate(knob.choices)
            ]
            codes: dict[tuple[type, Value], float] = {}
            for choice, number in zip(knob.choices, numbers, strict=True):
                codes.setdefault((type(choice), choice), number)
            found.append(codes)
        return tuple(found)

    def size(self) -> float:
        """How many settings there are; infinite with a `float` knob."""
        return math.prod(knob.size() for knob in self.knobs)

    def points(self, settings: Sequence[Mapping[str, Value]]) -> "Codes":
        """A row for each setting. A value outside its range becomes the nearest inside; a missing one, the present."""
        import numpy as np

        points = np.empty((len(settings), len(self.knobs)))
        for column, knob in enumerate(self.knobs):
            values = [setting.get(knob.id, knob.value) for setting in settings]
            if knob.choices:
                codes = self._codes[column]
                present = codes[type(knob.value), knob.value]
                points[:, column] = [codes.get((type(value), value), present) for value in values]
                continue
            numbers = np.array(
                [value if isinstance(value, int | float) else knob.value for value in values], dtype=float
            )
            numbers = np.clip(numbers, knob.low, knob.high)
            if knob.scale == "logit":
                numbers = numbers / (1.0 - numbers)
            low, high = _ends(knob)
            points[:, column] = ((numbers if knob.scale == "linear" else np.log(numbers)) - low) / (high - low)
        return points

    def values(self, point: Sequence[float]) -> dict[str, Value]:
        """The values at a point, by id, with no more digits than matter."""
        every = zip(self.knobs, self._stops, point, strict=True)
        return {knob.id: _value(knob, stops, code) for knob, stops, code in every}

    def every(self) -> Iterator[list[float]]:
        """All points of a finite space."""
        return map(list, itertools.product(*(_points(knob) for knob in self.knobs)))

    def uniform(self, rng: "np.random.Generator", count: int) -> "Codes":
        """Points anywhere in the space."""
        points = rng.random((count, len(self.knobs)))
        for column, knob in enumerate(self.knobs):
            if self.categories[column]:
                points[:, column] = rng.integers(len(knob.choices), size=count)
        return points

    def snapped(self, points: "Codes") -> "Codes":
        """Points with whole numbers where they will be whole."""
        import numpy as np

        points = points.copy()
        for column, knob in enumerate(self.knobs):
            if stops := self._stops[column]:
                points[:, column] = (np.minimum(np.floor(points[:, column] * len(stops)), len(stops) - 1) + 0.5) / len(
                    stops
                )
            elif knob.kind == "int":
                low, high = _ends(knob)
                at = low + points[:, column] * (high - low)
                whole = np.clip(np.floor((np.exp(at) if knob.log else at) + 0.5), knob.low, knob.high)
                points[:, column] = ((np.log(whole) if knob.log else whole) - low) / (high - low)
        return points

    def near(self, centre: "Codes", rng: "np.random.Generator", steps: "Codes") -> "Codes":
        """Neighbours of `centre`, one for each step length (a share of the range): some or all knobs moved.

        At least one knob moves in each; choices jump to any other. Whole numbers may come out unmoved.
        """
        import numpy as np

        count, knobs = len(steps), len(self.knobs)
        # Half of the neighbours move all knobs, half a third of them (one at least): single causes stay visible, and
        # one setting that breaks the artifact does not break every neighbour.
        share = np.where(rng.random((count, 1)) < 0.5, 1.0, max(1 / knobs, 0.34))
        moved = rng.random((count, knobs)) < share
        moved[np.arange(count), rng.integers(knobs, size=count)] = True
        points = np.clip(centre + moved * rng.standard_normal((count, knobs)) * steps[:, None], 0.0, 1.0)
        for column, knob in enumerate(self.knobs):
            if self.categories[column]:
                others = (centre[column] + rng.integers(1, len(knob.choices), size=count)) % len(knob.choices)
                jump = moved[:, column] & (rng.random(count) < 1.5 / knobs + 0.1)
                points[:, column] = np.where(jump, others, centre[column])
        return points

    def features(self, points: "Codes") -> "Codes":
        """Coordinates for a model of distances: choices become indicators, so that any two are equally far apart."""
        import numpy as np

        columns = []
        for column, knob in enumerate(self.knobs):
            if self.categories[column] and len(knob.choices) > 2:
                columns.append((points[:, column, None] == np.arange(len(knob.choices))) / math.sqrt(2))
            else:
                columns.append(points[:, column, None])
        return np.concatenate(columns, axis=1)


def ordered(knob: Knob) -> tuple[int | float, ...]:
    """Its choices in order, if they are numbers."""
    numbers = tuple(
        choice for choice in knob.choices if isinstance(choice, int | float) and not isinstance(choice, bool)
    )
    return tuple(sorted(numbers)) if len(numbers) == len(knob.choices) else ()


def widened(knob: Knob, start: Value | None) -> Knob:
    """An inferred knob with the range it had at the start of the run, stretched where the champion nears its end.

    A guess must not fence the search in: beyond the champion there is always a sixth of the first range's width.

    Args:
        knob: as found in the champion.
        start: its value in the baseline, if known.
    """
    first = infer_range(knob.name.rsplit(".", 1)[-1], start)
    if (
        knob.source == "annotated"
        or knob.choices
        or first is None
        or (first.kind, first.scale) != (knob.kind, knob.scale)
    ):
        return knob
    low, high, at = (_stretch(bound, knob.scale) for bound in (first.low, first.high, float(knob.value)))
    margin = (high - low) / 6
    ends = [_unstretch(end, knob.scale) for end in (min(low, at - margin), max(high, at + margin))]
    if knob.kind == "int":
        ends = [math.floor(ends[0] + 0.5), math.floor(ends[1] + 0.5)]
    # Where nothing was stretched, the bounds stay as they were to the last digit.
    lower = (
        first.low if at - margin >= low else max(ends[0], 1 if knob.kind == "int" and knob.scale == "log" else ends[0])
    )
    return replace(knob, low=lower, high=first.high if at + margin <= high else ends[1])


def _stretch(value: float, scale: Scale) -> float:
    if scale == "log":
        return math.log(value)
    return math.log(value / (1 - value)) if scale == "logit" else value


def _unstretch(position: float, scale: Scale) -> float:
    if scale == "log":
        return math.exp(position)
    return 1 / (1 + math.exp(-position)) if scale == "logit" else position


def _ends(knob: Knob) -> tuple[float, float]:
    """Of the stretched range; whole numbers own half a step on either side, so that the ends are as likely."""
    half = 0.5 if knob.kind == "int" else 0.0
    return _stretch(knob.low - half, knob.scale), _stretch(knob.high + half, knob.scale)


def _value(knob: Knob, stops: Sequence[int | float], code: float) -> Value:
    if stops:
        return stops[min(len(stops) - 1, max(0, math.floor(code * len(stops))))]
    if knob.choices:
        return knob.choices[min(len(knob.choices) - 1, max(0, round(code)))]
    low, high = _ends(knob)
    at = low + min(1.0, max(0.0, code)) * (high - low)
    exact = _unstretch(at, knob.scale)
    exact = min(max(exact, knob.low), knob.high)
    if knob.kind == "int":
        return int(min(max(math.floor(exact + 0.5), knob.low), knob.high))
    for digits in range(3, 17):
        rounded = float(f"{exact:.{digits}g}")
        off = abs(_stretch(rounded, knob.scale) - at) if knob.low <= rounded <= knob.high else math.inf
        if off <= RESOLUTION * (high - low):
            return rounded
    return exact


def _points(knob: Knob) -> Sequence[float]:
    if stops := ordered(knob):
        return [(index + 0.5) / len(stops) for index in range(len(stops))]
    if knob.choices:
        return [float(index) for index in range(len(knob.choices))]
    low, high = _ends(knob)
    return [(_stretch(n, knob.scale) - low) / (high - low) for n in range(int(knob.low), int(knob.high) + 1)]
