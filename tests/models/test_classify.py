"""Tier 1, embedded."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.models.routing.classify import DIMENSIONS, embedded, features
from overnight.models.routing.tiers import LABELS


@pytest.mark.parametrize(
    ("prompt", "label"),
    [
        ("Please summarise the report below in three lines.", "summarise"),
        ("Write a Python function that merges two sorted lists", "code"),
        ("Extract all dates and amounts from the letter below", "extract"),
        ("Is this review positive or negative? 'broke at once'", "classify"),
        ("Translate to French: good morning", "rewrite"),
        ("make a project plan for the office move", "plan"),
        ("Write a poem about the sea", "write"),
        ("Why does ice float on water? Explain.", "reason"),
        ("how much is 17 times 23", "arithmetic"),
        ("what is the capital of Norway", "lookup"),
    ],
)
def test_plain_requests(prompt: str, label: str) -> None:
    assert embedded().classify(prompt).label == label


@pytest.mark.parametrize("prompt", ["", "hmm", "asdf qwer", "!!!", "ok then"])
def test_abstains_on_what_asks_for_nothing(prompt: str) -> None:
    assert embedded().classify(prompt).label is None


@given(st.text(max_size=3000))
def test_any_text_has_probabilities(prompt: str) -> None:
    found = embedded().classify(prompt)
    assert {label for label, _ in found.scores} == set(LABELS)
    assert abs(sum(share for _, share in found.scores) - 1) < 1e-3
    assert found.confidence == found.scores[0][1] == max(share for _, share in found.scores)
    assert all(0 <= at < DIMENSIONS and count > 0 for block in features(prompt) for at, count in block.items())


def test_the_ends_of_a_long_prompt_decide() -> None:
    found = embedded().classify("Summarize the following article in two sentences.\n\n" + "lorem ipsum dolor " * 50_000)
    assert found.label == "summarise"


@pytest.mark.parametrize(
    "prompt",
    [
        "we have 14 days until the audit and 3 people, who does what when? make me a schedule",
        "answer this mail politely, we can refund 40 EUR at most: 'I paid 120 EUR on 3 May and nothing came'",
        "tl;dr of this please: Q3 revenue rose 12 % to 4.1 m, costs fell 3 %, churn is 2.4 % after 2.9 % in Q2",
    ],
)
def test_numbers_in_a_prompt_do_not_make_it_arithmetic(prompt: str) -> None:
    assert embedded().classify(prompt).label != "arithmetic"


def test_numpy_is_not_imported_before_a_prompt_is_classified() -> None:
    seen = "import sys, overnight.cli.ask, overnight.cli.model, overnight.models.routing.classify; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout == "False\n"
