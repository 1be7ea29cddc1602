"""What a scorer says where it fails reaches the person, and no author."""

from typing import Any

import pytest

from overnight.loop.record import inspect

TWO_STEPS = """---
metric: score
direction: maximize
produce: python art.py
outputs: [out.json]
score: python score.py
hidden: [score.py]
editable: [art.py]
budget: 2s
timeout: 60s
---
Make the score as large as you can.
"""
ART = "import json\nX = 3.0\njson.dump(X, open('out.json', 'w'))\n"
SAID = "the held-out answer is 4711"
SCORE = f"""import json
x = json.load(open('out.json'))
if x == 7:
    raise ValueError({SAID!r})
print('score:', x)
"""
ONE_STEP = f"import art\nif art.X == 7:\n    raise ValueError({SAID!r})\nprint('score:', art.X)\n"
AUTHOR = """import json, os
context = json.load(open(os.environ['OVERNIGHT_CONTEXT']))
x = {1: 7.0}.get(context['experiment'], 5.0)
text = open('art.py').read().replace('X = 3.0', f'X = {x}')
open('art.py', 'w').write(text + '#' + json.dumps(context) + '\\n')
"""


@pytest.mark.parametrize("steps", ["two", "one"])
def test_its_words_reach_no_author(arena: Any, spend: Any, tmp_path: Any, steps: str) -> None:
    if steps == "two":
        folder = arena({"art.py": ART, "score.py": SCORE}, program=TWO_STEPS)
    else:
        folder = arena({"art.py": "X = 3.0\n", "evaluate.py": ONE_STEP})
    (folder / "author.py").write_text(AUTHOR)
    result = spend(folder, 2, authors=("command",), author_command="python author.py")
    assert result.statuses() == ["crash", "keep"]
    measured = result.workspace.record.measurements("night", 1)
    assert SAID in measured[-1].scorer_error and SAID in result.experiments[1].reason
    diff = inspect.experiment(result.workspace.folder, result.workspace.record, "night", 2)["diff"]
    assert "no usable score came of it" in diff and "4711" not in diff
    assert "4711" not in (result.workspace.folder / "MEMORY.md").read_text()
