"""The metric over experiments as SVG: the champion stepped, every challenger a mark, the noise as bands."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overnight.core.escape import html
from overnight.loop.record.experiment import Direction, Experiment
from overnight.loop.record.findings import number

WIDTH, HEIGHT = 960, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 96, 34, 64
_STYLE = """
.bg{fill:var(--bg,#fff)} text{font:12px system-ui,sans-serif;fill:var(--ink,#333)} .axis{stroke:var(--line,#ccc)}
.grid{stroke:var(--line,#ccc);stroke-width:.5;opacity:.6} .base{stroke:#888;stroke-dasharray:5 4}
.best{fill:none;stroke:#12805c;stroke-width:2.2} .band{fill:#12805c;opacity:.16} .keep{fill:#12805c}
.bar{stroke:#12805c;stroke-width:1.2} .discard{fill:#7a8699;opacity:.62} .bad{stroke:#c4432b;stroke-width:1.5;fill:none}
.fresh{fill:var(--bg,#fff);stroke:#12805c;stroke-width:2} .old{stroke:#888} .dim{fill:var(--dim,#777)}
"""


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / span * (self.end - self.start)


def svg(
    experiments: Sequence[Experiment], metric: str, direction: Direction, final: Mapping[str, Any] | None = None
) -> str:
    """The chart of a run, a whole SVG document.

    Args:
        experiments: the baseline first.
        metric: its name, on the vertical axis.
        direction: which way is better; an arrow says so.
        final: the run's final measurements, drawn at the right where there are some.
    """
    items = sorted(experiments, key=lambda item: item.n)
    claim = (final or {}).get("claim")
    kept = sorted((item for item in items if item.status in ("baseline", "keep")), key=lambda item: item.closed)
    values = [item.metric for item in items if item.metric is not None]
    low, high = _range(values, [item.metric for item in kept if item.metric is not None], final if claim else None)
    last = max((item.n for item in items), default=1) or 1
    x = _Scale(0, last, _LEFT, WIDTH - _RIGHT - (40 if claim else 0))
    y = _Scale(low, high, HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{html(metric)} over experiments">',
        f"<style>{_STYLE}</style>",
        f'<rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>',
        *_axes(x, y, last, metric, direction),
    ]
    if kept and kept[0].metric is not None:
        parts.append(_line("base", _LEFT, y(kept[0].metric), WIDTH - _RIGHT, y(kept[0].metric)))
    parts += _marks(items, x, y)
    parts += _champion(kept, x, y, last)
    if claim and final:
        parts += _fresh(final, direction, x(last) + 46, y)
    parts.append("</svg>")
    return "\n".join(parts)


def _range(values: Sequence[float], kept: Sequence[float], final: Mapping[str, Any] | None) -> tuple[float, float]:
    """What the axis covers: all that was kept, and of the rest what is not an outlier; those are drawn at the edge."""
    if not values:
        return 0.0, 1.0
    ordered = sorted(values)
    quarter, half = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    reach = 1.5 * (half - quarter)
    shown = [value for value in ordered if quarter - reach <= value <= half + reach] + list(kept)
    if final:
        shown += [final["baseline"], final["champion"]]
    low, high = min(shown), max(shown)
    pad = 0.06 * (high - low) or abs(high) * 0.05 or 1.0
    return low - pad, high + pad


def _axes(x: _Scale, y: _Scale, last: int, metric: str, direction: Direction) -> list[str]:
    parts = []
    for tick in _ticks(y.low, y.high, 5):
        parts.append(_line("grid", _LEFT, y(tick), WIDTH - _RIGHT, y(tick)))
        parts.append(_text(_LEFT - 8, y(tick) + 4, number(tick), "end"))
    for place in sorted({round(tick) for tick in _ticks(0, last, 8)}):
        if 0 <= place <= last:
            parts.append(_text(x(place), HEIGHT - _BOTTOM + 18, str(place), "middle"))
    parts.append(_line("axis", _LEFT, HEIGHT - _BOTTOM, WIDTH - _RIGHT, HEIGHT - _BOTTOM))
    arrow = "lower is better ↓" if direction == "minimize" else "higher is better ↑"
    parts.append(_text(_LEFT - 8, 18, f"{metric}, {arrow}", "start", "dim"))
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 30, "experiment", "middle", "dim"))
    legend = _LEFT
    for kind, label, width in (
        ("keep", "kept, with the 95 % interval of its gain", 262),
        ("discard", "discarded", 92),
        ("bad", "crash, timeout or rejected", 0),
    ):
        place = HEIGHT - 10
        mark = _cross(legend + 4, place - 4) if kind == "bad" else _dot(kind, legend + 4, place - 4, 4)
        parts += [mark, _text(legend + 14, place, label, "start", "dim")]
        legend += width
    return parts


def _marks(items: Sequence[Experiment], x: _Scale, y: _Scale) -> list[str]:
    parts = []
    for item in items:
        if item.status in ("crash", "timeout", "rejected"):
            parts.append(_cross(x(item.n), HEIGHT - _BOTTOM - 5, f"{item.n}: {item.status}, {item.reason}"))
        elif item.status == "discard" and item.metric is not None:
            outside = not y.low <= item.metric <= y.high
            label = f"{item.n}: discarded, {number(item.metric)}; {item.hypothesis}"
            parts.append(_dot("discard", x(item.n), y(item.metric), 2.2 if outside else 3.2, label))
    return parts


def _champion(kept: Sequence[Experiment], x: _Scale, y: _Scale, last: int) -> list[str]:
    parts: list[str] = []
    path: list[str] = []
    for place, item in enumerate(kept):
        if item.metric is None:
            continue
        # Workers finish out of order: the step is drawn where it was decided, never to the left of the one before.
        here = max(item.n, *(earlier.n for earlier in kept[: place + 1]))
        after = kept[place + 1 :]
        until = max(here, after[0].n) if after else last
        half = _half(item)
        if half:
            top, bottom = y(item.metric + half), y(item.metric - half)
            parts.append(
                f'<rect class="band" x="{x(here):.1f}" y="{min(top, bottom):.1f}" '
                f'width="{max(x(until) - x(here), 1):.1f}" height="{abs(top - bottom):.1f}"/>'
            )
        path += [f"{x(here):.1f},{y(item.metric):.1f}", f"{x(until):.1f},{y(item.metric):.1f}"]
    parts.append(f'<polyline class="best" points="{" ".join(path)}"/>')
    for item in kept[1:]:
        if item.metric is None:
            continue
        half = _half(item)
        if half:
            parts.append(_line("bar", x(item.n), y(item.metric + half), x(item.n), y(item.metric - half)))
        parts.append(
            _dot("keep", x(item.n), y(item.metric), 4.5, f"{item.n}: kept, {number(item.metric)}; {item.hypothesis}")
        )
    return parts


def _half(item: Experiment) -> float:
    """Half the 95 % interval of a keep's gain, metric units."""
    evidence = item.detail.get("evidence", {})
    low, high = evidence.get("low"), evidence.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return 0.0
    half = (high - low) / 2
    return half if math.isfinite(half) else 0.0


def _fresh(final: Mapping[str, Any], direction: Direction, x: float, y: _Scale) -> list[str]:
    claim, sign = final["claim"], 1 if direction == "maximize" else -1
    before, after = final["baseline"], final["champion"]
    ends = [y(before + sign * claim[key]) for key in ("low", "high")]
    told = f"gain {claim['gain']:+.4g} ({claim['low']:+.4g} … {claim['high']:+.4g})"
    return [
        _line("old", x - 9, y(before), x + 9, y(before)),
        _line("bar", x, ends[0], x, ends[1]),
        _dot("fresh", x, y(after), 5, f"measured afresh: {told}"),
        _text(x + 14, y(after) + 4, number(after), "start"),
        _text(x, HEIGHT - _BOTTOM + 18, "fresh", "middle"),
    ]


def _ticks(low: float, high: float, about: int) -> list[float]:
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    rough = span / about
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step)
    return [round(place * step, 12) for place in range(first, math.floor(high / step) + 1)]


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _dot(kind: str, x: float, y: float, r: float, label: str = "") -> str:
    title = f"<title>{html(label, lines=False)}</title>" if label else ""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r}">{title}</circle>'


def _cross(x: float, y: float, label: str = "") -> str:
    title = f"<title>{html(label, lines=False)}</title>" if label else ""
    return f'<path class="bad" d="M{x - 3:.1f} {y - 3:.1f}l6 6m0-6l-6 6">{title}</path>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text{marked} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html(text, lines=False)}</text>'
