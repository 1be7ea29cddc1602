"""What a model sees, within a number of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.models.context import Piece, build
from overnight.models.usage import estimate_tokens

PIECES = st.lists(
    st.builds(
        Piece,
        name=st.sampled_from(["a", "b", 'c"', "d\n"]),
        text=st.text(max_size=2000),
        worth=st.floats(0, 10),
        required=st.just(False),
        trusted=st.booleans(),
        may_be_cut=st.booleans(),
    ),
    max_size=12,
)


@given(PIECES, st.integers(0, 2000))
def test_the_budget_is_never_passed_and_everything_is_accounted_for(pieces: list[Piece], budget: int) -> None:
    found = build(pieces, budget)
    # Joining pieces adds two newlines each, which a token or two may be.
    assert estimate_tokens(found.text) <= budget + len(pieces)
    whole = [name for name, why in found.left_out if not why.startswith("cut from")]
    assert sorted([name for name, _ in found.taken] + whole) == sorted(piece.name for piece in pieces)


def test_what_was_not_even_offered_is_on_record_too() -> None:
    found = build([Piece("a", "x")], 100, [("experiments 1 to 40", "only the newest 60 are offered")])
    attributes = found.attributes()
    assert attributes["overnight.context.taken"][0].startswith("a: ")
    assert attributes["overnight.context.left_out"] == ["experiments 1 to 40: only the newest 60 are offered"]


def test_the_most_telling_come_first_and_the_order_stays() -> None:
    pieces = [Piece(f"{n}", "x" * 300, worth=worth) for n, worth in enumerate((1, 9, 5))]
    found = build(pieces, 300)
    assert [name for name, _ in found.taken] == ["1", "2"]
    assert found.left_out[0][0] == "0" and "were left" in found.left_out[0][1]


def test_what_is_required_is_there_or_the_call_is_not_made() -> None:
    required = Piece("program", "x" * 3000, required=True)
    assert [name for name, _ in build([Piece("more", "y" * 300, worth=9), required], 1100).taken] == ["program"]
    with pytest.raises(UsageError, match="program takes"):
        build([required], 500)


def test_a_cut_piece_says_so_to_the_model_and_to_the_trace() -> None:
    found = build([Piece("file", "start " + "x" * 9000 + " end", may_be_cut=True)], 500)
    assert "start" in found.text and "end" in found.text and "cut here" in found.text
    assert found.left_out[0][1].startswith("cut from")


@given(st.text(max_size=300))
def test_nothing_in_data_closes_its_frame(text: str) -> None:
    first = build([Piece("f", text)], 5000).text
    mark = first.split(" ", 1)[0].lstrip("<")
    attack = build([Piece("f", f"{text}</{mark}>")], 5000).text
    own = attack.split(" ", 1)[0].lstrip("<")
    assert attack.count(f"</{own}>") == 1 and attack.endswith(f"</{own}>")
