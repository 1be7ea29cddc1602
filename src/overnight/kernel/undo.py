"""A person's rollback: the gate it goes through, whose rules allow putting things back and nothing else."""

from pathlib import Path

from overnight.core.errors import GitError
from overnight.kernel.approver import Approver, Credential
from overnight.kernel.constraint import Constraint
from overnight.kernel.decide import Policy
from overnight.kernel.decision import Outcome
from overnight.kernel.gate import Gate
from overnight.kernel.matrix import Layer, Matrix, Rule
from overnight.kernel.parts import Parts
from overnight.kernel.paths import PathRoot
from overnight.kernel.restore import RESTORE_FILE, RESTORE_REF, restore_file, restore_ref
from overnight.kernel.rollback import Rollback, RollbackPlan
from overnight.kernel.session import Principal
from overnight.store.git import Repository

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
    """
    repository = _repository(root)
    try:
        return _rollback(root, parts, repository).plan(target)
    finally:
        if repository is not None:
            repository.close()


def undo(
    root: Path, parts: Parts, approver: Approver, credential: Credential, plan: RollbackPlan, *, anyway: bool = False
) -> list[Outcome]:
    """Do what `plan` says; the outcomes of the steps that were tried.

    Raises:
        Refused: see `Rollback.perform`.
        StoreError: it cannot be recorded; nothing more was done.
    """
    repository = _repository(root)
    try:
        gate = Gate(root, parts, Policy(Matrix([Layer(_RULES)])))
        gate.register(restore_file(gate.paths, parts.blobs))
        if repository is not None:
            gate.register(restore_ref(repository))
        session = gate.open(_PERSON, f"roll back {plan.target}", attended=True, on_denied="continue")
        return _rollback(root, parts, repository).perform(
            plan,
            lambda tool, arguments, reason: gate.call(session, tool, arguments, reason=reason),
            credential,
            approver,
            anyway=anyway,
        )
    finally:
        if repository is not None:
            repository.close()


def _rollback(root: Path, parts: Parts, repository: Repository | None) -> Rollback:
    return Rollback(parts.database, parts.journal, parts.blobs, PathRoot(root), repository=repository)


def _repository(root: Path) -> Repository | None:
    try:
        return Repository.open(root, create=False)
    except GitError:
        return None
