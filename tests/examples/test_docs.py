"""The pages say what the code does."""

import re
from pathlib import Path

from overnight.loop.arena.arena import FrontMatter, parse
from overnight.loop.arena.scaffold import TEMPLATES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_front_matter_shown_is_valid_and_complete(tmp_path: Path) -> None:
    page = (DOCS / "arenas.md").read_text("utf-8")
    block = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0]
    assert parse(tmp_path, block).metric == "val_bpb"
    shown = set(re.findall(r"^(\w+):", block, re.MULTILINE))
    assert shown | {"evaluate"} == set(FrontMatter.__dataclass_fields__)
    assert "`evaluate: COMMAND`" in page


def test_every_template_and_example_has_its_lines() -> None:
    arenas, examples = (DOCS / name for name in ("arenas.md", "examples.md"))
    assert all(f"| `{name}` |" in arenas.read_text("utf-8") for name in TEMPLATES)
    for name in (path.parent.name for path in (DOCS.parent / "examples").glob("*/program.md")):
        assert f"## {name}\n" in examples.read_text("utf-8")
