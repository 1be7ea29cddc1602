"""One rule, the roles that give rights, and the layers they stand in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from overnight.kernel.canonical import Json
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.tool.spec import Effect, ToolSpec

RuleVerdict = Literal["allow", "ask", "deny"]


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
        return any(pattern_names_agent(pattern, agent) for pattern in self.agents)

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


def pattern_names_tool(pattern: str, spec: ToolSpec) -> bool:
    """Whether `server.tool`, `server.*` or `*` means this tool."""
    if pattern in ("*", spec.id):
        return True
    return pattern.endswith(".*") and spec.server == pattern[:-2]


def pattern_names_agent(pattern: str, agent: str) -> bool:
    """Whether `name`, `name/*` or `*` means this agent."""
    return pattern in ("*", agent) or (pattern.endswith("/*") and agent.startswith(pattern[:-1]))
