"""The lines of tables and keys in TOML text. The standard library's parser keeps none, and an error needs one."""

import re
from dataclasses import dataclass, field

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_QUOTED_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)')\s*[.=]""")
_STRING_OR_COMMENT = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|#.*""")
_BARE_KEY = re.compile(r"([\w-]+)\s*(?=[.=])")


@dataclass
class TableLines:
    """Where one table and its keys stand, counted from 1."""

    line: int
    keys: dict[str, int] = field(default_factory=dict)

    def key(self, name: str) -> int:
        """The line of a key, or of a part of a dotted key or inline table; the table's own if it is not found."""
        return self.keys.get(name, self.line)


def table_lines(text: str) -> dict[str, list[TableLines]]:
    """For every table name, its occurrences in order; top-level keys are under ``.

    Args:
        text: valid TOML.
    """
    current = TableLines(1)
    tables = {"": [current]}
    closing = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if closing:
            closing = "" if closing in line else closing
            continue
        header = _HEADER.fullmatch(line)
        if header is not None:
            current = TableLines(number)
            tables.setdefault(header.group(2).replace(" ", ""), []).append(current)
            continue
        quoted = _QUOTED_KEY.match(line)
        if quoted is not None:
            current.keys.setdefault(quoted.group(1) or quoted.group(2), number)
        for key in _BARE_KEY.findall(_STRING_OR_COMMENT.sub(" ", line)):
            current.keys.setdefault(key, number)
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                closing = quotes
    return tables
