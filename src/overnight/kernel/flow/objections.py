"""What a call would tell to whom, and whether they may be told: every objection to where information would flow.

Nothing here compares texts. Prose that a model wrote may hold anything the session has read; so what counts is who
would get it, whether the person chose them, and what the session has read that the person did not speak of.
"""

import re
from collections.abc import Mapping

from overnight.kernel.canonical import Json
from overnight.kernel.decision import Reason, Verdict
from overnight.kernel.flow.label import Kind, Origin, exceeds
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.flow.sources import Recipients, objects_in, objects_of
from overnight.kernel.flow.value import at
from overnight.kernel.rules.matrix import Ruling
from overnight.kernel.tool.spec import Argument, ToolSpec

Objection = tuple[Verdict, Reason]

_OUT = frozenset({"egress", "commit"})
_FREE: frozenset[Kind] = frozenset({"text", "phrase", "message", "command"})
# What a rule lists one by one can tell no more than which of them was chosen; of commands it lists only the program.
_LISTED: frozenset[Kind] = frozenset({"text", "phrase", "message"})


_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?")
# What adding up floats may leave over of a hundredth; more is digits that somebody put there.
_CENT_SLIP = 1e-6
_FLAG = re.compile(r"[A-Za-z_-]{1,12}")


def aimed(spec: ToolSpec, arguments: Mapping[str, Json], provenance: Provenance) -> ToolSpec:
    """The specification with the effect that this call has: what others can read is sent to them."""
    if spec.egress_with:
        spec = spec.as_called(arguments)
    if spec.effect != "write" or not spec.objects:
        return spec
    for key in objects_of(spec, arguments):
        readers = provenance.sources.readers(key)
        if readers is None or readers:  # nobody told who can read it: it may be anybody
            return spec.sent
    return spec


def named(spec: ToolSpec, arguments: Mapping[str, Json], origins: Mapping[str, Origin], ruling: Ruling) -> bool:
    """Whether the person, or the rule, chose all to whom a call sends; False also where only `_recipients` can tell."""
    if spec.objects:
        return False
    any_ = False
    for argument in spec.addresses:
        name = argument.name
        if name not in arguments:
            continue
        if (
            type(arguments[name]) is not str
            or argument.at
            or not (origins[name].label == "user" or name in ruling.bounded)
        ):
            return False
        any_ = True
    return any_


def strays(spec: ToolSpec, provenance: Provenance) -> bool:
    """Whether a call may leave what the person spoke of, after something of it was read."""
    return provenance.sources.spoken and spec.level != "public" and not spec.echoes


def objections(
    spec: ToolSpec,
    arguments: Mapping[str, Json],
    origins: Mapping[str, Origin],
    ruling: Ruling,
    provenance: Provenance,
    *,
    may_send: bool,
) -> list[Objection]:
    """Everything that speaks against a call that the rules allow.

    Args:
        spec: as the call is aimed (see `aimed`).
        arguments: resolved.
        origins: of each argument.
        ruling: what the rules said.
        provenance: of the session tree.
        may_send: whether the session could send prose that is confidential; else what it reads goes nowhere.
    """
    found: list[Objection] = []
    if spec.needs_one and not any(
        name in arguments and provenance.known_to_person(spec.by_name[name], arguments[name]) for name in spec.needs_one
    ):
        names = " or ".join(spec.needs_one)
        found.append(("ask", Reason("nobody_named", f"{spec.id} needs a {names} that you typed; you typed none")))
    found += _confidential(spec, arguments, origins, ruling)
    if spec.effect in _OUT:
        often = provenance.visits.too_many(spec, arguments) if provenance.peak != "public" else None
        if often is not None:
            found.append(("ask", Reason("repeated_call", f"{often}: how often can tell what was read")))
        found += _sent(spec, arguments, origins, ruling, provenance)
    elif may_send and strays(spec, provenance) and not provenance.speaks_of(spec, arguments):
        sentence = f"you did not speak of what {spec.id} would read, and the session may send what it has read"
        found.append(("ask", Reason("unnamed_read", sentence)))
    return found


def _confidential(
    spec: ToolSpec, arguments: Mapping[str, Json], origins: Mapping[str, Origin], ruling: Ruling
) -> list[Objection]:
    found: list[Objection] = []
    for name, origin in origins.items():
        argument = spec.by_name[name]
        if origin.confidentiality == "public" or _listed(argument, ruling):
            continue
        allowed = ruling.carries.get(name) or argument.may_carry(spec.effect)
        if (
            argument.carries is None
            and spec.effect in _OUT
            and name in arguments
            and not _fits(argument, arguments[name])
        ):
            allowed = ruling.carries.get(name, "public")
        if exceeds(origin.confidentiality, allowed):
            sentence = (
                f"{name} of {spec.id} may carry what is {allowed}; "
                f"this value may hold something {origin.confidentiality} ({origin.source})"
            )
            found.append(("deny", Reason("confidential_egress", sentence)))
    return found


