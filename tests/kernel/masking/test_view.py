"""Positions: a span found in any reading leads back to the characters it stands for."""

from hypothesis import given
from hypothesis import strategies as st

from overnight.kernel.masking.fold import fold, fold_char
from overnight.kernel.masking.view import Edit, View

letters = st.text("abcdefgh", max_size=40)


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    text = draw(letters)
    places = sorted(draw(st.lists(st.integers(0, len(text)), unique=True, max_size=8)))
    edits = [(a, b, draw(st.text("XYZ", max_size=4))) for a, b in zip(places[::2], places[1::2], strict=False)]
    return text, edits


@given(edited())
def test_what_was_not_edited_leads_back_to_itself(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    view = View(text).edited(edits)
    for start in range(len(view.text)):
        if view.text[start].islower():
            a, b = view.origin(start, start + 1)
            assert text[a:b] == view.text[start]


@given(edited())
def test_what_touches_an_edit_stands_for_all_it_replaced(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    view = View(text).edited(edits)
    assert view.origin(0, len(view.text)) == (0, len(text)) or not view.text or not edits[0][2] or not edits[-1][2]
    for start in range(len(view.text)):
        if view.text[start].isupper():
            a, b = view.origin(start, start + 1)
            assert any((a, b) == (first, last) for first, last, _ in edits)


@given(edited(), edited())
def test_views_stack(first: tuple[str, list[Edit]], second: tuple[str, list[Edit]]) -> None:
    text, edits = first
    once = View(text).edited(edits)
    size = len(once.text)
    twice = once.edited([edit for edit in second[1] if edit[1] <= size]).reversed()
    for start in range(len(twice.text)):
        if twice.text[start].islower():
            a, b = twice.origin(start, start + 1)
            assert text[a:b] == twice.text[start]


@given(st.text(max_size=60))
def test_folding_keeps_every_place(text: str) -> None:
    view = fold(View(text))
    assert view.text == "".join(map(fold_char, text))
    for start, char in enumerate(view.text):
        a, b = view.origin(start, start + 1)
        assert b - a == 1
        assert char in fold_char(text[a:b])


@given(st.characters())
def test_a_character_folds_to_ascii_to_nothing_or_to_itself(char: str) -> None:
    folded = fold_char(char)
    assert folded == char or folded.isascii()
