"""Text made of what the person typed and the system asserted tells no more than that; anything free in it may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.kernel.flow.composition import Composition
from overnight.kernel.flow.label import Origin
from overnight.kernel.flow.words import Words

REQUEST = "Write 'Congrats on being the k-th, {name}' to all; say you've seen the mug in the meeting room: 'Dinner at {place}'"


def composition(request: str = REQUEST) -> Composition:
    words = Words()
    words.add(request)
    made = Composition(words)
    made.add("Chez L'Ami Jean", Origin("system", "private", "list"))
    return made


@pytest.mark.parametrize(
    "text",
    [
        "Congrats on being the 2nd",
        "I've seen the mug in the meeting room!",
        "Dinner at Chez L'Ami Jean",
        "Meeting Room",
        "Seen the mug in the meeting room.",
        "Dinner at",
    ],
)
def test_stretches_of_typed_words_and_whole_values_are_composed(text: str) -> None:
    assert composition().origin_of(text) is not None


def test_what_is_composed_is_as_confidential_as_its_values() -> None:
    origin = composition().origin_of("Dinner at Chez L'Ami Jean")
    assert origin is not None and origin.confidentiality == "private"


@pytest.mark.parametrize(
    "text",
    [
        "mug room Write all seen",  # the order of single words
        "seen the mug  in the meeting room",  # blanks
        "seen the mug in the meeting room ",
        "sEen the mug in the meeting room",  # capitals
        "Seen the Mug in the meeting room",
        "seen the mug in the meeting room 4 7",  # numbers
        "seen the mug in the meeting room 4711",
        "seen\u200b the mug",
        "I my the of",
        "7",
        "Chez Jean",
        "chez l'ami jean",
        "seen the mug in the kitchen",
        "",
    ],
)
def test_whatever_is_free_can_carry_something(text: str) -> None:
    assert composition().origin_of(text) is None


@given(st.text(alphabet="se nthmug,.XΩ\u200b4\n", max_size=30))
def test_nothing_but_typed_words_small_words_and_one_small_number_is_composed(text: str) -> None:
    if composition().origin_of(text) is not None:
        rest = text.casefold()
        assert rest.isascii() and "  " not in rest and sum(char == "4" for char in rest) <= 2


@pytest.mark.parametrize(
    ("value", "telling"),
    [("diary.md", True), ("meeting room", True), ("you've seen", True), ("Dinner at {place}", True), ("Write", False),
     ("the", False), ("say", False), ("on being the", True), ("mug kitchen", False), ("", False), ("code", False)],
)  # fmt: skip
def test_one_ordinary_word_does_not_say_what_is_meant(value: str, telling: bool) -> None:
    words = Words()
    words.add(REQUEST + " from diary.md")
    assert words.names(value) is telling
