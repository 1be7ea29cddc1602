"""Rollback: undoes an action or a whole session, newest change first.

Files and git refs go back to what the journal says they were; for other tools a *compensator* names the call that makes
up for theirs. Every step is itself an action through the gate, so it is decided and recorded, and can be rolled back.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from overnight.core.errors import NotFound, Refused, UsageError
from overnight.core.ids import new_id
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.decision import Outcome
from overnight.kernel.journal.journal import Change, Draft, Entry, Journal
from overnight.kernel.masking.vaults import Vaults
from overnight.kernel.paths import PathRoot
from overnight.kernel.rollback.compensation import UndoRule
from overnight.kernel.rollback.restore import ABSENT, RESTORE_FILE, RESTORE_REF, content_id, ref_id
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.store.git.repository import Repository

Act = Callable[[str, Mapping[str, Json], str], Outcome]
"""Takes tool, arguments and reason through the gate."""

Compensator = Callable[[Mapping[str, Json]], tuple[str, Mapping[str, Json]]]
"""From the arguments of a call to the tool and arguments that make up for it."""


@dataclass(frozen=True)
class Step:
    """One call of a rollback.

    Attributes:
        action: the action it undoes.
        tool: what is called.
        arguments: with what.
        sentence: for people.
        kept: the arguments as the journal keeps them, with placeholders; None is as they are.
    """

    action: str
    tool: str
    arguments: Mapping[str, Json]
    sentence: str
    kept: Mapping[str, Json] | None = None


@dataclass(frozen=True)
class RollbackPlan:
    """What a rollback would do.

    Attributes:
        target: id of the action or session.
        steps: in order of execution.
        conflicts: things that changed since by other hands; a rollback would undo that, too.
        irreversible: actions that happened and cannot be undone.
    """

    target: str
    steps: tuple[Step, ...]
    conflicts: tuple[str, ...]
    irreversible: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The document `audit rollback --json` prints, with `done` beside it once it has run."""
        return {
            "target": self.target,
            "steps": [
                {
                    "action": step.action,
                    "tool": step.tool,
                    "arguments": dict(step.arguments if step.kept is None else step.kept),
                    "does": step.sentence,
                }
                for step in self.steps
            ],
            "conflicts": list(self.conflicts),
            "irreversible": list(self.irreversible),
        }


