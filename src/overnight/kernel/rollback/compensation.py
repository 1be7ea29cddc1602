"""How a tool's calls are made up for: `[[undo]]` tables name the call that does it and where its arguments come from.

    [[undo]]
    tool = "crm.create"
    with = "crm.delete"
    arguments.id = "result.id"              # a field of what the call returned, or "arguments.NAME" of the call itself
    arguments.reason = { is = "undone" }    # or always the same

What a call's arguments and result give for it is recorded with the result, when it is known; a rollback reads it there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from overnight.core.errors import SettingsError, UsageError
from overnight.core.schema import suggest
from overnight.kernel.canonical import Json
from overnight.kernel.tool.catalogue import Catalogue

UNSEEN: Final = object()
"""Stands for the result of a call that nobody saw end, or whose result is not on record."""


@dataclass(frozen=True)
class UndoRule:
    """One `[[undo]]` table.

    Attributes:
        tool: whose calls are made up for.
        by: the tool that does it.
        arguments: of that tool; `("result", "id")` is a path, anything else in a one-tuple is the value itself.
        where: where it stands.
    """

    tool: str
    by: str
    arguments: Mapping[str, tuple[Any, ...]]
    where: str = field(default="code", compare=False, repr=False)

    def call(self, arguments: Mapping[str, Json], result: object = UNSEEN) -> dict[str, Json]:
        """The arguments of the call that makes up for one with these arguments and this result.

        Raises:
            UsageError: something it needs is not there; says what.
        """
        known: dict[str, object] = {"arguments": arguments, "result": result}
        return {
            name: source[0] if len(source) == 1 else _find(known[source[0]], source)
            for name, source in self.arguments.items()
        }


def sources(raw: Any) -> dict[str, tuple[Any, ...]]:
    """Where arguments come from, as a table says.

    Raises:
        UsageError: it says something else.
    """
    if not isinstance(raw, Mapping):
        raise UsageError(f"expected a table of arguments, got {raw!r}", hint='arguments.id = "result.id"')
    return {str(name): _source(str(name), value) for name, value in raw.items()}


def check_undo(rules: Sequence[UndoRule], catalogue: Catalogue, servers_later: frozenset[str] = frozenset()) -> None:
    """Refuse rules that could never be followed.

    Args:
        rules: of the root file.
        catalogue: every tool that is known.
        servers_later: servers whose tools cannot be checked yet.

    Raises:
        SettingsError: with the rule's place.
    """
    known = {spec.id for spec in catalogue.specs}
    for rule in rules:
        for tool in (rule.tool, rule.by):
            if tool not in known and tool.partition(".")[0] not in servers_later:
                raise SettingsError(f"{rule.where}: there is no tool {tool!r}", hint=suggest(tool, known))
        spec = catalogue.find(rule.by)
        if spec is None:
            continue
        for name in rule.arguments:
            if name not in spec.by_name:
                raise SettingsError(
                    f"{rule.where}: arguments: {name!r} is no argument of {rule.by}",
                    hint=suggest(name, spec.by_name) if spec.by_name else "it takes none",
                )
        missing = [name for name in spec.required if name not in rule.arguments]
        if missing:
            raise SettingsError(
                f"{rule.where}: arguments: {rule.by} needs {missing[0]!r}", hint=f'arguments.{missing[0]} = "result.id"'
            )


def _source(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping) and set(value) == {"is"}:
        return (value["is"],)
    path = value.split(".") if isinstance(value, str) else []
    if len(path) < 2 or path[0] not in ("arguments", "result") or not all(path):
        raise UsageError(
            f"{name}: {value!r} says not where the value comes from",
            hint=f'arguments.{name} = "result.id", "arguments.{name}" or {{ is = "…" }}',
        )
    return tuple(path)


def _find(value: object, path: Sequence[str]) -> Json:
    if value is UNSEEN:
        raise UsageError("its result is not on record", hint="undo it by hand")
    for step in path[1:]:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise UsageError(f"there was no {'.'.join(path)}", hint="undo it by hand")
    return value  # type: ignore[return-value]  # what lies within JSON is JSON
