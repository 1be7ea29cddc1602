"""Tools declared in a permissions block, for those whose server does not declare them itself.

[[tool]]
id = "crm.send"
effect = "egress"
arguments = [{ name = "to", kind = "recipient" }, { name = "text", kind = "message" }]
fields = [{ path = "id", label = "system", kind = "id", of = "message" }]
"""

from dataclasses import dataclass, field
from typing import Any

from overnight.core.errors import SettingsError, UsageError
from overnight.core.schema import build, parsed_by
from overnight.kernel.flow.label import Confidentiality
from overnight.kernel.tool.spec import Argument, Audience, Effect, ResultField, ToolSpec


def _arguments(raw: Any) -> tuple[Argument, ...]:
    return tuple(build(Argument, item, "argument", SettingsError) for item in _items(raw))


def _fields(raw: Any) -> tuple[ResultField, ...]:
    return tuple(build(ResultField, item, "field", SettingsError) for item in _items(raw))


def _audiences(raw: Any) -> tuple[Audience, ...]:
    return tuple(build(Audience, item, "audience", SettingsError) for item in _items(raw))


def _items(raw: Any) -> list[dict[str, Any]]:
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        raise UsageError(f"expected a list of tables, got {raw!r}", hint='write [{ name = "to", kind = "recipient" }]')
    return raw


@dataclass(frozen=True)
class ToolText:
    """One `[[tool]]` table; the keys are those of `ToolSpec`."""

    id: str
    effect: Effect
    arguments: tuple[Argument, ...] = field(default=(), metadata=parsed_by(_arguments))
    reversible: bool = False
    family: str = ""
    egress_with: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    fields: tuple[ResultField, ...] = field(default=(), metadata=parsed_by(_fields))
    confidentiality: Confidentiality = "public"
    content: tuple[str, ...] = ()
    audiences: tuple[Audience, ...] = field(default=(), metadata=parsed_by(_audiences))
    author: str = ""
    echoes: bool = False
    needs_one: tuple[str, ...] = ()
    description: str = ""


def declared_tool(text: ToolText, at: str) -> ToolSpec:
    """The specification that a table declares.

    Raises:
        SettingsError: it contradicts itself; `at` says where.
    """
    try:
        return ToolSpec(
            text.id,
            text.effect,
            text.arguments,
            reversible=text.reversible,
            family=text.family,
            egress_with=text.egress_with,
            aliases=text.aliases,
            fields=text.fields,
            confidentiality=text.confidentiality,
            content=frozenset(text.content),
            audiences=text.audiences,
            author=text.author,
            echoes=text.echoes,
            needs_one=text.needs_one,
            description=text.description,
        )
    except UsageError as problem:
        raise SettingsError(f"{at}: {problem.message}", hint=problem.hint) from None