class Rollback:
    """Plans and performs rollbacks in one workspace."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        blobs: Blobs,
        paths: PathRoot,
        *,
        repository: Repository | None = None,
        compensators: Mapping[str, Compensator] | None = None,
        rules: Mapping[str, UndoRule] | None = None,
        vaults: Vaults | None = None,
    ) -> None:
        """Undo what the journal tells of.

        Args:
            database: the workspace's.
            journal: of the workspace.
            blobs: where before-images lie.
            paths: where files are put back.
            repository: where git refs are put back.
            compensators: by canonical tool id, of the program.
            rules: likewise, of the rules in force.
            vaults: what placeholders in the journal stand for.
        """
        self._database = database
        self._journal = journal
        self._blobs = blobs
        self._paths = paths
        self._repository = repository
        self._rules = rules or {}
        self._vaults = vaults
        self._compensators = {RESTORE_REF.id: _ref_back, **(compensators or {})}

    def plan(self, target: str) -> RollbackPlan:
        """What it takes to undo `target`, an action's or a session's id; changes nothing.

        Raises:
            NotFound: the journal has no executed action of that name.
            StoreError: a file or the journal cannot be read.
        """
        self._journal.sync()
        actions = self._actions(target)
        now: dict[str, str] = {}
        steps: list[Step] = []
        conflicts: list[str] = []
        irreversible: list[str] = []
        for action in reversed(actions):
            changes = self._changes(action)
            if changes is None:
                step = self._compensation(action)
                if isinstance(step, Step):
                    steps.append(step)
                elif step:
                    irreversible.append(step)
                continue
            for change in reversed(changes):
                here = now.setdefault(change.object, self._now(change.object))
                before, after = change.before or ABSENT, change.after
                if here == before:
                    continue
                if after is not None and here != (after or ABSENT):
                    conflicts.append(self._conflict(change.object, here, actions))
                steps.append(_restoring(action, change.object, before, here))
                now[change.object] = before
        return RollbackPlan(target, tuple(steps), tuple(dict.fromkeys(conflicts)), tuple(irreversible))

    def perform(
        self, plan: RollbackPlan, act: Act, credential: Credential, approver: Approver, *, anyway: bool = False
    ) -> list[Outcome]:
        """Do what `plan` says, step by step; stops at the first step that is not done.

        Args:
            plan: from `plan`, moments ago.
            act: the gate.
            credential: the approver's.
            approver: who is known here.
            anyway: also undo what others changed since, and leave alone what cannot be undone.

        Returns:
            The outcomes of the steps that were tried, in order.

        Raises:
            Refused: the credential is unknown, or the plan has conflicts or irreversible actions and `anyway` is False.
            StoreError: it cannot be recorded; nothing more was done.
        """
        if credential.id not in approver.known():
            raise Refused(f"{credential.name!r} is no approver here", reason="unknown_approver")
        if not anyway and (plan.conflicts or plan.irreversible):
            raise Refused(
                f"{plan.target} cannot be rolled back cleanly: {'; '.join([*plan.conflicts, *plan.irreversible])}",
                reason="rollback_conflict",
                hint="look at it, then say --anyway to undo what can be undone",
            )
        action = new_id("act")
        wanted = plan.to_json()
        self._journal.append(
            Draft(
                "rollback",
                {
                    "target": plan.target,
                    "plan": wanted,
                    "anyway": anyway,
                    "approver": credential.id,
                    "signature": credential.key.sign(canonical_json(["overnight rollback 1", wanted, anyway])).hex(),
                },
                action,
            )
        )
        outcomes: list[Outcome] = []
        for step in plan.steps:
            outcome = act(step.tool, step.arguments, f"rollback of {step.action}: {step.sentence}")
            outcomes.append(outcome)
            if outcome.status != "done":
                break
        done = sum(outcome.status == "done" for outcome in outcomes)
        body: dict[str, Json] = {"target": plan.target, "done": done, "of": len(plan.steps)}
        self._journal.append(Draft("rollback", body, action))
        return outcomes

    def _actions(self, target: str) -> list[str]:
        if any(entry.kind == "executed" for entry in self._journal.of_action(target)):
            return [target]
        below = self._database.rows(
            "WITH RECURSIVE tree(id) AS (SELECT CAST(? AS TEXT) UNION SELECT sessions.id FROM sessions, tree"
            " WHERE sessions.parent = tree.id) SELECT id FROM tree",
            (target,),
        )
        found = [entry for row in below for entry in self._journal.entries(session=row["id"], kind="executed")]
        if not found:
            raise NotFound(
                f"the journal has no executed action or session {target!r}", hint="find it with `overnight audit log`"
            )
        return [entry.action for entry in sorted(found, key=lambda entry: entry.seq)]

    def _changes(self, action: str) -> Sequence[Change] | None:
        """What the action changed; None if it keeps no before-images. `after` is None where nobody saw it end."""
        entries = self._journal.of_action(action)
        changes = [change for entry in entries for change in entry.changes]
        if changes:
            return [Change(change.object, change.before, change.after or ABSENT) for change in changes]
        executed = next(entry for entry in entries if entry.kind == "executed")
        before = executed.body.get("before")
        if not isinstance(before, Mapping) or not before:
            return None
        if any(entry.kind == "result" for entry in entries):
            return []
        images = cast(Mapping[str, str | None], before)
        return [Change(f"file:{name}", image, None) for name, image in images.items()]

    def _compensation(self, action: str) -> Step | str:
        """The call that makes up for the action; a sentence if there is none; empty if none is needed."""
        entries = self._journal.of_action(action)
        executed = next(entry for entry in entries if entry.kind == "executed")
        if executed.body.get("effect") == "read":
            return ""
        proposed = next(entry for entry in entries if entry.kind == "proposed")
        result = next((entry for entry in entries if entry.kind == "result"), None)
        kept = cast(Mapping[str, Json], self._kept(proposed.body.get("arguments")) or {})
        recorded = None if result is None else self._kept(result.body.get("undo"))
        code, rule = self._compensators.get(executed.tool), self._rules.get(executed.tool)
        wanted: Mapping[str, Json]
        try:
            if code is not None:
                tool, wanted = code(self._real(proposed, kept))
                return Step(action, tool, wanted, f"make up for {executed.tool} with {tool}")
            if recorded is not None and "arguments" in recorded:
                tool, wanted = str(recorded["tool"]), cast(Mapping[str, Json], recorded["arguments"])
            elif recorded is not None:
                raise UsageError(str(recorded.get("missing")))
            elif rule is not None:
                tool, wanted = rule.by, rule.call(kept)
            else:
                raise UsageError("no [[undo]] in AGENTS.md says what makes up for it")
        except UsageError as problem:
            return f"{action} ({executed.tool}) has no way back: {problem.message}"
        real = self._real(proposed, wanted)
        return Step(action, tool, real, f"make up for {executed.tool} with {tool}", wanted)

    def _kept(self, kept: Json) -> Mapping[str, Json] | None:
        """What an entry keeps of a call; long things lie in the blob store."""
        if isinstance(kept, Mapping) and set(kept) == {"blob"}:
            kept = json.loads(self._blobs.get(str(kept["blob"])))
        return kept if isinstance(kept, Mapping) else None

    def _real(self, entry: Entry, kept: Mapping[str, Json]) -> Mapping[str, Json]:
        """The same with the values that its placeholders stand for."""
        return kept if self._vaults is None else cast(Mapping[str, Json], self._vaults.real(entry, kept))

    def _now(self, thing: str) -> str:
        kind, _, name = thing.partition(":")
        return ref_id(self._repository, name) if kind == "git" else content_id(self._paths, name)

    def _conflict(self, thing: str, here: str, actions: Sequence[str]) -> str:
        """Who left `thing` as it is `here`."""
        changed = [
            (entry.action, change.after or ABSENT)
            for entry in self._journal.entries(changed=True)
            for change in entry.changes
            if change.object == thing and entry.action not in actions
        ]
        name = thing.partition(":")[2]
        if changed and changed[-1][1] == here:
            return f"{name} was changed since by {changed[-1][0]}"
        return f"{name} was changed since outside the journal"


def _ref_back(arguments: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    return RESTORE_REF.id, {**arguments, "commit": arguments["expected"], "expected": arguments["commit"]}


def _restoring(action: str, thing: str, before: str, here: str) -> Step:
    kind, _, name = thing.partition(":")
    sentence = f"remove {name}" if before == ABSENT else f"put {name} back"
    if kind == "git":
        return Step(action, RESTORE_REF.id, {"ref": name, "commit": before, "expected": here}, sentence)
    return Step(action, RESTORE_FILE.id, {"path": name, "content": before, "expected": here}, sentence)
