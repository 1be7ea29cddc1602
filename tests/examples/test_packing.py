import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

Examples = Callable[[str], Any]
Circles = list[Any]


def grid(radius: str = "0.08") -> Circles:
    """26 circles of one size on the crossings of a six by six grid, a sixth apart, as decimals."""
    places = ["0.0833", "0.2499", "0.4165", "0.5831", "0.7497", "0.9163"]
    return [[places[n % 6], places[n // 6], radius] for n in range(26)]


def write(packing: Any, circles: Any) -> None:
    (packing.folder / "circles.json").write_text(circles if isinstance(circles, str) else json.dumps(circles))


def test_the_search_finds_a_valid_packing(example: Examples) -> None:
    packing = example("packing")
    packing.produce()
    assert 2.0 < packing.score() < 2.636


def test_a_wider_step_budget_gives_another_packing(example: Examples) -> None:
    packing = example("packing")
    packing.produce()
    first = packing.score()
    packing.edit("pack.py", "START_RADIUS = 0.05", "START_RADIUS = 0.01")
    packing.edit("pack.py", "STEPS = 100 ", "STEPS = 5 ")
    packing.produce()
    assert packing.score() < first


def test_the_sum_is_exact(example: Examples) -> None:
    packing = example("packing")
    write(packing, grid())
    assert packing.score() == pytest.approx(26 * 0.08, abs=1e-11)
    numbers = [[float(number) for number in circle] for circle in grid()]
    write(packing, numbers)
    assert packing.score() == pytest.approx(26 * 0.08, abs=1e-11)


def touching(gap: str) -> Circles:
    """Two circles `gap` apart (a decimal, negative for an overlap), the others tiny and out of the way."""
    distance = Fraction("0.2") + Fraction(gap)
    second = f"{distance.numerator * 10**40 // distance.denominator + 3 * 10**39:041d}"
    tiny = [[f"0.{10 + 3 * n:02d}", "0.9", "0.001"] for n in range(24)]
    return [["0.3", "0.5", "0.1"], [f"{second[:-40] or '0'}.{second[-40:]}", "0.5", "0.1"], *tiny]


def test_circles_may_touch_but_not_overlap_by_however_little(example: Examples) -> None:
    packing = example("packing")
    write(packing, touching("0"))
    assert packing.score() == pytest.approx(0.2 + 24 * 0.001)
    for gap in ("-1e-12", "-1e-16", "-1e-30"):
        write(packing, touching(gap))
        assert "overlap" in packing.refusal()


@pytest.mark.parametrize("beyond", ["1e-12", "1e-17", "1e-30"])
def test_no_circle_leaves_the_square_by_however_little(example: Examples, beyond: str) -> None:
    packing, circles = example("packing"), grid("0.01")
    inside = Fraction("0.01") - Fraction(beyond)
    digits = f"{inside.numerator * 10**40 // inside.denominator:040d}"
    circles[0][0] = f"0.{digits}"
    write(packing, circles)
    assert "leaves the square" in packing.refusal()


REFUSED: dict[str, Any] = {
    "25": grid()[:25],
    "27": [*grid(), ["0.9163", "0.9163", "0.01"]],
    "none": [],
    "NaN centre": "[" + ",".join(["[NaN, 0.5, 1.0]"] * 26) + "]",
    "NaN centre as text": [["nan", "0.5", "1.0"], *grid()[1:]],
    "infinite radius": "[" + ",".join(["[0.5, 0.5, Infinity]"] * 26) + "]",
    "infinity by exponent": [["0.5", "0.5", "1e999"], *grid()[1:]],
    "radius zero": [["0.0833", "0.0833", "0"], *grid()[1:]],
    "negative radius": [["0.0833", "0.0833", "-0.08"], *grid()[1:]],
    "all in one place": [["0.5", "0.5", "0.1"]] * 26,
    "a fraction": [["1/12", "0.0833", "0.08"], *grid()[1:]],
    "an expression": [["0.04+0.04", "0.0833", "0.08"], *grid()[1:]],
    "digits of another script": [["٠.٠٨٣٣", "0.0833", "0.08"], *grid()[1:]],
    "a truth value": [[True, "0.0833", "0.08"], *grid()[1:]],
    "no number": [[None, "0.0833", "0.08"], *grid()[1:]],
    "two numbers": [["0.0833", "0.08"], *grid()[1:]],
    "four numbers": [["0.0833", "0.0833", "0.08", "0.08"], *grid()[1:]],
    "a table": {"circles": grid()},
    "nested": "[" * 9000 + "]" * 9000,
    "not JSON": "26",
    "cut off": json.dumps(grid())[:-3],
    "too long": json.dumps(grid()) + " " * 30_000,
    "arithmetic without end": [["1e-999999999", "0.0833", "0.08"], *grid()[1:]],
}


def test_what_is_not_a_packing_is_refused(example: Examples) -> None:
    packing = example("packing")
    for case, circles in REFUSED.items():
        write(packing, circles)
        (packing.folder / "circles.json").rename(packing.folder / f"{case}.json")
    write(packing, grid())
    code = "score.sum_radii(score.load(path))"
    assert packing.refused("*.json", code=code) == sorted(f"{case}.json" for case in REFUSED)


def test_no_file_no_score(example: Examples) -> None:
    example("packing").refusal()


def test_a_packing_that_took_more_than_its_time_is_refused(example: Examples) -> None:
    packing = example("packing")
    write(packing, grid())
    assert "processor time" in packing.refusal(OVERNIGHT_BUDGET_S="1", OVERNIGHT_PRODUCE_CPU_S="3")
