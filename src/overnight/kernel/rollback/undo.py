"""A person's rollback: the gate it goes through, whose rules allow putting things back and nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from overnight.core.errors import GitError, Refused
from overnight.kernel.approval.approver import Approver, Credential
from overnight.kernel.approval.trust import Trust
from overnight.kernel.canonical import Json
from overnight.kernel.decide import Policy
from overnight.kernel.decision import Outcome
from overnight.kernel.gate import Gate
from overnight.kernel.keys import SigningKey, config_folder, outside
from overnight.kernel.ledger.burst import Bursts
from overnight.kernel.masking.hiding import HidingPolicy
from overnight.kernel.parts import Parts
from overnight.kernel.paths import PathRoot
from overnight.kernel.rollback.restore import RESTORE_FILE, RESTORE_REF, restore_file, restore_ref
from overnight.kernel.rollback.rollback import Rollback, RollbackPlan
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Layer, Matrix, Rule
from overnight.kernel.rules.policy_files import policy_in_force
from overnight.kernel.session import Principal
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.files import file_tools
from overnight.store.git.repository import Repository

UNDO_FAMILY = "audit"
"""The family of the tools that put things back; they run at machine speed, so the breaker must not watch it."""

_PERSON = Principal("approver")
_RULES = (
    Rule(
        "allow",
        agents=(_PERSON.agent,),
        tools=(RESTORE_FILE.id,),
        arguments={"path": Constraint(under=(".",))},
        why="an approver rolls back files of the workspace",
    ),
    Rule("allow", agents=(_PERSON.agent,), tools=(RESTORE_REF.id,), why="an approver rolls back git refs"),
)


def plan_undo(root: Path, parts: Parts, target: str) -> RollbackPlan:
    """What it takes to undo the action or session `target` in the workspace at `root`; changes nothing.

    Raises:
        NotFound: the journal has no executed action of that name.
        StoreError: a file or the journal cannot be read.
        SettingsError: the rules in force have a mistake.
    """
    repository = _repository(root)
    try:
        return _rollback(root, parts, _in_force(root, parts), repository).plan(target)
    finally:
        if repository is not None:
            repository.close()


def undo(
    root: Path,
    parts: Parts,
    approver: Approver,
    credential: Credential,
    plan: RollbackPlan,
    *,
    anyway: bool = False,
    tools: Sequence[ToolCode] = (),
) -> list[Outcome]:
    """Do what `plan` says; the outcomes of the steps that were tried.

    Every step passes the gate. Rules made of the plan allow its calls with exactly these arguments; what asks even so
    (nothing brings back what the step deletes) is answered by the credential that ordered the rollback.

    Args:
        root: the workspace's folder.
        parts: of the workspace.
        approver: who is known here.
        credential: the approver's.
        plan: from `plan_undo`.
        anyway: see `Rollback.perform`.
        tools: of the program, that make up for others; files and git need none.

    Raises:
        Refused: see `Rollback.perform`; or a step's tool cannot be called here, and nothing was done.
        StoreError: it cannot be recorded; nothing more was done.
    """
    repository = _repository(root)
    try:
        policy = _in_force(root, parts)
        paths = PathRoot(root)
        code = [restore_file(paths, parts.blobs), *file_tools(paths), *tools]
        if repository is not None:
            code.append(restore_ref(repository))
        gate = Gate(root, parts, _only(plan, code))
        for tool in code:
            gate.register(tool)
        here = {tool.spec.id for tool in code}
        elsewhere = sorted({step.tool for step in plan.steps} - here)
        if elsewhere:
            raise Refused(
                f"{plan.target} is undone with {', '.join(elsewhere)}, which only the program that brings it can call",
                reason="not_runnable",
                hint="call overnight.kernel.rollback.undo.undo(…, tools=[…]) there",
            )
        session = gate.open(_PERSON, f"roll back {plan.target}", attended=True, on_denied="continue")

        def act(tool: str, arguments: Mapping[str, Json], reason: str) -> Outcome:
            outcome = gate.call(session, tool, arguments, reason=reason)
            if outcome.status != "pending" or outcome.decision.approval_id is None:
                return outcome
            parts.inbox.approve(outcome.decision.approval_id, credential, f"ordered: roll back {plan.target}")
            return gate.call(session, tool, arguments, reason=reason)

        return _rollback(root, parts, policy, repository).perform(plan, act, credential, approver, anyway=anyway)
    finally:
        if repository is not None:
            repository.close()


def _only(plan: RollbackPlan, code: Sequence[ToolCode]) -> Policy:
    """Rules that allow the steps of a plan, with their arguments, and nothing else."""
    putting_back = {RESTORE_FILE.id, RESTORE_REF.id}
    calls = tuple(
        Rule(
            "allow",
            agents=(_PERSON.agent,),
            tools=(step.tool,),
            arguments={
                name: Constraint(one_of=_values(value)) for name, value in step.arguments.items() if _values(value)
            },
            why=f"an approver makes up for {step.action}",
        )
        for step in plan.steps
        if step.tool not in putting_back
    )
    # A rollback runs at machine speed, and a person has ordered it.
    unwatched = Bursts(families=dict.fromkeys(tool.spec.family or tool.spec.server for tool in code))
    return Policy(Matrix([Layer((*_RULES, *calls))]), hiding=HidingPolicy(default="record"), bursts=unwatched)


def _values(value: Json) -> tuple[str | int | float | bool, ...]:
    items = value if isinstance(value, list | tuple) else (value,)
    return tuple(item for item in items if isinstance(item, str | int | float | bool))


def _in_force(root: Path, parts: Parts) -> Policy:
    key = SigningKey.open(outside(config_folder(), root), "trust")
    return policy_in_force(Trust(root, parts.database, parts.journal, key))


def _rollback(root: Path, parts: Parts, policy: Policy, repository: Repository | None) -> Rollback:
    return Rollback(
        parts.database,
        parts.journal,
        parts.blobs,
        PathRoot(root),
        repository=repository,
        rules=policy.undo,
        vaults=parts.vaults,
    )


def _repository(root: Path) -> Repository | None:
    try:
        return Repository.open(root, create=False)
    except GitError:
        return None
