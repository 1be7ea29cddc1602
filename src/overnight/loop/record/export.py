"""A run in the formats of other tools, and their logs as a run of the past that can be read here.

`karpathy`: the `results.tsv` of karpathy/autoresearch. `pi`: the `log.jsonl` of pi-autoresearch. `jsonl`: our own log.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from overnight.core.errors import NotFound, UsageError
from overnight.core.ids import check_run_name
from overnight.loop.record import inspect
from overnight.loop.record.experiment import Direction, Experiment, RunInfo, Status
from overnight.loop.record.record import Record

Format = Literal["karpathy", "pi", "jsonl"]
_KARPATHY_HEAD = ("commit", "memory_gb", "status", "description")
_KARPATHY: dict[str, str] = {"baseline": "keep", "keep": "keep", "discard": "discard", "rejected": "discard"}
_PI: dict[str, str] = {"baseline": "keep", "keep": "keep", "discard": "discard", "rejected": "checks_failed"}


def export(info: RunInfo, experiments: Sequence[Experiment], form: Format) -> Iterator[str]:
    """The lines of a run in another tool's format, without line ends.

    Numbers that were never measured are 0, as both formats write crashes; `rejected` is a discard for the one (a crash
    if it was never measured) and failed checks for the other, a timeout a crash for both.
    """
    arena = info.settings.get("arena", {})
    metric = str(arena.get("metric", "metric"))
    if form == "jsonl":
        yield from (json.dumps(inspect.line(item), ensure_ascii=False) for item in experiments)
    elif form == "karpathy":
        yield "\t".join(("commit", metric, "memory_gb", "status", "description"))
        for item in experiments:
            # A discard's number is read as a result; what was never measured has none.
            status = "crash" if item.metric is None else _KARPATHY.get(item.status, "crash")
            value = 0.0 if status == "crash" or item.metric is None else item.metric
            memory = 0.0 if status == "crash" else item.detail.get("memory_bytes", 0) / 1024**3
            yield "\t".join((item.commit[:7], f"{value:.6f}", f"{memory:.1f}", status, _flat(item.hypothesis)))
    else:
        direction = "lower" if arena.get("direction") == "minimize" else "higher"
        yield json.dumps(
            {"type": "config", "name": info.arena, "metricName": metric, "metricUnit": "", "bestDirection": direction}
        )
        for item in experiments:
            yield json.dumps(
                {
                    "run": item.n + 1,
                    "commit": item.commit[:7],
                    "metric": 0 if item.metric is None else item.metric,
                    "metrics": dict(item.detail.get("secondary", {})),
                    "status": _PI.get(item.status, "crash"),
                    "description": _flat(item.hypothesis),
                    "timestamp": round(item.at * 1000),
                    "segment": 0,
                    "confidence": None,
                    "asi": {"reason": item.reason, "author": item.author},
                },
                ensure_ascii=False,
            )


def import_file(record: Record, path: Path, run: str | None, direction: Direction | None) -> str:
    """Read another tool's log as a run of the past; its name.

    Args:
        record: where it goes.
        path: a `results.tsv` or a `log.jsonl`.
        run: its name; the file's and a hash of its content by default.
        direction: for `results.tsv`, which does not say; minimize by default, as in karpathy/autoresearch.

    Raises:
        NotFound: there is no such file.
        UsageError: it is in neither format, or there is a run of that name.
    """
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise NotFound(f"cannot read {path}: {problem.strerror}") from problem
    name = check_run_name(run or f"{_slug(path.stem)}-{hashlib.sha256(data).hexdigest()[:6]}")
    if any(info.run == name for info in record.runs()):
        raise UsageError(f"there is a run {name!r} already", hint="name it with --run")
    lines = [line for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"{path} is empty")
    at = path.stat().st_mtime
    if lines[0].lstrip().startswith("{"):
        metric, found, rows = _read_pi(path, lines, name, at)
    else:
        metric, found, rows = _read_karpathy(path, lines, name, at)
    if not rows:
        raise UsageError(
            f"{path} has no experiment in it",
            hint="a log.jsonl has one object per line with run, metric and status, as `export --format pi` writes it",
        )
    settings: dict[str, Any] = {
        "name": path.name,
        "arena": {"metric": metric, "direction": direction or found},
        "imported": str(path),
        "integrity": "unknown",
        "sandbox": "unknown",
    }
    with record.database.transaction():
        record.create(name, path.name, settings, "", state="imported")
        for item in _judged(rows, settings["arena"]["direction"]):
            record.close(item, None, 0.0)
        record.set_state(name, "imported", spent_s=0.0, mode="noise", summary={"stopped": f"from {path.name}"})
    return name


def _judged(rows: Sequence[Experiment], direction: str) -> Iterator[Experiment]:
    """The rows with the improvement each shows over the best kept before it."""
    best: float | None = None
    sign = -1.0 if direction == "minimize" else 1.0
    for item in rows:
        delta = None if best is None or item.metric is None else sign * (item.metric - best)
        if item.status in ("baseline", "keep") and item.metric is not None:
            best = item.metric
        yield Experiment(**{**vars(item), "delta": delta})


def _read_karpathy(path: Path, lines: Sequence[str], run: str, at: float) -> tuple[str, Direction, list[Experiment]]:
    head = lines[0].split("\t")
    if len(head) != 5 or head[0] != "commit" or tuple(head[2:]) != _KARPATHY_HEAD[1:]:
        raise UsageError(
            f"{path}:1: this is neither a results.tsv nor a log.jsonl",
            hint="the first needs the tab-separated columns commit, <metric>, memory_gb, status, description",
        )
    rows: list[Experiment] = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t", 4)
        if len(cells) != 5 or cells[3] not in ("keep", "discard", "crash"):
            raise UsageError(f"{path}:{number}: not five columns with keep, discard or crash: {line[:80]!r}")
        crashed = cells[3] == "crash"
        value = None if crashed else _number(cells[1], path, number)
        memory = _number(cells[2], path, number) * 1024**3
        rows.append(_row(run, len(rows), cells[0], cells[3], value, cells[4], at, {"memory_bytes": round(memory)}))
    return head[1], "minimize", rows


def _read_pi(path: Path, lines: Sequence[str], run: str, at: float) -> tuple[str, Direction, list[Experiment]]:
    metric, direction = "metric", "minimize"
    rows: list[Experiment] = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except ValueError as problem:
            raise UsageError(f"{path}:{number}: not JSON: {problem}") from problem
        if not isinstance(entry, dict):
            raise UsageError(f"{path}:{number}: not a JSON object")
        if entry.get("type") == "config":
            metric = str(entry.get("metricName") or metric)
            direction = "maximize" if entry.get("bestDirection") == "higher" else "minimize"
        elif isinstance(entry.get("run"), int):
            status = str(entry.get("status", "keep"))
            value = None if status == "crash" else _number(entry.get("metric", 0), path, number)
            moment = entry.get("timestamp")
            when = moment / 1000 if isinstance(moment, int | float) else at
            described = str(entry.get("description", ""))
            told = {key: item for key, item in (entry.get("metrics") or {}).items() if isinstance(item, int | float)}
            rows.append(
                _row(run, len(rows), str(entry.get("commit", "")), status, value, described, when, {"secondary": told})
            )
    return metric, "maximize" if direction == "maximize" else "minimize", rows


def _row(
    run: str, n: int, commit: str, status: str, value: float | None, text: str, at: float, detail: dict[str, Any]
) -> Experiment:
    known: dict[str, Status] = {"discard": "discard", "crash": "crash", "checks_failed": "rejected"}
    return Experiment(
        run=run,
        n=n,
        commit=commit,
        parent=None,
        tree="",
        status="baseline" if n == 0 else known.get(status, "keep"),
        author="imported",
        hypothesis=text,
        metric=value,
        delta=None,
        reason=f"{status}, as the imported log says",
        seconds=0.0,
        at=at,
        detail={key: item for key, item in detail.items() if item},
        opened=2 * n,
        closed=2 * n + 1,
    )


def _number(raw: Any, path: Path, line: int) -> float:
    try:
        value = float(raw)
    except (TypeError, ValueError):
        raise UsageError(f"{path}:{line}: {raw!r} is not a number") from None
    if not math.isfinite(value):
        raise UsageError(f"{path}:{line}: {raw!r} is not finite")
    return value


def _flat(text: str) -> str:
    return " ".join(text.split())


def _slug(text: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower()).strip("-")
    return kept[:40] or "log"
