"""Who may do what: rules in layers, compiled into cells that are found by agent, tenant and tool.

A layer is one AGENTS.md file, or rules made by code. The outermost layer grants; every further one, and every
sub-agent, can only narrow. Within a layer deny goes before ask, ask before allow, whatever the order in the file; what
nothing allows is denied. (The public AGENTS.md convention, "the closest file wins", would let a file that an agent
can write grant what its owner refused.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from overnight.kernel.canonical import Json, content_hash
from overnight.kernel.constraint import Constraint
from overnight.kernel.label import Confidentiality, Kind, Origin
from overnight.kernel.session import Principal
from overnight.kernel.tool import Effect, ToolSpec

RuleVerdict = Literal["allow", "ask", "deny"]

_EMPTY_ORIGIN = Origin("untrusted", "public", "not traced")


@dataclass(frozen=True)
class Rule:
    """One rule. Empty tuples mean "any", except that a rule must name tools or families.

    Attributes:
        decision: what it says when it applies.
        agents: names; `*` is every agent, `name/*` every sub-agent of one.
        tenants: names.
        roles: applies to agents that hold one of these roles.
        tools: canonical ids; `server.*` is every tool of a server, `*` every tool.
        families: tool families, for rights of roles.
        effects: only tools with one of these effects.
        arguments: what the arguments must be.
        narrow: for `allow`: numbers are cut to this value, lists to these items, anything else is set to it.
        why: shown to people.
        where: `AGENTS.md:12`, for reasons and the journal.
    """

    decision: RuleVerdict
    agents: tuple[str, ...] = ("*",)
    tenants: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    arguments: Mapping[str, Constraint] = field(default_factory=dict)
    narrow: Mapping[str, Json] = field(default_factory=dict)
    why: str = ""
    where: str = "code"

    def names_tool(self, spec: ToolSpec) -> bool:
        """Whether it speaks about the tool, whatever the arguments."""
        if self.effects and spec.effect not in self.effects:
            return False
        if self.tools and not any(pattern_names_tool(pattern, spec) for pattern in self.tools):
            return False
        return not self.families or (spec.family or spec.server) in self.families or "*" in self.families

    def names_agent(self, agent: str, tenant: str, roles: frozenset[str]) -> bool:
        """Whether it speaks about the agent."""
        if self.tenants and tenant not in self.tenants:
            return False
        if self.roles and roles.isdisjoint(self.roles):
            return False
        return any(_agent_matches(pattern, agent) for pattern in self.agents)

    def to_json(self) -> dict[str, Json]:
        """Everything that decides, for the hash."""
        return {
            "decision": self.decision,
            "agents": list(self.agents),
            "tenants": list(self.tenants),
            "roles": list(self.roles),
            "tools": list(self.tools),
            "families": list(self.families),
            "effects": list(self.effects),
            "arguments": {name: repr(constraint) for name, constraint in self.arguments.items()},
            "narrow": dict(self.narrow),
        }


@dataclass(frozen=True)
class Role:
    """A name for rights that several agents share.

    Attributes:
        name: what rules call it.
        agents: who holds it, patterns as in `Rule`.
        tenants: only for these tenants; empty is all.
        rights: effects allowed per tool family, `*` for every family; granted as `allow` rules.
        where: where it is declared.
    """

    name: str
    agents: tuple[str, ...]
    tenants: tuple[str, ...] = ()
    rights: Mapping[str, tuple[Effect, ...]] = field(default_factory=dict)
    where: str = "code"

    def rules(self) -> list[Rule]:
        """Its rights as rules."""
        return [
            Rule("allow", roles=(self.name,), families=(family,), effects=effects, where=f"{self.where} ({self.name})")
            for family, effects in self.rights.items()
        ]


@dataclass(frozen=True)
class Layer:
    """Rules that hold together.

    Attributes:
        rules: in file order.
        roles: declared here; only the outermost layer may.
        agent: narrows only this agent and its sub-agents; empty is everyone.
        folder: narrows only calls with a path at or below it (relative to the root); empty is everywhere.
        source: the file, for people.
    """

    rules: tuple[Rule, ...]
    roles: tuple[Role, ...] = ()
    agent: str = ""
    folder: str = ""
    source: str = "code"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the matrix says about a call, before labels, combinations and limits.

    Attributes:
        verdict: allow, ask or deny.
        rule: where the deciding rule stands; `default` if none spoke.
        why: its own words, if any.
        bounded: arguments that the matched rules themselves bound.
        carries: what matched rules let an argument carry.
        narrow: arguments to cut before the call runs.
    """

    verdict: RuleVerdict
    rule: str
    why: str = ""
    bounded: frozenset[str] = frozenset()
    carries: Mapping[str, Confidentiality] = field(default_factory=dict)
    narrow: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Group:
    """Rules that all name where one argument must be: one look at the union of those places may spare all of them.

    Attributes:
        argument: that argument; empty for rules without such a condition.
        kind: of it.
        anywhere: the union; what it does not meet none of the rules meets.
        rules: in file order.
    """

    argument: str
    kind: Kind
    anywhere: Constraint
    rules: tuple[Rule, ...]

    def candidates(self, arguments: Mapping[str, Json]) -> tuple[Rule, ...]:
        """The rules that may be met."""
        if self.argument and self.argument in arguments:
            # `catches` is true also for what cannot be judged; the rules themselves then decide how to fail closed.
            return self.rules if self.anywhere.catches(arguments[self.argument], self.kind, "user") else ()
        return self.rules


