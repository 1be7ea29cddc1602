"""The example of docs/masking.md, run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "masking.md").read_text("utf-8")


def test_the_gates_example_prints_what_its_comments_say(tmp_path: Path) -> None:
    script = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert script
    done = subprocess.run(
        [sys.executable, "-c", script.group(1)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "False False",
        "Carol: carol@example.org, card 4111 1111 1111 1111",
        "denied confidential_egress",
    ]
