"""Git's side of a run's record: a commit for every experiment, whose message alone could rebuild the database.

`refs/overnight/<run>/<n>` holds experiment n (0 is the baseline); `refs/heads/overnight/<run>` the champion. Both move
in one atomic transaction, before the database is written: what git has and the database lacks was interrupted there,
and `reconcile` completes it.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from overnight.core.errors import GitError
from overnight.core.escape import visible
from overnight.loop.experiment import Experiment, Finding, Measurement, RunInfo
from overnight.loop.record import Record, decode_experiment, decode_measurement, encode_experiment, encode_measurement
from overnight.store.git import RefChange, Repository

_MARK = "Overnight-Record: "
_SUBJECT_CHARACTERS = 72


@dataclass(frozen=True)
class Told:
    """What one commit message says."""

    experiment: Experiment
    measurements: tuple[Measurement, ...]
    finding: Finding | None
    run: Mapping[str, Any]


def branch(run: str) -> str:
    """The ref that follows the champion."""
    return f"refs/heads/overnight/{run}"


def reference(run: str, n: int) -> str:
    """The ref that holds experiment `n`."""
    return f"refs/overnight/{run}/{n}"


class History:
    """Writes and reads the commits of one arena's runs."""

    def __init__(self, repository: Repository, record: Record) -> None:
        self.repository = repository
        self.record = record

    def commit(
        self,
        experiment: Experiment,
        measurements: Sequence[Measurement],
        finding: Finding | None,
        *,
        base: str | None,
        parents: Sequence[str],
        champion: str | None,
        advance: bool,
        spent_s: float,
        run: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Record a verdict in git, then in the database.

        Args:
            experiment: without its commit.
            measurements: those made for it; already in the database.
            finding: learnt from it, if anything.
            base: commit whose other folders the commit's tree takes, for an arena inside a larger repository.
            parents: of the commit.
            champion: where the branch stands now; None if it does not exist yet.
            advance: move the branch here: a keep, or the baseline.
            spent_s: wall clock the run has used.
            run: settings of the run, for the baseline's message.

        Returns:
            The experiment with its commit.
        """
        tree = self.repository.graft(base, experiment.tree)
        message = _message(experiment, measurements, finding, run)
        commit = self.repository.write_commit(tree, parents, message, at_s=experiment.at)
        changes = [RefChange(reference(experiment.run, experiment.n), commit, None)]
        if advance:
            changes.append(RefChange(branch(experiment.run), commit, champion))
        self.repository.update_refs(changes)
        done = replace(experiment, commit=commit)
        self.record.close(done, finding, spent_s)
        return done

    def commit_final(self, run: str, champion: Experiment | None, summary: Mapping[str, Any]) -> None:
        """Note the end of a run as `refs/overnight/<run>/final`, a commit on the champion that changes nothing."""
        if champion is None:
            return
        tree = self.repository.read_commit(champion.commit).tree
        record = json.dumps({"summary": summary}, allow_nan=False)
        message = f"final: what {run} found\n\nOvernight-Run: {run}\n{_MARK}{record}\n"
        commit = self.repository.write_commit(tree, [champion.commit], message, at_s=now())
        self.repository.update_refs([RefChange(f"refs/overnight/{run}/final", commit, "any")])

    def told(self, run: str) -> Iterator[Told]:
        """What git knows of a run's experiments, by number."""
        prefix = f"refs/overnight/{run}/"
        found = self.repository.refs(prefix)
        numbers = sorted(int(name.removeprefix(prefix)) for name in found if name.removeprefix(prefix).isdigit())
        for n in numbers:
            yield read(self.repository, found[f"{prefix}{n}"])

    def runs(self) -> list[str]:
        """Names of the runs that git knows."""
        names = {name.split("/")[2] for name in self.repository.refs("refs/overnight/")}
        return sorted(names)

    def reconcile(self, run: str, arena: str) -> int:
        """Complete the database from git; how many experiments it lacked.

        Raises:
            GitError: a commit under the run's refs is not one of ours.
        """
        try:
            known = {item.n for item in self.record.experiments(run)}
        except KeyError:
            known = set()
        added = 0
        for told in self.told(run):
            if told.experiment.n in known:
                continue
            if told.run and not any(item.run == run for item in self.record.runs()):
                self._recreate(run, arena, told)
            self.record.close(told.experiment, told.finding, 0.0, told.measurements)
            added += 1
        return added

    def restore(self, info: RunInfo) -> int:
        """Bring back refs that the database knows and git lacks; how many. Objects must still be there.

        Raises:
            GitError: a commit is gone as well; `rebuild` makes it anew.
        """
        present = self.repository.refs(f"refs/overnight/{info.run}/")
        changes = []
        champion = None
        for experiment in self.record.experiments(info.run):
            if reference(info.run, experiment.n) not in present:
                self.repository.read_commit(experiment.commit)
                changes.append(RefChange(reference(info.run, experiment.n), experiment.commit, None))
            if experiment.status in ("baseline", "keep") and (champion is None or experiment.closed > champion.closed):
                champion = experiment
        if champion is not None and branch(info.run) not in self.repository.refs(branch(info.run)):
            changes.append(RefChange(branch(info.run), champion.commit, None))
        if changes:
            self.repository.update_refs(changes)
        return len(changes)

    def _recreate(self, run: str, arena: str, told: Told) -> None:
        # The seed key is not in git, on purpose: a fresh one only means fresh seeds from here on.
        self.record.database.execute(
            "INSERT INTO runs (run, arena, state, started_at, settings, secret, mode)"
            " VALUES (?, ?, 'interrupted', ?, ?, lower(hex(randomblob(32))), ?)",
            (run, arena, told.experiment.at, json.dumps(told.run), str(told.run.get("mode", "noise"))),
        )


def read(repository: Repository, commit_id: str) -> Told:
    """What the commit's message says.

    Raises:
        GitError: it carries no record.
    """
    commit = repository.read_commit(commit_id)
    for line in reversed(commit.message.splitlines()):
        if line.startswith(_MARK):
            data = json.loads(line.removeprefix(_MARK))
            parent = data.get("parent")
            return Told(
                decode_experiment(data["experiment"], commit_id, parent),
                tuple(decode_measurement(item) for item in data["measurements"]),
                Finding(**data["finding"]) if data.get("finding") else None,
                data.get("run") or {},
            )
    raise GitError(f"commit {commit_id} carries no Overnight-Record", hint="was the ref moved by hand?")


def _message(
    experiment: Experiment, measurements: Sequence[Measurement], finding: Finding | None, run: Mapping[str, Any] | None
) -> str:
    subject = visible(f"{experiment.status} {experiment.n}: {experiment.hypothesis or experiment.reason}")
    if len(subject) > _SUBJECT_CHARACTERS:
        subject = subject[: _SUBJECT_CHARACTERS - 1] + "…"
    told = {
        "experiment": encode_experiment(experiment),
        "parent": experiment.parent,
        "measurements": [encode_measurement(item) for item in measurements],
        "finding": vars(finding) if finding else None,
        "run": run,
    }
    # ASCII keeps the line whole whatever the hypothesis holds: no character of it can end the line.
    record = json.dumps({name: value for name, value in told.items() if value is not None}, allow_nan=False)
    body = visible(experiment.hypothesis, lines=True).strip()
    parts = [subject, "", body, "", visible(experiment.reason), "", f"Overnight-Run: {experiment.run}", _MARK + record]
    return "\n".join(part for index, part in enumerate(parts) if part or parts[index - 1]) + "\n"


def now() -> float:
    """The time as records keep it: milliseconds, so that git and the database agree to the digit."""
    return round(time.time(), 3)
