"""What a grant allows, and how that is written as a biscuit's Datalog.

Text that goes into a block has no quotes, backslashes, dollar signs or control characters, so that a block's printed
source can be read back without doubt (see `grants`).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from biscuit_auth import AuthorizerBuilder, Check, Fact

from overnight.core.errors import UsageError
from overnight.kernel.canonical import Json, canonical_json

_PLAIN = re.compile(r'[^"\\$\x00-\x1f\x7f]{1,1024}')
_PATTERN = re.compile(r"\*|[a-z0-9][a-z0-9_-]*\.(?:\*|[A-Za-z0-9._/-]+)")
_BIGGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit on one argument. It must be present, and every item of a list must be within the limit.

    Attributes:
        argument: its name.
        kind: `under`: a path in one of the folders; `ends_with`: text with one of the endings; `one_of`: one of the
            texts; `at_most`: a number.
        values: folders, endings or texts; for `at_most` one whole number.
        tools: the calls it is about, as patterns; other calls of the grant are not touched. Empty is every call.
    """

    argument: str
    kind: Literal["under", "ends_with", "one_of", "at_most"]
    values: tuple[str | int, ...]
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Terms:
    """What is granted. Everything must hold.

    Attributes:
        tools: patterns: a tool id, `server.*` or `*`. No patterns, no calls.
        bounds: limits on arguments.
        expires_at: seconds since the epoch; None leaves it as it is (in an attenuation).
        policy: hash of the matrix it was made under; another one ends it. Empty leaves it as it is.
    """

    tools: tuple[str, ...]
    bounds: tuple[Bound, ...] = ()
    expires_at: float | None = None
    policy: str = ""

    def checks(self) -> list[Check]:
        """As checks of a block.

        Raises:
            UsageError: a pattern or value cannot be written down.
        """
        condition, values = _matches(self.tools)
        checks = [Check(f"check if tool($t), {condition}", values)]
        checks += [_bound_check(bound) for bound in self.bounds]
        if self.expires_at is not None:
            expires = datetime.fromtimestamp(math.floor(self.expires_at), UTC)
            checks.append(Check("check if time($now), $now < {expires}", {"expires": expires}))
        if self.policy:
            checks.append(Check("check if policy({policy})", {"policy": _plain(self.policy)}))
        return checks


Term: TypeAlias = str | int | bool


def call_facts(builder: AuthorizerBuilder, tool: str, arguments: Mapping[str, Json], policy: str) -> None:
    """Tell an authorizer what is called.

    Every scalar, also within a list, is an `arg` fact, every number a `number` fact rounded up. What is no scalar
    becomes a fact that no limit accepts: a list of one good and one odd item must not pass.
    """
    builder.add_fact(Fact("time({now})", {"now": datetime.now(UTC)}))
    builder.add_fact(Fact("tool({tool})", {"tool": tool}))
    builder.add_fact(Fact("policy({policy})", {"policy": policy}))
    for name, value in arguments.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            builder.add_fact(Fact("arg({name}, {value})", {"name": name, "value": _scalar(item)}))
            builder.add_fact(Fact("number({name}, {value})", {"name": name, "value": _number(item)}))


def _scalar(item: Json) -> Term:
    if isinstance(item, str | bool) or (isinstance(item, int) and abs(item) <= _BIGGEST):
        return item
    return "\x00" + canonical_json(item).decode()


def _number(item: Json) -> Term:
    if isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item) and abs(item) < _BIGGEST:
        return math.ceil(item)
    return "not a number"


def _bound_check(bound: Bound) -> Check:
    values: dict[str, object] = {"name": _plain(bound.argument)}
    if not bound.values:
        raise UsageError(f"the bound on {bound.argument!r} allows nothing", hint="name at least one value")
    if bound.kind == "at_most":
        limit = bound.values[0]
        if len(bound.values) != 1 or not isinstance(limit, int) or isinstance(limit, bool):
            raise UsageError(f"{bound.values!r} is no upper limit", hint="name one whole number")
        values["limit"] = limit
        condition = "number({name}, $x), $x <= {limit}"
    else:
        texts = [_plain(value) for value in bound.values]
        tests = []
        for index, text in enumerate(texts):
            if bound.kind == "under":
                folder = text.rstrip("/")
                values |= {f"v{index}": folder, f"w{index}": folder + "/"}
                tests.append(f"$x == {{v{index}}} || $x.starts_with({{w{index}}})")
            else:
                values[f"v{index}"] = text
                tests.append(f"$x.ends_with({{v{index}}})" if bound.kind == "ends_with" else f"$x == {{v{index}}}")
        condition = f"arg({{name}}, $x), {' || '.join(tests)}"
    if bound.tools:
        matches, names = _matches(bound.tools)
        values |= names
        condition += f" or tool($t), !({matches})"
    return Check(f"check all {condition}", values)


def _matches(patterns: tuple[str, ...]) -> tuple[str, dict[str, object]]:
    """A Datalog condition on `$t`, and its parameters."""
    tests, values = [], {}
    for index, pattern in enumerate(patterns):
        if _PATTERN.fullmatch(pattern) is None:
            raise UsageError(f"{pattern!r} matches no tools", hint="write server.tool, server.* or *")
        if pattern == "*":
            return "true", {}
        if pattern.endswith(".*"):
            tests.append(f"$t.starts_with({{t{index}}})")
            values[f"t{index}"] = pattern[:-1]
        else:
            tests.append(f"$t == {{t{index}}}")
            values[f"t{index}"] = pattern
    if not tests:
        return "false", {}
    return " || ".join(tests), dict(values)


def _plain(value: object) -> str:
    if not isinstance(value, str) or _PLAIN.fullmatch(value) is None:
        raise UsageError(
            f"{value!r} cannot be in a grant", hint="use text without quotes, backslashes, dollar signs or controls"
        )
    return value
