"""Reading the number: all conventions, and nothing that is not a finite, uncontradicted number passes for one."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.loop.evaluation.metrics import read, read_shinka


@pytest.mark.parametrize(
    ("stdout", "result", "value"),
    [
        ("METRIC score=1.5", None, 1.5),
        ("  METRIC score = -2e-3  \n", None, -0.002),
        ("loss: 4\nscore: .5\n", None, 0.5),
        ("score: 1\r\n", None, 1.0),
        ("score: 1_000\n", None, 1000.0),
        ("", b'{"score": 3}', 3.0),
        ("", b'{"metrics": {"score": 3}, "artifacts": {"x": "y"}}', 3.0),
        ("score: 3", b'{"score": 3.0}', 3.0),
        ("score: 2\nMETRIC score=2", None, 2.0),
    ],
)
def test_every_convention(stdout: str, result: bytes | None, value: float) -> None:
    assert read("score", stdout, result).value == value


@pytest.mark.parametrize(
    ("stdout", "result", "said"),
    [
        ("", None, "no numbers at all"),
        ("loss: 3", None, "it reported loss"),
        ("score: nan", None, "not finite"),
        ("score: -inf", None, "not finite"),
        ("METRIC score=Infinity", None, "not finite"),
        ("score: 1\nscore: 2", None, "contradictory"),
        ("score: 1\nscore: nan", None, "not finite"),
        ("score: 1", b'{"score": 2}', "contradictory"),
        ("", b'{"score": NaN}', "not finite"),
        ("", b'{"score": 1e999}', "not finite"),
        ("", b'{"score": "high"}', "not a number"),
        ("", b'{"score": null}', "not a number"),
        ("", b'{"score": ' + b"9" * 400 + b"}", "not finite"),
        ("", b"[1]", "not a JSON object"),
        ("", b'{"score"', "not JSON"),
        ("score: 1 of 3", None, "no numbers"),
        ("the score: 1", None, "no numbers"),
    ],
)
def test_what_is_no_number_is_a_problem_and_never_a_zero(stdout: str, result: bytes | None, said: str) -> None:
    reading = read("score", stdout, result)
    assert reading.value is None and said in reading.problem


def test_other_numbers_are_kept_and_the_last_mention_counts() -> None:
    assert read("score", "loss: 3\nloss: 2\nscore: 1\ntime: nan").secondary == {"loss": 2.0}


@pytest.mark.parametrize(
    ("metrics", "correct", "value", "said"),
    [
        ({"combined_score": 2.5, "public": {"n": 3}}, {"correct": True}, 2.5, ""),
        ({"combined_score": 2.5}, {"correct": False, "error": "overlap"}, None, "overlap"),
        ({"combined_score": 2.5}, None, None, "no correct.json"),
        (None, {"correct": True}, None, "no metrics.json"),
        ({"combined_score": float("nan")}, {"correct": True}, None, "not finite"),
    ],
)
def test_shinka_results(metrics: object, correct: object, value: float | None, said: str) -> None:
    encoded = [None if item is None else json.dumps(item).encode() for item in (metrics, correct)]
    reading = read_shinka("combined_score", *encoded)
    assert reading.value == value and said in reading.problem


@given(st.floats())
def test_any_float_that_is_printed_is_read_back_or_refused(value: float) -> None:
    reading = read("score", f"score: {value!r}")
    assert reading.value == (value if math.isfinite(value) else None)


@given(st.text(), st.binary())
def test_no_output_makes_the_reader_fail(stdout: str, result: bytes) -> None:
    reading = read("score", stdout, result)
    assert (reading.value is None) == bool(reading.problem)
