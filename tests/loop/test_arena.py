"""program.md: what is accepted, and that what is not says what to do."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import ArenaError
from overnight.loop.arena.arena import Paths, load, parse

TWO_STEPS = """---
metric: val_bpb
direction: minimize
produce: python train.py
outputs: [model.npz]
score: python score.py
hidden: [score.py, heldout/]
editable: [train.py]
budget: 4s
---
Be bold.
"""


def changed(old: str, new: str) -> str:
    assert old in TWO_STEPS
    return TWO_STEPS.replace(old, new)


def test_the_two_step_form() -> None:
    arena = parse(Path("/a"), TWO_STEPS)
    assert (arena.metric, arena.front.direction, arena.timeout_s, arena.integrity) == (
        "val_bpb",
        "minimize",
        8.0,
        "separate",
    )
    assert arena.instructions == "Be bold."
    assert "train.py" in arena.editable and "heldout/a/b.txt" in arena.hidden and "score.pyc" not in arena.hidden


def test_the_one_step_form_is_marked_as_shared() -> None:
    text = "---\nmetric: x\ndirection: maximize\nevaluate: python e.py\neditable: a.py\nbudget: 1m\n---\n"
    arena = parse(Path("/a"), text)
    assert (arena.integrity, arena.front.editable, arena.front.budget) == ("shared", ("a.py",), 60.0)


def test_a_python_evaluator_reports_combined_score_by_default() -> None:
    text = "---\ndirection: maximize\nevaluate: evaluator.py:evaluate\neditable: [program.py]\nbudget: 1s\n---\n"
    arena = parse(Path("/a"), text)
    assert arena.metric == "combined_score" and arena.evaluate_function() == ("evaluator.py", "evaluate")


def test_numbers_as_people_write_them() -> None:
    arena = parse(Path("/a"), changed("budget: 4s", "budget: 1m30s\nmin_effect: 1e-3\ntarget: -2"))
    assert (arena.front.budget, arena.front.min_effect, arena.front.target) == (90.0, 1e-3, -2.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("metric:", "metrics:", "did you mean 'metric'?"),
        ("direction: minimize", "direction: minimise", "did you mean 'minimize'?"),
        ("direction: minimize\n", "", "'direction' is missing"),
        ("budget: 4s\n", "", "'budget' is missing"),
        ("budget: 4s", "budget: soon", "write it like 4s"),
        ("budget: 4s", "budget: -1s", "not a"),
        ("budget: 4s", "budget: 4s\nbudget: 5s", "stands twice"),
        ("budget: 4s", "budget: 4s\ntimeout: 1s", "below the budget"),
        ("budget: 4s", "budget: 4s\nmin_effect: -1", "0 or more"),
        ("budget: 4s", "budget: 4s\nmin_effect: .nan", "finite"),
        ("budget: 4s", "budget: 4s\nnetwork: maybe", "true or false"),
        ("budget: 4s", "budget: 4s\nevaluate: python e.py", "keep one"),
        ("score: python score.py\n", "", "nothing says how to measure"),
        ("outputs: [model.npz]\n", "", "hands nothing over"),
        ("editable: [train.py]", "editable: []", "list what authors may change"),
        ("editable: [train.py]", "editable: [../x.py]", "outside the arena"),
        ("editable: [train.py]", "editable: [/etc/passwd]", "outside the arena"),
        ("editable: [train.py]", "editable: [train.py, score.py]", "both hidden and editable"),
        ("editable: [train.py]", "editable: [train.py, program.md]", "instructions"),
        ("editable: [train.py]", "editable: ['*']", "both hidden and editable"),
        ("metric: val_bpb", "metric: 'a b'", "cannot name a metric"),
        ("---\nmetric", "metric", "no front matter"),
        ("editable: [train.py]", "editable: [train.py", "program.md:"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(old: str, new: str, said: str) -> None:
    with pytest.raises(ArenaError) as caught:
        parse(Path("/a"), changed(old, new))
    assert said in str(caught.value)


def test_a_folder_without_program_md(tmp_path: Path) -> None:
    with pytest.raises(ArenaError, match="not an arena"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("src/", "src/a/b.py", "srcs/a.py"),
        ("src", "src/a.py", "xsrc/a.py"),
        ("*.conf", "a.conf", "deep/a.conf"),
        ("**/*.conf", "deep/er/a.conf", "a.config"),
        ("a?.py", "ab.py", "a/.py"),
        ("a[1].py", "a[1].py", "a1.py"),
    ],
)
def test_path_patterns(pattern: str, inside: str, outside: str) -> None:
    assert inside in Paths([pattern]) and outside not in Paths([pattern])


@given(
    st.text(st.characters(exclude_characters="*?", exclude_categories=["Cs"]), min_size=1).filter(
        lambda t: t.strip("/")
    )
)
def test_a_plain_pattern_is_itself_and_what_is_below_it(path: str) -> None:
    name = path.rstrip("/")
    patterns = Paths([path])
    assert name in patterns and f"{name}/below" in patterns and f"{name}x" not in patterns
