"""Ranges for constants nobody annotated: a documented guess from name and value."""

import math
import re

from overnight.loop.knobs.annotation import Range
from overnight.loop.knobs.knob import Value

# Constants with these words in their names identify, configure or define the problem; turning them is not a search.
_FIXED = re.compile(
    "seeds?|version|port|debug|verbose|ids?|uid|pid|year|random|rank|device|gpu|cpus?|threads|workers|jobs|budget|timeout"
    "|vocab|classes"
)
_FRACTION = re.compile("dropout|prob|probability|ratio|fraction|frac|momentum|quantile|percentile|smoothing|keep|mix")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ODDS = 10.0


def infer_range(name: str, value: Value | None) -> Range | None:
    """What a constant of this name and value may plausibly be; None if nothing can be said.

    - true or false: both.
    - fractions in [0.5, 1), or in (0, 1) with a name such as DROPOUT or RATIO: odds / 10 .. odds * 10, on a logit
      scale; 0.9 gives 0.47..0.989.
    - other positive floats: value / 10 .. value * 10, log.
    - whole numbers from 1: value / 4 .. value * 4, at least 1, log.
    - negative numbers but the whole number -1, which usually is a sentinel: 3 * value .. -value, linear.
    - zero tells no scale: not a knob, but for floats named like a fraction: 0 .. 0.5.
    - text: not without a list of options.
    - names with SEED, VERSION, PORT, … in them and dunder names: never.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(map(_FIXED.fullmatch, words)) or (name.startswith("__") and name.endswith("__")):
        return None
    if isinstance(value, bool):
        return Range("bool", choices=(False, True))
    if isinstance(value, int):
        if value >= 1:
            return Range("int", max(1, value // 4), 4 * value, "log") if value < 2**48 else None
        return Range("int", 3 * value, -value) if -(2**48) < value < -1 else None
    if isinstance(value, float) and math.isfinite(value):
        return _fraction(value) if _is_fraction(words, value) else _magnitude(value)
    return None


def _is_fraction(words: list[str], value: float) -> bool:
    return 0.5 <= value < 1 or (0 <= value < 1 and any(map(_FRACTION.fullmatch, words)))


def _fraction(value: float) -> Range:
    if value == 0:
        return Range("float", 0.0, 0.5)
    odds = value / (1 - value)
    low, high = (_readable(each / (1 + each)) for each in (odds / _ODDS, odds * _ODDS))
    return Range("float", low, high, "logit")


def _magnitude(value: float) -> Range | None:
    if not 1e-30 < abs(value) < 1e30:
        return None
    if value > 0:
        return Range("float", _readable(value / 10), _readable(value * 10), "log")
    return Range("float", _readable(3 * value), -value)


def _readable(value: float) -> float:
    """Rounded where no information is lost: a bound is a guess, but must stay strictly inside (0, 1) for a fraction."""
    return float(f"{value:.6g}") if 1e-6 < abs(value) < 1 - 1e-5 or abs(value) >= 1 else value
