"""What the gate answers, and what became of a call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Label, Origin

Verdict = Literal["allow", "narrow", "ask", "deny"]
"""`narrow` runs at a smaller scope and says so; `ask` waits for the approver; `deny` is final."""

Status = Literal["done", "failed", "denied", "pending"]
"""`failed`: allowed, but the tool itself raised; `pending`: waits in the inbox as `approval_id`."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why: a code for programs (`no_rule`, `untrusted_argument`, …) and a plain sentence for people."""

    code: str
    sentence: str


@dataclass(slots=True)
class Decision:
    """One decision, complete enough to be journaled, explained and repeated. Never changed: `replace` makes another.

    It is not frozen, as that costs a twentieth of the time that a decision takes.

    Attributes:
        verdict: what was decided.
        rule: the rule that decided, `AGENTS.md:12`; `default` when none matched.
        reasons: at least one, the deciding one first.
        tool: canonical id, or the name as given when it could not be resolved.
        version: the tool's version hash; empty when there is no such tool.
        agent: who asked, from the verified grant.
        arguments: as they would be executed: resolved, and narrowed when `verdict` is `narrow`.
        origins: where each argument came from.
        policy: hash of the compiled matrix.
        approval_id: the pending or used approval.
    """

    verdict: Verdict
    rule: str
    reasons: tuple[Reason, ...]
    tool: str
    version: str
    agent: str
    arguments: Mapping[str, Json]
    origins: Mapping[str, Origin]
    policy: str
    approval_id: str | None = None

    @property
    def runs(self) -> bool:
        """Whether the call may be executed now."""
        return self.verdict in ("allow", "narrow")

    @property
    def labels(self) -> dict[str, Label]:
        """The label of each argument."""
        return {name: origin.label for name, origin in self.origins.items()}

    def to_json(self) -> dict[str, Json]:
        """The document `gate check --json` prints; its keys are fixed."""
        document: dict[str, Json] = {
            "decision": self.verdict,
            "rule": self.rule,
            "reasons": [{"code": reason.code, "sentence": reason.sentence} for reason in self.reasons],
            "tool": self.tool,
            "agent": self.agent,
            "arguments": dict(self.arguments),
            "labels": dict(self.labels),
            "policy": self.policy,
        }
        if self.approval_id is not None:
            document["approval_id"] = self.approval_id
        return document


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `Gate.call` returns; a refusal is an outcome, not an exception.

    Attributes:
        status: what became of the call.
        decision: why.
        result: what the tool returned; None unless `done`.
        action: id shared by the journal's entries about this call; empty only when they could not be written.
        error: for `failed`, the tool's own words (untrusted).
        stopped: the session was stopped by this denial (`on_denied = "stop"`); later calls are refused.
    """

    status: Status
    decision: Decision
    result: Json = None
    action: str = ""
    error: str = ""
    stopped: bool = False
