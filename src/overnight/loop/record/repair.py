"""Git and the database made whole from each other."""

from collections.abc import Iterable
from pathlib import Path

from overnight.loop.arena.arena import PROGRAM
from overnight.loop.place import find_folder
from overnight.loop.record.history import History, branch
from overnight.loop.record.record import Record
from overnight.store.blobs import Blobs
from overnight.store.git.repository import Repository


def repair(workspace: Path, record: Record, blobs: Blobs) -> list[str]:
    """Complete the database from the refs of every arena's repository, then refs from the database; what was done.

    Raises:
        GitError: a commit under refs/overnight/ is not one of ours, or git cannot be written.
    """
    done = []
    for folder in _arenas(workspace):
        with Repository.open(folder) as repository:
            history = History(repository, record)
            for run in history.runs():
                if added := history.reconcile(run):
                    done.append(f"{run}: {added} experiment(s) brought from git into the database")
    for info in record.runs():
        if info.state == "imported" or not record.experiments(info.run):
            continue
        with Repository.open(find_folder(workspace, info.arena)) as repository:
            if restored := History(repository, record).restore(info, blobs):
                done.append(f"{info.run}: {restored} ref(s) brought from the database into git, {branch(info.run)} too")
    return done


def _arenas(workspace: Path) -> Iterable[Path]:
    """Folders with a program.md: the workspace itself, or below its arenas/ and examples/, two levels deep at most."""
    if (workspace / PROGRAM).is_file():
        yield workspace
    for program in sorted(workspace.glob(f"*/{PROGRAM}")) + sorted(workspace.glob(f"*/*/{PROGRAM}")):
        if not any(part.startswith(".") for part in program.relative_to(workspace).parts):
            yield program.parent
