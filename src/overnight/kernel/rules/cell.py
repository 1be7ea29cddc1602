"""The rules of one layer for one agent and one tool, compiled once: what is looked through when a call is decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Confidentiality, Kind, Origin
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.rule import Layer, Rule, RuleVerdict
from overnight.kernel.tool.spec import ToolSpec


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


NO_RULE = Ruling("deny", "default")
"""What nothing allows is denied."""


class Compiled:
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
            if self.sweeps and kind == "path" and above(arguments[name], constraint.not_under):
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
            if not (self.sweeps and kind == "path" and above(arguments[name], constraint.under)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Group:
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
    rules: tuple[Compiled, ...]

    def candidates(self, arguments: Mapping[str, Json]) -> tuple[Compiled, ...]:
        """The rules that may be met."""
        if self.argument and self.argument in arguments:
            value = arguments[self.argument]
            if type(value) is str:
                return self.rules if self.anywhere.tests[0](value, self.kind, "user") else ()
            # `catches` is true also for what cannot be judged; the rules themselves then decide how to fail closed.
            return self.rules if self.anywhere.catches(value, self.kind, "user") else ()
        return self.rules


class Cell:
    """The rules of one layer for one agent and tool, restrictions first.

    Attributes:
        layer: where they stand.
        outermost: whether it is the layer that grants.
        first_decides: its allowances neither narrow nor say what may be carried: any of them is as good.
        quick: a call is decided by the first rule that holds, wherever its paths are.
        reads: the arguments that its rules look at, if they look at nothing else; None if labels count too.
    """

    __slots__ = ("allows", "asks", "denies", "first_decides", "layer", "outermost", "quick", "reads")

    def __init__(self, layer: Layer, outermost: bool, rules: Sequence[Rule], spec: ToolSpec) -> None:
        """Compile those of `rules` that speak about an agent's calls of `spec`."""
        self.layer = layer
        self.outermost = outermost
        self.first_decides = not any(r.narrow or any(c.carries for c in r.arguments.values()) for r in rules)
        self.denies = _grouped([rule for rule in rules if rule.decision == "deny"], spec)
        self.asks = _grouped([rule for rule in rules if rule.decision == "ask"], spec)
        self.allows = _grouped([rule for rule in rules if rule.decision == "allow"], spec)
        self.quick = self.first_decides and outermost and not self.asks and not layer.folder
        made = [one for group in (*self.denies, *self.asks, *self.allows) for one in group.rules]
        names = dict.fromkeys(name for one in made for name, _, _ in one.conditions)
        self.reads = None if any(one.labelled for one in made) else tuple(names)

    def denied(self, arguments: Mapping[str, Json], origins: Mapping[str, Origin]) -> Ruling | None:
        """What the first prohibition that is met says."""
        for group in self.denies:
            for deny in group.candidates(arguments):
                if deny.catches(arguments, origins):
                    return deny.ruling
        return None

    def matched(
        self, arguments: Mapping[str, Json], origins: Mapping[str, Origin], suspect: frozenset[str]
    ) -> list[Compiled]:
        """The allowances that hold; only the first that bounds what is suspect, where any of them is as good."""
        found = []
        for group in self.allows:
            for rule in group.candidates(arguments):
                if rule.allows(arguments, origins):
                    if self.first_decides and suspect <= rule.bounded:
                        return [rule]
                    found.append(rule)
        return found

    def quickly(self, arguments: Mapping[str, Json], origins: Mapping[str, Origin], suspect: frozenset[str]) -> Ruling:
        """The common case: one file of rules, no parents, and no rule that asks, narrows or lets more be carried."""
        denied = self.denied(arguments, origins)
        if denied is not None:
            return denied
        matched = self.matched(arguments, origins, suspect)
        if not matched:
            return NO_RULE
        return next((rule for rule in matched if suspect <= rule.bounded), matched[0]).ruling


def _grouped(rules: Sequence[Rule], spec: ToolSpec) -> tuple[Group, ...]:
    by_argument: dict[str, list[Rule]] = {}
    for rule in rules:
        places = (n for n, c in rule.arguments.items() if c.under and not c.program and n in spec.by_name)
        by_argument.setdefault(next(places, ""), []).append(rule)
    groups = []
    for name, members in by_argument.items():
        if len(members) < 2 or not name or spec.effect == "destructive":
            groups.append(Group("", "text", Constraint(), tuple(Compiled(rule, spec) for rule in members)))
            continue
        anywhere = Constraint(under=tuple(base for rule in members for base in rule.arguments[name].under))
        groups.append(Group(name, spec.by_name[name].kind, anywhere, tuple(Compiled(rule, spec) for rule in members)))
    return tuple(groups)


def above(value: Json, bases: Sequence[str]) -> bool:
    """Whether something that a rule names lies below a path, or may."""
    for path in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(path, str) or (path == "." and bases):
            return True
        folded = path.casefold().rstrip("/") + "/"
        if any(base.casefold().startswith(folded) for base in bases):
            return True
    return False
