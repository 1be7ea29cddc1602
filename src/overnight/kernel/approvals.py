"""Approvals: an `ask` becomes a question to a person, bound to exactly what would run.

The binding is the SHA-256 of the canonical JSON of tool and version, arguments, agent, policy and stated precondition.
It is computed again at execution: what was approved is what runs, or nothing runs.
"""

from collections.abc import Mapping

from overnight.core.escape import visible
from overnight.kernel.canonical import Json
from overnight.kernel.decision import Decision
from overnight.kernel.inbox import Inbox, Item, State
from overnight.kernel.inbox_item import VALUES
from overnight.kernel.session import Session
from overnight.kernel.tool import ToolSpec

EXPIRES_S = 24 * 3600.0
"""How long an approval waits before it counts as denied."""


def bound(decision: Decision, precondition: Json = None, values: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """What an approval of this decision is good for.

    Args:
        decision: its arguments are those that would be executed, with placeholders for what must not be written down.
        precondition: what must still hold.
        values: for each placeholder the keyed hash of what it stands for, so that a yes is for those values alone.
    """
    revealing: dict[str, Json] = {VALUES: dict(values)} if values else {}
    return revealing | {
        "tool": decision.tool,
        "version": decision.version,
        "arguments": dict(decision.arguments),
        "agent": decision.agent,
        "policy": decision.policy,
        "precondition": precondition,
    }


class Approvals:
    """Asks persons on behalf of the gate. Thread-safe."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def ask(
        self,
        session: Session,
        tool: ToolSpec,
        decision: Decision,
        *,
        reason: str,
        precondition: Json = None,
        values: Mapping[str, Json] | None = None,
        needed: int = 1,
        expires_s: float = EXPIRES_S,
    ) -> Item:
        """Put the question into the inbox, or find it there: an agent that tries again doesn't ask twice.

        Args:
            session: whose call it is.
            tool: what would run.
            decision: the `ask`, with arguments, rule and origins.
            reason: the agent's own words (untrusted).
            precondition: what must still hold at execution, e.g. the hash of the file that would be overwritten.
            values: see `bound`.
            needed: how many different approvers must say yes.
            expires_s: seconds until it counts as denied.

        Returns:
            The item; it may have been decided already (see `Inbox.state`).

        Raises:
            StoreError: it cannot be written; the call must not run.
        """
        undo = "can be rolled back" if tool.reversible else "cannot be undone"
        context: Mapping[str, Json] = {
            "why": reason,
            "effect": f"{tool.effect}; {undo}",
            "description": tool.description,
            "rule": decision.rule,
            "reasons": [item.sentence for item in decision.reasons],
            "origins": {name: f"{origin.label}: {origin.source}" for name, origin in decision.origins.items()},
        }
        return self._inbox.add(
            "approval",
            f"{decision.agent} asks to run {decision.tool}({_brief(decision.arguments)})",
            bound(decision, precondition, values),
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

    def consume(
        self, item_id: str, decision: Decision, precondition: Json = None, values: Mapping[str, Json] | None = None
    ) -> Item:
        """Use up the approval, immediately before execution, for what `decision` and `precondition` say *now*.

        Raises:
            Refused: it is another call than was approved, or there is no unused, unexpired yes.
            NotFound: there is no such item.
            StoreError: the use cannot be recorded; the call must not run.
        """
        return self._inbox.use(item_id, bound(decision, precondition, values))


def _brief(arguments: Mapping[str, Json]) -> str:
    return ", ".join(f"{name}={visible(str(value), limit=60)}" for name, value in arguments.items())
