"""Who may do what: rules in layers, compiled into cells that are found by agent, tenant and tool.

A layer is one AGENTS.md file, or rules made by code. The outermost layer grants; every further one, and every
sub-agent, can only narrow. Within a layer deny goes before ask, ask before allow, whatever the order in the file; what
nothing allows is denied. (The public AGENTS.md convention, "the closest file wins", would let a file that an agent
can write grant what its owner refused.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from overnight.kernel.canonical import Json, content_hash
from overnight.kernel.constraint import Constraint
from overnight.kernel.label import PROSE_KINDS, Confidentiality, Kind, Origin
from overnight.kernel.rule import Layer, Role, Rule, RuleVerdict, pattern_names_agent, pattern_names_tool
from overnight.kernel.session import Principal
from overnight.kernel.tool import ToolSpec

__all__ = ["Layer", "Matrix", "Role", "Rule", "RuleVerdict", "Ruling", "pattern_names_tool"]


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


class _Compiled:
    """A rule with its conditions bound to one tool's arguments."""

    __slots__ = ("bounded", "carries", "conditions", "impossible", "labelled", "rule", "ruling", "sweeps")

    def __init__(self, rule: Rule, spec: ToolSpec) -> None:
        known = spec.by_name
        self.rule = rule
        self.conditions: tuple[tuple[str, Kind, Constraint], ...] = tuple(
            (name, known[name].kind, constraint) for name, constraint in rule.arguments.items() if name in known
        )
        self.labelled = any(constraint.label is not None for _, _, constraint in self.conditions)
        self.sweeps = spec.effect == "destructive"  # deleting a folder deletes what is below it
        self.impossible = len(self.conditions) < len(rule.arguments)
        self.bounded = frozenset(name for name, kind, constraint in self.conditions if constraint.bounds(kind))
        self.carries = {name: c.carries for name, _, c in self.conditions if c.carries is not None}
        self.ruling = Ruling(rule.decision, rule.where, rule.why, self.bounded)

    def allows(self, arguments: Mapping[str, Json], origins: Mapping[str, Origin]) -> bool:
        """Whether every condition is there to be read and certainly holds."""
        if self.impossible:
            return False
        for name, kind, constraint in self.conditions:
            if name not in arguments:
                return False
            label = origins[name].label if self.labelled and name in origins else "untrusted"
            if not constraint.allows(arguments[name], kind, label):
                return False
            if self.sweeps and kind == "path" and _above(arguments[name], constraint.not_under):
                return False
        return True

    def catches(self, arguments: Mapping[str, Json], origins: Mapping[str, Origin]) -> bool:
        """Whether no condition certainly fails: what is missing or cannot be judged does not lift a restriction."""
        for name, kind, constraint in self.conditions:
            if name not in arguments:
                continue
            label = origins[name].label if self.labelled and name in origins else "untrusted"
            if constraint.catches(arguments[name], kind, label):
                continue
            if not (self.sweeps and kind == "path" and _above(arguments[name], constraint.under)):
                return False
        return True


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
    rules: tuple[_Compiled, ...]

    def candidates(self, arguments: Mapping[str, Json]) -> tuple[_Compiled, ...]:
        """The rules that may be met."""
        if self.argument and self.argument in arguments:
            value = arguments[self.argument]
            if type(value) is str:
                return self.rules if self.anywhere.tests[0](value, self.kind, "user") else ()
            # `catches` is true also for what cannot be judged; the rules themselves then decide how to fail closed.
            return self.rules if self.anywhere.catches(value, self.kind, "user") else ()
        return self.rules


@dataclass(frozen=True, slots=True)
class _Cell:
    """The rules of one layer for one agent and tool, restrictions first."""

    layer: Layer
    outermost: bool
    first_decides: bool  # its allowances neither narrow nor say what may be carried: any of them is as good
    denies: tuple[_Group, ...]
    asks: tuple[_Group, ...]
    allows: tuple[_Group, ...]

    @property
    def quick(self) -> bool:
        """Whether a call is decided by the first rule that holds, wherever its paths are."""
        return self.first_decides and self.outermost and not self.asks and not self.layer.folder