@dataclass(frozen=True, slots=True)
class _Cell:
    """The rules of one layer for one agent and tool, restrictions first."""

    layer: Layer
    outermost: bool
    denies: tuple[_Group, ...]
    asks: tuple[_Group, ...]
    allows: tuple[_Group, ...]


class Matrix:
    """The compiled rules. Immutable; thread-safe."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        """Compile `layers`, outermost first."""
        self.layers = tuple(layers)
        self._roles = self.layers[0].roles if self.layers else ()
        self._cells: dict[tuple[str, str, str, str], tuple[_Cell, ...]] = {}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything that decides; pinned in grants, approvals and the journal."""
        return content_hash(
            [
                {
                    "rules": [rule.to_json() for rule in layer.rules],
                    "roles": [
                        [role.name, list(role.agents), list(role.tenants), {k: list(v) for k, v in role.rights.items()}]
                        for role in layer.roles
                    ],
                    "agent": layer.agent,
                    "folder": layer.folder,
                }
                for layer in self.layers
            ]
        )

    def roles_of(self, agent: str, tenant: str) -> frozenset[str]:
        """The roles an agent holds."""
        return frozenset(
            role.name
            for role in self._roles
            if (not role.tenants or tenant in role.tenants) and any(_agent_matches(p, agent) for p in role.agents)
        )

    def rule(
        self,
        principal: Principal,
        spec: ToolSpec,
        arguments: Mapping[str, Json],
        origins: Mapping[str, Origin],
        suspect: frozenset[str] = frozenset(),
    ) -> Ruling:
        """What the rules say: the strictest over all layers and over the agent and its parents.

        Args:
            principal: who asks.
            spec: the tool.
            arguments: resolved; paths relative to the root.
            origins: of each argument.
            suspect: critical arguments of the wrong origin; among several allowing rules one that bounds them all is
                preferred.
        """
        key = (principal.agent, principal.tenant, spec.id, spec.effect)
        cells = self._cells.get(key)
        if cells is None:
            cells = self._cells[key] = self._compile(principal, spec)
        asked: Ruling | None = None
        allowed: Ruling | None = None
        bounded: set[str] = set()
        narrow: dict[str, Json] = {}
        carries: dict[str, Confidentiality] = {}
        for cell in cells:
            if cell.layer.folder and not _touches(cell.layer.folder, spec, arguments):
                continue
            for group in cell.denies:
                for rule in group.candidates(arguments):
                    if _catches(rule, spec, arguments, origins):
                        return Ruling("deny", rule.where, rule.why)
            ask = None
            for group in cell.asks:
                for rule in group.candidates(arguments):
                    if ask is None and _catches(rule, spec, arguments, origins):
                        ask = rule
            if ask is not None and asked is None:
                asked = Ruling("ask", ask.where, ask.why)
            matched = [
                rule
                for group in cell.allows
                for rule in group.candidates(arguments)
                if _allows(rule, spec, arguments, origins)
            ]
            if not matched:
                if ask is None and cell.outermost:
                    return Ruling("deny", "default")
                # An inner layer is silent about tools it does not name; one that names a tool has to allow the call.
                if ask is None and cell.allows:
                    return Ruling("deny", cell.allows[0].rules[0].where, "a narrower rule does not cover this call")
                continue
            best = matched[0]
            if suspect:
                best = next((rule for rule in matched if suspect <= _bounded(rule, spec)), best)
            bounded |= _bounded(best, spec)
            for rule in matched:
                for name, limit in rule.narrow.items():
                    narrow[name] = _tighter(narrow[name], limit) if name in narrow else limit
            if cell.outermost:
                for name, constraint in best.arguments.items():
                    if constraint.carries is not None:
                        carries[name] = constraint.carries
                allowed = allowed or Ruling("allow", best.where, best.why)
        decided = asked or allowed or Ruling("deny", "default")
        return Ruling(decided.verdict, decided.rule, decided.why, frozenset(bounded), carries, narrow)

    def _compile(self, principal: Principal, spec: ToolSpec) -> tuple[_Cell, ...]:
        cells = []
        for depth, layer in enumerate(self.layers):
            if layer.agent and layer.agent not in principal.lineage:
                continue
            own = (
                [*layer.rules, *(rule for role in layer.roles for rule in role.rules())] if depth == 0 else layer.rules
            )
            rules = [rule for rule in own if rule.names_tool(spec)]
            for agent in principal.lineage:
                roles = self.roles_of(agent, principal.tenant)
                mine = [rule for rule in rules if rule.names_agent(agent, principal.tenant, roles)]
                if depth > 0 and not mine:
                    continue
                cells.append(
                    _Cell(
                        layer,
                        depth == 0,
                        *(_grouped([r for r in mine if r.decision == v], spec) for v in ("deny", "ask", "allow")),
                    )
                )
        return tuple(cells)


