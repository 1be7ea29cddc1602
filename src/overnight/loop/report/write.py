"""Writing a run's page and chart where they can be found again."""

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.core.errors import ArenaError, OvernightError, StoreError
from overnight.loop.place import find_folder
from overnight.loop.record.experiment import Experiment, RunInfo
from overnight.loop.record.record import Record
from overnight.loop.record.summary import summarise
from overnight.loop.report.chart import svg
from overnight.loop.report.page import page
from overnight.loop.report.reading import before_merging, how_to_take_over
from overnight.store.git.repository import Repository


def write_report(record: Record, workspace: Path, state: Path, run: str | None = None) -> dict[str, Any]:
    """Write `report.html` and `chart.svg` of a run, the newest by default; the report object, `path` included.

    Where nothing can be written, `path` and `chart` are None.

    Raises:
        NotFound: there is no such run.
        StoreError: they cannot be written.
    """
    info = record.run(run)
    experiments = record.experiments(info.run)
    folder = state / "reports" / info.run
    path = folder / "report.html"
    result = {**summarise(info, experiments, path), "chart": str(folder / "chart.svg")}
    arena = info.settings.get("arena", {})
    result["checks"] = list(arena.get("checks", ()))
    final = (info.summary or {}).get("final")
    chart = svg(experiments, str(result["metric"]), result["direction"] or "minimize", final)
    change = _change(workspace, info, experiments, result)
    findings = [item for _, item in record.findings(info.run)]
    reading = before_merging(result, experiments, change.stat)
    text = page(result, experiments, findings, reading, chart, change.diff, change.taking_over)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        (folder / "chart.svg").write_text(chart, "utf-8")
    except OSError as problem:
        if problem.errno not in (errno.EROFS, errno.EACCES):
            raise StoreError(f"cannot write the report to {folder}: {problem.strerror}") from problem
        # A workspace that can only be read still has its numbers.
        result.update(path=None, chart=None)
    return result


@dataclass(frozen=True)
class _Change:
    """Champion against baseline: the diff, its size, and how a person takes it over (text, command, text)."""

    diff: str = ""
    stat: tuple[int, int, int] = (0, 0, 0)
    taking_over: tuple[str, str, str] | None = None


def _change(workspace: Path, info: RunInfo, experiments: list[Experiment], result: dict[str, Any]) -> _Change:
    trees = {item.n: item.tree for item in experiments}
    if result["state"] == "imported" or result["best_n"] in (None, 0) or 0 not in trees:
        return _Change()
    try:
        with Repository.open(find_folder(workspace, info.arena), create=False) as repository:
            before, after = trees[0], trees[result["best_n"]]
            started = info.settings.get("base_commit")
            committed = bool(started) and repository.arena_tree(str(started)) == before
            source = result["commit"][:12] if result["branch_behind"] else result["branch"]
            old, new = repository.read_files(before), repository.read_files(after)
            changed = sorted(path for path in new if new[path] != old.get(path))
            taking_over = how_to_take_over(source, changed, sorted(set(old) - set(new)), committed)
            return _Change(repository.diff(before, after), repository.diff_stat(before, after), taking_over)
    except (ArenaError, OvernightError) as problem:
        return _Change(f"(the diff cannot be shown: {problem.message})")
