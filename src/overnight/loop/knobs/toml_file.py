"""Scalars in TOML with their positions; what the standard parser reads decides, this only finds the places."""

import re
import tomllib

from overnight.loop.knobs.json_file import flatten
from overnight.loop.knobs.knob import Leaf, Scan, Value, same
from overnight.loop.knobs.numbers import write_number, write_scientific

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_INLINE_BLANK = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|' r"'''.*?'{3,5}(?!')|" r'"(?:[^"\\\n]|\\.)*"|' r"'[^'\n]*'", re.DOTALL
)
_BARE = re.compile(r"[^\s,\]}#]+(?: \d\d:\d\d[^\s,\]}#]*)?")
_COMMENT = re.compile(r"[ \t,\]}]*#([^\r\n]*)")


def scan_toml(text: str) -> Scan | None:
    """All scalars, in order, with the comments behind them; None if it is not TOML."""
    try:
        loaded = tomllib.loads(text)
        places = _Places(text)
        places.document()
    except (ValueError, RecursionError, IndexError):
        return None
    flat = flatten(loaded)
    found = {leaf.parts: leaf for leaf in places.leaves}
    if len(found) != len(places.leaves) or found.keys() != flat.keys():
        return None
    for parts, leaf in found.items():
        if leaf.value is not None and not same(flat[parts], leaf.value):
            return None
    return Scan(tuple(places.leaves), places.comments)


def write_toml(value: Value, before: str) -> str:
    """`value` as TOML, in the manner of the literal `before`."""
    if isinstance(value, str):
        plain = value.isprintable() and "'" not in value
        if before.startswith("'") and plain:
            return f"'{value}'"
        body = "".join(
            f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08x}" for char in value
        )
        return f'"{body}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and "e" in repr(value):
        return write_scientific(value)
    return write_number(value, before)


class _Places:
    def __init__(self, text: str) -> None:
        self.leaves: list[Leaf] = []
        self.comments: dict[int, str] = {}
        self._text = text
        self._tables: dict[tuple[str, ...], int] = {}

    def document(self) -> None:
        table: tuple[str, ...] = ()
        at = self._blank(0)
        while at < len(self._text):
            if self._text.startswith("[[", at):
                path, at = self._key(at + 2)
                at += 2
                whole = self._resolve(path)
                self._tables[whole] = index = self._tables.get(whole, -1) + 1
                table = (*whole, f"[{index}]")
            elif self._text[at] == "[":
                path, at = self._key(at + 1)
                at += 1
                table = self._resolve(path)
            else:
                at = self._pair(at, table)
            at = self._blank(at)

    def _resolve(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The path with the index of the newest element behind each array of tables above it."""
        whole: tuple[str, ...] = ()
        for depth, part in enumerate(path):
            whole = (*whole, part)
            if whole in self._tables and depth < len(path) - 1:
                whole = (*whole, f"[{self._tables[whole]}]")
        return whole

    def _pair(self, at: int, table: tuple[str, ...]) -> int:
        path, at = self._key(at)
        if self._text[at] != "=":
            raise ValueError(at)
        return self._value(self._spaces(at + 1), (*table, *path))

    def _key(self, at: int) -> tuple[tuple[str, ...], int]:
        parts: list[str] = []
        while True:
            found = _KEY.match(self._text, at)
            if found is None:
                raise ValueError(at)
            key = found[1]
            parts.append(tomllib.loads(f"k = {key}")["k"] if key[0] in "\"'" else key)
            at = found.end()
            if self._text[at] != ".":
                return tuple(parts), at
            at += 1

    def _value(self, at: int, parts: tuple[str, ...]) -> int:
        opening = self._text[at]
        if opening == "[":
            at, count = self._blank(at + 1), 0
            while self._text[at] != "]":
                at = self._blank(self._value(at, (*parts, f"[{count}]")))
                if self._text[at] == ",":
                    at = self._blank(at + 1)
                count += 1
            return at + 1
        if opening == "{":
            at = self._spaces(at + 1)
            while self._text[at] != "}":
                at = self._spaces(self._pair(at, parts))
                if self._text[at] == ",":
                    at = self._spaces(at + 1)
            return at + 1
        return self._scalar(at, parts)

    def _scalar(self, at: int, parts: tuple[str, ...]) -> int:
        quoted = self._text[at] in "\"'"
        found = (_STRING if quoted else _BARE).match(self._text, at)
        if found is None:
            raise ValueError(at)
        value = tomllib.loads(f"k = {found[0]}")["k"]
        usable = isinstance(value, bool | int | float | str) and not found[0].startswith(('"""', "'''"))
        line = self._text.count("\n", 0, found.end()) + 1
        comment = _COMMENT.match(self._text, found.end())
        if comment:
            self.comments[line] = comment[1]
        eligible = not parts[-1].startswith("[")
        self.leaves.append(Leaf(parts, value if usable else None, at, found.end(), line, eligible))
        return found.end()

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        assert found is not None
        return found.end()

    def _spaces(self, at: int) -> int:
        found = _INLINE_BLANK.match(self._text, at)
        assert found is not None
        return found.end()
