"""Reading the number: every accepted way an evaluator may report it, and what is wrong when it cannot be trusted.

Conventions: `METRIC name=value` (pi-autoresearch), `name: value` (karpathy/autoresearch), a JSON object in
$OVERNIGHT_RESULT, `metrics.json` with `correct.json` (ShinkaEvolve).
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|NAN|inf|Inf|INF|[iI]nfinity)"
_METRIC_LINE = re.compile(rf"^[ \t]*METRIC[ \t]+([A-Za-z_][\w./-]*)[ \t]*=[ \t]*({_NUMBER})[ \t]*\r?$", re.MULTILINE)
_COLON_LINE = re.compile(rf"^[ \t]*([A-Za-z_][\w./-]*)[ \t]*:[ \t]*({_NUMBER})[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """What an evaluator reported: the metric, or the problem that makes this evaluation a crash, never a zero."""

    value: float | None
    secondary: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


def read(metric: str, stdout: str, result: bytes | None = None) -> Reading:
    """The metric from an evaluator's standard output and from the JSON object in $OVERNIGHT_RESULT, if it wrote one.

    All mentions of the metric must agree. Of other numbers the last mention counts, and those that are not finite are
    left out.
    """
    mentions: list[float] = []
    secondary: dict[str, float] = {}
    for line in (_METRIC_LINE, _COLON_LINE):
        for name, number in line.findall(stdout):
            value = float(number.replace("_", ""))
            if name == metric:
                mentions.append(value)
            elif math.isfinite(value):
                secondary[name] = value
    if result is not None and result.strip():
        try:
            data = json.loads(result)
        except (ValueError, RecursionError) as problem:
            return Reading(None, secondary, f"$OVERNIGHT_RESULT is not JSON: {problem}")
        if not isinstance(data, dict):
            return Reading(None, secondary, "$OVERNIGHT_RESULT is not a JSON object")
        found, others, problem_text = _numbers(metric, data)
        if problem_text:
            return Reading(None, {**secondary, **others}, problem_text)
        secondary.update(others)
        mentions += found
    return _settled(metric, mentions, secondary)


def read_shinka(metric: str, metrics: bytes | None, correct: bytes | None) -> Reading:
    """The metric from the `metrics.json` and `correct.json` of a results folder."""
    try:
        verdict = json.loads(correct) if correct is not None else None
        data = json.loads(metrics) if metrics is not None else None
    except (ValueError, RecursionError) as problem:
        return Reading(None, {}, f"a file in the results folder is not JSON: {problem}")
    if isinstance(verdict, dict) and verdict.get("correct") is not True:
        return Reading(None, {}, f"the evaluator says the result is not correct: {verdict.get('error') or 'no reason'}")
    if not isinstance(data, dict):
        return Reading(None, {}, "the evaluator wrote no metrics.json with a JSON object")
    if not isinstance(verdict, dict):
        return Reading(None, {}, "the evaluator wrote no correct.json")
    found, others, problem_text = _numbers(metric, data)
    return Reading(None, others, problem_text) if problem_text else _settled(metric, found, others)


def _numbers(metric: str, data: Mapping[str, Any]) -> tuple[list[float], dict[str, float], str]:
    flat = dict(data)
    for group in ("metrics", "public"):
        if isinstance(data.get(group), dict):
            flat = {**data[group], **flat}
    mentions: list[float] = []
    others: dict[str, float] = {}
    for name, value in flat.items():
        number = _as_number(value)
        if name == metric:
            if number is None:
                return [], others, f"{metric} is not a number: {str(value)[:80]!r}"
            mentions.append(number)
        elif number is not None and math.isfinite(number) and not isinstance(value, bool):
            others[str(name)] = number
    return mentions, others, ""


def _as_number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return math.inf


def _settled(metric: str, mentions: list[float], secondary: Mapping[str, float]) -> Reading:
    if not mentions:
        others = ", ".join(sorted(secondary)[:8]) or "no numbers at all"
        return Reading(None, secondary, f"the evaluator reported no {metric}; it reported {others}")
    for value in mentions:
        if not math.isfinite(value):
            return Reading(None, secondary, f"{metric} is {value}, which is not finite")
    if any(value != mentions[0] for value in mentions):
        shown = ", ".join(f"{value:.10g}" for value in dict.fromkeys(mentions))
        return Reading(None, secondary, f"the evaluator reported contradictory values of {metric}: {shown}")
    return Reading(mentions[0], secondary)
