"""How a call is written into the journal: proposed, decided and executed ahead of it, its result after it."""

import hashlib
from collections.abc import Mapping
from typing import cast

from overnight.core.escape import visible
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.decision import Decision
from overnight.kernel.journal.entry import EntryKind
from overnight.kernel.journal.journal import Change, Draft, Journal
from overnight.kernel.session import Session
from overnight.store.blobs import Blobs

_LONGEST_KEPT_BYTES = 200_000
"""Longer arguments go to the blob store; the entry then holds their hash."""

_LONGEST_WORDS = 2000


class Recorder:
    """Writes calls into one journal. Thread-safe."""

    def __init__(self, journal: Journal, blobs: Blobs) -> None:
        self._journal = journal
        self._blobs = blobs

    def ahead(
        self,
        session: Session,
        decision: Decision,
        action: str,
        reason: str,
        *,
        durable: bool,
        grant: tuple[str, ...] = (),
        before: Mapping[str, str | None] | None = None,
        effect: str = "",
    ) -> None:
        """Record what was proposed and decided, and if it is about to run, that.

        Args:
            session: in which.
            decision: about which call.
            action: id of the call.
            reason: the agent's own words.
            durable: return when it is on the disk.
            grant: revocation ids of the grant it runs under.
            before: images of the files it may change; None if it does not run.
            effect: of the tool; a rollback leaves reads alone.

        Raises:
            StoreError: it cannot be written; the call must not run.
            UsageError: it cannot be written down as it is.
        """
        proposed: dict[str, Json] = {
            "arguments": self._kept(dict(decision.arguments)),
            "reason": reason[:_LONGEST_WORDS],
        }
        decided: dict[str, Json] = {
            "decision": decision.verdict,
            "rule": decision.rule,
            "reasons": [[item.code, item.sentence] for item in decision.reasons],
            "origins": {
                name: [origin.label, origin.confidentiality, origin.source] for name, origin in decision.origins.items()
            },
            "policy": decision.policy,
            "version": decision.version,
            "grant": list(grant),
        }
        if decision.approval_id is not None:
            decided["approval"] = decision.approval_id
        drafts = [
            _draft("proposed", session, decision.tool, action, proposed),
            _draft("decided", session, decision.tool, action, decided),
        ]
        if before is not None:
            drafts.append(
                _draft("executed", session, decision.tool, action, {"before": dict(before), "effect": effect})
            )
        self._journal.append(*drafts, durable=durable)

    def result(
        self,
        session: Session,
        tool: str,
        action: str,
        value: bytes,
        error: str,
        changed: tuple[Change, ...],
        undo: Mapping[str, Json] | None = None,
    ) -> None:
        """Record what became of a call that ran; `value` is its result as canonical JSON, `undo` what makes up for it.

        Raises:
            StoreError: it cannot be written.
        """
        body: dict[str, Json] = {"status": "failed" if error else "done", "sha256": hashlib.sha256(value).hexdigest()}
        if error:
            body["error"] = error[:_LONGEST_WORDS]
        if undo is not None:
            body["undo"] = self._kept(dict(undo))
        self._journal.append(_draft("result", session, tool, action, body, changed), durable=False)

    def _kept(self, value: Json) -> Json:
        text = canonical_json(value)
        return value if len(text) <= _LONGEST_KEPT_BYTES else {"blob": self._blobs.put(text)}


def _draft(
    kind: str, session: Session, tool: str, action: str, body: Mapping[str, Json], changed: tuple[Change, ...] = ()
) -> Draft:
    principal = session.principal
    return Draft(
        cast(EntryKind, kind), body, action, session.id, principal.tenant, principal.agent, visible(tool), changed
    )
