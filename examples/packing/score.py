"""Scores circles.json exactly: decimals are read as fractions, and no rule has a tolerance. Never imports pack.py."""

import json
import os
import re
import sys
from fractions import Fraction
from itertools import combinations

COUNT = 26
MAX_BYTES = 20_000
# Short enough that exact arithmetic stays cheap, whatever is written: no 1e-999999999.
NUMBER = re.compile(r"-?\d{1,3}(\.\d{1,40})?([eE][-+]?\d{1,2})?")


class Refused(Exception):
    """The packing is not one, or took too long."""


def check_time():
    """Refuse a packing that took more than its budget of processor time, by a quarter and a quarter of a second.

    Overnight measures what produce used, from outside; who runs this by hand has no such figure.
    """
    budget_s, used_s = (float(os.environ.get(f"OVERNIGHT_{name}_S", "0")) for name in ("BUDGET", "PRODUCE_CPU"))
    if used_s > 1.25 * budget_s + 0.25:
        raise Refused(f"packing used {used_s:.2f} s of processor time; the budget is {budget_s:.2f} s")


def exact(number):
    """A decimal as it was written.

    Raises:
        Refused: it is not a plain finite decimal.
    """
    if not isinstance(number, str) or NUMBER.fullmatch(number) is None or not number.isascii():
        raise Refused(f"{number!r:.60} is not a decimal number")
    return Fraction(number)


def load(path):
    """The circles in a file, as fractions.

    Raises:
        Refused: it is not a list of 26 lists of three decimals.
    """
    with open(path, "rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise Refused(f"circles.json is larger than {MAX_BYTES} bytes")
    try:
        # Numbers stay text, so that no digit is lost; NaN and Infinity stay text too, and are refused as such.
        circles = json.loads(raw, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as problem:
        raise Refused(f"circles.json is not JSON: {problem}") from None
    if not isinstance(circles, list) or len(circles) != COUNT:
        raise Refused(f"not a list of {COUNT} circles")
    if not all(isinstance(circle, list) and len(circle) == 3 for circle in circles):
        raise Refused("a circle is not a list of x, y and r")
    return [tuple(exact(number) for number in circle) for circle in circles]


def sum_radii(circles):
    """The sum of the radii of a valid packing.

    Raises:
        Refused: a circle has no radius, leaves the square, or overlaps another, by however little.
    """
    for index, (x, y, r) in enumerate(circles):
        if r <= 0:
            raise Refused(f"circle {index} has no radius")
        if not (r <= x <= 1 - r and r <= y <= 1 - r):
            raise Refused(f"circle {index} leaves the square")
    for (one, (x1, y1, r1)), (two, (x2, y2, r2)) in combinations(enumerate(circles), 2):
        if (x1 - x2) ** 2 + (y1 - y2) ** 2 < (r1 + r2) ** 2:
            raise Refused(f"circles {one} and {two} overlap")
    return sum(r for _, _, r in circles)


if __name__ == "__main__":
    try:
        check_time()
        print(f"METRIC sum_radii={float(sum_radii(load('circles.json'))):.12f}")
    except (Refused, OSError) as problem:
        sys.exit(f"refused: {problem}")
