"""Who may do what: rules in layers, compiled into cells that are found by agent, tenant and tool.

A layer is one AGENTS.md file, or rules made by code. The outermost layer grants; every further one, and every
sub-agent, can only narrow. Within a layer deny goes before ask, ask before allow, whatever the order in the file; what
nothing allows is denied. (The public AGENTS.md convention, "the closest file wins", would let a file that an agent
can write grant what its owner refused.)
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from overnight.kernel.canonical import Json, content_hash
from overnight.kernel.flow.label import PROSE_KINDS, Confidentiality, Origin
from overnight.kernel.rules.cell import NO_RULE, Cell, Ruling, above
from overnight.kernel.rules.rule import Layer, Role, Rule, RuleVerdict, pattern_names_agent, pattern_names_tool
from overnight.kernel.session import Principal
from overnight.kernel.tool.spec import ToolSpec

_MOST_READ = 3
_LONGEST_REMEMBERED = 200
_REMEMBERED = 8192

__all__ = ["Layer", "Matrix", "Role", "Rule", "RuleVerdict", "Ruling", "pattern_names_tool"]


class Matrix:
    """The compiled rules. Immutable; thread-safe."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        """Compile `layers`, outermost first."""
        self.layers = tuple(layers)
        self._roles = self.layers[0].roles if self.layers else ()
        self._cells: dict[tuple[str, str, str, str], tuple[Cell, ...]] = {}
        self._rulings: dict[tuple[object, ...], Ruling] = {}

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
            return self._quickly(cells[0], arguments, origins, suspect)
        asked: Ruling | None = None
        allowed: Ruling | None = None
        bounded: set[str] = set()
        narrow: dict[str, Json] = {}
        carries: dict[str, Confidentiality] = {}
        for cell in cells:
            if cell.layer.folder and not _touches(cell.layer.folder, spec, arguments):
                continue
            denied = cell.denied(arguments, origins)
            if denied is not None:
                return denied
            ask = None
            for group in cell.asks:
                for candidate in group.candidates(arguments):
                    if ask is None and candidate.catches(arguments, origins):
                        ask = candidate.rule
            if ask is not None and asked is None:
                asked = Ruling("ask", ask.where, ask.why)
            matched = cell.matched(arguments, origins, suspect)
            if not matched:
                if ask is None and cell.outermost:
                    return NO_RULE
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
        decided = asked or allowed or NO_RULE
        return Ruling(decided.verdict, decided.rule, decided.why, frozenset(bounded), carries, narrow)

    def _quickly(
        self, cell: Cell, arguments: Mapping[str, Json], origins: Mapping[str, Origin], suspect: frozenset[str]
    ) -> Ruling:
        """`cell.quickly`, remembered where it depends on nothing but a few short texts: agents use the same again."""
        reads = cell.reads
        if reads is None or len(reads) > _MOST_READ:
            return cell.quickly(arguments, origins, suspect)
        wanted: tuple[object, ...] = (cell, suspect)
        for name in reads:
            value = arguments.get(name)
            # Only texts: of other values some are equal and not the same (1 and True), and some cannot be looked up.
            if type(value) is not str or len(value) > _LONGEST_REMEMBERED:
                return cell.quickly(arguments, origins, suspect)
            wanted += (value,)
        ruling = self._rulings.get(wanted)
        if ruling is None:
            if len(self._rulings) >= _REMEMBERED:
                self._rulings.clear()
            ruling = self._rulings[wanted] = cell.quickly(arguments, origins, suspect)
        return ruling

    def _compile(self, principal: Principal, spec: ToolSpec) -> tuple[Cell, ...]:
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
                cells.append(Cell(layer, depth == 0, mine, spec))
        return tuple(cells)


def _touches(folder: str, spec: ToolSpec, arguments: Mapping[str, Json]) -> bool:
    for name, value in arguments.items():
        if spec.by_name[name].kind != "path":
            continue
        for path in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(path, str) or path == folder or path.startswith(folder + "/"):
                return True
            if spec.effect != "read" and above(path, (folder,)):
                return True
    return False


def _tighter(one: Json, other: Json) -> Json:
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return min(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [item for item in one if item in other]
    return other
