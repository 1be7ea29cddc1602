"""Time: durations as people write them, timestamps as records keep them."""

import re
import time
from datetime import UTC, datetime

from overnight.core.errors import UsageError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)")


def parse_duration_s(text: str | int | float) -> float:
    """Seconds in `4s`, `500ms`, `1h30m`, `8h`; a bare number is seconds.

    Raises:
        UsageError: it is not a positive duration.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise UsageError(f"{text!r} is not a duration", hint="write it like 4s, 500ms, 1h30m")
    try:
        seconds = float(text)
    except ValueError:
        compact = str(text).strip().lower()
        parts = _PART.findall(compact)
        if not parts or _PART.sub("", compact).strip():
            raise UsageError(f"{text!r} is not a duration", hint="write it like 4s, 500ms, 1h30m") from None
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{text!r} is not a positive duration", hint="write it like 4s, 500ms, 1h30m")
    return seconds


def format_duration(seconds: float) -> str:
    """`seconds` for people: `350ms`, `4.2s`, `3m20s`, `7h05m`."""
    # The limits are where rounding would show 1000ms or 60.0s.
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"


def timestamp(at_s: float | None = None) -> str:
    """UTC in ISO 8601 with milliseconds: `2026-11-30T02:14:09.120Z`."""
    moment = datetime.fromtimestamp(time.time() if at_s is None else at_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