def _grouped(rules: Sequence[Rule], spec: ToolSpec) -> tuple[_Group, ...]:
    by_argument: dict[str, list[Rule]] = {}
    for rule in rules:
        places = (n for n, c in rule.arguments.items() if c.under and not c.program and n in spec.by_name)
        by_argument.setdefault(next(places, ""), []).append(rule)
    groups = []
    for name, members in by_argument.items():
        if len(members) < 2 or not name:
            groups.append(_Group("", "text", Constraint(), tuple(members)))
            continue
        anywhere = Constraint(under=tuple(base for rule in members for base in rule.arguments[name].under))
        groups.append(_Group(name, spec.by_name[name].kind, anywhere, tuple(members)))
    return tuple(groups)


def pattern_names_tool(pattern: str, spec: ToolSpec) -> bool:
    """Whether `server.tool`, `server.*` or `*` means this tool."""
    if pattern in ("*", spec.id):
        return True
    return pattern.endswith(".*") and spec.server == pattern[:-2]


def _agent_matches(pattern: str, agent: str) -> bool:
    return pattern in ("*", agent) or (pattern.endswith("/*") and agent.startswith(pattern[:-1]))


def _touches(folder: str, spec: ToolSpec, arguments: Mapping[str, Json]) -> bool:
    for name, value in arguments.items():
        if spec.by_name[name].kind != "path":
            continue
        for path in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(path, str) or path == folder or path.startswith(folder + "/"):
                return True
    return False


def _tighter(one: Json, other: Json) -> Json:
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return min(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [item for item in one if item in other]
    return other


def _bounded(rule: Rule, spec: ToolSpec) -> frozenset[str]:
    return frozenset(
        name
        for name, constraint in rule.arguments.items()
        if name in spec.by_name and constraint.bounds(spec.by_name[name].kind)
    )


def _allows(rule: Rule, spec: ToolSpec, arguments: Mapping[str, Json], origins: Mapping[str, Origin]) -> bool:
    for name, constraint in rule.arguments.items():
        argument = spec.by_name.get(name)
        if argument is None or name not in arguments:
            return False
        if not constraint.allows(arguments[name], argument.kind, origins.get(name, _EMPTY_ORIGIN).label):
            return False
    return True


def _catches(rule: Rule, spec: ToolSpec, arguments: Mapping[str, Json], origins: Mapping[str, Origin]) -> bool:
    for name, constraint in rule.arguments.items():
        argument = spec.by_name.get(name)
        if argument is None or name not in arguments:
            continue  # nothing to read: the restriction holds
        if not constraint.catches(arguments[name], argument.kind, origins.get(name, _EMPTY_ORIGIN).label):
            return False
    return True
