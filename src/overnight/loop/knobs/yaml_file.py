"""Scalars in YAML with their positions, from the node tree of the YAML parser (nothing is constructed or run)."""

import json
import re

import yaml

from overnight.loop.knobs.knob import Leaf, Scan, Value
from overnight.loop.knobs.numbers import write_number, write_scientific

_COMMENT = re.compile(r"[ \t,\]}]*[ \t]#([^\r\n]*)")
_INT = re.compile(r"[-+]?(?:0|[1-9][\d_]*)")
_FLOAT = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PLAIN = re.compile(r"[A-Za-z][\w.+\-/]*")


def scan_yaml(text: str) -> Scan | None:
    """All scalars of a document, in order, with the comments behind them; None if it is not one YAML document.

    `1e-3` counts as the number it is meant to be, though YAML 1.1 reads it as text; octal, sexagesimal and dates are
    left alone.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if root is None:
        return Scan((), {})
    leaves: dict[tuple[int, int], Leaf] = {}
    comments: dict[int, str] = {}
    stack: list[tuple[yaml.Node, tuple[str, ...]]] = [(root, ())]
    while stack:
        node, parts = stack.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value if isinstance(key, yaml.ScalarNode) else None for key, _ in node.value]
            if len(set(keys)) != len(keys) or (None in keys):
                return None
            stack.extend((item, (*parts, key.value)) for key, item in reversed(node.value))
        elif isinstance(node, yaml.SequenceNode):
            stack.extend((item, (*parts, f"[{i}]")) for i, item in reversed(list(enumerate(node.value))))
        elif isinstance(node, yaml.ScalarNode):
            start, end = node.start_mark.index, node.end_mark.index
            if (start, end) in leaves:
                continue  # an alias: its anchor is the place
            line = node.end_mark.line + 1
            comment = _COMMENT.match(text, end)
            if comment:
                comments[line] = comment[1]
            eligible = bool(parts) and not parts[-1].startswith("[")
            leaves[start, end] = Leaf(parts, _value(node, text[start:end]), start, end, line, eligible)
    return Scan(tuple(sorted(leaves.values(), key=lambda leaf: leaf.start)), comments)


def write_yaml(value: Value, before: str) -> str:
    """`value` as YAML that version 1.1 and 1.2 parsers read alike, in the manner of the literal `before`."""
    if isinstance(value, bool):
        return {"T": "True", "t": "true"}[before[0]] if value and before[0] in "Tt" else _truth(value, before)
    if isinstance(value, str):
        if before[0] not in "\"'" and _PLAIN.fullmatch(value) and _resolved(value) == "tag:yaml.org,2002:str":
            return value
        if before[0] != '"' and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        return json.dumps(value)
    if isinstance(value, int):
        return write_number(value, before)
    text = write_number(value, before)
    if "e" in text:
        mantissa, exponent = write_scientific(value).split("e")
        mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
        text = f"{mantissa}e{int(exponent):+d}"
    return text


def _truth(value: bool, before: str) -> str:
    text = "true" if value else "false"
    return text.upper() if before.isupper() else text.title() if before[0].isupper() else text


def _resolved(text: str) -> str:
    return str(yaml.SafeLoader("").resolve(yaml.ScalarNode, text, (True, False)))  # type: ignore[no-untyped-call]  # types-PyYAML


def _value(node: yaml.ScalarNode, written: str) -> Value | None:
    tag = str(node.tag).rsplit(":", 1)[-1]
    if node.style in ("|", ">") or not written or "\n" in written:
        return None
    if node.style in ("'", '"'):
        return str(node.value) if tag == "str" and written[0] in "\"'" else None
    if written != node.value:
        return None  # a tag or an anchor stands before it
    if tag == "bool":
        return {"true": True, "false": False}.get(written.lower())
    if tag == "int":
        return int(written) if _INT.fullmatch(written) else None
    if tag in ("float", "str") and _FLOAT.fullmatch(written) and not _INT.fullmatch(written):
        return float(written)
    return written if tag == "str" else None
