"""What of one call its model and the record may see: real values are decided and executed, placeholders leave."""

import threading
from collections.abc import Mapping
from dataclasses import replace

from overnight.core.ids import new_id
from overnight.kernel.canonical import Json
from overnight.kernel.decision import Decision, Outcome
from overnight.kernel.masking.hiding import Hiding
from overnight.kernel.masking.vault import Entry
from overnight.kernel.masking.vaults import Vaults
from overnight.kernel.masking.veil import Veil
from overnight.kernel.refusal import failure
from overnight.kernel.session import Session
from overnight.kernel.tool.spec import ToolSpec

_SHORTEST_ECHO = 4
"""Shorter values are not looked for in what a tool returns: they would be found in words."""


class Screen:
    """One call's. Thread-safe: it takes the lock of the session's tree."""

    def __init__(
        self,
        vaults: Vaults,
        session: Session,
        hiding: Hiding,
        lock: threading.RLock,
        spec: ToolSpec | None = None,
        proposed: Mapping[str, Json] | None = None,
        reason: str = "",
    ) -> None:
        """For a call of the tool `spec`, with arguments and reason as the model `proposed` them."""
        self.session = session
        self.action = new_id("act")
        self._reason = reason
        self._vaults = vaults
        self._hiding = hiding
        self._lock = lock
        self._spec = spec
        self._proposed = dict(proposed) if isinstance(proposed, Mapping) else {}

    def kept(self, decision: Decision) -> Decision:
        """The decision as the journal and the inbox may hold it.

        Raises:
            StoreError: the placeholders in it cannot be kept; nothing that names them must leave.
        """
        with self._lock:
            veil = self._vaults.veil(self.session)
            echoes = veil.entries(self._proposed)
            if self._hiding.hide == "nothing" and not echoes:
                return decision
            made = replace(
                decision,
                arguments={
                    name: _without(value, echoes)
                    for name, value in veil.kept_arguments(self._spec, decision.arguments, self._hiding).items()
                },
                reasons=tuple(
                    replace(reason, sentence=str(self._kept(veil, reason.sentence, echoes)))
                    for reason in decision.reasons
                ),
            )
            self._vaults.save(self.session)
        return made

    def kept_json(self, value: Json) -> Json:
        """Anything else about the call, as the journal and the inbox may hold it; see `kept`."""
        with self._lock:
            veil = self._vaults.veil(self.session)
            made = self._kept(veil, value, veil.entries(self._proposed))
            self._vaults.save(self.session)
        return made

    def kept_reason(self) -> str:
        """The agent's own words, as the journal and the inbox may hold them."""
        return str(self.kept_json(self._reason))

    def values(self, *kept: Json) -> dict[str, Json]:
        """A keyed hash of every value behind the placeholders in what a question shows."""
        with self._lock:
            return self._vaults.names(self._vaults.veil(self.session), *kept)

    def shown(self, outcome: Outcome) -> Outcome:
        """The outcome as the session's model may see it; if that cannot be made, without result and arguments."""
        try:
            with self._lock:
                veil = self._vaults.veil(self.session)
                echoes = veil.entries(self._proposed)
                if not self._hiding.from_model and not echoes:
                    return outcome
                made = replace(
                    outcome,
                    decision=self._shown_decision(veil, outcome.decision, echoes),
                    result=self._shown(veil, outcome.result, echoes),
                    error=str(self._shown(veil, outcome.error, echoes)),
                )
                self._vaults.save(self.session)
            return made
        except Exception as problem:
            error = f"what it returned cannot be masked, so it is withheld: {failure(problem)}"
            return replace(
                outcome,
                status="failed" if outcome.status == "done" else outcome.status,
                decision=replace(outcome.decision, arguments={}),
                result=None,
                error=error,
            )

    def shown_json(self, value: Json) -> Json:
        """Any other text as the session's model may see it, such as the person's request.

        Raises:
            StoreError: the placeholders in it cannot be kept.
        """
        with self._lock:
            made = self._vaults.veil(self.session).shown(value, self._hiding)
            self._vaults.save(self.session)
        return made

    def _shown_decision(self, veil: Veil, decision: Decision, echoes: Mapping[str, Entry]) -> Decision:
        return replace(
            decision,
            arguments={name: self._shown(veil, value, echoes) for name, value in decision.arguments.items()},
            reasons=tuple(
                replace(reason, sentence=str(self._shown(veil, reason.sentence, echoes))) for reason in decision.reasons
            ),
        )

    def _shown(self, veil: Veil, value: Json, echoes: Mapping[str, Entry]) -> Json:
        return veil.shown(_without(value, echoes), self._hiding)

    def _kept(self, veil: Veil, value: Json, echoes: Mapping[str, Entry]) -> Json:
        return veil.kept(_without(value, echoes), self._hiding)


def _without(value: Json, echoes: Mapping[str, Entry]) -> Json:
    """`value` with the placeholders that a model used in the place of what they stand for, whatever it looks like."""
    if not echoes:
        return value
    if isinstance(value, str):
        for placeholder, entry in echoes.items():
            if len(entry.text) >= _SHORTEST_ECHO and entry.text in value:
                value = value.replace(entry.text, placeholder)
        return value
    if isinstance(value, Mapping):
        return {str(_without(key, echoes)): _without(item, echoes) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without(item, echoes) for item in value]
    return value
