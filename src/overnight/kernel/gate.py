"""The gate: every action of an agent passes here, whoever proposed it, and is decided in code before it happens.

    outcome = gate.call(session, tool, arguments, reason="…")    # decided, executed, recorded; or refused with a reason

Tools are registered with the code that runs them; nothing else holds that code. The order of one call is: session and
grant, decision (see `decide`), approval, limits, the journal (written ahead), execution, labels of the result. If any
of it fails, the call does not run.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from overnight.core.errors import Refused, StoreError, UsageError
from overnight.core.escape import visible
from overnight.kernel.approval.approvals import Approvals, Question
from overnight.kernel.approval.inbox import Item
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.decide import Decider, History, Policy
from overnight.kernel.decision import Decision, Outcome
from overnight.kernel.flow.label import Label
from overnight.kernel.flow.objections import aimed
from overnight.kernel.grants.grant import Bound, Grant, Terms, attenuate
from overnight.kernel.journal.record import Recorder
from overnight.kernel.ledger.ledger import Exceeded, Reservation
from overnight.kernel.ledger.limits import Subject
from overnight.kernel.masking.screen import Screen
from overnight.kernel.parts import Parts
from overnight.kernel.paths import PathRoot
from overnight.kernel.refusal import denial, failure, refusal
from overnight.kernel.rules.plan import Plan, Planner, WordPlanner
from overnight.kernel.session import OnDenied, Principal, Session
from overnight.kernel.sessions import Sessions
from overnight.kernel.tool.catalogue import Catalogue
from overnight.kernel.tool.code import Run, ToolCode, changed_files, changes, images

GRANT_LIFE_S = 7 * 86400.0
"""How long a session's grant is good for unless its opener says otherwise."""


RENEW_S = 0.5
"""How often a gate that follows the trusted rules looks for newer ones; a look reads a few rows."""


