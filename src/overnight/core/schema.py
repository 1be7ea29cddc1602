"""Mappings from TOML, YAML or JSON into frozen dataclasses, strictly: wrong types and unknown keys are errors that say
what was meant. One loader for `overnight.toml`, front matter and permission rules.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from overnight.core.errors import SettingsError, UsageError

T = TypeVar("T")


def suggest(word: str, known: Iterable[str]) -> str:
    """A hint naming the closest of `known`, or all of them if none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


def parsed_by(parse: Callable[[Any], Any]) -> dict[str, Any]:
    """Field metadata: hand the raw value to `parse`, which raises UsageError on what it cannot take."""
    return {"parse": parse}


def build(cls: type[T], data: Mapping[str, Any], where: str, error: type[UsageError] = SettingsError) -> T:
    """An instance of the dataclass `cls` from `data`.

    Field names are the keys (a trailing underscore is dropped: `for_` reads `for`). `where` names the place in
    messages. Ints are taken for floats, lists for tuples; nothing else is converted.

    Raises:
        UsageError: (as `error`) an unknown key, a missing one, a value of the wrong type, or one that `cls` refuses.
    """
    hints = get_type_hints(cls)
    fields = {field.name.rstrip("_"): field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise error(f"{where}: unknown key {key!r}", hint=suggest(str(key), fields))
    values: dict[str, Any] = {}
    for key, field in fields.items():
        if key not in data:
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise error(f"{where}: {key!r} is missing", hint=f"add {key!r}")
            continue
        at = f"{where}: {key}"
        if "parse" in field.metadata:
            try:
                values[field.name] = field.metadata["parse"](data[key])
            except UsageError as problem:
                raise error(f"{at}: {problem.message}", hint=problem.hint) from problem
        else:
            values[field.name] = _value(hints[field.name], data[key], at, error)
    try:
        return cls(**values)
    except UsageError as problem:
        raise error(f"{where}: {problem.message}", hint=problem.hint) from problem


def _value(kind: Any, raw: Any, at: str, error: type[UsageError]) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if raw is None and type(None) in args:
            return None
        kinds = [arg for arg in args if arg is not type(None)]
        for arg in kinds[:-1]:
            try:
                return _value(arg, raw, at, error)
            except UsageError:
                continue
        return _value(kinds[-1], raw, at, error)
    if origin is Literal:
        if raw in args and type(raw) is type(args[args.index(raw)]):
            return raw
        raise error(f"{at}: {raw!r} is not one of them", hint=suggest(str(raw), map(str, args)))
    if origin in (list, tuple, frozenset):
        if not isinstance(raw, list | tuple):
            raise error(f"{at}: expected a list, got {raw!r}", hint="write it as [a, b]")
        return origin(_value(args[0], item, f"{at}[{index}]", error) for index, item in enumerate(raw))
    if origin in (dict, typing.Mapping, Mapping):
        if not isinstance(raw, Mapping):
            raise error(f"{at}: expected a table, got {raw!r}")
        return {str(name): _value(args[1], item, f"{at}.{name}", error) for name, item in raw.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(raw, Mapping):
            raise error(f"{at}: expected a table, got {raw!r}")
        return build(kind, raw, at, error)
    if kind is Any:
        return raw
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    if isinstance(raw, kind) and not (isinstance(raw, bool) and kind is not bool):
        return raw
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    raise error(f"{at}: expected {names.get(kind, getattr(kind, '__name__', str(kind)))}, got {raw!r}")
