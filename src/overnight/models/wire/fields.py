"""Reading what clients and providers send: values of the type a format promises, or a `BadRequest` that names them."""

import json
from collections.abc import Mapping
from typing import Any

from overnight.models.wire.neutral import BadRequest, Media

DATA_URL = "data:"
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(value: Any) -> bytes:
    """`value` as compact JSON."""
    return _ENCODE(value).encode("utf-8", "surrogatepass")


def text(value: Any, where: str) -> str:
    """A text; nothing is an empty one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise BadRequest(f"{where} has to be text, not {type(value).__name__}")


def listed(value: Any, where: str) -> list[Any]:
    """A list; nothing is an empty one."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise BadRequest(f"{where} has to be a list, not {type(value).__name__}")


def table(value: Any, where: str) -> Mapping[str, Any]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise BadRequest(f"{where} has to be an object, not {type(value).__name__}")


def count(value: Any, where: str) -> int | None:
    """A whole number from 1, or nothing."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise BadRequest(f"{where} has to be a whole number from 1, not {value!r}")


def flag(value: Any, where: str) -> bool:
    """True or false; nothing is false."""
    if value is None or isinstance(value, bool):
        return value is True
    raise BadRequest(f"{where} has to be true or false, not {value!r}")


def number(value: Any, where: str) -> float | None:
    """A number, or nothing."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadRequest(f"{where} has to be a number, not {value!r}")


def texts(value: Any, where: str) -> tuple[str, ...]:
    """One text, several, or none."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(item, where) for item in listed(value, where))


def inner(value: Any) -> dict[str, Any]:
    """An object of a provider's answer; an empty one for anything else, since what was paid for has to be read."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """The objects in a list of a provider's answer; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def words(value: Any) -> str:
    """A text of a provider's answer; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def tokens(usage: Mapping[str, Any], *names: str) -> int:
    """A count within a provider's usage, by its path; 0 where there is none."""
    found: Any = usage
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def media(url: str, default: str = "image") -> Media:
    """An image from a URL, which may hold it."""
    if url.startswith(DATA_URL):
        kind, _, data = url[len(DATA_URL) :].partition(";base64,")
        return Media(kind or default, data)
    return Media(default, "", url)


def parsed(arguments: str) -> Any:
    """A tool call's arguments; what is not JSON is kept as text."""
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return {"_": arguments}
