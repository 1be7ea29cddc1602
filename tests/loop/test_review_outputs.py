"""What an artifact hands over never takes the place of the scorer's own files, and cannot end a run."""

from typing import Any

import pytest

from overnight.core.errors import ArenaError
from overnight.loop.arena import arena as arenas

PROGRAM = """---
metric: score
direction: maximize
produce: python art.py
outputs: [{outputs}]
score: python {score}
hidden: [{hidden}]
editable: [art.py]
budget: 2s
timeout: 60s
---
Make the score as large as you can.
"""
ART = "import os, shutil\nos.makedirs('o', exist_ok=True)\nopen('o/x.json', 'w').write('3')\n"
SCORE = "import json\nprint('score:', json.load(open('o/x.json')) * json.load(open('held/factor.json')))\n"
FAKED = "for path in ('held/factor.json', 'held/score.py'):\n    os.makedirs('held', exist_ok=True)\n"
FAKED += "    open(path, 'w').write('99' if 'json' in path else 'print(\"score:\", 99)')\n"


def _program(outputs: str, score: str = "score.py", hidden: str = "score.py, held/") -> str:
    return PROGRAM.format(outputs=outputs, score=score, hidden=hidden)


@pytest.mark.parametrize("outputs", ["'*'", "'**'", "'./*.py'", "score.py", "held/", "'[hs]*', '?eld'"])
def test_outputs_that_match_what_is_hidden_are_refused(arena: Any, outputs: str) -> None:
    folder = arena({"art.py": ART, "score.py": SCORE, "held/factor.json": "1"}, program=_program(outputs))
    with pytest.raises(ArenaError, match="hidden"):
        arenas.load(folder)


def test_a_wide_pattern_does_not_replace_what_is_hidden(arena: Any, spend: Any, authored: Any) -> None:
    program = _program("'**/*.json', '*/*.py'", score="held/score.py", hidden="held/")
    files = {"art.py": ART + "open('o/y.py', 'w')\n", "held/score.py": SCORE, "held/factor.json": "1"}
    given = authored(f"open('art.py', 'a').write({FAKED!r})")  # makes the arena of the fixture; ours comes after
    result = spend(arena(files, program=program), 1, **given)
    assert result.report["baseline"] == 3
    assert result.statuses() == ["discard"] and result.experiments[1].metric == 3


TRACKED = {"art.py": ART, "score.py": SCORE, "held/factor.json": "1", "o/x.json": "7"}


def test_a_wide_pattern_that_matches_a_file_of_the_arena_is_refused(arena: Any, spend: Any) -> None:
    """The scorer may read it."""
    with pytest.raises(ArenaError, match=r"o/x\.json"):
        spend(arena(TRACKED, program=_program("'o/*.json'")), 1)


@pytest.mark.parametrize("outputs", ["o/x.json", "o/", "o/x.json, 'o/*.json'"])
def test_named_in_full_it_is_an_output_like_any_other(arena: Any, spend: Any, outputs: str) -> None:
    assert spend(arena(TRACKED, program=_program(outputs)), 1).report["baseline"] == 3


@pytest.mark.parametrize(
    "change",
    [
        "os.remove('o/kept')\nos.mkdir('o/kept')\nopen('o/kept/x', 'w').write('1')\n",
        "shutil.rmtree('o')\nopen('o', 'w').write('3')\n",
    ],
    ids=["folder for a file", "file for a folder"],
)
def test_an_output_of_the_wrong_kind_is_a_crash_and_the_run_goes_on(
    arena: Any, spend: Any, authored: Any, change: str
) -> None:
    files = {"art.py": ART, "score.py": SCORE, "held/factor.json": "1", "o/kept": "", "o/deep/kept": ""}
    script = f"""
import json, os
n = json.load(open(os.environ['OVERNIGHT_CONTEXT']))['experiment']
open('art.py', 'a').write({change!r} if n == 1 else "open('o/x.json', 'w').write('4')\\n")
"""
    given = authored(script)
    result = spend(arena(files, program=_program("o/")), 2, **given)
    assert result.statuses() == ["crash", "keep"]
