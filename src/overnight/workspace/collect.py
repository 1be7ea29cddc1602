"""`overnight gc`: what old runs and old conversations cost, and removing what is past its retention."""

import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from overnight.core.errors import ArenaError
from overnight.loop.place import find_folder
from overnight.loop.record.experiment import RunInfo
from overnight.loop.record.history import reference
from overnight.store.blobs import Blobs
from overnight.store.git.prune import cost_bytes, prune
from overnight.store.git.repository import Repository
from overnight.workspace.collect_texts import Texts, collect_texts
from overnight.workspace.workspace import Workspace

_BLOB_ID = re.compile(r"[0-9a-f]{64}")
# An environment that no run used for so long is built again when it is needed.
_ENVIRONMENT_S = 30 * 86400.0


@dataclass(frozen=True)
class Cost:
    """What a run's discarded experiments take.

    Attributes:
        refs: how many of them there are.
        size_bytes: in git, reachable from nothing else.
        verdict: `past its retention`, or why it stays.
    """

    run: str
    refs: int
    size_bytes: int
    verdict: str


@dataclass(frozen=True)
class Collected:
    """What may go, or went.

    Attributes:
        runs: every run with what its discarded experiments cost.
        blobs: ids that nothing needs any more.
        environments: folders of built environments past their time.
        texts: of model calls, past their time.
        size_bytes: all of it together.
        removed: whether it was.
    """

    runs: tuple[Cost, ...]
    blobs: int
    environments: int
    texts: Texts
    size_bytes: int
    removed: bool


def collect(workspace: Workspace, *, remove: bool) -> Collected:
    """Find what is past its retention; with `remove`, remove it. Rows of the database always stay."""
    retention_s = workspace.resolved.settings.retention.runs
    record = workspace.record
    costs, total = [], 0
    needed: set[str] = set()
    unneeded: set[str] = set()
    for info in record.runs():
        experiments = record.experiments(info.run)
        old = [item for item in experiments if item.status not in ("baseline", "keep")]
        why = _stays(info, retention_s)
        for item in experiments:
            stays = why or item.status in ("baseline", "keep")
            (needed if stays else unneeded).update(kept.partition(" ")[2] for kept in item.files.values() if kept)
        if info.state == "imported":
            continue
        try:
            repository = Repository.open(find_folder(workspace.folder, info.arena), create=False)
        except ArenaError:
            costs.append(Cost(info.run, 0, 0, "its arena has gone"))
            continue
        with repository:
            present = repository.refs(f"refs/overnight/{info.run}/")
            names = [name for item in old if (name := reference(info.run, item.n)) in present]
            size = cost_bytes(repository, names) if names else 0
            if not why and names:
                total += size
                if remove:
                    record.set_collected(info.run)
                    prune(repository, names)
            costs.append(Cost(info.run, len(names), size, why or "past its retention"))
    running = any(info.state == "running" for info in record.runs())
    blobs = [] if running else _only_ours(workspace, unneeded - needed)
    environments = _environments(workspace.state / "environments")
    total += sum(workspace.blobs.size_bytes(blob) for blob in blobs) + sum(map(_size_bytes, environments))
    if remove:
        for blob in blobs:
            workspace.blobs.delete(blob)
        for folder in environments:
            shutil.rmtree(folder, ignore_errors=True)
    bodies = Blobs(workspace.state / "bodies")
    texts = collect_texts(workspace.database, bodies, workspace.resolved.settings.retention.texts, remove=remove)
    return Collected(tuple(costs), len(blobs), len(environments), texts, total + texts.size_bytes, remove)


def _stays(info: RunInfo, retention_s: float) -> str:
    if info.state in ("running", "interrupted"):
        return f"kept: it is {info.state}"
    age_s = time.time() - (info.ended_at or info.started_at)
    return "" if age_s > retention_s else f"kept for {(retention_s - age_s) / 86400:.0f} more days"


def _only_ours(workspace: Workspace, candidates: set[str]) -> list[str]:
    """Those blobs of experiments that the journal and the traces, which share the folder, do not name as well."""
    left = {blob for blob in candidates if workspace.blobs.exists(blob)}
    for table, column in (("journal_entries", "body"), ("spans", "attributes")):
        if not left or not workspace.database.rows("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)):
            continue
        for row in workspace.database.rows(f"SELECT {column} FROM {table}"):
            left.difference_update(_BLOB_ID.findall(str(row[0])))
    return sorted(left)


def _environments(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    limit = time.time() - _ENVIRONMENT_S
    return [path for path in folder.iterdir() if path.is_dir() and path.stat().st_atime < limit]


def _size_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
