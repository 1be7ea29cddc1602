"""The database's side of a run's record: rows in, rows out. Its other side is git; see history.py."""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from overnight.core.errors import NotFound
from overnight.loop.record.experiment import Experiment, Finding, Inflight, Measurement, Mode, RunInfo, RunState
from overnight.store.database import Database

_EXPERIMENT = (
    "run, n, commit_id, parent_id, tree, status, author, hypothesis, metric, delta, reason, seconds, at, detail, files,"
    " opened, closed"
)
_MEASUREMENT = "seq, n, role, tree, seed, slot, outcome, value, secondary, error, seconds, at, scorer_error, ask"


class Record:
    """Every run of a workspace. Safe to use from several threads and processes; each method is all or nothing."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def create(
        self, run: str, arena: str, settings: Mapping[str, Any], secret: str, state: RunState = "running"
    ) -> None:
        """Begin a run.

        Raises:
            DatabaseError: there is one of that name.
        """
        now = time.time()
        self.database.execute(
            "INSERT INTO runs (run, arena, state, started_at, settings, secret, mode, pid, heartbeat_at)"
            " VALUES (?, ?, ?, ?, ?, ?, 'deterministic', ?, ?)",
            (run, arena, state, now, _json(settings), secret, os.getpid(), now),
        )

    def runs(self) -> list[RunInfo]:
        """All runs, the newest last."""
        return [_run(row) for row in self.database.rows("SELECT * FROM runs ORDER BY started_at, rowid")]

    def run(self, run: str | None = None) -> RunInfo:
        """The run of that name, or the newest.

        Raises:
            NotFound: there is none.
        """
        if run is None:
            row = self.database.row("SELECT * FROM runs ORDER BY started_at DESC, rowid DESC LIMIT 1")
            if row is None:
                raise NotFound("this workspace has no runs yet", hint="start one with `overnight run ARENA`")
        else:
            row = self.database.row("SELECT * FROM runs WHERE run = ?", (run,))
            if row is None:
                names = [
                    item["run"] for item in self.database.rows("SELECT run FROM runs ORDER BY started_at DESC LIMIT 8")
                ]
                raise NotFound(f"there is no run {run!r}", hint=f"runs here: {', '.join(names) or 'none'}")
        return _run(row)

    def secret(self, run: str) -> str:
        """Hex of the key that evaluation seeds are derived from; never leaves the database."""
        row = self.database.row("SELECT secret FROM runs WHERE run = ?", (run,))
        if row is None:
            raise NotFound(f"there is no run {run!r}")
        return str(row["secret"])

    def set_state(
        self,
        run: str,
        state: RunState,
        *,
        spent_s: float,
        mode: Mode | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Note how a run stands; `ended_at` is set unless it is running."""
        now = time.time()
        self.database.execute(
            "UPDATE runs SET state = ?, spent_s = ?, mode = COALESCE(?, mode), summary = COALESCE(?, summary),"
            " ended_at = ?, pid = ?, heartbeat_at = ? WHERE run = ?",
            (
                state,
                spent_s,
                mode,
                None if summary is None else _json(summary),
                None if state == "running" else now,
                os.getpid() if state == "running" else None,
                now,
                run,
            ),
        )

    def set_collected(self, run: str) -> None:
        """Note that the commits of experiments that were not kept were removed on purpose."""
        with self.database.transaction():
            summary = {**(self.run(run).summary or {}), "collected": True}
            self.database.execute("UPDATE runs SET summary = ? WHERE run = ?", (_json(summary), run))

    def beat(self, run: str, spent_s: float) -> None:
        """Say that the run is alive."""
        self.database.execute(
            "UPDATE runs SET spent_s = ?, heartbeat_at = ? WHERE run = ?", (spent_s, time.time(), run)
        )

    def open(self, run: str, inflight: Inflight) -> None:
        """Note a proposal whose verdict is still to come, in place of an earlier one of that number."""
        self.database.execute(
            "INSERT OR REPLACE INTO inflight (run, n, tree, opened, at, proposal) VALUES (?, ?, ?, ?, ?, ?)",
            (run, inflight.n, inflight.tree, inflight.opened, inflight.at, _json(inflight.proposal)),
        )

    def inflight(self, run: str) -> list[Inflight]:
        """Proposals without a verdict, in the order they were opened."""
        rows = self.database.rows("SELECT * FROM inflight WHERE run = ? ORDER BY opened", (run,))
        return [Inflight(row["n"], row["tree"], row["opened"], row["at"], json.loads(row["proposal"])) for row in rows]

    def add_measurements(self, run: str, measurements: Iterable[Measurement]) -> None:
        """Keep evaluations that were paid for, before anything is decided from them."""
        self.database.execute_many(
            f"INSERT OR IGNORE INTO measurements (run, {_MEASUREMENT}) VALUES ({', '.join('?' * 15)})",
            [(run, *_measurement_row(item)) for item in measurements],
        )

    def measurements(self, run: str, n: int | None = None) -> list[Measurement]:
        """Evaluations in the order they were made; of one experiment, or all."""
        which, values = ("", (run,)) if n is None else (" AND n = ?", (run, n))
        rows = self.database.rows(f"SELECT {_MEASUREMENT} FROM measurements WHERE run = ?{which} ORDER BY seq", values)
        return [_measurement(row) for row in rows]

    def close(
        self, experiment: Experiment, finding: Finding | None, spent_s: float, measurements: Sequence[Measurement] = ()
    ) -> None:
        """Record a verdict; a second time changes nothing."""
        with self.database.transaction():
            self.database.execute(
                f"INSERT OR IGNORE INTO experiments ({_EXPERIMENT}) VALUES ({', '.join('?' * 17)})",
                _experiment_row(experiment),
            )
            self.database.execute("DELETE FROM inflight WHERE run = ? AND n = ?", (experiment.run, experiment.n))
            if measurements:
                self.add_measurements(experiment.run, measurements)
            if finding is not None:
                self.database.execute(
                    "INSERT OR IGNORE INTO findings (run, n, kind, text, at) VALUES (?, ?, ?, ?, ?)",
                    (experiment.run, finding.n, finding.kind, finding.text, finding.at),
                )
            self.beat(experiment.run, spent_s)

    def replace_commits(self, run: str, experiments: Sequence[Experiment]) -> None:
        """Note new commits and trees of experiments, after git was rebuilt."""
        self.database.execute_many(
            "UPDATE experiments SET commit_id = ?, parent_id = ?, tree = ? WHERE run = ? AND n = ?",
            [(item.commit, item.parent, item.tree, run, item.n) for item in experiments],
        )

    def experiments(self, run: str) -> list[Experiment]:
        """Experiments with a verdict, the baseline included, by number."""
        rows = self.database.rows(f"SELECT {_EXPERIMENT} FROM experiments WHERE run = ? ORDER BY n", (run,))
        return [_experiment(row) for row in rows]

    def experiment(self, run: str, n: int) -> Experiment:
        """One experiment.

        Raises:
            NotFound: it has no verdict, or does not exist.
        """
        row = self.database.row(f"SELECT {_EXPERIMENT} FROM experiments WHERE run = ? AND n = ?", (run, n))
        if row is None:
            last = self.database.row("SELECT MAX(n) AS n FROM experiments WHERE run = ?", (run,))
            known = f"0 to {last['n']}" if last and last["n"] is not None else "none yet"
            raise NotFound(f"run {run} has no experiment {n}", hint=f"experiments: {known}")
        return _experiment(row)

    def findings(self, run: str | None = None, arena: str | None = None) -> list[tuple[str, Finding]]:
        """Findings with their run's name, the newest first; of a run, of an arena, or all."""
        which, values = "", []
        for column, value in (("f.run", run), ("r.arena", arena)):
            if value is not None:
                which += f" AND {column} = ?"
                values.append(value)
        rows = self.database.rows(
            "SELECT f.run, f.n, f.kind, f.text, f.at FROM findings f JOIN runs r ON r.run = f.run"
            f" WHERE 1 = 1{which} ORDER BY f.at DESC, f.n DESC",
            values,
        )
        return [(row["run"], Finding(row["n"], row["kind"], row["text"], row["at"])) for row in rows]


