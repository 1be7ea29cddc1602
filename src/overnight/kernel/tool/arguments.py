"""Arguments of a call, checked against the tool's declaration and brought to the one form that is matched and run."""

import math
from collections.abc import Mapping

from overnight.core.errors import UsageError
from overnight.core.escape import visible
from overnight.core.schema import suggest
from overnight.kernel.canonical import Json
from overnight.kernel.paths import PathRoot
from overnight.kernel.tool.spec import Argument, ToolSpec, ValueType

_PYTHON: dict[ValueType, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "any": (str, int, float, bool, list, tuple, dict, type(None)),
}
_DEEPEST = 32


class BadArguments(UsageError):
    """The arguments are not what the tool takes; nothing is decided about them but denial."""


def resolved(spec: ToolSpec, arguments: Mapping[str, Json], paths: PathRoot) -> dict[str, Json]:
    """`arguments` as they will be matched and executed: only declared ones, paths resolved.

    Raises:
        BadArguments: one is missing, unknown, or of the wrong type.
        PathRefused: a path cannot be resolved.
    """
    known = spec.by_name
    done: dict[str, Json] = {}
    for name, value in arguments.items():
        argument = known.get(name)
        if argument is None:
            raise BadArguments(
                f"{spec.id} takes no argument {visible(str(name), limit=60)!r}",
                hint=suggest(str(name), known) if known else "it takes none",
            )
        if value is None and not argument.required:
            continue
        if type(value) is not str or argument.type != "string":
            value = _checked(spec, argument, value)
        if argument.kind == "path":
            done[name] = paths.name(value) if type(value) is str else _paths(value, paths)
        else:
            done[name] = value
    for name in spec.required:
        if name not in done:
            raise BadArguments(f"{spec.id}: {name!r} is missing", hint=f"give {name}")
    return done


def _checked(spec: ToolSpec, argument: Argument, value: Json) -> Json:
    """A copy that nobody else holds: what was decided is what is shown, recorded and run, whatever a caller does."""
    wanted = _PYTHON[argument.type]
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise BadArguments(
            f"{spec.id}: {argument.name} should be of type {argument.type}, got {visible(repr(value), limit=60)}",
            hint="see `overnight gate matrix`",
        )
    return _plain(spec, argument, value, 0)


def _plain(spec: ToolSpec, argument: Argument, value: Json, depth: int) -> Json:
    if depth > _DEEPEST:
        raise BadArguments(f"{spec.id}: {argument.name} is nested deeper than {_DEEPEST}", hint="pass it flat")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in dict.keys(value)):
            raise BadArguments(f"{spec.id}: {argument.name} has a key that is not text", hint="use text as keys")
        return {str.__str__(key): _plain(spec, argument, item, depth + 1) for key, item in dict.items(value)}
    if isinstance(value, list | tuple):
        return [_plain(spec, argument, item, depth + 1) for item in value]
    if value is None or isinstance(value, bool):
        return value
    # Of what is made like a text or a number, what it is; it could answer otherwise each time that it is asked.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if not isinstance(value, float):
        raise BadArguments(f"{spec.id}: {argument.name} is no JSON value", hint="pass text, numbers, lists, tables")
    if not math.isfinite(value):
        raise BadArguments(f"{spec.id}: {argument.name} is not a finite number", hint="pass a finite number")
    return float.__float__(value)


def _paths(value: Json, paths: PathRoot) -> Json:
    if isinstance(value, list | tuple):
        return [_paths(item, paths) for item in value]
    if not isinstance(value, str):
        raise BadArguments(f"{visible(repr(value), limit=60)} is not a path", hint="pass text")
    return paths.name(value)
