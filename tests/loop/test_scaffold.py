import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.core.errors import IsolationMissing, UsageError
from overnight.loop.arena.arena import load
from overnight.loop.arena.check import check
from overnight.loop.arena.scaffold import GOAL, NOT_FILLED_IN, TEMPLATES, questions, scaffold
from overnight.loop.evaluation.metrics import read
from overnight.loop.knobs import find_knobs

ANSWERS = {
    "goal": "The parser should be faster",
    "files": "parser.py, grammar/",
    "metric": "seconds_per_mb",
    "direction": "minimize",
    "cheats": "caching the benchmark's file; skipping comments",
    "keep": "error messages; memory",
    "checks": "python -m pytest -q; python -m ruff check .",
    "budget": "20s",
    "noise": "0.02",
    "min_effect": "0.01",
}


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    _, *rest = command.split()
    return subprocess.run(
        [sys.executable, *rest],
        cwd=folder,
        env={**os.environ, "OVERNIGHT_SEED": "3", "OVERNIGHT_BUDGET_S": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_an_arena_that_works_at_once(tmp_path: Path, template: str) -> None:
    written = scaffold(tmp_path / "an arena", template, {})
    arena = load(tmp_path / "an arena")
    assert written[0] == tmp_path / "an arena" / "program.md"
    assert sorted(written) == sorted(path for path in arena.folder.iterdir() if path.is_file())
    assert arena.integrity == "separate"
    for command in (arena.front.produce, arena.front.score, arena.front.holdout):
        if command:
            done = run(arena.folder, command)
            assert done.returncode == 0, done.stderr
            if command != arena.front.produce:
                assert read(arena.metric, done.stdout).value is not None


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_passes_arena_check(tmp_path: Path, template: str) -> None:
    scaffold(tmp_path / "arena", template, {})
    try:
        found = check(load(tmp_path / "arena"), tmp_path / "environments")
    except IsolationMissing as problem:
        pytest.skip(str(problem))
    assert found.ok, found
    assert not found.saturated


@pytest.mark.parametrize("template", sorted(set(TEMPLATES) - {"prompt", "rubric"}))
def test_search_finds_knobs_in_what_has_numbers(tmp_path: Path, template: str) -> None:
    scaffold(tmp_path, template, {})
    arena = load(tmp_path)
    assert [knob for path in arena.front.editable for knob in find_knobs(path, (tmp_path / path).read_bytes())]


@pytest.mark.parametrize(
    ("template", "file", "content"),
    [
        ("model-training", "predictions.csv", "nan\n" * 400),
        ("model-training", "predictions.csv", "1\n" * 399),
        ("model-training", "predictions.csv", "__import__\n" * 400),
        ("prompt", "answers.json", "[" * 5000),
        ("prompt", "answers.json", '["42"]'),
        ("prompt", "answers.json", "[1, 2, 3, 4, 5, 6, 7, 8]"),
        ("simulator", "params.toml", "reorder_at = nan\norder_up_to = 90\nforecast_days = 20\nsafety = 0\n"),
        ("simulator", "params.toml", "reorder_at = 1e9\norder_up_to = 90\nforecast_days = 20\nsafety = 0\n"),
        ("simulator", "params.toml", "reorder_at = true\norder_up_to = 90\nforecast_days = 20\nsafety = 0\n"),
        ("simulator", "params.toml", "reorder_at = 20\n"),
        ("rubric", "text.md", "word " * 10_000),
        ("code-speed", "work.py", "def work(task):\n    return []\n"),
        ("code-speed", "work.py", "print('METRIC relative_time=0')\nimport os\nos._exit(0)\n"),
    ],
)
def test_a_template_refuses_what_is_no_answer(tmp_path: Path, template: str, file: str, content: str) -> None:
    scaffold(tmp_path, template, {})
    (tmp_path / file).write_text(content)
    done = run(tmp_path, load(tmp_path).front.score or "")
    assert done.returncode != 0
    assert "refused: " in done.stderr
    assert "METRIC" not in done.stdout


def test_answers_reach_a_template_as_rules_and_checks(tmp_path: Path) -> None:
    chosen = {key: ANSWERS[key] for key in ("goal", "cheats", "keep", "checks")}
    scaffold(tmp_path, "rubric", chosen)
    arena = load(tmp_path)
    assert arena.front.checks == ("python -m pytest -q", "python -m ruff check .")
    assert "The parser should be faster" in arena.instructions
    assert "- caching the benchmark's file\n- skipping comments" in arena.instructions
    assert arena.instructions.endswith("- error messages\n- memory")


def test_a_goal_becomes_an_arena_whose_scorer_fails_until_it_is_written(tmp_path: Path) -> None:
    written = scaffold(tmp_path, GOAL, ANSWERS)
    assert [path.name for path in written] == ["program.md", "score.py"]
    front = load(tmp_path).front
    assert (front.metric, front.direction, front.budget, front.min_effect) == ("seconds_per_mb", "minimize", 20, 0.01)
    assert front.editable == ("parser.py", "grammar/")
    assert front.hidden == ("score.py",)
    done = run(tmp_path, front.score or "")
    assert done.returncode != 0
    assert "not filled in" in done.stderr
    text = (tmp_path / "score.py").read_text()
    assert NOT_FILLED_IN in text
    assert "# - skipping comments" in text
    (tmp_path / "score.py").write_text(text.replace("    sys.exit(", "    return 2.5  # (", 1))
    assert read("seconds_per_mb", run(tmp_path, front.score or "").stdout).value == 2.5


def test_a_command_that_measures_already_is_used_and_said_to_share_its_process(tmp_path: Path) -> None:
    written = scaffold(tmp_path, GOAL, {**ANSWERS, "measure": "python bench.py --quick 'a: b'"})
    assert [path.name for path in written] == ["program.md"]
    arena = load(tmp_path)
    assert arena.front.evaluate == "python bench.py --quick 'a: b'"
    assert arena.integrity == "shared"


@pytest.mark.parametrize(
    ("template", "answers", "said"),
    [
        ("speed", {}, "there is no template 'speed'"),
        ("rubric", {"metric": "points"}, "'metric' is not asked for the template"),
        (GOAL, {**ANSWERS, "colour": "blue"}, "'colour' is not asked for a goal"),
        (GOAL, {key: ANSWERS[key] for key in ("goal", "files")}, "What is the number called is not answered"),
        (GOAL, {**ANSWERS, "direction": "down"}, "'down' is not an answer"),
        (GOAL, {**ANSWERS, "budget": "soon"}, "'soon' is not a duration"),
        (GOAL, {**ANSWERS, "min_effect": "little"}, "'little' is not a number"),
        (GOAL, {**ANSWERS, "metric": "my number"}, "'my number' cannot name a metric"),
        (GOAL, {**ANSWERS, "files": "../parser.py"}, "leads outside the arena"),
        (GOAL, {**ANSWERS, "files": "score.py"}, "both hidden and editable"),
    ],
)
def test_what_cannot_be_used_is_said_and_nothing_is_written(
    tmp_path: Path, template: str, answers: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        scaffold(tmp_path / "new", template, answers)
    assert not (tmp_path / "new").exists()


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "text.md").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        scaffold(tmp_path, "rubric", {})
    assert [path.name for path in tmp_path.iterdir()] == ["text.md"]
    (tmp_path / "score.py").symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        scaffold(tmp_path, GOAL, ANSWERS)


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries({key: st.text(max_size=60) for key in ("goal", "cheats", "keep", "checks", "noise")}))
def test_no_answer_leaves_its_place(tmp_path_factory: pytest.TempPathFactory, words: dict[str, str]) -> None:
    """Whatever is said of goal, cheats and the rest, the keys of the arena are the ones asked for."""
    folder = tmp_path_factory.mktemp("goal")
    answers = {**ANSWERS, **words}
    try:
        scaffold(folder, GOAL, answers)
    except UsageError:
        return
    front = load(folder).front
    assert (front.metric, front.score, front.editable) == (
        "seconds_per_mb",
        "python score.py",
        ("parser.py", "grammar/"),
    )
    assert front.evaluate is None
    compile((folder / "score.py").read_bytes(), "score.py", "exec")


def test_the_questions_cover_what_a_good_evaluator_needs() -> None:
    asked = {question.key: question for question in questions()}
    assert {"metric", "measure", "cheats", "noise", "keep"} <= asked.keys()
    assert [key for key, question in asked.items() if question.default is None] == ["goal", "files", "metric"]
    assert all(question.text.endswith("?") for question in asked.values())