_NO_RULE = Ruling("deny", "default")


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

    @property
    def roles(self) -> tuple[Role, ...]:
        """The declared roles."""
        return self._roles

    def agents(self) -> set[str]:
        """Every agent that a rule or role names; patterns as one imagined agent of theirs."""
        patterns = {p for layer in self.layers for rule in layer.rules for p in rule.agents}
        patterns |= {p for role in self._roles for p in role.agents}
        patterns |= {layer.agent for layer in self.layers if layer.agent}
        return {"any" if p == "*" else p.replace("/*", "/any") for p in patterns}

    def speaking(
        self, principal: Principal, spec: ToolSpec, arguments: Mapping[str, Json], origins: Mapping[str, Origin]
    ) -> list[tuple[Rule, bool]]:
        """Every rule that speaks about this agent and tool, and whether it applies to this call; for explanations."""
        found = {}
        for cell in self._compile(principal, spec):
            for group in (*cell.denies, *cell.asks, *cell.allows):
                for made in group.rules:
                    test = made.allows if made.rule.decision == "allow" else made.catches
                    found[id(made.rule)] = (made.rule, test(arguments, origins))
        return list(found.values())

    def summary(self, principal: Principal, spec: ToolSpec) -> str:
        """What the rules say before arguments are known: allow, ask, deny, or `allow?`, `ask?` where those decide."""
        verdict, unsure = "allow", False
        for cell in self._compile(principal, spec):
            for rules, word in ((cell.denies, "deny"), (cell.asks, "ask")):
                for rule in (made.rule for group in rules for made in group.rules):
                    if rule.arguments or cell.layer.folder:
                        unsure = True
                    elif word == "deny" or verdict == "allow":
                        verdict = word
            allows = [made.rule for group in cell.allows for made in group.rules]
            asks = any(group.rules for group in cell.asks)
            if not allows and not asks and cell.outermost:
                return "deny"
            unsure = unsure or (bool(allows) and all(rule.arguments for rule in allows))
        return verdict if verdict == "deny" or not unsure else f"{verdict}?"

    def may_send(self, spec: ToolSpec) -> bool:
        """Whether a call of the tool can tell others, in its own words, something confidential."""
        if spec.effect not in ("egress", "commit") and not spec.egress_with and not spec.objects:
            return False
        prose = {argument.name: argument for argument in spec.arguments if argument.kind in PROSE_KINDS}
        if any(a.discloses for a in spec.arguments) or any(a.may_carry("egress") != "public" for a in prose.values()):
            return True
        rules = (rule for layer in self.layers for rule in layer.rules if rule.names_tool(spec))
        return any((c.carries or "public") != "public" and n in prose for r in rules for n, c in r.arguments.items())

    def roles_of(self, agent: str, tenant: str) -> frozenset[str]:
        """The roles an agent holds."""
        return frozenset(
            role.name
            for role in self._roles
            if (not role.tenants or tenant in role.tenants) and any(pattern_names_agent(p, agent) for p in role.agents)
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
        if len(cells) == 1 and cells[0].quick:
            return _quickly(cells[0], arguments, origins, suspect)
        asked: Ruling | None = None
        allowed: Ruling | None = None
        bounded: set[str] = set()
        narrow: dict[str, Json] = {}
        carries: dict[str, Confidentiality] = {}
        for cell in cells:
            if cell.layer.folder and not _touches(cell.layer.folder, spec, arguments):
                continue
            for group in cell.denies:
                for deny in group.candidates(arguments):
                    if deny.catches(arguments, origins):
                        return deny.ruling
            ask = None
            for group in cell.asks:
                for candidate in group.candidates(arguments):
                    if ask is None and candidate.catches(arguments, origins):
                        ask = candidate.rule
            if ask is not None and asked is None:
                asked = Ruling("ask", ask.where, ask.why)
            matched = _matched(cell, arguments, origins, suspect)
            if not matched:
                if ask is None and cell.outermost:
                    return _NO_RULE
                # An inner layer is silent about tools it does not name; one that names a tool has to allow the call.
                if ask is None and cell.allows:
                    where = cell.allows[0].rules[0].rule.where
                    return Ruling("deny", where, "a narrower rule does not cover this call")
                continue
            best = matched[0]
            if suspect:
                best = next((rule for rule in matched if suspect <= rule.bounded), best)
            bounded |= best.bounded
            for rule in matched:
                for name, limit in rule.rule.narrow.items():
                    narrow[name] = _tighter(narrow[name], limit) if name in narrow else limit
            if cell.outermost:
                carries.update(best.carries)
                allowed = allowed or Ruling("allow", best.rule.where, best.rule.why)
        decided = asked or allowed or _NO_RULE
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
                        not any(r.narrow or any(c.carries for c in r.arguments.values()) for r in mine),
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
        if len(members) < 2 or not name or spec.effect == "destructive":
            groups.append(_Group("", "text", Constraint(), tuple(_Compiled(rule, spec) for rule in members)))
            continue
        anywhere = Constraint(under=tuple(base for rule in members for base in rule.arguments[name].under))
        groups.append(_Group(name, spec.by_name[name].kind, anywhere, tuple(_Compiled(rule, spec) for rule in members)))
    return tuple(groups)


def _above(value: Json, bases: Sequence[str]) -> bool:
    """Whether something that a rule names lies below a path, or may."""
    for path in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(path, str) or (path == "." and bases):
            return True
        folded = path.casefold().rstrip("/") + "/"
        if any(base.casefold().startswith(folded) for base in bases):
            return True
    return False


def _touches(folder: str, spec: ToolSpec, arguments: Mapping[str, Json]) -> bool:
    for name, value in arguments.items():
        if spec.by_name[name].kind != "path":
            continue
        for path in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(path, str) or path == folder or path.startswith(folder + "/"):
                return True
            if spec.effect != "read" and _above(path, (folder,)):
                return True
    return False


def _quickly(
    cell: _Cell, arguments: Mapping[str, Json], origins: Mapping[str, Origin], suspect: frozenset[str]
) -> Ruling:
    """The common case: one file of rules, no parents, and no rule that asks, narrows or lets more be carried."""
    for group in cell.denies:
        for deny in group.candidates(arguments):
            if deny.catches(arguments, origins):
                return deny.ruling
    matched = _matched(cell, arguments, origins, suspect)
    if not matched:
        return _NO_RULE
    return next((rule for rule in matched if suspect <= rule.bounded), matched[0]).ruling


def _matched(
    cell: _Cell, arguments: Mapping[str, Json], origins: Mapping[str, Origin], suspect: frozenset[str]
) -> list[_Compiled]:
    """The allowances that hold; only the first that bounds what is suspect, where any of them is as good."""
    found = []
    for group in cell.allows:
        for rule in group.candidates(arguments):
            if rule.allows(arguments, origins):
                if cell.first_decides and suspect <= rule.bounded:
                    return [rule]
                found.append(rule)
    return found


def _tighter(one: Json, other: Json) -> Json:
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return min(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [item for item in one if item in other]
    return other
