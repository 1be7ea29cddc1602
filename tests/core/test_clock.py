import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.clock import format_duration, parse_duration_s, timestamp
from overnight.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4s", 4),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("8h", 28800),
        ("1.5d", 129600),
        (" 2 min ", 120),
        (3, 3),
        ("0.25", 0.25),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1", "0", "0s", "inf", "nan", "1x", "4s x", "1h-30m", True, None, [4]])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(UsageError, match="duration"):
        parse_duration_s(text)  # type: ignore[arg-type]  # what is tested


@given(st.floats(0, 1e6))
def test_durations_for_people_never_show_sixty(seconds: float) -> None:
    shown = format_duration(seconds)
    assert "60" not in shown.replace("600", "").replace("160", "") or shown.endswith("ms") or "h" in shown
    assert shown not in ("60.0s", "1000ms") and not shown.startswith("60m0")


def test_timestamps() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_796_000_049.12).endswith(".120Z")
