"""Sessions and what each tree of them has been told and has done, kept over restarts.

A tree's labels of results live in memory; after a restart they are gone and values count as untraced, which only makes
decisions stricter. What must not be forgotten is on the disk: the person's words, how secret the things read were, the
states of combinations, the plan, and that a session was stopped.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import cast

from overnight.core.errors import NotFound, UsageError
from overnight.core.ids import new_id
from overnight.kernel.canonical import Json
from overnight.kernel.decide import History
from overnight.kernel.flow.label import Confidentiality, Origin
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.rules.combination import START, Combination, State, advanced, fresh
from overnight.kernel.rules.plan import Plan
from overnight.kernel.session import OnDenied, Principal, Session
from overnight.kernel.tool.spec import ToolSpec
from overnight.store.database import Database


class Sessions:
    """The sessions of one workspace. Thread-safe; one tree's history is guarded by `lock`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._histories: dict[str, History] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._guard = threading.Lock()
        self._plans: dict[str, Plan | None] = {}

    def open(
        self,
        principal: Principal,
        request: str,
        grant: str,
        *,
        attended: bool = False,
        on_denied: OnDenied = "stop",
        plan: Plan | None = None,
    ) -> Session:
        """Begin a tree. `request` is what the person typed, and only that; empty for work nobody asked for in words."""
        session_id = new_id("ses")
        session = Session(session_id, principal, session_id, None, grant, attended, on_denied)
        self._insert(session, request, plan)
        return session

    def child(self, parent: Session, name: str, grant: str, *, plan: Plan | None = None) -> Session:
        """Begin a sub-agent's session. What its parent tells it is no person's words and raises no label.

        Raises:
            UsageError: the plan goes beyond the parent's.
        """
        inherited = self.plan(parent)
        if plan is not None and inherited is not None and not set(plan.tools) <= set(inherited.tools):
            raise UsageError("a sub-agent's plan goes beyond its parent's", hint="plan only tools of the parent's plan")
        session = Session(
            new_id("ses"),
            parent.principal.child(name),
            parent.root,
            parent.id,
            grant,
            parent.attended,
            parent.on_denied,
        )
        self._insert(session, "", plan or inherited)
        return session

    def load(self, session_id: str, grant: str = "") -> Session:
        """A session by id, as when it was opened.

        Raises:
            NotFound: there is none.
        """
        row = self._database.row("SELECT * FROM sessions WHERE id = ?", (session_id,))
        if row is None:
            raise NotFound(f"there is no session {session_id!r}", hint="see `overnight audit log`")
        principal = Principal(row["agent"], row["tenant"])
        on_denied = cast(OnDenied, row["on_denied"])
        return Session(row["id"], principal, row["root"], row["parent"], grant, bool(row["attended"]), on_denied)

    def typed(self, session: Session, text: str) -> None:
        """Take in more that the person typed in this session."""
        with self.lock(session):
            self._database.execute(
                "UPDATE sessions SET request = request || ? WHERE id = ?", ("\n" + text, session.root)
            )
            self.history(session).provenance.typed(text)

    def lock(self, session: Session) -> threading.RLock:
        """Held while a call of the session's tree is decided."""
        with self._guard:
            return self._locks.setdefault(session.root, threading.RLock())

    def history(self, session: Session) -> History:
        """What the session's tree has been told. Use it only under `lock`.

        Raises:
            NotFound: the session's tree is not recorded.
        """
        known = self._histories.get(session.root)
        if known is not None:
            return known
        row = self._database.row("SELECT request, peak FROM sessions WHERE id = ?", (session.root,))
        if row is None:
            raise NotFound(f"there is no session {session.root!r}", hint="open it first")
        peak = cast(Confidentiality, row["peak"])
        history = self._histories[session.root] = History(session.root, Provenance(row["request"], peak))
        return history

    def plan(self, session: Session) -> Plan | None:
        """The plan of a session; None if it has none."""
        if session.id not in self._plans:
            row = self._database.row("SELECT plan FROM sessions WHERE id = ?", (session.id,))
            if row is None:
                raise NotFound(f"there is no session {session.id!r}", hint="open it first")
            self._plans[session.id] = None if row["plan"] is None else Plan(tuple(json.loads(row["plan"])))
        return self._plans[session.id]

    def stop(self, session: Session, why: str) -> None:
        """Refuse every further call of the session and of its descendants."""
        self._database.execute("UPDATE sessions SET stopped = ? WHERE id = ? AND stopped IS NULL", (why, session.id))

    def stopped(self, session: Session) -> str | None:
        """Why the session, or one above it, was stopped; None while it may go on.

        Raises:
            NotFound: it is not recorded.
        """
        row = self._database.row(
            "WITH RECURSIVE up(id, parent, stopped) AS (SELECT id, parent, stopped FROM sessions WHERE id = ?"
            " UNION ALL SELECT s.id, s.parent, s.stopped FROM sessions s JOIN up ON s.id = up.parent)"
            " SELECT count(*) AS known, max(stopped) AS why FROM up",
            (session.id,),
        )
        if row is None or not row["known"]:
            raise NotFound(f"there is no session {session.id!r}", hint="open it first")
        return cast(str | None, row["why"])

    def read_states(self, history: History, rules: Sequence[Combination], principal: Principal) -> None:
        """Bring the combinations' states up to date with what other sessions and processes did."""
        keys = [rule.key(principal, history.root) for rule in rules]
        if not keys:
            return
        marks = ", ".join("?" * len(keys))
        rows = self._database.rows(f"SELECT * FROM combination_states WHERE rule_key IN ({marks})", keys)
        for row in rows:
            servers = tuple(json.loads(row["servers"]))
            history.states[row["rule_key"]] = State(row["step"], row["counted"], servers, row["at_s"])

    def advance(
        self,
        history: History,
        rules: Sequence[Combination],
        principal: Principal,
        spec: ToolSpec,
        arguments: Mapping[str, Json],
        origins: Mapping[str, Origin],
    ) -> None:
        """Record that a call is about to run. Call it in the transaction in which the call was decided."""
        now_s = time.time()
        for rule in rules:
            key = rule.key(principal, history.root)
            before = fresh(rule, history.states.get(key, START), now_s)
            after = advanced(rule, before, spec, arguments, origins, now_s)
            if after is before:
                continue
            history.states[key] = after
            self._database.execute(
                "INSERT INTO combination_states (rule_key, step, counted, servers, at_s) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (rule_key) DO UPDATE SET step = excluded.step, counted = excluded.counted,"
                " servers = excluded.servers, at_s = excluded.at_s",
                (key, after.step, after.counted, json.dumps(after.servers), after.at_s),
            )

    def about_to_read(self, history: History, spec: ToolSpec) -> None:
        """Record, before a call runs, the most confidential thing that its result may bring in."""
        raised = history.provenance.raise_peak(spec)
        if raised:
            self._database.execute("UPDATE sessions SET peak = ? WHERE id = ?", (history.provenance.peak, history.root))

    def _insert(self, session: Session, request: str, plan: Plan | None) -> None:
        self._plans[session.id] = plan
        self._database.execute(
            "INSERT INTO sessions (id, parent, root, agent, tenant, request, plan, peak, attended, on_denied, stopped,"
            " opened_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'public', ?, ?, NULL, ?)",
            (
                session.id,
                session.parent,
                session.root,
                session.principal.agent,
                session.principal.tenant,
                request,
                None if plan is None else json.dumps(plan.tools),
                int(session.attended),
                session.on_denied,
                time.time(),
            ),
        )
