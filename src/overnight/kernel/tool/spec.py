"""What the gate knows about a tool: its arguments' needs, its effect, what its results may be trusted with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from overnight.core.errors import UsageError
from overnight.kernel.canonical import Json, content_hash
from overnight.kernel.flow.label import (
    CRITICAL_KINDS,
    PROSE_KINDS,
    Confidentiality,
    Integrity,
    Kind,
    Label,
    highest,
    satisfies,
)
from overnight.kernel.flow.value import LOOSE

Effect = Literal["read", "write", "egress", "commit", "destructive"]
"""`read` changes nothing; `write` changes the workspace; `egress` sends data out; `commit` binds the person (pays,
signs, books); `destructive` deletes."""

ValueType = Literal["string", "integer", "number", "boolean", "array", "object", "any"]

_TOOL_ID = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?\.[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool.

    Attributes:
        name: as the tool takes it.
        type: JSON type; the items of an array are checked one by one against `kind`'s rules.
        kind: what the value means; decides how it is traced and compared.
        required: whether a call without it is refused.
        integrity: the label it needs; None takes `system` for critical kinds and `any` for the others.
        carries: the highest confidentiality it may be given. None is `secret` for effects that stay here. For `egress`
            and `commit` (the other side reads the memo too) it is `public` for prose, and `private` for what says whom,
            what and when a call is about: the other side learns that anyway, and a value of the wrong origin is asked
            about.
        of: what an id or name identifies, e.g. `file`; one of a `file` never stands for one of an `event`.
        at: dotted path to where the value lies within structured arguments: `*.file_id`; `` is the whole argument.
        into: the call writes into the object this names: whoever can read the object reads what is written.
        discloses: the call shows the object this names to the call's recipients.
    """

    name: str
    type: ValueType = "string"
    kind: Kind = "text"
    required: bool = True
    integrity: Integrity | None = None
    carries: Confidentiality | None = None
    of: str = ""
    at: str = ""
    into: bool = False
    discloses: bool = False

    @property
    def needs(self) -> Integrity:
        """The label it needs, resolved."""
        if self.integrity is not None:
            return self.integrity
        return "system" if self.kind in CRITICAL_KINDS else "any"

    def may_carry(self, effect: Effect) -> Confidentiality:
        """The highest confidentiality it may be given in a call of this effect, resolved."""
        if self.carries is not None:
            return self.carries
        if effect not in ("egress", "commit"):
            return "secret"
        return "public" if self.kind in PROSE_KINDS else "private"

    @property
    def critical(self) -> bool:
        """Whether a value of the wrong origin makes the call `ask` at best."""
        return self.needs != "any"


@dataclass(frozen=True, slots=True)
class ResultField:
    """What one field of a tool's result may be trusted with; fields that are not declared are untrusted text.

    Attributes:
        path: dotted, `*` for every item of a list or table: `*.sender`, `balance`; `` is the whole result.
        label: `system` only where the system itself asserts it (an id, a timestamp, a header), never a body.
        kind: what it means, so that it can serve as an argument of the same kind later.
        confidentiality: None takes the tool's.
        of: what an id or name identifies, as in `Argument.of`.
    """

    path: str
    label: Label = "untrusted"
    kind: Kind = "text"
    confidentiality: Confidentiality | None = None
    of: str = ""


