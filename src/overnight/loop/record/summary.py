"""What a run amounts to, as one object: `overnight report --json`, and the end of `overnight run --json`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overnight.loop.progress import count
from overnight.loop.record.experiment import Experiment, RunInfo
from overnight.loop.record.history import branch


def summarise(info: RunInfo, experiments: Sequence[Experiment], path: Path | None = None) -> dict[str, Any]:
    """The report object of a run.

    `gain`, `gain_low` and `gain_high` are improvements, positive is better whatever the direction, measured afresh at
    the end on seeds that nobody used; null until then. `best` is the champion's metric: from those final measurements
    where there are some, else from the ones that got it kept, which flatter it. Of an imported run,
    `mode` and `seconds` are null: its log does not say.
    """
    settings = info.settings
    arena: Mapping[str, Any] = settings.get("arena", {})
    counts = count(experiments)
    kept = [item for item in experiments if item.status in ("baseline", "keep")]
    champion = max(kept, key=lambda item: item.closed, default=None)
    base = next((item for item in experiments if item.n == 0), None)
    summary = info.summary or {}
    final: Mapping[str, Any] = summary.get("final") or {}
    claim: Mapping[str, Any] = final.get("claim") or {}
    imported = info.state == "imported"
    unchanged = info.state == "finished" and champion is not None and champion.n == 0
    ended = sum(counts.values())
    return {
        "run": info.run,
        "arena": info.arena,
        "state": info.state,
        "metric": arena.get("metric"),
        "direction": arena.get("direction"),
        "baseline": final.get("baseline") if claim else (base.metric if base else None),
        "best": final.get("champion") if claim else (champion.metric if champion else None),
        "gain": 0.0 if unchanged else claim.get("gain"),
        "gain_low": 0.0 if unchanged else claim.get("low"),
        "gain_high": 0.0 if unchanged else claim.get("high"),
        "gain_pairs": 0 if unchanged else claim.get("pairs"),
        "experiments": ended,
        "kept": counts.get("keep", 0),
        "discarded": counts.get("discard", 0),
        "crashed": counts.get("crash", 0),
        "timeouts": counts.get("timeout", 0),
        "rejected": counts.get("rejected", 0),
        "best_n": champion.n if champion else None,
        "commit": champion.commit if champion else None,
        "branch": None if imported else branch(info.run).removeprefix("refs/heads/"),
        "branch_behind": summary.get("behind"),
        "mode": None if imported else info.mode,
        "integrity": settings.get("integrity"),
        "sandbox": settings.get("sandbox"),
        "holdout": final.get("holdout"),
        "stopped": summary.get("stopped"),
        "seconds": None if imported else round(info.spent_s, 3),
        "path": str(path) if path else None,
    }
