"""Reading the record for people and scripts: a line of the log, one experiment whole, and whether a run lives."""

import os
from pathlib import Path
from typing import Any

from overnight.loop.place import find_folder
from overnight.loop.record.experiment import Experiment, RunInfo
from overnight.loop.record.record import Record, encode_measurement
from overnight.store.git.repository import Repository


def line(item: Experiment) -> dict[str, Any]:
    """An experiment as `overnight log --json` prints it; `delta` is an improvement, positive is better."""
    return {
        "run": item.run,
        "n": item.n,
        "commit": item.commit,
        "parent": item.parent,
        "status": item.status,
        "metric": item.metric,
        "delta": item.delta,
        "hypothesis": item.hypothesis,
        "reason": item.reason,
        "author": item.author,
        "seconds": item.seconds,
        "at": item.at,
        "evidence": item.detail.get("evidence", {}),
        "knobs": item.detail.get("knobs", {}),
        "notes": item.detail.get("notes", []),
    }


def experiment(workspace: Path, record: Record, run: str, n: int) -> dict[str, Any]:
    """An experiment with its measurements and its diff against the state it was made from.

    Raises:
        NotFound: no such run or experiment.
    """
    info = record.run(run)
    item = record.experiment(run, n)
    return {
        **line(item),
        "detail": dict(item.detail),
        "measurements": [encode_measurement(one) for one in record.measurements(run, n)],
        "diff": _diff(workspace, info, record, item),
    }


def _diff(workspace: Path, info: RunInfo, record: Record, item: Experiment) -> str:
    if item.n == 0 or info.state == "imported":
        return ""
    parents = {one.commit: one for one in record.experiments(info.run)}
    parent = parents.get(item.parent or "")
    if parent is None:
        return ""
    with Repository.open(find_folder(workspace, info.arena), create=False) as repository:
        return repository.diff(parent.tree, item.tree)


def state(info: RunInfo) -> str:
    """How a run stands: as recorded, but `died` where it says running and its process is gone."""
    if info.state != "running" or info.pid is None:
        return info.state
    try:
        os.kill(info.pid, 0)
    except ProcessLookupError:
        return "died"
    except PermissionError:
        return "running"
    return "running"