def _fits(argument: Argument, value: Json) -> bool:
    """Whether a value has the form of its kind; one that has not can say anything, like prose."""
    if isinstance(value, list | tuple):
        return all(_fits(argument, item) for item in value)
    if argument.kind == "date":
        return isinstance(value, str) and _MOMENT.fullmatch(value) is not None
    if argument.kind == "flag":
        return isinstance(value, bool) or (isinstance(value, str) and _FLAG.fullmatch(value) is not None)
    if argument.kind in ("amount", "number"):
        return isinstance(value, int | float) and abs(value * 100 - round(value * 100)) < _CENT_SLIP
    return True


def _sent(
    spec: ToolSpec,
    arguments: Mapping[str, Json],
    origins: Mapping[str, Origin],
    ruling: Ruling,
    provenance: Provenance,
) -> list[Objection]:
    found: list[Objection] = []
    to, chosen = _recipients(spec, arguments, origins, ruling, provenance)
    sources = provenance.sources
    if provenance.told and not chosen and not sources.read_in(to):
        name = next((a.name for a in spec.messages if _unasked(a, arguments, origins, ruling, provenance)), None)
        if name is not None:
            sentence = f"{name} of {spec.id} is nobody's words but the agent's, to somebody whom you did not name"
            found.append(("ask", Reason("unrequested_message", sentence)))
    if provenance.peak != "public":
        carrying = [a for n, v in arguments.items() if _carries(spec, a := spec.by_name[n], v, origins[n], ruling)]
        for argument in carrying:
            # Whom a person chose may be told what the person spoke of: in a message. A title, a place, a time only say
            # what a call is about.
            told = chosen and argument.kind == "message"
            hidden = sources.hidden_from(to, chosen=told)
            if hidden is not None:
                why = "of which you did not speak" if told else "which not everybody who gets this may see"
                sentence = f"{argument.name} of {spec.id} may hold what was read by {hidden}, {why}"
                found.append(("ask", Reason("unnamed_source", sentence)))
                break
    for key in objects_of(spec, arguments, discloses=True) if spec.objects else ():
        readers = sources.readers(key)
        if not (chosen and sources.spoke_of(key)) and not (readers is not None and to.names and to.names <= readers):
            sentence = f"{spec.id} would show {key[0]} {key[1]}, of which you did not speak, to others"
            found.append(("ask", Reason("unnamed_object", sentence)))
    return found


def _recipients(
    spec: ToolSpec,
    arguments: Mapping[str, Json],
    origins: Mapping[str, Origin],
    ruling: Ruling,
    provenance: Provenance,
) -> tuple[Recipients, bool]:
    """Who would see what is sent, and whether the person, or the rule, chose all of them."""
    names: set[str] = set()
    strangers, any_, chosen = False, False, True
    for argument in spec.addresses:
        if argument.name not in arguments:
            continue
        values = [v for given in at(arguments[argument.name], argument.at) for v in _each(given)]
        if not values:
            continue
        any_ = True
        strangers = strangers or argument.kind != "recipient"
        names.update(str(value).casefold() for value in values)
        chosen = chosen and (origins[argument.name].label == "user" or argument.name in ruling.bounded)
    objects = objects_of(spec, arguments)
    for argument in spec.objects:
        if argument.into and argument.name in arguments:
            any_ = True
            keys = objects_in(argument, arguments)
            mine = origins[argument.name].label == "user" or argument.name in ruling.bounded
            chosen = chosen and (mine or (bool(keys) and all(map(provenance.sources.spoke_of, keys))))
    return Recipients(frozenset(names), objects, strangers), any_ and chosen


def _each(value: Json) -> tuple[Json, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _unasked(
    argument: Argument,
    arguments: Mapping[str, Json],
    origins: Mapping[str, Origin],
    ruling: Ruling,
    provenance: Provenance,
) -> bool:
    """Whether a message is of a model's making."""
    value = arguments.get(argument.name)
    if not value or origins[argument.name].label != "untrusted" or _listed(argument, ruling):
        return False
    return not provenance.composed(value)


def _carries(spec: ToolSpec, argument: Argument, value: Json, origin: Origin, ruling: Ruling) -> bool:
    """Whether an argument may tell something that was read."""
    if origin.confidentiality == "public" or _listed(argument, ruling):
        return False
    if argument.kind in _FREE or not _fits(argument, value):
        return True
    # A day and an hour that a model made up can tell a code; of a payment there are too few to matter.
    return argument.kind == "date" and origin.label == "untrusted" and spec.effect == "egress"


def _listed(argument: Argument, ruling: Ruling) -> bool:
    return argument.kind in _LISTED and argument.name in ruling.bounded
