"""How often a session calls at the same place once it has read something confidential: how often is a message too.

Whoever owns a place sees every call, so that a model which may not say what it has read could count it out: one visit
is an "a", two are a "b". So the second look is the last that needs no yes, and no place is called at much more often.
"""

from collections.abc import Mapping

from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.flow.value import LOOSE, key_of
from overnight.kernel.tool.spec import ToolSpec

MOST_ALIKE = 2
"""A page may be read again, after something was posted to it: AgentDojo's requests never need a third look."""

MOST_AT_ONE_HOST = 4
"""Twice what any of AgentDojo's requests needs of one site."""

_OUT = frozenset({"egress", "commit"})


class Visits:
    """Of one session tree. Not thread-safe: the gate serialises a tree's calls."""

    def __init__(self, *, unknown: bool = False) -> None:
        """`unknown`: there may have been any number, as after a restart."""
        self._unknown = unknown
        self._alike: dict[bytes, int] = {}
        self._hosts: dict[str, int] = {}

    def count(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> None:
        """A call is about to be made after something confidential was read; `spec` is as it is aimed."""
        if spec.effect == "egress":
            key = _alike(spec, arguments)
            self._alike[key] = self._alike.get(key, 0) + 1
        if spec.effect in _OUT:
            for host in _hosts(spec, arguments):
                self._hosts[host] = self._hosts.get(host, 0) + 1

    def too_many(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> str | None:
        """Why one more such call would be too many; None if it is not."""
        if spec.effect not in _OUT:
            return None
        hosts = _hosts(spec, arguments)
        if hosts and self._unknown:
            return f"nobody knows any more how often {spec.id} was called before the restart"
        if spec.effect == "egress" and self._alike.get(_alike(spec, arguments), 0) >= MOST_ALIKE:
            return f"{spec.id} was called with the same arguments {MOST_ALIKE} times already"
        if any(self._hosts.get(host, 0) >= MOST_AT_ONE_HOST for host in hosts):
            return f"{spec.id} would call at one site more than {MOST_AT_ONE_HOST} times"
        return None


def _alike(spec: ToolSpec, arguments: Mapping[str, Json]) -> bytes:
    known = spec.by_name
    shown: Json = {
        name: (key_of(value, known[name].kind) if known[name].kind in LOOSE and isinstance(value, str) else value)
        for name, value in arguments.items()
    }
    return canonical_json([spec.id, shown])


def _hosts(spec: ToolSpec, arguments: Mapping[str, Json]) -> set[str]:
    found = set()
    for argument in spec.destinations:
        given = arguments.get(argument.name) if argument.kind == "url" else None
        for value in given if isinstance(given, list | tuple) else (given,):
            key = key_of(value, "url")
            if key is not None:
                found.add(key.partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0])
    return found