class Gate:
    """Decides, runs and records actions. Thread-safe; several processes may share one workspace's record."""

    def __init__(self, root: Path, parts: Parts, policy: Policy, *, planner: Planner | None = None) -> None:
        """A gate over the workspace at `root`.

        Args:
            root: where relative paths of arguments start.
            parts: of the workspace.
            policy: the rules in force.
            planner: plans new sessions; None uses the policy's words, if it has any.
        """
        self.paths = PathRoot(root)
        self.catalogue = Catalogue()
        self.sessions = Sessions(parts.database)
        self._parts = parts
        self._approvals = Approvals(parts.inbox, parts.vaults)
        self._recorder = Recorder(parts.journal, parts.blobs)
        self._decider = Decider(self.catalogue, self.paths, policy)
        self._planner = planner
        self._tools: dict[str, ToolCode] = {}
        self._newer: Callable[[], Policy | None] | None = None
        self._looked_s = 0.0
        self._outdated = False
        self._following = threading.Lock()

    @property
    def policy(self) -> Policy:
        """The rules in force."""
        return self._decider.policy

    def use_policy(self, policy: Policy) -> None:
        """Put other rules in force. Grants are bound to the rules they were made under: open sessions end with them."""
        self._decider = Decider(self.catalogue, self.paths, policy)

    def follow(self, newer: Callable[[], Policy | None]) -> None:
        """Go by the rules that `newer` returns; it is asked every `RENEW_S` seconds, None says that nothing changed.

        While it raises, calls are refused; for good once it declares tools otherwise than they are known here.
        """
        self._newer = newer

    def _follow(self) -> None:
        if self._newer is None or time.monotonic() - self._looked_s < RENEW_S:
            return
        with self._following:
            policy = self._newer()
            before = {spec.id: spec.version for spec in self.policy.tools}
            now = before if policy is None else {spec.id: spec.version for spec in policy.tools}
            self._outdated = self._outdated or any(now.get(tool) != version for tool, version in before.items())
            if self._outdated:
                raise StoreError("tools are declared otherwise since this gate was opened", hint="open it again")
            if policy is not None:
                for spec in policy.tools:
                    self.catalogue.add(spec)
                self.use_policy(policy)
            self._looked_s = time.monotonic()

    def register(self, tool: ToolCode) -> None:
        """Make a tool callable.

        Raises:
            UsageError: its name is taken or cannot be told from another's.
        """
        self.catalogue.add(tool.spec)
        self._tools[tool.spec.id] = tool

    def implement(self, tool_id: str, run: Run) -> None:
        """Make a tool callable that the rules' files declare.

        Raises:
            UsageError: no such tool is declared.
        """
        self._tools[tool_id] = ToolCode(self.catalogue.resolve(tool_id), run)

    def close(self) -> None:
        """Write what waits in the journal; the gate is of no use afterwards."""
        self._parts.journal.close()

    def open(
        self,
        principal: Principal,
        request: str = "",
        *,
        attended: bool = False,
        on_denied: OnDenied = "stop",
        terms: Terms | None = None,
    ) -> Session:
        """Begin a session for a person or a schedule; called by trusted code, never by an agent.

        Args:
            principal: who will act.
            request: what the person typed, and only that; its words become `user` values.
            attended: a person is there to answer.
            on_denied: what a denial does to the session.
            terms: what its grant allows; None is every tool, for a week, under the rules in force.
        """
        self._follow()
        planner = self._planner or (WordPlanner(self.policy.plan_words) if self.policy.plan_words else None)
        plan = Plan(tuple(planner.plan(request, self.catalogue.specs))) if planner is not None else None
        if terms is None:
            terms = Terms(("*",), expires_at=time.time() + GRANT_LIFE_S, policy=self.policy.hash)
        token = self._parts.grants.mint(principal, terms)
        return self.sessions.open(principal, request, token, attended=attended, on_denied=on_denied, plan=plan)

    def child(
        self, parent: Session, name: str, *, tools: tuple[str, ...] = ("*",), bounds: tuple[Bound, ...] = ()
    ) -> Session:
        """Begin a sub-agent's session: it may do what `parent` may, or less."""
        token = attenuate(parent.grant, self._parts.grants.public, Terms(tools, bounds), child=name)
        return self.sessions.child(parent, name, token)

    def check(
        self,
        session: Session,
        tool: str,
        arguments: Mapping[str, Json],
        *,
        simulate: Mapping[str, Label] | None = None,
    ) -> Decision:
        """Decide without executing, asking or recording. `simulate` assumes labels of arguments."""
        tool = _name(tool)
        try:
            with self.sessions.lock(session):
                decision, _ = self._decide(session, tool, arguments, simulate=simulate)
            return decision
        except Exception as problem:
            return self._refused(session, tool, arguments, "gate_failed", failure(problem))

    def call(
        self,
        session: Session,
        tool: str,
        arguments: Mapping[str, Json],
        *,
        reason: str = "",
        wait_s: float = 0.0,
    ) -> Outcome:
        """Decide an action and, if it may, execute it; either way it is recorded.

        Args:
            session: in which it is proposed.
            tool: name of the tool.
            arguments: as proposed.
            reason: the agent's own words; recorded, shown to the approver, never part of the decision.
            wait_s: how long to wait for the approver when the decision is `ask`; 0 leaves it pending at once.

        Returns:
            What became of it. A refusal is an outcome; this never raises for one.
        """
        tool = _name(tool)
        screen = self._screen(session, tool, arguments, reason)
        try:
            outcome = self._call(screen, tool, arguments, wait_s)
        except Exception as problem:
            decision = self._refused(session, tool, arguments, "gate_failed", failure(problem))
            outcome = self._denied(screen, decision)
        return screen.shown(outcome)

    def shown(self, session: Session, text: str) -> str:
        """Any other text as the session's model may see it: the person's request, a file of instructions.

        Raises:
            StoreError: what was masked in it cannot be kept.
        """
        return str(self._screen(session).shown_json(text))

    def _screen(
        self, session: Session, tool: str = "", arguments: Mapping[str, Json] | None = None, reason: str = ""
    ) -> Screen:
        hiding = self.policy.hiding.of(session.principal)
        lock = self.sessions.lock(session)
        return Screen(self._parts.vaults, session, hiding, lock, self.catalogue.find(tool), arguments, reason)

    def _ask(self, screen: Screen, code: ToolCode, decision: Decision) -> Item:
        """Put the question of an `ask` into the inbox, or find it there."""
        needed = 2 if code.spec.effect == "destructive" and self.policy.destructive_quorum else 1
        question = self._question(screen, code, decision)
        return self._approvals.ask(screen.session, code.spec, question, reason=screen.kept_reason(), needed=needed)

    def _question(self, screen: Screen, code: ToolCode, decision: Decision) -> Question:
        """What a person is asked, computed anew each time."""
        stated = code.precondition(decision.arguments) if code.precondition is not None else None
        kept, kept_stated = screen.kept(decision), screen.kept_json(stated)
        values = screen.values(dict(kept.arguments), kept_stated)
        return self._approvals.question(decision, kept, stated, kept_stated, values)

    def _call(self, screen: Screen, tool: str, arguments: Mapping[str, Json], wait_s: float) -> Outcome:
        session = screen.session
        with self.sessions.lock(session):
            decision, grant = self._decide(session, tool, arguments, to_run=True)
        if decision.verdict == "deny":
            return self._denied(screen, decision)
        code = self._tools.get(decision.tool)
        if code is None or grant is None:
            sentence = f"{decision.tool} is declared, but nothing here can run it"
            refused = self._refused(session, tool, arguments, "not_runnable", sentence)
            return self._denied(screen, refused)
        if decision.verdict == "ask":
            item = self._ask(screen, code, decision)
            self._parts.breaker.heed(session, decision, item)
            decision = replace(decision, approval_id=item.id)
            state = self._parts.inbox.state(item.id)
            if state == "pending" and wait_s > 0:
                state = self._approvals.wait(item, wait_s)
            if state == "pending":
                self._ahead(screen, decision, durable=False, grant=grant.revocations)
                return Outcome("pending", decision, action=screen.action)
            # The world may have moved while the person thought: decide again, and use the yes for exactly that.
            with self.sessions.lock(session):
                decision, grant = self._decide(session, tool, arguments, to_run=True, approved=True)
                if decision.verdict == "ask":
                    decision = self._use_approval(screen, item.id, code, decision)
                    if decision.verdict == "ask":
                        self.sessions.history(session).provenance.agreed(code.spec, decision.arguments)
            if decision.verdict == "deny" or grant is None:
                return self._denied(screen, decision)
        return self._execute(screen, code, decision, grant)

    def _decide(
        self,
        session: Session,
        tool: str,
        arguments: Mapping[str, Json],
        *,
        simulate: Mapping[str, Label] | None = None,
        to_run: bool = False,
        approved: bool = False,
    ) -> tuple[Decision, Grant | None]:
        """The decision on a call, with the grant it would run under; `to_run` advances the combinations if it may."""
        self._follow()
        stopped = self.sessions.stopped(session) or self._parts.breaker.stopped(session)
        if stopped is not None:
            sentence = f"the session was stopped: {stopped}"
            return self._refused(session, tool, arguments, "session_stopped", sentence), None
        try:
            grant = self._parts.grants.verify(session.grant)
        except Refused as problem:
            return self._refused(session, tool, arguments, problem.reason, problem.message), None
        if grant.principal != session.principal:
            sentence = f"the grant was made out to {grant.principal.agent}, not to {session.principal.agent}"
            return self._refused(session, tool, arguments, "grant_mismatch", sentence), None
        decider = self._decider
        rules = decider.policy.combinations
        history = self.sessions.history(session)
        history.veil = self._parts.vaults.veil(session)
        plan = self.sessions.plan(session)
        if not rules:
            decision = decider.decide(grant.principal, history, tool, arguments, plan=plan, simulate=simulate)
            decision = self._within_grant(session, decision)
            if to_run and (decision.runs or (approved and decision.verdict == "ask")):
                self._visited(history, decision)
            return decision, grant
        # One transaction from reading the automata to advancing them: two calls cannot both be "the last allowed one".
        with self._parts.database.transaction():
            self.sessions.read_states(history, rules, grant.principal)
            decision = decider.decide(grant.principal, history, tool, arguments, plan=plan, simulate=simulate)
            decision = self._within_grant(session, decision)
            if to_run and (decision.runs or (approved and decision.verdict == "ask")):
                spec = aimed(self.catalogue.resolve(decision.tool), decision.arguments, history.provenance)
                self.sessions.advance(history, rules, grant.principal, spec, decision.arguments, decision.origins)
                self._visited(history, decision)
        return decision, grant

    def _visited(self, history: History, decision: Decision) -> None:
        """Count a call that is about to run: here, where no other call of its tree is decided at the same time."""
        provenance = history.provenance
        if provenance.peak != "public":
            spec = aimed(self.catalogue.resolve(decision.tool), decision.arguments, provenance)
            provenance.visits.count(spec, decision.arguments)

    def _within_grant(self, session: Session, decision: Decision) -> Decision:
        if decision.verdict == "deny":
            return decision
        try:
            self._parts.grants.authorise(session.grant, decision.tool, decision.arguments, decision.policy)
        except Refused as problem:
            return denial(decision, problem.reason, problem.message)
        return decision

    def _use_approval(self, screen: Screen, item_id: str, code: ToolCode, decision: Decision) -> Decision:
        """Outside any transaction: the use is journaled, and the journal writes through its own connection."""
        try:
            self._approvals.consume(item_id, self._question(screen, code, decision))
        except Refused as problem:
            return denial(decision, problem.reason, problem.message)
        return replace(decision, approval_id=item_id)

    def _execute(self, screen: Screen, code: ToolCode, decision: Decision, grant: Grant) -> Outcome:
        session = screen.session
        spec = code.spec
        family = spec.family or spec.server
        halted = self._parts.breaker.note(session, family, self.policy.bursts)
        if halted is not None:
            return self._denied(screen, denial(decision, "breaker", halted))
        roles = sorted(self.policy.matrix.roles_of(grant.principal.agent, grant.principal.tenant))
        subject = Subject(grant.principal.agent, grant.principal.tenant, tuple(roles), spec.id, family)
        reserved = self._parts.ledger.reserve(subject, code.amounts(decision.arguments), self.policy.limits)
        if isinstance(reserved, Exceeded):
            refused = denial(decision, "limit_exceeded", reserved.sentence)
            return self._denied(screen, refused)
        try:
            before = images(self.paths, self._parts.blobs, changed_files(spec, decision.arguments))
            with self.sessions.lock(session):
                self.sessions.about_to_read(self.sessions.history(session), spec)
            self._ahead(
                screen, decision, durable=code.durable, grant=grant.revocations, before=before, effect=spec.effect
            )
        except BaseException:
            self._parts.ledger.refund(reserved)
            raise
        return self._run(screen, code, decision, before, reserved)

    def _run(
        self,
        screen: Screen,
        code: ToolCode,
        decision: Decision,
        before: Mapping[str, str | None],
        reserved: Reservation,
    ) -> Outcome:
        """From here on it has happened: whatever fails, the outcome says so, and no session goes on unrecorded."""
        session, action = screen.session, screen.action
        error, result = "", None
        ended: BaseException | None = None
        try:
            result = code.run(decision.arguments)
            text = canonical_json(result)  # a tool that returns no JSON has failed: it can't be recorded or labelled
        except BaseException as problem:
            error, result, text = failure(problem), None, b"null"
            ended = None if isinstance(problem, Exception) else problem
        try:
            self._parts.ledger.settle(reserved, {})
            after = images(self.paths, self._parts.blobs, tuple(before)) if before else {}
            readers = None if error else code.read_by(decision.arguments)
            with self.sessions.lock(session):
                provenance = self.sessions.history(session).provenance
                if error:
                    provenance.failed(code.spec, f"action {action}", decision.arguments)
                else:
                    provenance.seen(code.spec, result, f"action {action}", decision.arguments, readers)
            kept = str(screen.kept_json(error))
            undo = screen.kept_json(self._undo(decision, result)) if not error else None
            self._recorder.result(
                session, code.spec.id, action, text, kept, changes(before, after), cast(Mapping[str, Json] | None, undo)
            )
        except Exception as problem:
            self.sessions.stop(session, f"the result of {action} could not be recorded")
            return Outcome("failed", decision, None, action, f"it ran, but is not recorded: {failure(problem)}", True)
        if ended is not None:
            raise ended  # an interrupt, or the tool ended the program: recorded, and not kept from whom it is meant for
        return Outcome("failed" if error else "done", decision, result, action, error)

    def _undo(self, decision: Decision, result: Json) -> Json:
        """The call that would make up for this one, as the rules in force say; None if they say nothing."""
        rule = self.policy.undo.get(decision.tool)
        if rule is None:
            return None
        try:
            return {"tool": rule.by, "arguments": rule.call(decision.arguments, result)}
        except UsageError as problem:
            return {"tool": rule.by, "missing": problem.message}

    def _denied(self, screen: Screen, decision: Decision) -> Outcome:
        session, recorded, stopped = screen.session, screen.action, False
        try:
            kept = self._ahead(screen, decision, durable=False)
            if session.on_denied == "stop" and decision.reasons[0].code != "session_stopped":
                self.sessions.stop(session, f"{decision.tool} was denied: {kept.reasons[0].sentence}")
                stopped = True
        except Exception:
            recorded = ""  # nothing runs either way; the caller sees that it is not on record
        return Outcome("denied", decision, action=recorded, stopped=stopped)

    def _ahead(
        self,
        screen: Screen,
        decision: Decision,
        *,
        durable: bool,
        grant: tuple[str, ...] = (),
        before: Mapping[str, str | None] | None = None,
        effect: str = "",
    ) -> Decision:
        """Record what was proposed and decided, and if it is about to run, that; the decision as it was recorded."""
        kept, said = screen.kept(decision), screen.kept_reason()
        self._recorder.ahead(
            screen.session, kept, screen.action, said, durable=durable, grant=grant, before=before, effect=effect
        )
        return kept

    def _refused(
        self, session: Session, tool: str, arguments: Mapping[str, Json], code: str, sentence: str
    ) -> Decision:
        return refusal(session.principal.agent, self.policy.hash, tool, arguments, code, sentence)


def _name(tool: object) -> str:
    """The name of a tool as proposed; of what is no text, one that no tool has."""
    return tool if isinstance(tool, str) else visible(repr(tool), limit=200)
