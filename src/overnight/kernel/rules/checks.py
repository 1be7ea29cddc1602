"""Mistakes in rules that would otherwise be found by what they let through: each is an error when they are loaded."""

import re
from collections.abc import Sequence

from overnight.core.errors import SettingsError
from overnight.core.schema import suggest
from overnight.kernel.rules.combination import Combination
from overnight.kernel.rules.matrix import Role, Rule, pattern_names_tool
from overnight.kernel.tool.catalogue import Catalogue

_TOOL_PATTERN = re.compile(r"\*|[a-z0-9][a-z0-9_-]*\.(?:\*|[A-Za-z0-9][A-Za-z0-9._/-]*)")
_AGENT_PATTERN = re.compile(r"\*|[a-z0-9][a-z0-9_-]*(?:/[a-z0-9][a-z0-9_-]*)*(?:/\*)?")


def check_patterns(named: Rule | Role) -> None:
    """Refuse patterns that mean nothing: they would silently match no agent or tool.

    Raises:
        SettingsError: with the rule's place.
    """
    check_agents(named.agents, named.where)
    if isinstance(named, Rule):
        for pattern in named.tools:
            if _TOOL_PATTERN.fullmatch(pattern) is None:
                raise SettingsError(
                    f"{named.where}: tools: {pattern!r} can never match", hint="write server.tool, server.* or *"
                )


def check_agents(patterns: Sequence[str], where: str) -> None:
    """Refuse patterns that match no agent.

    Raises:
        SettingsError: with the place.
    """
    for pattern in patterns:
        if _AGENT_PATTERN.fullmatch(pattern) is None:
            raise SettingsError(
                f"{where}: agents: {pattern!r} can never match",
                hint="write researcher, researcher/* for its sub-agents, or * for all",
            )
    if not patterns:
        raise SettingsError(f"{where}: agents: an empty list can never match", hint="leave it out for all")


def check_names(combinations: Sequence[Combination]) -> None:
    """Refuse two combinations of one name: what happened is kept by name, so each would take it for its own.

    Raises:
        SettingsError: with the place of the second.
    """
    first: dict[str, str] = {}
    for rule in combinations:
        if rule.name in first:
            raise SettingsError(
                f"{rule.where}: the combination at {first[rule.name]} is called {rule.name!r} already",
                hint="choose another name",
            )
        first[rule.name] = rule.where


def check_reachable(rules: Sequence[Rule], roles: set[str] | None) -> None:
    """Refuse rules that can never decide anything.

    Args:
        rules: of one layer.
        roles: names that are declared; None where the layer inherits them.

    Raises:
        SettingsError: a rule names an unknown role, or an unconditional `deny` covers all of it.
    """
    for rule in rules:
        for role in rule.roles:
            if roles is not None and role not in roles:
                raise SettingsError(
                    f"{rule.where}: roles: there is no role {role!r}", hint=suggest(role, roles or {""})
                )
    for deny in rules:
        if deny.decision != "deny" or deny.arguments:
            continue
        for rule in rules:
            if rule.decision != "deny" and _covers(deny, rule):
                raise SettingsError(
                    f"{rule.where}: this rule can never match: the deny at {deny.where} covers all of it",
                    hint="remove one of the two",
                )


def check_known(rules: Sequence[Rule], catalogue: Catalogue, servers_later: frozenset[str] = frozenset()) -> None:
    """Refuse rules about tools or arguments that do not exist.

    Args:
        rules: of all layers.
        catalogue: every tool that is connected.
        servers_later: servers that are configured but not connected yet; their tools cannot be checked.

    Raises:
        SettingsError: with the rule's place.
    """
    known = {spec.id for spec in catalogue.specs}
    servers = {spec.server for spec in catalogue.specs}
    for rule in rules:
        for pattern in rule.tools:
            server = pattern.partition(".")[0]
            if server in servers_later:
                continue
            if pattern.endswith(".*") and server not in servers:
                raise SettingsError(
                    f"{rule.where}: tools: there is no server {server!r}", hint=suggest(server, servers)
                )
            if pattern != "*" and not pattern.endswith(".*") and pattern not in known:
                raise SettingsError(f"{rule.where}: tools: there is no tool {pattern!r}", hint=suggest(pattern, known))
        meant = [s for s in catalogue.specs if any(pattern_names_tool(p, s) for p in rule.tools) and rule.names_tool(s)]
        if not meant or any(pattern.partition(".")[0] in servers_later for pattern in rule.tools):
            continue
        for name in (*rule.arguments, *rule.narrow):
            if not any(name in spec.by_name for spec in meant):
                arguments = {argument for spec in meant for argument in spec.by_name}
                raise SettingsError(
                    f"{rule.where}: arguments: {name!r} is no argument of {meant[0].id}",
                    hint=suggest(name, arguments) if arguments else "it takes none",
                )


def _covers(deny: Rule, rule: Rule) -> bool:
    def within(inner: Sequence[str], outer: Sequence[str]) -> bool:
        return not outer or (bool(inner) and set(inner) <= set(outer))

    def tool_within(pattern: str) -> bool:
        return any(
            outer in ("*", pattern) or (outer.endswith(".*") and pattern.startswith(outer[:-1])) for outer in deny.tools
        )

    def agent_within(pattern: str) -> bool:
        return any(
            outer in ("*", pattern) or (outer.endswith("/*") and pattern.startswith(outer[:-1]))
            for outer in deny.agents
        )

    return (
        all(map(agent_within, rule.agents))
        and within(rule.tenants, deny.tenants)
        and within(rule.roles, deny.roles)
        and within(rule.families, deny.families)
        and within(rule.effects, deny.effects)
        and (not deny.tools or (bool(rule.tools) and all(map(tool_within, rule.tools))))
    )
