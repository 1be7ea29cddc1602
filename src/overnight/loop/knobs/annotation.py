"""What people write behind a constant: `# knob: 1e-4..1e-1 log`, `# knob: [16, 32, 64]`, `# knob: off`, options."""

import ast
import math
import re
from dataclasses import dataclass

from overnight.core.errors import UsageError
from overnight.loop.knobs.knob import Kind, Scale, Value, same

_KNOB = re.compile(r"^\W*knob\s*:\s*(.*)$", re.IGNORECASE)
_NUMBER = r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"^({_NUMBER})\s*\.\.\s*({_NUMBER})\s*(\S.*)?$")
_LIST = re.compile(r"^[\[({](.*)[\])}]$", re.DOTALL)
_WORD = re.compile(r"[\w.+\-/]+")
_OPTIONS = re.compile(r"^\W*(?:([\w.\-]+)\s*[:=]|one of:?|either|options:?|choices:?)?\s*([\[({].*[\])}])\s*\.?$")
_BARS = re.compile(r"""^\W*["']?[\w.+\-/]+["']?(?:\s*\|\s*["']?[\w.+\-/]+["']?)+\W*$""")
_GENERIC = frozenset({"options", "choices", "option", "choice", "values", "allowed", "one of"})
FORMS = "write it as '# knob: 1e-4..1e-1 log', '# knob: 1..8', '# knob: [16, 32, 64]' or '# knob: off'"


@dataclass(frozen=True)
class Range:
    """What an annotation says: `off`, or a kind with either bounds or choices."""

    kind: Kind
    low: float = 0.0
    high: float = 0.0
    scale: Scale = "linear"
    choices: tuple[Value, ...] = ()
    off: bool = False


def annotation(comment: str) -> str | None:
    """The text behind `knob:` if the comment (without its `#`) is an annotation."""
    found = _KNOB.match(comment)
    return found[1].strip() if found else None


def parse_annotation(text: str, value: Value, where: str) -> Range:
    """What `text`, standing behind a literal that reads as `value`, allows it to be.

    Args:
        text: what stands behind `knob:`.
        value: the literal; its type decides the type of the knob.
        where: file and line, for messages.

    Raises:
        UsageError: it is not one of the forms, contradicts itself, or does not contain `value`.
    """
    if is_off(text):
        return Range("bool", off=True)
    listed = _LIST.match(text)
    if listed:
        choices = _choices(text, value, where)
        if not any(same(value, choice) for choice in choices):
            raise UsageError(f"{where}: the value {value!r} is not among {list(choices)}", hint="add it to the list")
        return Range("bool" if all(isinstance(one, bool) for one in choices) else "choice", choices=choices)
    bounds = _RANGE.match(text)
    if bounds is None:
        raise UsageError(f"{where}: 'knob: {text}' says neither a range nor a list", hint=FORMS)
    if isinstance(value, bool | str):
        raise UsageError(f"{where}: {value!r} is no number, so a range does not fit", hint="list its values: [a, b]")
    low, high = float(bounds[1]), float(bounds[2])
    word = (bounds[3] or "linear").lower()
    if word not in ("linear", "log", "logit"):
        raise UsageError(f"{where}: 'knob: {text}' ends in {word!r}, which means nothing here", hint=FORMS)
    scale: Scale = "log" if word == "log" else "logit" if word == "logit" else "linear"
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise UsageError(f"{where}: {bounds[1]}..{bounds[2]} is no range", hint="put the smaller bound first")
    if scale == "log" and low <= 0:
        raise UsageError(f"{where}: a log range cannot start at {bounds[1]}", hint="start above 0 or leave 'log' out")
    if scale == "logit" and not (low > 0 and high < 1):
        raise UsageError(f"{where}: a logit range lies inside 0..1, not {text}", hint="use '0.01..0.99 logit'")
    if not low <= value <= high:
        raise UsageError(f"{where}: the value {value!r} lies outside {bounds[1]}..{bounds[2]}", hint="widen the range")
    whole = isinstance(value, int) and low.is_integer() and high.is_integer() and scale != "logit"
    return Range("int" if whole else "float", low, high, scale)


def is_off(text: str) -> bool:
    """Whether an annotation says that nothing here is to be turned."""
    return text.lower() == "off"


def named_options(comment: str) -> tuple[str, tuple[Value, ...]] | None:
    """Name and values in a comment such as `loader: ['csv', 'json']`; the name is '' in `options: ['csv', 'json']`.

    Also `csv | json`, and `one of ('csv', 'json')`. A comment that is prose gives None.
    """
    if len(comment) > 1000:
        return None
    found = _OPTIONS.match(comment)
    if found is not None:
        values = _literals(found[2])
        if values is None:
            return None
        name = found[1] or ""
        return ("" if name.lower() in _GENERIC else name), values
    if _BARS.match(comment):
        return "", tuple(dict.fromkeys(word.strip(" \t\"'.") for word in comment.split("|")))
    return None


def _choices(text: str, value: Value, where: str) -> tuple[Value, ...]:
    values = _literals(text)
    if values is None:
        body = [part.strip() for part in text[1:-1].split(",") if part.strip()]
        if not isinstance(value, str) or not all(_WORD.fullmatch(part) for part in body):
            raise UsageError(f"{where}: cannot read the list {text}", hint=FORMS)
        values = tuple(body)
    if isinstance(value, float):  # 1 in [1, 2.5] behind 1.0 means 1.0
        values = tuple(float(one) if type(one) is int else one for one in values)
    kinds = {type(one) for one in values}
    if len(values) < 2 or len(kinds) != 1:
        raise UsageError(f"{where}: {text} is not a list of at least two values of one type", hint=FORMS)
    if kinds != {type(value)}:
        raise UsageError(f"{where}: the value {value!r} is not of the type of {text}", hint=FORMS)
    unique = tuple(dict.fromkeys(values))
    if len(unique) != len(values):
        raise UsageError(f"{where}: {text} names a value twice", hint="name each once")
    return unique


def _literals(text: str) -> tuple[Value, ...] | None:
    try:
        listed = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if not isinstance(listed, list | tuple | set) or not all(
        isinstance(one, bool | int | float | str) for one in listed
    ):
        return None
    ordered = sorted(listed, key=repr) if isinstance(listed, set) else listed
    if any(isinstance(one, float) and not math.isfinite(one) for one in ordered):
        return None
    return tuple(ordered)
