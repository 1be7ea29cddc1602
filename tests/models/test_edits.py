"""Search/replace edits: applied exactly, or refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.models.edits import Edit, Unreadable, apply, parse

FILE = b"def f(x):\n    y = x + 1\n    return y\n\n\ndef g(x):\n    return x\n"


def block(path: str, search: str, replace: str) -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def one(search: str, replace: str, content: bytes = FILE, path: str = "a.py") -> tuple[bytes | None, str]:
    applied = apply([Edit(path, search, replace)], {"a.py": content}, lambda name: name.endswith(".py"))
    return applied.files.get("a.py"), "; ".join((*applied.refused, *applied.notes))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=60)
LINES = st.lists(st.sampled_from(["", "x", "  y", "=", "====", "<<<", "def f():", "\tz "]), max_size=6).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(st.lists(st.tuples(st.sampled_from(["a.py", "dir/b.txt"]), LINES, LINES), max_size=5), TEXT)
def test_what_was_written_in_the_form_is_read_back(edits: list[tuple[str, str, str]], prose: str) -> None:
    answer = "Some words.\n\n" + "\n".join(block(*edit) for edit in edits) + "\nand " + prose.replace("<", "")
    assert parse(answer) == [Edit(*edit) for edit in edits]


@given(st.text(max_size=300))
def test_no_text_breaks_the_parser(answer: str) -> None:
    try:
        parse(answer)
    except Unreadable as problem:
        assert str(problem)


@given(st.lists(st.sampled_from(["a", "b", "  a", "c ", ""]), max_size=12), st.data())
def test_an_exact_edit_changes_its_lines_and_nothing_else(lines: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\n" for line in lines)
    start = data.draw(st.integers(0, max(0, len(lines) - 1)))
    end = data.draw(st.integers(start, len(lines)))
    search = "".join(f"{line}\n" for line in lines[start:end])
    found, why = one(search, "NEW\n", text.encode())
    windows = [lines[at : at + end - start] for at in range(len(lines) - (end - start) + 1)]
    if search.strip() and windows.count(lines[start:end]) == 1:
        assert found == "".join(f"{line}\n" for line in [*lines[:start], "NEW", *lines[end:]]).encode()
    elif search.strip():
        assert found is None and "times" in why
    else:
        assert found is None and "SEARCH is empty" in why


def test_lines_that_occur_twice_are_refused() -> None:
    found, why = one("x\n", "y\n", b"x\nx\n")
    assert found is None and "occur 2 times" in why


def test_a_part_of_a_line_is_not_a_line() -> None:
    found, why = one("x + 1\n", "x + 2\n")
    assert found is None and "do not occur" in why


def test_blanks_and_depth_may_differ_where_one_place_alone_fits() -> None:
    found, why = one("y = x + 1  \nreturn y\n", "y = x + 2\nif y:\n    return y\n")
    assert found == FILE.replace(b"    y = x + 1\n    return y\n", b"    y = x + 2\n    if y:\n        return y\n")
    assert "indented as the file is" in why


def test_blanks_may_not_differ_where_two_places_fit() -> None:
    found, why = one("a\n", "b\n", b"  a\n    a\n")
    assert found is None and "2 times but for their blanks" in why


def test_uneven_depth_is_not_guessed() -> None:
    found, _ = one("def f(x):\ny = x + 1\n", "pass\n")
    assert found is None


def test_line_ends_and_a_missing_last_newline_are_kept() -> None:
    assert one("b\n", "B\n", b"a\r\nb\r\nc\r\n")[0] == b"a\r\nB\r\nc\r\n"
    assert one("a\n", "A\n", b"a\nb")[0] == b"A\nb"


def test_a_new_file_an_empty_search_and_a_file_that_is_not_there() -> None:
    applied = apply([Edit("new.py", "", "x = 1\n")], {"a.py": FILE}, lambda name: name.endswith(".py"))
    assert applied.files == {"new.py": b"x = 1\n"}
    assert "SEARCH is empty" in one("", "x\n")[1]
    assert "there is no such file" in one("x\n", "y\n", path="none.py")[1]


@pytest.mark.parametrize("path", ["../a.py", "/etc/a.py", "x/../a.py", "./a.py", "a\\b.py", "x//a.py", ".."])
def test_paths_out_of_the_folder_are_refused(path: str) -> None:
    assert "is not a path inside the folder" in one("x\n", "y\n", path=path)[1]


def test_all_or_none_and_each_refusal_has_its_reason() -> None:
    edits = [Edit("a.py", "def g(x):\n", "def h(x):\n"), Edit("a.py", "nowhere\n", ""), Edit("b.txt", "x\n", "y\n")]
    applied = apply(edits, {"a.py": FILE}, lambda name: name.endswith(".py"))
    assert not applied.files and len(applied.refused) == 2
    assert "edit 2 (a.py)" in applied.refused[0] and "not editable" in applied.refused[1]


def test_edits_see_what_the_ones_before_made() -> None:
    edits = [Edit("a.py", "def g(x):\n", "def h(x):\n"), Edit("a.py", "def h(x):\n", "def k(x):\n")]
    assert b"def k(x)" in apply(edits, {"a.py": FILE}, lambda name: True).files["a.py"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n", "no path"),
        ("a.py\n<<<<<<< SEARCH\nx\n>>>>>>> REPLACE\n", "no ======="),
        ("a.py\n<<<<<<< SEARCH\nx\n=======\ny\n", "no >>>>>>> REPLACE"),
    ],
)
def test_incomplete_blocks_are_said(answer: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        parse(answer)


def test_paths_in_fences_and_decorated() -> None:
    assert parse("**`a.py`**\n```python\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n") == [
        Edit("a.py", "x\n", "y\n")
    ]
