"""What holds for every shipped arena."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

from overnight.loop.arena.arena import load
from overnight.loop.knobs import find_knobs

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("charlm", "digits", "packing", "speed")


@pytest.mark.parametrize("name", NAMES)
def test_the_program_is_an_arena_whose_score_is_measured_apart(name: str) -> None:
    arena = load(EXAMPLES / name)
    assert arena.integrity == "separate"
    assert arena.instructions
    for path in (*arena.front.editable, *arena.front.hidden):
        assert (arena.folder / path).is_file()
        assert (path in arena.editable) != (path in arena.hidden)
    assert "score.py" in arena.hidden


@pytest.mark.parametrize("name", NAMES)
def test_search_finds_knobs_with_and_without_a_stated_range(name: str) -> None:
    arena = load(EXAMPLES / name)
    knobs = [knob for path in arena.front.editable for knob in find_knobs(path, (arena.folder / path).read_bytes())]
    assert {knob.source for knob in knobs} == {"annotated", "inferred"}
    assert len(knobs) >= 4
    assert not {"BUDGET_S", "COUNT", "MARGIN", "SEED"} & {knob.id.split(":")[1] for knob in knobs}


@pytest.mark.parametrize("name", NAMES)
def test_an_arena_is_less_than_200_lines_of_code(name: str) -> None:
    assert sum(lines_of_code(path.read_text("utf-8")) for path in (EXAMPLES / name).glob("*.py")) < 200


def lines_of_code(source: str) -> int:
    """Lines that hold something other than comments and docstrings."""
    kept: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.string.strip() and token.type not in (tokenize.COMMENT, tokenize.ENDMARKER):
            kept.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kept.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(kept)
