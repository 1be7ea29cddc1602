"""Values compared by what they mean, and where they lie in structured data."""

import re
from collections.abc import Mapping, Sequence

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Kind

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_AFTER_HOST = re.compile(r"[/?#\\]")
LOOSE: frozenset[Kind] = frozenset({"url", "recipient", "account", "id"})
"""Kinds of destinations whose values are compared more loosely than whoever gets them sees them."""


def key_of(value: Json, kind: Kind) -> str | None:
    """The form in which two values of `kind` are equal; None if it is no such value."""
    if isinstance(value, bool) or value is None:
        return None
    if kind in ("amount", "number"):
        try:
            return repr(float(value))  # type: ignore[arg-type]  # lists and tables raise TypeError
        except (TypeError, ValueError):
            return None
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str) or not value:
        return None
    if kind == "account":
        return re.sub(r"\s", "", value).upper()
    if kind == "url":
        return url_key(value)
    if kind == "date":
        return value.replace("T", " ")
    if kind == "recipient":
        return value.casefold()
    return value


def url_key(value: str) -> str:
    """The form in which two addresses are equal."""
    scheme, found, rest = value.partition("://")
    if not found or _SCHEME.fullmatch(scheme) is None:
        scheme, rest = "https", value
    # Only a host's name means the same in capitals: neither what logs in before it nor what is asked of it after it.
    after = _AFTER_HOST.search(rest)
    end = after.start() if after else len(rest)
    login, sign, host = rest[:end].rpartition("@")
    # http and https of one address count as one: which of them was typed says nothing about who chose the address.
    plain = "web" if scheme.lower() in ("http", "https") else scheme.lower()
    return f"{plain}://{login}{sign}{host.lower()}{rest[end:].rstrip('/')}"


def select(value: Json, path: Sequence[str]) -> list[Json]:
    """The values at a dotted path; `*` goes into every item of a list or table."""
    if not path:
        return [value]
    step, rest = path[0], path[1:]
    if step == "*":
        if isinstance(value, Mapping):
            return [found for item in value.values() for found in select(item, rest)]
        if isinstance(value, list | tuple):
            return [found for item in value for found in select(item, rest)]
        return []
    if step == "@keys":
        return list(value) if isinstance(value, Mapping) else []
    if isinstance(value, Mapping) and step in value:
        return select(value[step], rest)
    return []


def at(value: Json, path: str) -> list[Json]:
    """The values at a dotted path as it is declared; an empty one is the whole value."""
    return select(value, path.split(".") if path else [])


def leaves(value: Json) -> list[Json]:
    """Every text, number and flag in `value`, names of tables' fields aside."""
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]