def encode_experiment(experiment: Experiment) -> dict[str, Any]:
    """An experiment as JSON, without the ids of its commits; `decode_experiment` reads it back."""
    values = {name: getattr(experiment, name) for name in Experiment.__dataclass_fields__}
    return {name: value for name, value in values.items() if name not in ("commit", "parent")}


def decode_experiment(data: Mapping[str, Any], commit: str, parent: str | None) -> Experiment:
    """The experiment that `encode_experiment` wrote."""
    return Experiment(**{**data, "commit": commit, "parent": parent})


def encode_measurement(measurement: Measurement) -> dict[str, Any]:
    """A measurement as JSON; empty fields are left out."""
    values = {name: getattr(measurement, name) for name in Measurement.__dataclass_fields__}
    return {name: value for name, value in values.items() if value not in ("", {}) or name == "secondary"}


def decode_measurement(data: Mapping[str, Any]) -> Measurement:
    """The measurement that `encode_measurement` wrote."""
    return Measurement(**{"error": "", "secondary": {}, **data})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _run(row: Any) -> RunInfo:
    return RunInfo(
        run=row["run"],
        arena=row["arena"],
        state=row["state"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        settings=json.loads(row["settings"]),
        mode=row["mode"],
        spent_s=row["spent_s"],
        pid=row["pid"],
        heartbeat_at=row["heartbeat_at"],
        summary=json.loads(row["summary"]) if row["summary"] else None,
    )


def _experiment_row(item: Experiment) -> tuple[Any, ...]:
    return (
        item.run,
        item.n,
        item.commit,
        item.parent,
        item.tree,
        item.status,
        item.author,
        item.hypothesis,
        item.metric,
        item.delta,
        item.reason,
        item.seconds,
        item.at,
        _json(item.detail),
        _json(item.files),
        item.opened,
        item.closed,
    )


def _experiment(row: Any) -> Experiment:
    values = list(row)
    values[13], values[14] = json.loads(values[13]), json.loads(values[14])
    return Experiment(*values)


def _measurement_row(item: Measurement) -> tuple[Any, ...]:
    return (
        item.seq,
        item.n,
        item.role,
        item.tree,
        item.seed,
        item.slot,
        item.outcome,
        item.value,
        _json(item.secondary),
        item.error,
        item.seconds,
        item.at,
        item.scorer_error,
        _json(item.ask),
    )


def _measurement(row: Any) -> Measurement:
    values = list(row)
    values[8], values[13] = json.loads(values[8]), json.loads(values[13])
    return Measurement(*values)
