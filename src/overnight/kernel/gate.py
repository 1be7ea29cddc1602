"""The gate: every action of an agent passes here, whoever proposed it, and is decided in code before it happens.

    outcome = gate.call(session, tool, arguments, reason="…")    # decided, executed, recorded; or refused with a reason

Tools are registered with the code that runs them; nothing else holds that code. The order of one call is: session and
grant, decision (see `decide`), approval, limits, the journal (written ahead), execution, labels of the result. If any
of it fails, the call does not run.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from overnight.core.errors import OvernightError, Refused, UsageError
from overnight.core.escape import visible
from overnight.core.ids import new_id
from overnight.kernel.approvals import Approvals
from overnight.kernel.canonical import Json, canonical_json, content_hash
from overnight.kernel.catalogue import Catalogue
from overnight.kernel.decide import Decider, Policy
from overnight.kernel.decision import Decision, Outcome, Reason
from overnight.kernel.inbox import Inbox, Item
from overnight.kernel.journal import Change, Draft, Journal
from overnight.kernel.journal_entry import EntryKind
from overnight.kernel.label import Label
from overnight.kernel.paths import PathRoot
from overnight.kernel.plan import Plan, Planner, WordPlanner
from overnight.kernel.session import OnDenied, Principal, Session
from overnight.kernel.sessions import Sessions
from overnight.kernel.tool import ToolSpec
from overnight.kernel.tool_code import ToolCode, changed_files, changes, images
from overnight.store.blobs import Blobs
from overnight.store.database import Database

_LONGEST_KEPT = 200_000  # characters of arguments or a result that an entry of the journal holds itself


class Gate:
    """Decides, runs and records actions. Thread-safe; several processes may share one workspace's record."""

    def __init__(
        self,
        root: Path,
        database: Database,
        journal: Journal,
        inbox: Inbox,
        blobs: Blobs,
        policy: Policy,
        *,
        planner: Planner | None = None,
    ) -> None:
        """A gate over the workspace at `root`.

        Args:
            root: where relative paths of arguments start.
            database: of the workspace.
            journal: of the workspace.
            inbox: where questions wait.
            blobs: keep files before they are changed, and what is too long for the journal.
            policy: the rules in force.
            planner: plans new sessions; None uses the policy's words, if it has any.
        """
        self.paths = PathRoot(root)
        self.catalogue = Catalogue()
        self.sessions = Sessions(database)
        self._database = database
        self._journal = journal
        self._inbox = inbox
        self._approvals = Approvals(inbox)
        self._blobs = blobs
        self._decider = Decider(self.catalogue, self.paths, policy)
        self._planner = planner
        self._tools: dict[str, ToolCode] = {}

    @property
    def policy(self) -> Policy:
        """The rules in force."""
        return self._decider.policy

    def use_policy(self, policy: Policy) -> None:
        """Put other rules in force, for all calls that are decided from now on."""
        self._decider = Decider(self.catalogue, self.paths, policy)

    def register(self, tool: ToolCode) -> None:
        """Make a tool callable.

        Raises:
            UsageError: its name is taken or cannot be told from another's.
        """
        self.catalogue.add(tool.spec)
        self._tools[tool.spec.id] = tool

    def open(
        self,
        principal: Principal,
        request: str = "",
        *,
        attended: bool = False,
        on_denied: OnDenied = "stop",
    ) -> Session:
        """Begin a session for a person or a schedule; called by trusted code, never by an agent.

        Args:
            principal: who will act.
            request: what the person typed, and only that; its words become `user` values.
            attended: a person is there to answer.
            on_denied: what a denial does to the session.
        """
        planner = self._planner or (WordPlanner(self.policy.plan_words) if self.policy.plan_words else None)
        plan = Plan(tuple(planner.plan(request, self.catalogue.specs))) if planner is not None else None
        return self.sessions.open(principal, request, "", attended=attended, on_denied=on_denied, plan=plan)

    def child(self, parent: Session, name: str) -> Session:
        """Begin a sub-agent's session: it may do what `parent` may, or less."""
        return self.sessions.child(parent, name, parent.grant)

    def check(
        self,
        session: Session,
        tool: str,
        arguments: Mapping[str, Json],
        *,
        simulate: Mapping[str, Label] | None = None,
    ) -> Decision:
        """Decide without executing, asking or recording. `simulate` assumes labels of arguments."""
        try:
            with self.sessions.lock(session):
                stopped = self.sessions.stopped(session)
                if stopped is not None:
                    return self._refused(
                        session, tool, arguments, "session_stopped", f"the session was stopped: {stopped}"
                    )
                return self._decide(session, tool, arguments, simulate)
        except Exception as problem:
            return self._refused(session, tool, arguments, "gate_failed", _failure(problem))

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
        action = new_id("act")
        try:
            return self._call(session, tool, arguments, action, reason, wait_s)
        except Exception as problem:
            decision = self._refused(session, tool, arguments, "gate_failed", _failure(problem))
            return self._denied(session, decision, action, reason)

    def _call(
        self, session: Session, tool: str, arguments: Mapping[str, Json], action: str, reason: str, wait_s: float
    ) -> Outcome:
        with self.sessions.lock(session):
            stopped = self.sessions.stopped(session)
            if stopped is not None:
                sentence = f"the session was stopped: {stopped}"
                return self._denied(
                    session, self._refused(session, tool, arguments, "session_stopped", sentence), action, reason
                )
            decision = self._decide(session, tool, arguments, None, about_to_run=True)
        if decision.verdict == "deny":
            return self._denied(session, decision, action, reason)
        code = self._tools.get(decision.tool)
        if code is None:
            sentence = f"{decision.tool} is declared, but nothing here can run it"
            return self._denied(
                session, self._refused(session, tool, arguments, "not_runnable", sentence), action, reason
            )
        if decision.verdict == "ask":
            item = self._ask(session, code, decision, reason)
            decision = replace(decision, approval_id=item.id)
            state = self._inbox.state(item.id)
            if state == "pending" and wait_s > 0:
                state = self._approvals.wait(item, wait_s)
            if state == "pending":
                self._record(session, decision, action, reason, code.durable)
                return Outcome("pending", decision, action=action)
            # The world may have moved while the person thought: decide again, and use the yes for exactly that.
            with self.sessions.lock(session):
                again = self._decide(session, tool, arguments, None, about_to_run=True, approved=True)
                if again.verdict == "deny":
                    return self._denied(session, again, action, reason)
                decision = replace(again, approval_id=item.id)
                try:
                    self._approvals.consume(item.id, again, _precondition(code, again))
                except Refused as problem:
                    refused = replace(
                        decision, verdict="deny", reasons=(Reason(problem.reason, problem.message), *decision.reasons)
                    )
                    return self._denied(session, refused, action, reason)
        return self._execute(session, code, decision, action, reason)

    def _decide(
        self,
        session: Session,
        tool: str,
        arguments: Mapping[str, Json],
        simulate: Mapping[str, Label] | None,
        *,
        about_to_run: bool = False,
        approved: bool = False,
    ) -> Decision:
        decider = self._decider
        rules = decider.policy.combinations
        history = self.sessions.history(session)
        plan = self.sessions.plan(session)
        if not rules:
            return decider.decide(session.principal, history, tool, arguments, plan=plan, simulate=simulate)
        # One transaction from reading the automata to advancing them: two calls cannot both be "the last allowed one".
        with self._database.transaction():
            self.sessions.read_states(history, rules, session.principal)
            decision = decider.decide(session.principal, history, tool, arguments, plan=plan, simulate=simulate)
            if about_to_run and (decision.runs or (approved and decision.verdict == "ask")):
                spec = self.catalogue.resolve(decision.tool).as_called(decision.arguments)
                self.sessions.advance(history, rules, session.principal, spec, decision.arguments, decision.origins)
        return decision

    def _ask(self, session: Session, code: ToolCode, decision: Decision, reason: str) -> Item:
        needed = 2 if code.spec.effect == "destructive" and self.policy.destructive_quorum else 1
        return self._approvals.ask(
            session, code.spec, decision, reason=reason, precondition=_precondition(code, decision), needed=needed
        )

    def _execute(self, session: Session, code: ToolCode, decision: Decision, action: str, reason: str) -> Outcome:
        spec = code.spec
        history = self.sessions.history(session)
        before = images(self.paths, self._blobs, changed_files(spec, decision.arguments))
        with self.sessions.lock(session):
            self.sessions.about_to_read(history, spec)
        self._record(session, decision, action, reason, code.durable, executed={"before": dict(before)})
        error, result = "", cast(Json, None)
        try:
            result = code.run(decision.arguments)
            canonical_json(result)  # a tool that returns no JSON has failed: it could not be recorded or labelled
        except Exception as problem:
            error, result = _failure(problem), None
        try:
            self._finish(session, spec, action, before, result, error)
        except Exception as problem:
            self.sessions.stop(session, f"the result of {action} could not be recorded")
            return Outcome("failed", decision, None, action, f"it ran, but is not recorded: {_failure(problem)}", True)
        return Outcome("failed" if error else "done", decision, result, action, error)

    def _finish(
        self, session: Session, spec: ToolSpec, action: str, before: Mapping[str, str | None], result: Json, error: str
    ) -> None:
        """Record what became of a call, and take its result in."""
        after = images(self.paths, self._blobs, tuple(before)) if before else {}
        if not error:
            with self.sessions.lock(session):
                self.sessions.history(session).provenance.seen(spec, result, f"action {action}")
        body: dict[str, Json] = {"status": "failed" if error else "done", "result_sha256": content_hash(result)}
        if error:
            body["error"] = error[:2000]
        self._journal.append(_draft("result", session, spec.id, action, body, changes(before, after)), durable=False)

    def _denied(self, session: Session, decision: Decision, action: str, reason: str) -> Outcome:
        recorded, stopped = action, False
        try:
            self._record(session, decision, action, reason, durable=False)
            if session.on_denied == "stop" and decision.reasons[0].code != "session_stopped":
                self.sessions.stop(session, f"{decision.tool} was denied: {decision.reasons[0].sentence}")
                stopped = True
        except Exception:
            recorded = ""  # nothing runs either way; the caller sees that it is not on record
        return Outcome("denied", decision, action=recorded, stopped=stopped)

    def _record(
        self,
        session: Session,
        decision: Decision,
        action: str,
        reason: str,
        durable: bool,
        executed: Mapping[str, Json] | None = None,
    ) -> None:
        arguments = self._kept(dict(decision.arguments))
        drafts = [
            _draft("proposed", session, decision.tool, action, {"arguments": arguments, "reason": reason[:2000]}),
            _draft(
                "decided",
                session,
                decision.tool,
                action,
                {
                    "decision": decision.verdict,
                    "rule": decision.rule,
                    "reasons": [[item.code, item.sentence] for item in decision.reasons],
                    "origins": {
                        name: [origin.label, origin.confidentiality, origin.source]
                        for name, origin in decision.origins.items()
                    },
                    "policy": decision.policy,
                    "version": decision.version,
                    "approval": decision.approval_id,
                },
            ),
        ]
        if executed is not None:
            drafts.append(_draft("executed", session, decision.tool, action, executed))
        self._journal.append(*drafts, durable=durable)

    def _kept(self, value: Json) -> Json:
        text = canonical_json(value)
        return value if len(text) <= _LONGEST_KEPT else {"blob": self._blobs.put(text)}

    def _refused(
        self, session: Session, tool: str, arguments: Mapping[str, Json], code: str, sentence: str
    ) -> Decision:
        try:
            given = dict(arguments)
            canonical_json(given)
        except (UsageError, TypeError, ValueError):
            given = {"not_json": visible(repr(arguments), limit=500)}
        name = visible(str(tool), limit=200)
        reasons = (Reason(code, sentence),)
        return Decision("deny", "gate", reasons, name, "", session.principal.agent, given, {}, self.policy.hash)


def _precondition(code: ToolCode, decision: Decision) -> Json:
    return code.precondition(decision.arguments) if code.precondition is not None else None


def _failure(problem: Exception) -> str:
    text = problem.message if isinstance(problem, OvernightError) else str(problem)
    return visible(f"{type(problem).__name__}: {text}", limit=1000)


def _draft(
    kind: str, session: Session, tool: str, action: str, body: Mapping[str, Json], changed: tuple[Change, ...] = ()
) -> Draft:
    return Draft(
        cast(EntryKind, kind),
        body,
        action,
        session.id,
        session.principal.tenant,
        session.principal.agent,
        tool if tool.isprintable() else visible(tool),
        changed,
    )
