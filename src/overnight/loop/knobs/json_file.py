"""Scalars in JSON with their positions; what the standard parser reads decides, this only finds the places."""

import json
import re

from overnight.loop.knobs.knob import Leaf, Scan, Value, same
from overnight.loop.knobs.numbers import write_number

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r"[-+\w.]+")


def scan_json(text: str) -> Scan | None:
    """All scalars, in order, or None if it is not JSON. JSON has no comments, so its ranges are all inferred."""
    try:
        loaded = json.loads(text, parse_constant=_refuse)
        places = _Places(text)
        places.value(places.skip(0), ())
        leaves = tuple(places.leaves)
    except (ValueError, RecursionError, IndexError, AttributeError):
        return None
    flat = flatten(loaded)
    for leaf in leaves:
        if leaf.parts not in flat or (leaf.value is not None and not same(flat[leaf.parts], leaf.value)):
            return None  # a key that stands twice: which one counts is the program's business
    return Scan(leaves, {}) if len(flat) == len(leaves) else None


def flatten(tree: object, parts: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    """Path → scalar for every scalar in nested dicts and lists; list elements are `[0]`, `[1]`, …"""
    if isinstance(tree, dict):
        return {at: leaf for key, item in tree.items() for at, leaf in flatten(item, (*parts, str(key))).items()}
    if isinstance(tree, list):
        return {at: leaf for i, item in enumerate(tree) for at, leaf in flatten(item, (*parts, f"[{i}]")).items()}
    return {parts: tree}


def write_json(value: Value, before: str) -> str:
    """`value` as JSON, in the manner of the literal `before`."""
    return write_number(value, before) if isinstance(value, float) else json.dumps(value)


def _refuse(name: str) -> float:
    raise ValueError(name)


class _Places:
    def __init__(self, text: str) -> None:
        self.leaves: list[Leaf] = []
        self._text = text
        self._line = 1
        self._counted = 0

    def skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        assert found is not None
        return found.end()

    def value(self, at: int, parts: tuple[str, ...]) -> int:
        opening = self._text[at]
        if opening not in "{[":
            return self._scalar(at, parts)
        closing = "}" if opening == "{" else "]"
        at, count = self.skip(at + 1), 0
        while self._text[at] != closing:
            label = f"[{count}]"
            if opening == "{":
                found = _STRING.match(self._text, at)
                if found is None:
                    raise ValueError(at)
                label, at = str(json.loads(found[0])), self.skip(found.end())
                at = self.skip(at + 1)  # the colon
            at = self.skip(self.value(at, (*parts, label)))
            if self._text[at] == ",":
                at = self.skip(at + 1)
            count += 1
        return at + 1

    def _scalar(self, at: int, parts: tuple[str, ...]) -> int:
        found = (_STRING if self._text[at] == '"' else _SCALAR).match(self._text, at)
        if found is None:
            raise ValueError(at)
        value = json.loads(found[0])
        self._line += self._text.count("\n", self._counted, at)
        self._counted = at
        eligible = bool(parts) and not parts[-1].startswith("[")
        self.leaves.append(Leaf(parts, value, at, found.end(), self._line, eligible))
        return found.end()