@dataclass(frozen=True, slots=True)
class Audience:
    """Who else can read an object that a tool shows, as the system asserts it: a file's sharers, an event's guests.

    What is written into the object later, by any tool, goes to them; what was read from it may go back to them.

    Attributes:
        of: what the object is, as in `Argument.of`: `file`.
        readers: dotted paths, from the object, to who can read it; empty if nobody else ever can; None if the result
            does not tell, which only says that this object was read.
        id: dotted path to its id from the object; or `@argument` where the call itself named it.
        items: where the objects are in the result: `*` for each of a list or table, `` for the whole.
        own: what readers call the person; left out of them.
    """

    of: str
    readers: tuple[str, ...] | None = None
    id: str = "id"
    items: str = "*"
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolSpec:
    """Everything a decision needs to know about a tool.

    Attributes:
        id: `server.tool`; the server has no dot.
        effect: the worst it does.
        arguments: every argument it takes; others are refused.
        reversible: whether a rollback can undo it (files and git by snapshot, others by a registered compensator).
        family: what rights of roles and thresholds of limits speak about, e.g. `mail`; empty is the server.
        egress_with: arguments that make a call `egress` when they are given: a guest gets a mail.
        aliases: other names that resolve to `id`.
        fields: what the result's fields may be trusted with.
        confidentiality: of result fields that do not say.
        content: labels for combinations on what its results bring in, e.g. `web`, `crm`, `secret`.
        audiences: who can read the objects that its results show; of others the kernel takes it that nobody may see
            what was read, and that strangers see what is written `into` them.
        author: path in the result to who wrote the item it lies in: `*.sender`.
        echoes: the result tells nothing but what the arguments said, an id aside: nothing confidential is read by it.
        needs_one: of these arguments the person must have typed at least one, or the call is `ask`.
        implementation: version or hash of the code behind it; a change changes `version`.
        description: one sentence for people.
    """

    id: str
    effect: Effect
    arguments: tuple[Argument, ...] = ()
    reversible: bool = False
    family: str = ""
    egress_with: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    fields: tuple[ResultField, ...] = ()
    confidentiality: Confidentiality = "public"
    content: frozenset[str] = frozenset()
    audiences: tuple[Audience, ...] = ()
    author: str = ""
    echoes: bool = False
    needs_one: tuple[str, ...] = ()
    implementation: str = ""
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if _TOOL_ID.fullmatch(self.id) is None:
            raise UsageError(
                f"{self.id!r} is not a tool id", hint="write it as server.tool, in plain letters, digits, '_' and '-'"
            )
        names = [argument.name for argument in self.arguments]
        if len(set(names)) != len(names):
            raise UsageError(f"{self.id}: an argument is declared twice: {', '.join(names)}", hint="remove one of them")
        for result in self.fields:
            if result.label == "user":
                raise UsageError(
                    f"{self.id}: result field {result.path!r} cannot be 'user'",
                    hint="a tool never speaks for the person; use 'system' or 'untrusted'",
                )
        named = [*self.needs_one, *(a.id[1:] for a in self.audiences if a.id.startswith("@"))]
        strange = next((name for name in named if name not in names), None)
        if strange is not None:
            raise UsageError(f"{self.id}: there is no argument {strange!r}", hint=f"known: {', '.join(names)}")

    @property
    def server(self) -> str:
        """The part of the id before the first dot."""
        return self.id.partition(".")[0]

    def as_called(self, arguments: Mapping[str, Json]) -> "ToolSpec":
        """This specification with the effect that a call with these arguments has."""
        if self.egress_with and any(arguments.get(name) for name in self.egress_with):
            return self.sent
        return self

    @cached_property
    def sent(self) -> "ToolSpec":
        """This specification for calls that send what they write."""
        variant = replace(self, effect="egress")
        # Approvals and grants speak of the tool, not of one way of calling it.
        variant.__dict__["version"] = self.version
        return variant

    @cached_property
    def by_name(self) -> Mapping[str, Argument]:
        """The arguments by name."""
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def critical(self) -> tuple[tuple[Argument, frozenset[Label]], ...]:
        """The critical arguments and the labels that each takes."""
        labels: tuple[Label, ...] = get_args(Label)
        return tuple(
            (argument, frozenset(label for label in labels if satisfies(label, argument.needs)))
            for argument in self.arguments
            if argument.critical
        )

    @cached_property
    def destinations(self) -> tuple[Argument, ...]:
        """The arguments that are spelled as whoever vouches for them does, not as a model likes."""
        return tuple(argument for argument in self.arguments if argument.kind in LOOSE and not argument.at)

    @cached_property
    def addresses(self) -> tuple[Argument, ...]:
        """The arguments that say who gets what a call sends."""
        return tuple(argument for argument in self.arguments if argument.kind in ("recipient", "url", "account"))

    @cached_property
    def objects(self) -> tuple[Argument, ...]:
        """The arguments that name an object which the call writes into or shows."""
        return tuple(argument for argument in self.arguments if argument.into or argument.discloses)

    @cached_property
    def guarded(self) -> bool:
        """Whether a call is looked at for more than its arguments one by one."""
        return bool(self.needs_one) or any(argument.discloses for argument in self.arguments)

    @cached_property
    def messages(self) -> tuple[Argument, ...]:
        """The arguments that are text which people act on."""
        return tuple(argument for argument in self.arguments if argument.kind == "message")

    @cached_property
    def level(self) -> Confidentiality:
        """The most confidential thing that a result may hold."""
        return highest(self.confidentiality, *(result.confidentiality or "public" for result in self.fields))

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Names of the required arguments."""
        return tuple(argument.name for argument in self.arguments if argument.required)

    @cached_property
    def version(self) -> str:
        """SHA-256 over everything a decision depends on; approvals and grants are bound to it."""
        return content_hash(self._described())

    def _described(self) -> Json:
        return {
            "id": self.id,
            "effect": self.effect,
            "arguments": [
                [a.name, a.type, a.kind, a.required, a.needs, a.carries, a.of, a.at, a.into, a.discloses]
                for a in self.arguments
            ],
            "reversible": self.reversible,
            "family": self.family or self.server,
            "egress_with": sorted(self.egress_with),
            "aliases": sorted(self.aliases),
            "fields": [[f.path, f.label, f.kind, f.confidentiality, f.of] for f in self.fields],
            "confidentiality": self.confidentiality,
            "content": sorted(self.content),
            "audiences": [
                [a.of, None if a.readers is None else list(a.readers), a.id, a.items, list(a.own)]
                for a in self.audiences
            ],
            "author": self.author,
            "echoes": self.echoes,
            "needs_one": sorted(self.needs_one),
            "implementation": self.implementation,
        }
