"""What the gate would decide, for people who write rules: nothing runs, nothing an agent could use is made."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from overnight.core.errors import NotFound, UsageError
from overnight.kernel.approval.approvals import Approvals
from overnight.kernel.approval.trust import Trust, Waiting
from overnight.kernel.canonical import Json
from overnight.kernel.decide import Decider, History, Policy
from overnight.kernel.decision import Decision
from overnight.kernel.flow.label import Label
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.keys import SigningKey, config_folder, outside
from overnight.kernel.masking.screen import Screen
from overnight.kernel.opening import Place
from overnight.kernel.parts import Parts, open_parts
from overnight.kernel.paths import PathRoot
from overnight.kernel.rollback.compensation import UndoRule, check_undo
from overnight.kernel.rules.checks import check_known, check_names
from overnight.kernel.rules.combination import Combination
from overnight.kernel.rules.matrix import Matrix, Rule
from overnight.kernel.rules.plan import Plan, WordPlanner
from overnight.kernel.rules.policy_files import policy_in_force, rulebook, settle, text_of
from overnight.kernel.rules.settings import NEVER
from overnight.kernel.session import Principal, Session
from overnight.kernel.sessions import Sessions
from overnight.kernel.tool.catalogue import Catalogue
from overnight.kernel.tool.files import SPECS
from overnight.kernel.tool.spec import ToolSpec


@dataclass
class Simulation:
    """The rules of a workspace as they stand, without an agent."""

    trust: Trust
    parts: Parts
    policy: Policy
    catalogue: Catalogue
    decider: Decider

    @classmethod
    def open(cls, place: Place, *, compile_rules: bool = True, tools: Sequence[ToolSpec] = SPECS) -> "Simulation":
        """Open a workspace's rules. Without `compile_rules` only `trust` is usable: mistakes must be mendable.

        Raises:
            SettingsError: the rules in force have a mistake.
        """
        folder = outside(config_folder(), place.folder)
        parts = open_parts(place.folder, place.database)
        trust = Trust(place.folder, place.database, parts.journal, SigningKey.open(folder, "trust"))
        try:
            if compile_rules:
                settle(trust, parts.inbox)
            policy = policy_in_force(trust) if compile_rules else Policy(Matrix(()))
            catalogue = Catalogue()
            for spec in (*tools, *policy.tools):
                catalogue.add(spec)
        except BaseException:
            parts.journal.close()
            raise
        return cls(trust, parts, policy, catalogue, Decider(catalogue, PathRoot(place.folder), policy))

    def close(self) -> None:
        """Write what waits."""
        self.parts.journal.close()

    def decide(
        self,
        agent: str,
        tenant: str,
        tool: str,
        arguments: Mapping[str, Json],
        request: str = "",
        labels: Mapping[str, Label] | None = None,
        session_id: str | None = None,
    ) -> Decision:
        """What would be decided; with a session's id, after what that session's tree has done.

        Raises:
            UsageError: the agent or tenant cannot be one.
            NotFound: there is no such session.
        """
        principal = Principal(agent, tenant)
        sessions = Sessions(self.parts.database)
        plan: Plan | None = None
        if session_id is not None:
            session = sessions.load(session_id)
            if session.principal != principal:
                raise UsageError(
                    f"{session_id} is a session of {session.principal.agent}, not of {agent}", hint="name its own agent"
                )
            history, plan = sessions.history(session), sessions.plan(session)
            if request:
                history.provenance.typed(request)
            history.veil = self.parts.vaults.veil(session)
        else:
            history = History("", Provenance(request))
            if request and self.policy.plan_words:
                plan = Plan(tuple(WordPlanner(self.policy.plan_words).plan(request, self.catalogue.specs)))
        sessions.read_states(history, self.policy.combinations, principal)
        return self.decider.decide(principal, history, tool, arguments, plan=plan, simulate=labels)

    def ask(self, decision: Decision, tenant: str, session_id: str | None, proposed: Mapping[str, Json]) -> Decision:
        """Put an `ask` into the inbox, so that it can be answered before the agent asks."""
        principal = Principal(decision.agent, tenant)
        session = Session("", principal, "", None, "")
        if session_id is not None:
            session = Sessions(self.parts.database).load(session_id)
        spec = self.catalogue.resolve(decision.tool)
        needed = 2 if spec.effect == "destructive" and self.policy.destructive_quorum else 1
        screen = Screen(self.parts.vaults, session, self.policy.hiding.of(principal), threading.RLock(), spec, proposed)
        kept = screen.kept(decision)
        approvals = Approvals(self.parts.inbox, self.parts.vaults)
        question = approvals.question(decision, kept, None, None, screen.values(dict(kept.arguments)))
        item = approvals.ask(session, spec, question, reason="overnight gate check", needed=needed)
        return replace(decision, approval_id=item.id)

    def explain(
        self,
        agent: str,
        tenant: str,
        tool: str,
        arguments: Mapping[str, Json],
        request: str = "",
        labels: Mapping[str, Label] | None = None,
        session_id: str | None = None,
    ) -> dict[str, Any]:
        """The decision with everything that led to it: JSON."""
        decision = self.decide(agent, tenant, tool, arguments, request, labels, session_id)
        document: dict[str, Any] = dict(decision.to_json())
        document["origins"] = {
            name: {"label": origin.label, "confidentiality": origin.confidentiality, "source": origin.source}
            for name, origin in decision.origins.items()
        }
        principal = Principal(agent, tenant)
        document["roles"] = sorted(self.policy.matrix.roles_of(agent, tenant))
        document["rules"] = []
        if decision.version:
            spec = self.catalogue.resolve(decision.tool).as_called(decision.arguments)
            document["rules"] = [
                {"where": rule.where, "decision": rule.decision, "applies": applies, "why": rule.why}
                for rule, applies in self.policy.matrix.speaking(principal, spec, decision.arguments, decision.origins)
            ]
        return document

    def matrix(self) -> dict[str, Any]:
        """Every agent that rules name, by every tool: JSON. `?` where it depends on the arguments."""
        agents = sorted(self.policy.matrix.agents())
        cells = []
        for agent in agents:
            principal = Principal(agent, "default")
            for spec in self.catalogue.specs:
                cells.append(
                    {
                        "agent": agent,
                        "tool": spec.id,
                        "effect": spec.effect,
                        "decision": self.policy.matrix.summary(principal, spec),
                    }
                )
        roles = [
            {"role": role.name, "agents": list(role.agents), "tenants": list(role.tenants),
             "rights": {family: list(effects) for family, effects in role.rights.items()}}
            for role in self.policy.matrix.roles
        ]  # fmt: skip
        return {
            "policy": self.policy.hash,
            "cells": cells,
            "roles": roles,
            "agents": agents,
            "masking": {agent: self.policy.hiding.of(Principal(agent, "default")).hide for agent in agents},
            "machine_speed": self._thresholds(),
            "limits": [str(limit) for limit in self.policy.limits],
            "undo": {rule.tool: rule.by for rule in self.policy.undo.values()},
            "approvers_of_destructive": 2 if self.policy.destructive_quorum else 1,
            "combinations": [
                {"name": rule.name, "scope": rule.scope, "decision": rule.decision, "within_s": rule.within_s}
                for rule in self.policy.combinations
            ],
        }

    def _thresholds(self) -> dict[str, str]:
        """What is too fast, by tool family."""
        families = sorted(
            {spec.family or spec.server for spec in self.catalogue.specs} | set(self.policy.bursts.families)
        )
        found = {family: self.parts.breaker.threshold(family, self.policy.bursts) for family in families}
        return {family: NEVER if burst is None else str(burst) for family, burst in found.items()}

    def check_rules(self, waiting: Sequence[Waiting]) -> None:
        """Refuse to trust AGENTS.md files that could not be loaded afterwards.

        Raises:
            SettingsError: with the line of the mistake.
            NotFound: a file has gone since it was shown.
        """
        specs = Catalogue()
        rules: list[Rule] = []
        undo: list[UndoRule] = []
        combinations: list[Combination] = []
        for path in sorted(set(self.trust.paths()) - {item.path for item in waiting}):
            if PurePosixPath(path).name == "AGENTS.md":
                combinations += rulebook(path, text_of(path, self.trust.in_force(path))).combinations
        for spec in SPECS:
            specs.add(spec)
        for item in waiting:
            if not item.path.endswith("AGENTS.md") or not item.sha256:
                continue
            content = self.trust.current(item.path)
            if content is None:
                raise NotFound(f"{item.path} has gone", hint="look again")
            book = rulebook(item.path, text_of(item.path, content))
            rules += book.layer.rules
            undo += book.settings.undo.values()
            combinations += book.combinations
            for spec in book.tools:
                specs.add(spec)
        known = {spec.server for spec in specs.specs}
        later = {pattern.partition(".")[0] for rule in rules for pattern in rule.tools}
        later |= {tool.partition(".")[0] for rule in undo for tool in (rule.tool, rule.by)}
        check_known(rules, specs, frozenset(later - known))
        check_names(combinations)
        check_undo(undo, specs, frozenset(later - known))
