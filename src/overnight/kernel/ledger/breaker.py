"""The breaker: stops a session whose calls are each allowed but, taken together, are not what a person meant.

Two patterns: *bursts*, a tool family called at machine speed for a while; and *fragments*, a forbidden combination
split over sessions so that none of them meets it alone. A stopped session stays stopped, over restarts, until an
approver lets it go on.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from overnight.kernel.approval.inbox import Inbox, Item
from overnight.kernel.canonical import Json
from overnight.kernel.decision import Decision
from overnight.kernel.ledger.burst import MACHINE_SPEED, Burst, Bursts
from overnight.kernel.rules.combination import Combination
from overnight.kernel.session import Session
from overnight.store.database import Database

__all__ = ["MACHINE_SPEED", "Breaker", "Burst", "Bursts", "fragments"]

Reason = Literal["burst", "fragments"]

FRAGMENT_WINDOW_S = 3600.0
"""Within this time steps of different sessions of a tenant are taken together."""

_WATCHED = 10_000
_NO_RULES = Bursts()


class Breaker:
    """Watches the sessions of one workspace. Thread-safe. Speeds are counted in this process, stops are kept."""

    def __init__(
        self,
        database: Database,
        inbox: Inbox,
        *,
        default: Burst | None = MACHINE_SPEED,
        families: Mapping[str, Burst | None] | None = None,
    ) -> None:
        """Watch with these thresholds.

        Args:
            database: where stops are kept.
            inbox: where the approver is asked.
            default: for families that are not named; None watches only those that are.
            families: by tool family; None never stops it, e.g. for files the loop writes.
        """
        self._database = database
        self._inbox = inbox
        self._default = default
        self._families = dict(families or {})
        self._calls: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def threshold(self, family: str, rules: Bursts) -> Burst | None:
        """What is too fast for a family: the program's word for it, else the rules'; None if it is not watched."""
        for families in (self._families, rules.families):
            if family in families:
                return families[family]
        return rules.default or self._default

    def note(
        self, session: Session, family: str, rules: Bursts = _NO_RULES, *, at_s: float | None = None
    ) -> str | None:
        """Count one call that is about to run; why the session is stopped now, or None.

        Args:
            session: whose; the whole tree of sessions is counted together.
            family: of the tool.
            rules: thresholds of the rules in force.
            at_s: monotonic time of the call; the present if None.

        Raises:
            StoreError: a stop cannot be kept; the call must not run.
        """
        burst = self.threshold(family, rules)
        if burst is None:
            return None
        now_s = time.monotonic() if at_s is None else at_s
        with self._lock:
            key = (session.root, family)
            recent = self._calls.get(key)
            if recent is None or recent.maxlen != burst.calls:
                recent = self._calls[key] = deque(recent or (), maxlen=burst.calls)
            self._calls.move_to_end(key)
            if len(self._calls) > _WATCHED:
                self._calls.popitem(last=False)
            recent.append(now_s)
            tripped = len(recent) == burst.calls and recent[-1] - recent[0] <= burst.sustained_s
            if tripped:
                recent.clear()
        if not tripped:
            return None
        return self.stop(
            session, "burst", f"{burst.calls} calls of {family} within {burst.sustained_s:g}s: machine speed", family
        )

    def heed(self, session: Session, decision: Decision, item: Item) -> None:
        """Stop the session if `item`, a question about a call, was asked because it meets a combination in fragments.

        Once for each question: when the approver has let the session go on, the call waits for its own answer.

        Raises:
            StoreError: the stop cannot be kept; the call must not run.
        """
        sentence = next((reason.sentence for reason in decision.reasons if reason.code == "fragments"), None)
        if sentence is None:
            return
        row = self._database.row("SELECT 1 FROM breaker_trips WHERE root = ? AND subject = ?", (session.root, item.id))
        if row is None:
            self.stop(session, "fragments", sentence, item.id)

    def stop(self, session: Session, reason: Reason, sentence: str, subject: str) -> str:
        """Stop the session's whole tree and ask whether it may go on; returns `sentence`.

        Args:
            session: whose tree.
            reason: which pattern.
            sentence: for people: what was seen.
            subject: the tool family, or the id of the question about the call that met a combination.

        Raises:
            StoreError: it cannot be kept; no further call of the session must run.
        """
        bound: dict[str, Json] = {"continue": session.root, "reason": reason, "subject": subject, "at": time.time()}
        item = self._inbox.add(
            "stopped",
            f"{session.principal.agent} was stopped: {sentence}",
            bound,
            session=session.root,
            tenant=session.principal.tenant,
            agent=session.principal.agent,
        )
        self._database.execute(
            "INSERT INTO breaker_trips (item, root, reason, subject, sentence, at) VALUES (?, ?, ?, ?, ?, ?)",
            (item.id, session.root, reason, subject, sentence, time.time()),
        )
        return sentence

    def stopped(self, session: Session) -> str | None:
        """Why the session may not go on; None if it may, also because an approver has said so since.

        Raises:
            StoreError: it cannot be told; no call of the session must run.
        """
        rows = self._database.rows(
            "SELECT item, sentence FROM breaker_trips WHERE root = ? AND cleared_at IS NULL", (session.root,)
        )
        for row in rows:
            if self._inbox.state(row["item"]) != "approved":
                return str(row["sentence"])
            self._inbox.use(row["item"], self._inbox.get(row["item"]).bound)
            self._database.execute("UPDATE breaker_trips SET cleared_at = ? WHERE item = ?", (time.time(), row["item"]))
        return None


def fragments(rules: Sequence[Combination], within_s: float = FRAGMENT_WINDOW_S) -> tuple[Combination, ...]:
    """For each rule a tenant-wide twin that notices when it is met over several agents' sessions.

    A twin never allows what its rule stops: it is checked besides it, forgets after `within_s` seconds unless the rule
    says otherwise, and asks. A rule with `fragments_s` of 0 has none.
    """
    return tuple(
        replace(rule, name=f"{rule.name} (in fragments)", scope="tenant", within_s=window_s, decision="ask", twin=True)
        for rule in rules
        if rule.scope != "tenant" and (window_s := within_s if rule.fragments_s is None else rule.fragments_s)
    )
