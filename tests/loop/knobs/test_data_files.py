"""Knobs in TOML, JSON and YAML."""

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.loop.knobs import Knob, Value, find_knobs, set_knobs

TOML = """\
# head\r
title = "x"\r
[model]\r
width = 64   # knob: 16..256 log\r
lr=1e-3\r
act = 'relu'  # ['relu', 'gelu']\r
"odd key" = 5 # knob: off\r
[[layers]]\r
n = 3\r
[[layers]]\r
n = 5\r
d = { a = 1.5, b.c = true }\r
list = [1, 2, # two\r
  30, # knob: 10..90\r
]\r
when = 2026-11-30 02:00:00\r
text = \"\"\"a\r
n = 4\"\"\"\r
"""
YAML = """\
# head
lr: 1e-3 # knob: 1e-5..1 log
model: {width: 64, act: relu}
anchor: &a
  depth: 3
again: *a
use: True
opt: adam  # adam | sgd
quoted: "64"
octal: 0o17
clock: 12:30:00
seed: 3
list:
  - n: 3
  - 0.5 # knob: 0..1
text: |
  n: 4
"""
JSON = '{"lr": 1E-3,\n "a.b": {"w": 3}, "l": [{"n": 4}, 9],\t"t": true, "s": "x", "z": null}'


def values(path: str, text: str) -> dict[str, Any]:
    return {knob.name: knob.value for knob in find_knobs(path, text.encode())}


def test_toml() -> None:
    assert values("c.toml", TOML) == {
        "model.width": 64,
        "model.lr": 1e-3,
        "model.act": "relu",
        "layers[0].n": 3,
        "layers[1].n": 5,
        "layers[1].d.a": 1.5,
        "layers[1].d.b.c": True,
        "layers[1].list[2]": 30,
    }
    wanted: dict[str, Value] = {
        "model.width": 128,
        "model.lr": 3e-5,
        "model.act": "gelu",
        "layers[1].d.b.c": False,
        "layers[1].list[2]": 11,
    }
    changed = set_knobs("c.toml", TOML.encode(), {f"c.toml:{name}": value for name, value in wanted.items()}).decode()
    pairs = [("= 64", "= 128"), ("1e-3", "3e-5"), ("act = 'relu'", "act = 'gelu'"), ("c = true", "c = false")]
    expected = TOML.replace("  30,", "  11,")
    for old, new in pairs:
        expected = expected.replace(old, new)
    assert changed == expected
    assert tomllib.loads(changed)["layers"][1]["d"] == {"a": 1.5, "b": {"c": False}}


def test_yaml() -> None:
    assert values("c.yaml", YAML) == {
        "lr": 1e-3,
        "model.width": 64,
        "anchor.depth": 3,
        "use": True,
        "opt": "adam",
        "list[0].n": 3,
        "list[1]": 0.5,
    }
    wanted: dict[str, Value] = {
        "lr": 1e-5,
        "model.width": 100,
        "anchor.depth": 4,
        "use": False,
        "opt": "sgd",
        "list[1]": 1e-7,
    }
    changed = set_knobs("c.yaml", YAML.encode(), {f"c.yaml:{name}": value for name, value in wanted.items()}).decode()
    loaded = yaml.safe_load(changed)
    assert (loaded["lr"], loaded["again"], loaded["use"], loaded["opt"]) == (1e-5, {"depth": 4}, False, "sgd")
    assert loaded["list"][1] == 1e-7
    same = [(old, new) for old, new in zip(YAML.splitlines(), changed.splitlines(), strict=True) if old == new]
    assert len(same) == len(YAML.splitlines()) - len(wanted)


def test_json() -> None:
    assert values("c.json", JSON) == {"lr": 1e-3, "'a.b'.w": 3, "l[0].n": 4, "t": True}
    changed = set_knobs("c.json", JSON.encode(), {"c.json:lr": 7e-4, "c.json:t": False, "c.json:'a.b'.w": 12}).decode()
    assert changed == JSON.replace("1E-3", "7e-4").replace("true", "false").replace('"w": 3', '"w": 12')


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("c.json", '{"a": 1, "a": 2}'),
        ("c.json", '{"a": NaN}'),
        ("c.json", "// no\n{}"),
        ("c.json", "[" * 3000),
        ("c.toml", "a = 1\na = 2"),
        ("c.toml", "a = "),
        ("c.yaml", "a: 1\na: 2"),
        ("c.yaml", "a: [1"),
        ("c.yaml", "a: 1\n---\na: 2"),
        ("c.yml", ""),
        ("c.toml", "a = inf\nb = nan"),
        ("c.yaml", "a: .inf"),
    ],
)
def test_what_is_not_one_sound_document_has_no_knobs(path: str, text: str) -> None:
    assert find_knobs(path, text.encode()) == []


@pytest.mark.parametrize(("path", "text"), [("c.toml", "\na = 3 # knob: 5..1"), ("c.yaml", "b: 2\na: 3 # knob: 5..1")])
def test_a_bad_annotation_names_its_line(path: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{path}:2: "):
        find_knobs(path, text.encode())


scalars = st.one_of(
    st.booleans(),
    st.integers(min_value=-(2**40), max_value=2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.none(),
)
trees = st.dictionaries(
    st.text(min_size=1, max_size=4),
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6),
    max_size=5,
)


def turned(knob: Knob) -> Any:
    return knob.choices[0] if knob.choices else int(knob.high) if knob.kind == "int" else knob.high


def differences(one: Any, other: Any) -> int:
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        return sum(differences(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return sum(differences(a, b) for a, b in zip(one, other, strict=True))
    return int(one != other)


@settings(max_examples=40)
@given(trees, st.sampled_from([None, 2]))
def test_json_and_yaml_change_one_value_only(tree: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(tree, indent=indent)
    for path, load in (("c.json", json.loads), ("c.yaml", yaml.safe_load)):
        for knob in find_knobs(path, text.encode()):
            changed = set_knobs(path, text.encode(), {knob.id: turned(knob)}).decode()
            after = {other.id: other.value for other in find_knobs(path, changed.encode())}
            assert after.get(knob.id, turned(knob)) == turned(knob)
            assert differences(load(text), load(changed)) <= 1
            start, end = knob.span
            assert changed.startswith(text[:start])
            assert changed.endswith(text[end:])
