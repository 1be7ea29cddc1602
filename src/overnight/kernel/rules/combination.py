"""Rules over history: "after reading the web, no egress", "more than 20 writes across 3 systems".

Each rule is an automaton with one small state per scope: how many of its steps have happened, how much has been
counted. The state belongs to the agent (over its sessions, and shared with every sub-agent) unless the rule says
otherwise, so that a new session or a sub-agent does not forget. Steps advance when a call is about to run, not when it
returns: a call that died half-way may have read everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Origin
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import pattern_names_tool
from overnight.kernel.session import Principal
from overnight.kernel.tool.spec import Effect, ToolSpec

Scope = Literal["session", "agent", "tenant"]
"""Whose history counts: one tree of sessions, all sessions of the outermost agent, or everybody of the tenant."""

DAY_S = 86400.0


@dataclass(frozen=True)
class Step:
    """Which calls are meant; everything given must hold, and something must be given.

    Attributes:
        tools: ids or `server.*`.
        families: tool families.
        effects: effects of tools.
        content: what the tool's results bring in, as its specification says.
        arguments: conditions; one that cannot be read counts as met.
    """

    tools: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    content: tuple[str, ...] = ()
    arguments: Mapping[str, Constraint] = field(default_factory=dict)

    def names_tool(self, spec: ToolSpec) -> bool:
        """Whether calls of the tool can be meant."""
        if self.tools and not any(pattern_names_tool(pattern, spec) for pattern in self.tools):
            return False
        if self.families and (spec.family or spec.server) not in self.families:
            return False
        if self.effects and spec.effect not in self.effects:
            return False
        return not self.content or not spec.content.isdisjoint(self.content)

    def meets(self, spec: ToolSpec, arguments: Mapping[str, Json], origins: Mapping[str, Origin]) -> bool:
        """Whether this call is meant."""
        if not self.names_tool(spec):
            return False
        for name, constraint in self.arguments.items():
            argument = spec.by_name.get(name)
            if argument is None or name not in arguments:
                continue
            label = origins[name].label if name in origins else "untrusted"
            if not constraint.catches(arguments[name], argument.kind, label):
                return False
        return True


@dataclass(frozen=True)
class Count:
    """Too much of something: more than `more_than` calls that `of` means, on at least `servers` different servers."""

    of: Step
    more_than: int
    servers: int = 1


@dataclass(frozen=True)
class Combination:
    """One rule over history.

    Attributes:
        name: for people and for its stored state.
        then: the calls it stops.
        after: calls that must have happened before, in this order, others between them.
        count: instead of `after`: how much is too much; `then` is what is counted.
        decision: what the stopped call becomes.
        scope: whose history counts.
        within_s: forgets this long after its last step; 0 never forgets.
        fragments_s: within which its steps, spread over a tenant's sessions, ask; None is the default, 0 never asks.
        where: `AGENTS.md:30`.
        twin: watches over a whole tenant for what the rule itself stops within one history (see `breaker`).
    """

    name: str
    then: Step
    after: tuple[Step, ...] = ()
    count: Count | None = None
    decision: Literal["deny", "ask"] = "deny"
    scope: Scope = "agent"
    within_s: float = DAY_S
    fragments_s: float | None = None
    where: str = "code"
    twin: bool = False

    def key(self, principal: Principal, root: str) -> str:
        """Under which its state is kept."""
        if self.scope == "session":
            return f"{self.name}|session|{root}"
        whose = principal.lineage[0] if self.scope == "agent" else "*"
        return f"{self.name}|{self.scope}|{principal.tenant}|{whose}"


@dataclass(frozen=True, slots=True)
class State:
    """Where an automaton stands.

    Attributes:
        step: how many of `after` have happened.
        counted: how many counted calls.
        servers: on which servers.
        at_s: time of its last change, seconds since the epoch.
    """

    step: int = 0
    counted: int = 0
    servers: tuple[str, ...] = ()
    at_s: float = 0.0


START = State()


def fresh(rule: Combination, state: State, now_s: float) -> State:
    """`state`, or the start if the rule has forgotten it. A clock that was set back does not make it forget."""
    return START if rule.within_s and now_s - state.at_s > rule.within_s else state


def stops(
    rule: Combination,
    state: State,
    spec: ToolSpec,
    arguments: Mapping[str, Json],
    origins: Mapping[str, Origin],
) -> bool:
    """Whether the call would complete what the rule forbids."""
    if rule.count is not None:
        if not rule.count.of.meets(spec, arguments, origins):
            return False
        servers = {*state.servers, spec.server}
        return state.counted + 1 > rule.count.more_than and len(servers) >= rule.count.servers
    return state.step >= len(rule.after) and rule.then.meets(spec, arguments, origins)


def advanced(
    rule: Combination,
    state: State,
    spec: ToolSpec,
    arguments: Mapping[str, Json],
    origins: Mapping[str, Origin],
    now_s: float,
) -> State:
    """The state after the call; the same object if nothing changed."""
    if rule.count is not None:
        if not rule.count.of.meets(spec, arguments, origins):
            return state
        servers = tuple(sorted({*state.servers, spec.server}))
        return replace(state, counted=state.counted + 1, servers=servers, at_s=now_s)
    if state.step < len(rule.after) and rule.after[state.step].meets(spec, arguments, origins):
        return replace(state, step=state.step + 1, at_s=now_s)
    if state.step and any(step.meets(spec, arguments, origins) for step in rule.after):
        return replace(state, at_s=now_s)
    return state
