"""Knobs in Python source."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.loop.knobs import Knob, find_all_knobs, find_knobs, set_knobs

SOURCE = '''\
"""Docstring with LR = 5."""
from dataclasses import dataclass, field

LR = 1e-3  # knob: 1e-4..1e-1 log
momentum: float = 0.9
NEGATIVE = -2.5
CONFIG = {"lr": 0.02, "net": {"width": 64}, 3: 7, "mode": "fast"}
OTHER = dict(gain=0.25)
SEED = 7
__version__ = 3
TEXT = "free"
FLAG = True
PAIR = (1, 2)
both = other = 4
class Config:
    depth: int = 3
    inner: float = field(default=0.5)
def train(steps=100, rate=0.1):
    local = 12
    return local * steps
'''


def by_name(text: str | bytes, path: str = "train.py") -> dict[str, Knob]:
    data = text.encode() if isinstance(text, str) else text
    return {knob.name: knob for knob in find_knobs(path, data)}


def test_constants_of_modules_dicts_and_classes_are_knobs() -> None:
    knobs = by_name(SOURCE)
    assert {name: knob.value for name, knob in knobs.items()} == {
        "LR": 1e-3,
        "momentum": 0.9,
        "NEGATIVE": -2.5,
        "CONFIG.lr": 0.02,
        "CONFIG.net.width": 64,
        "CONFIG.3": 7,
        "OTHER.gain": 0.25,
        "FLAG": True,
        "both": 4,
        "Config.depth": 3,
        "Config.inner": 0.5,
    }
    assert knobs["LR"].id == "train.py:LR"
    assert (knobs["LR"].low, knobs["LR"].high, knobs["LR"].scale, knobs["LR"].source) == (1e-4, 0.1, "log", "annotated")
    assert knobs["LR"].line == 4
    assert SOURCE[slice(*knobs["NEGATIVE"].span)] == "-2.5"


@pytest.mark.parametrize(
    ("line", "name", "kind"),
    [
        ("N = 3  # knob: 1..8", "N", "int"),
        ("N = 1  # knob: 0.5..2", "N", "float"),
        ("N = 16  # knob: [16, 32, 64]", "N", "choice"),
        ("N = 'a'  # knob: [a, b]", "N", "choice"),
        ("N = 'a'  # knob: ['a', 'b c']", "N", "choice"),
        ("N = False  # Knob: [True, False]", "N", "bool"),
        ("def f():\n    x = 5  # knob: 1..9", "f.x", "int"),
        ("def f(\n    x=5,  # knob: 1..9\n): ...", "f.x", "int"),
        ("def f(*, x=5):  # knob: 1..9\n    ...", "f.x", "int"),
        ("def f():\n    return g(\n        x=5,  # knob: 1..9\n    )", "f.g.x", "int"),
        ("def f():\n    return {\n        'x': 5,  # knob: 1..9\n    }", "f.x", "int"),
        ("class A:\n    def f(self):\n        self.x = 5  # knob: 1..9", "A.f.x", "int"),
        ("for i in range(9):\n    x = i * 0.5  # knob: 0.1..0.9", "x[1]", "float"),
    ],
)
def test_an_annotation_makes_a_knob_anywhere(line: str, name: str, kind: str) -> None:
    knobs = by_name(line)
    assert [(knob.name, knob.kind, knob.source) for knob in knobs.values()] == [(name, kind, "annotated")]


def test_off_takes_out_a_constant_a_dict_a_class_and_a_function() -> None:
    assert by_name("A = 2  # knob: off\nB = {  # knob: off\n    'c': 3,\n}\nclass C:  # knob: off\n    d = 4\n") == {}
    assert find_all_knobs({"a.py": b"def f(x=30):  # knob: off\n    return x * 0.7\n"}) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("A = 3  # knob: 5..1", "no range"),
        ("A = 3  # knob: 5..9", "outside"),
        ("A = 3  # knob: 0..9 log", "log range"),
        ("A = 0.5  # knob: 0..1 logit", "logit"),
        ("A = 3  # knob: 1..9 cubic", "cubic"),
        ("A = 3  # knob: many", "neither"),
        ("A = 3  # knob:", "neither"),
        ("A = 3  # knob: [1, 2]", "not among"),
        ("A = 3  # knob: [3]", "at least two"),
        ("A = 3  # knob: [3, 'x']", "one type"),
        ("A = 3  # knob: [3, 3]", "twice"),
        ("A = 3  # knob: [3, x]", "cannot read"),
        ("A = 'x'  # knob: 1..2", "no number"),
        ("A = 3  # knob: 1..1e999", "no range"),
        ("# knob: 1..2", "no constant"),
        ("A = {'b': 1, 'c': 2}  # knob: 1..2", "any of 2"),
    ],
)
def test_a_bad_annotation_names_its_line(line: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        find_knobs("sub/train.py", f"X = 1\n{line}\n".encode())
    assert caught.value.message.startswith("sub/train.py:2:")
    assert caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    # mode: ['fast', 'slow']\n    c = {'mode': 'fast'}\n",
        "# mode: ['fast', 'slow']\n\nmode = 'fast'\n",
        "mode = 'fast'  # fast | slow\n",
        "mode = 'fast'  # one of: ('fast', 'slow')\n",
        "# options: ['fast', 'slow']\nmode = 'fast'\n",
    ],
)
def test_option_lists_as_people_write_them_make_choices(source: str) -> None:
    (knob,) = find_knobs("a.py", source.encode())
    assert knob.choices == ("fast", "slow")
    assert knob.value == "fast"


def test_an_option_list_without_the_present_value_or_of_another_scope_is_prose() -> None:
    assert by_name("mode = 'odd'  # ['fast', 'slow']") == {}
    assert by_name("def f():\n    # mode: ['fast', 'slow']\n    pass\ndef g():\n    mode = 'fast'\n") == {}


def test_numbers_inside_functions_are_the_last_resort() -> None:
    code = "def area(r, n=26, steps=40):\n    x = [0, 1, -1]\n    return 3.3 * r ** 2 + x[2] + 1e-9 + 1.0 + 0.7\n"
    assert by_name(code) == {}
    found = find_all_knobs({"a.py": code.encode()})
    assert {knob.name: knob.value for knob in found} == {"area.steps": 40, "area[1]": 3.3, "area[4]": 0.7}
    assert {knob.source for knob in found} == {"literal"}
    assert [knob.name for knob in find_all_knobs({"a.py": code.encode(), "b.toml": b"k = 2"})] == ["k"]


def test_evolve_markers_fence_the_search_in() -> None:
    code = "A = 2\n# EVOLVE-BLOCK-START\nB = 3\n# EVOLVE-BLOCK-END\nC = 4\nD = 5  # knob: 1..9\n"
    assert set(by_name(code)) == {"B", "D"}


def test_the_main_guard_and_fstrings_are_left_alone() -> None:
    code = "def f():\n    return f'{0.25:.3f}'\nif __name__ == '__main__':\n    x = f(0.4)\n"
    assert find_all_knobs({"a.py": code.encode()}) == []


@pytest.mark.parametrize(
    "data", [b"def (", b"\x00", b"# coding: nonsense\nA = 1", b"\xff\xfe", b"(" * 5000, b"A = '\\d' +"]
)
def test_what_does_not_parse_has_no_knobs(data: bytes) -> None:
    assert find_knobs("a.py", data) == []
    assert find_knobs("a.unknown", b"A = 1") == []


def test_a_style_warning_of_the_artifact_is_not_ours() -> None:
    assert by_name("A = 2\nB = '\\d'\n")["A"].value == 2


def test_an_id_survives_edits_elsewhere_and_a_second_occurrence_is_numbered() -> None:
    before, after = by_name("A = 2\nA = 3\n"), by_name("import os\n\nB = 0.1\nA = 2  # x\nA = 3\n")
    assert list(before) == ["A", "A#2"]
    assert set(before) < set(after)


def test_setting_is_surgical() -> None:
    data = (
        b"\xef\xbb\xbf# coding: utf-8\r\nLR   =  1e-3# knob: 1e-4..1e-1 log\r\n\tif_x = 0\r\n".replace(
            b"\tif_x", b"if_x"
        )
        + "Ä = 'ö'; N = 0x10 ;M=10_000\r\n\r\n\fS = 'it'  # it | at\r\n".encode()
    )
    changed = set_knobs("t.py", data, {"t.py:LR": 0.00071, "t.py:N": 255, "t.py:M": 25000, "t.py:S": "at"})
    expected = data.replace(b"1e-3#", b"7.1e-4#").replace(b"0x10", b"0xff").replace(b"10_000", b"25_000")
    assert changed == expected.replace(b"'it'  #", b"'at'  #")


def test_other_encodings_come_back_as_they_were() -> None:
    data = "# -*- coding: latin-1 -*-\nA = 2  # größer\rB = 3\n".encode("latin-1")
    assert set_knobs("t.py", data, {"t.py:A": 5, "t.py:B": 8}) == data.replace(b"A = 2", b"A = 5").replace(
        b"B = 3", b"B = 8"
    )


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"t.py:B": 1}, "no knob"),
        ({"t.py:A": 1.5}, "cannot be set"),
        ({"t.py:A": True}, "cannot be set"),
        ({"t.py:A": "1; import os"}, "cannot be set"),
        ({"t.py:F": float("nan")}, "not finite"),
        ({"t.py:F": "x"}, "cannot be set"),
    ],
)
def test_what_cannot_be_set_is_refused(values: dict[str, float | str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        set_knobs("t.py", b"A = 2\nF = 0.5\n", values)


def test_text_values_are_quoted_as_code() -> None:
    data = b"S = 'a'  # knob: ['a', \"it's\", 'x\\ny', '\xc3\xa4']\n"
    for choice in ("it's", "x\ny", "ä"):
        changed = set_knobs("t.py", data, {"t.py:S": choice})
        assert ast.literal_eval(changed.decode().split("#")[0].split("=")[1].strip()) == choice


numbers = st.one_of(
    st.integers(min_value=-(10**6), max_value=10**6), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@given(st.lists(numbers, min_size=1, max_size=5))
def test_every_value_reads_back_and_nothing_else_moves(values: list[int | float | bool]) -> None:
    lines = [f"V{i} =   {value!r}  # {i}" for i, value in enumerate(values)]
    data = "\r\n".join(lines).encode()
    knobs = find_knobs("t.py", data)
    assert all(knob.value == values[int(knob.name[1:])] for knob in knobs)
    for knob in knobs:
        assert not isinstance(knob.value, str)
        wanted = not knob.value if isinstance(knob.value, bool) else knob.value * 3
        if wanted in (float("inf"), float("-inf")):
            continue
        changed = set_knobs("t.py", data, {knob.id: wanted})
        before, after = data.decode().split("\r\n"), changed.decode().split("\r\n")
        at = int(knob.name[1:])
        assert [line for i, line in enumerate(after) if i != at] == [line for i, line in enumerate(before) if i != at]
        space: dict[str, object] = {}
        exec(changed, space)
        assert space[knob.name] == wanted
        assert type(space[knob.name]) is type(wanted)
        assert after[at].endswith(f"  # {at}")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_input_breaks_the_scanner(data: bytes) -> None:
    for path in ("a.py", "a.toml", "a.json", "a.yaml"):
        try:
            knobs = find_knobs(path, data)
        except UsageError:
            continue
        for knob in knobs:
            assert set_knobs(path, data, {knob.id: knob.value}) == data
