"""Approvals: an `ask` becomes a question to a person, bound to exactly what would run.

The binding is a keyed hash of the canonical JSON of tool and version, arguments, agent, policy and stated precondition,
with the real values of what is masked. It is computed again at execution: what was approved is what runs, or nothing
runs.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from overnight.core.errors import Refused
from overnight.core.escape import visible
from overnight.kernel.approval.inbox import Inbox, Item, State
from overnight.kernel.approval.item import CALL, SEAL, VALUES
from overnight.kernel.canonical import Json
from overnight.kernel.decision import Decision
from overnight.kernel.masking.vaults import Vaults
from overnight.kernel.session import Session
from overnight.kernel.tool.spec import ToolSpec

EXPIRES_S = 24 * 3600.0
"""How long an approval waits before it counts as denied."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked about one call.

    Attributes:
        shown: the decision with placeholders for what must not be written down.
        precondition: what must still hold, likewise.
        values: for each placeholder the keyed hash of what it stands for.
        call: keyed hash of the call itself, with real values: what a yes is good for.
    """

    shown: Decision
    precondition: Json
    values: Mapping[str, Json]
    call: str


class Approvals:
    """Asks persons on behalf of the gate. Thread-safe."""

    def __init__(self, inbox: Inbox, vaults: Vaults) -> None:
        self._inbox = inbox
        self._vaults = vaults

    def question(
        self,
        decision: Decision,
        shown: Decision,
        precondition: Json,
        shown_precondition: Json,
        values: Mapping[str, Json],
    ) -> Question:
        """The question about a call as it would run now.

        Args:
            decision: its arguments are those that would be executed.
            shown: the same, as it may be written down.
            precondition: what must still hold at execution, e.g. the hash of the file that would be overwritten.
            shown_precondition: the same, as it may be written down.
            values: see `Question`.
        """
        call = self._vaults.digest(["overnight call 1", dict(_bound(decision, precondition))])
        return Question(shown, shown_precondition, values, call)

    def ask(
        self,
        session: Session,
        tool: ToolSpec,
        question: Question,
        *,
        reason: str,
        needed: int = 1,
        expires_s: float = EXPIRES_S,
    ) -> Item:
        """Put the question into the inbox, or find it there: an agent that tries again doesn't ask twice.

        A yes that the same agent was given to the same call in another session, and has not used, counts.

        Args:
            session: whose call it is.
            tool: what would run.
            question: from `question`.
            reason: the agent's own words (untrusted).
            needed: how many different approvers must say yes.
            expires_s: seconds until it counts as denied.

        Returns:
            The item; it may have been decided already (see `Inbox.state`).

        Raises:
            StoreError: it cannot be written; the call must not run.
        """
        ready = self._ready(session, question)
        if ready is not None:
            return ready
        decision = question.shown
        undo = "can be rolled back" if tool.reversible else "cannot be undone"
        context: Mapping[str, Json] = {
            "why": reason,
            "effect": f"{tool.effect}; {undo}",
            "description": tool.description,
            "rule": decision.rule,
            "reasons": [item.sentence for item in decision.reasons],
            "origins": {name: f"{origin.label}: {origin.source}" for name, origin in decision.origins.items()},
        }
        bound = {**_bound(decision, question.precondition), VALUES: dict(question.values), CALL: question.call}
        return self._inbox.add(
            "approval",
            f"{decision.agent} asks to run {decision.tool}({_brief(decision.arguments)})",
            {**bound, SEAL: self._seal(bound)},
            context=context,
            session=session.id,
            tenant=session.principal.tenant,
            agent=session.principal.agent,
            needed=needed,
            expires_s=expires_s,
        )

    def wait(self, item: Item, timeout_s: float) -> State:
        """Wait up to `timeout_s` seconds for the person; also one in another process."""
        return self._inbox.wait(item.id, timeout_s)

    def consume(self, item_id: str, question: Question) -> Item:
        """Use up the approval, immediately before execution, for what `question` says *now*.

        Raises:
            Refused: it is another call than was approved, or there is no unused, unexpired yes.
            NotFound: there is no such item.
            StoreError: the use cannot be recorded; the call must not run.
        """
        item = self._inbox.get(item_id)
        if not self._means(item, question):
            raise Refused(
                f"what would run is not what {item.id} asked for", reason="approval_mismatch", hint="ask again"
            )
        return self._inbox.use(item.id, item.bound)

    def _ready(self, session: Session, question: Question) -> Item | None:
        principal = session.principal
        for item in self._inbox.unused("approval", principal.agent, principal.tenant):
            if item.session != session.id and self._means(item, question) and self._inbox.state(item.id) == "approved":
                return item
        return None

    def _means(self, item: Item, question: Question) -> bool:
        """Whether the item asks about this very call, and shows what it was made to show.

        Both hashes are made with a key outside the workspace: whoever writes into the database can neither make up a
        question nor show other arguments with one.
        """
        bound = {name: value for name, value in item.bound.items() if name != SEAL}
        return hmac.compare_digest(str(bound.get(CALL)), question.call) and hmac.compare_digest(
            str(item.bound.get(SEAL)), self._seal(bound)
        )

    def _seal(self, bound: Mapping[str, Json]) -> str:
        return self._vaults.digest(["overnight question 1", dict(bound)])


def _bound(decision: Decision, precondition: Json) -> dict[str, Json]:
    return {
        "tool": decision.tool,
        "version": decision.version,
        "arguments": dict(decision.arguments),
        "agent": decision.agent,
        "policy": decision.policy,
        "precondition": precondition,
    }


def _brief(arguments: Mapping[str, Json]) -> str:
    return ", ".join(f"{name}={visible(str(value), limit=60)}" for name, value in arguments.items())
