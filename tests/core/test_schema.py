from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from overnight.core.clock import parse_duration_s
from overnight.core.errors import ArenaError, SettingsError
from overnight.core.schema import build, parsed_by


@dataclass(frozen=True)
class Inner:
    name: str
    on: bool = False


@dataclass(frozen=True)
class Outer:
    count: int
    rate: float = 1.0
    mode: Literal["a", "b"] = "a"
    words: tuple[str, ...] = ()
    table: dict[str, Inner] = field(default_factory=dict)
    maybe: int | None = None
    either: int | str = 0
    for_: float = field(default=1.0, metadata=parsed_by(parse_duration_s))


def test_a_table_becomes_a_dataclass() -> None:
    data = {
        "count": 1,
        "rate": 2,
        "mode": "b",
        "words": ["x"],
        "table": {"k": {"name": "n"}},
        "maybe": None,
        "for": "2m",
    }
    assert build(Outer, data, "file") == Outer(1, 2.0, "b", ("x",), {"k": Inner("n")}, None, 0, 120.0)
    assert isinstance(build(Outer, {"count": 1, "rate": 2}, "file").rate, float)
    assert build(Outer, {"count": 1, "either": "text"}, "file").either == "text"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "'count' is missing"),
        ({"count": 1, "raet": 2}, "did you mean 'rate'"),
        ({"count": True}, "a whole number"),
        ({"count": 1.0}, "a whole number"),
        ({"count": "1"}, "a whole number"),
        ({"count": 1, "rate": True}, "a number"),
        ({"count": 1, "mode": "c"}, "not one of them"),
        ({"count": 1, "mode": ["a"]}, "not one of them"),
        ({"count": 1, "words": "abc"}, "expected a list"),
        ({"count": 1, "words": [1]}, r"words\[0\]"),
        ({"count": 1, "table": {"k": {"nmae": "n"}}}, r"table\.k: unknown key"),
        ({"count": 1, "table": []}, "expected a table"),
        ({"count": 1, "maybe": "x"}, "a whole number"),
        ({"count": 1, "either": 1.5}, "expected text"),
        ({"count": 1, "for": "soon"}, "for: 'soon' is not a duration"),
    ],
)
def test_what_is_wrong_is_said(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ArenaError, match=message) as caught:
        build(Outer, data, "file", ArenaError)
    assert str(caught.value).startswith("file: ")
    assert not isinstance(caught.value, SettingsError)
