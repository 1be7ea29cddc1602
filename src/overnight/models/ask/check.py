"""Checks of an answer, after it was made: constrained generation can fail open, so nothing is taken on trust."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from overnight.core.errors import UsageError
from overnight.core.schema import suggest

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_SAID: Final = frozenset({"title", "description", "default", "examples", "$schema", "$id", "$comment", "format"})
_KNOWN: Final = frozenset(
    {
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "anyOf",
    }
)
_FENCE: Final = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


@dataclass(frozen=True)
class Check:
    """What an answer has to be.

    Attributes:
        schema: JSON schema (the keywords of `check_schema`) of the whole answer.
        pattern: regular expression of the whole answer.
    """

    schema: Mapping[str, Any] | None = None
    pattern: str = ""

    def __post_init__(self) -> None:
        """Refuse what could not be checked.

        Raises:
            UsageError: the pattern is none, or the schema has a keyword that is not known here.
        """
        if self.schema is not None:
            check_schema(self.schema)
        try:
            re.compile(self.pattern)
        except re.error as problem:
            raise UsageError(f"{self.pattern!r} is not a pattern: {problem}") from problem

    def objection(self, answer: str) -> str:
        """What is wrong with `answer`, as a sentence; "" if nothing is."""
        if not answer.strip():
            return "the answer is empty"
        if self.pattern and re.fullmatch(self.pattern, answer.strip(), re.DOTALL) is None:
            return f"the answer does not match {self.pattern!r}"
        if self.schema is None:
            return ""
        try:
            value = json.loads(unfenced(answer), parse_constant=_no_constant)
        except (ValueError, RecursionError) as problem:
            return f"the answer is not JSON: {problem}"
        return violation(value, self.schema)


def unfenced(answer: str) -> str:
    """The inside of an answer that is one block of ```json; else the answer itself."""
    match = _FENCE.fullmatch(answer)
    return match[1] if match else answer


def check_schema(schema: Any, where: str = "schema") -> None:
    """Make sure that every keyword of a schema is one that `violation` checks.

    Raises:
        UsageError: one is not; passing over it would let wrong answers through.
    """
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise UsageError(f"{where}: expected an object, got {schema!r}")
    for keyword in schema:
        if keyword not in _KNOWN and keyword not in _SAID:
            raise UsageError(f"{where}: {keyword!r} cannot be checked here", hint=suggest(keyword, _KNOWN))
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            raise UsageError(f"{where}: there is no type {kind!r}", hint=suggest(str(kind), _TYPES))
    try:
        re.compile(schema.get("pattern", ""))
    except (re.error, TypeError) as problem:
        raise UsageError(f"{where}: {schema['pattern']!r} is not a pattern: {problem}") from problem
    for name, below in schema.get("properties", {}).items():
        check_schema(below, f"{where}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            check_schema(schema[keyword], f"{where}.{keyword}")
    for number, below in enumerate(schema.get("anyOf", ())):
        check_schema(below, f"{where}.anyOf[{number}]")


def violation(value: Any, schema: Any, where: str = "the answer") -> str:
    """What in `value` is not as `schema` says, as a sentence; "" if nothing."""
    if isinstance(schema, bool):
        return "" if schema else f"{where} must not be there"
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_is(value, kind) for kind in kinds):
            return f"{where} is {json.dumps(value)[:60]}, not of type {' or '.join(kinds)}"
    if "enum" in schema and not any(_same(value, item) for item in schema["enum"]):
        return f"{where} is {json.dumps(value)[:60]}, not one of {json.dumps(schema['enum'])[:120]}"
    if "const" in schema and not _same(value, schema["const"]):
        return f"{where} is not {json.dumps(schema['const'])[:60]}"
    if "anyOf" in schema and all(violation(value, below, where) for below in schema["anyOf"]):
        return f"{where} is none of what it may be"
    if isinstance(value, dict):
        return _object(value, schema, where)
    if isinstance(value, list):
        return _array(value, schema, where)
    return _scalar(value, schema, where)


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> str:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} has no {name!r}"
    known = schema.get("properties", {})
    for name, item in value.items():
        below = known.get(name, schema.get("additionalProperties", True))
        if found := violation(item, below, f"{where}.{name}"):
            return found
    return ""


def _array(value: list[Any], schema: Mapping[str, Any], where: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{where} has {len(value)} items"
    for number, item in enumerate(value):
        if found := violation(item, schema.get("items", True), f"{where}[{number}]"):
            return found
    return ""


def _scalar(value: Any, schema: Mapping[str, Any], where: str) -> str:
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            return f"{where} has {len(value)} characters"
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            return f"{where} does not match {schema['pattern']!r}"
    elif _is(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{where} is {value}, out of range"
    return ""


def _is(value: Any, kind: str) -> bool:
    # True is an int in Python and none in JSON; 1.0 is an integer in JSON Schema.
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _same(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
