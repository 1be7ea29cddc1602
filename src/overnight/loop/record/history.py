"""Git's side of a run's record: a commit for every experiment, whose message alone could rebuild the database.

`refs/overnight/<run>/<n>` holds experiment n (0 is the baseline); `refs/heads/overnight/<run>` the champion. Both move
in one atomic transaction, before the database is written: what git has and the database lacks was interrupted there,
and `reconcile` completes it.
"""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from overnight.core.errors import GitError
from overnight.core.escape import visible
from overnight.loop.record.experiment import Experiment, Finding, Measurement, RunInfo
from overnight.loop.record.experiment import Mode as JudgeMode
from overnight.loop.record.record import (
    Record,
    decode_experiment,
    decode_measurement,
    encode_experiment,
    encode_measurement,
)
from overnight.store.blobs import Blobs
from overnight.store.git.repository import Entry, Mode, RefChange, Repository

_MARK = "Overnight-Record: "
_SUBJECT_CHARACTERS = 72
_AT_THE_END = ("final", "holdout")


@dataclass(frozen=True)
class Told:
    """What one commit message says."""

    experiment: Experiment
    measurements: tuple[Measurement, ...]
    finding: Finding | None
    run: Mapping[str, Any]
    spent_s: float


def branch(run: str) -> str:
    """The ref that follows the champion."""
    return f"refs/heads/overnight/{run}"


def reference(run: str, n: int) -> str:
    """The ref that holds experiment `n`."""
    return f"refs/overnight/{run}/{n}"


class History:
    """Writes and reads the commits of one arena's runs.

    Attributes:
        behind: why the branch is not at the champion, where a person checked it out or moved it; "" if it is.
    """

    def __init__(self, repository: Repository, record: Record) -> None:
        self.repository = repository
        self.record = record
        self.behind = ""
        self._stands: dict[str, str | None] = {}

    def commit(
        self,
        experiment: Experiment,
        measurements: Sequence[Measurement],
        finding: Finding | None,
        *,
        base: str | None,
        parents: Sequence[str],
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
            advance: move the branch here: a keep, or the baseline.
            spent_s: wall clock the run has used.
            run: settings of the run, for the baseline's message.

        Returns:
            The experiment with its commit.
        """
        tree = self.repository.graft(base, experiment.tree)
        message = _message(experiment, measurements, finding, run, spent_s)
        commit = self.repository.write_commit(tree, parents, message, at_s=experiment.at)
        here = RefChange(reference(experiment.run, experiment.n), commit, None)
        if advance:
            self._advance(experiment.run, commit, here)
        else:
            self.repository.update_refs([here])
        done = replace(experiment, commit=commit)
        self.record.close(done, finding, spent_s)
        return done

    def commit_final(
        self, run: str, champion: Experiment | None, summary: Mapping[str, Any], mode: JudgeMode, spent_s: float
    ) -> None:
        """Note the end of a run as `refs/overnight/<run>/final`, a commit on the champion that changes nothing.

        Its message has the measurements that the claim rests on, which are made after the experiments' own commits.
        """
        if champion is None:
            return
        tree = self.repository.read_commit(champion.commit).tree
        measured = [encode_measurement(item) for item in self.record.measurements(run) if item.role in _AT_THE_END]
        told = {"summary": summary, "mode": mode, "spent_s": round(spent_s, 3), "measurements": measured}
        record = json.dumps(told, allow_nan=False)
        message = f"final: what {run} found\n\nOvernight-Run: {run}\n{_MARK}{record}\n"
        commit = self.repository.write_commit(tree, [champion.commit], message, at_s=now())
        here = RefChange(f"refs/overnight/{run}/final", commit, "any")
        if self.behind:
            self._advance(run, champion.commit, here)
        else:
            self.repository.update_refs([here])

    def _advance(self, run: str, commit: str, here: RefChange) -> None:
        """Move the branch along with `here`, in one transaction; where the branch is not ours to move, `here` alone."""
        if run not in self._stands:
            found = self.repository.refs(branch(run)).get(branch(run))
            ours = {item.commit for item in self.record.experiments(run)}
            self._stands[run] = found if found in ours else None
        try:
            self.repository.update_refs([here, RefChange(branch(run), commit, self._stands[run])])
        except GitError as problem:
            self.repository.update_refs([here])
            self.behind = f"{branch(run)} could not be moved to {commit[:10]}: {problem.message}"
            return
        self._stands[run] = commit
        self.behind = ""

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

    def reconcile(self, run: str) -> int:
        """Complete the database from git; how many experiments it lacked.

        Raises:
            GitError: a commit under the run's refs is not one of ours.
        """
        runs = {info.run for info in self.record.runs()}
        known = {item.n for item in self.record.experiments(run)}
        added = 0
        for told in self.told(run):
            if run not in runs:
                if not told.run:
                    raise GitError(
                        f"the baseline of {run} is not under refs/overnight/{run}/0",
                        hint="without it the run cannot be rebuilt; its experiments can still be read with git",
                    )
                self._recreate(run, told)
                runs.add(run)
            if told.experiment.n not in known:
                spent_s = max(told.spent_s, self.record.run(run).spent_s)
                self.record.close(told.experiment, told.finding, spent_s, told.measurements)
                added += 1
        if added and (final := self.repository.resolve(f"refs/overnight/{run}/final")) is not None:
            self._finished(run, _told(self.repository, final))
        return added

    def _finished(self, run: str, told: Mapping[str, Any]) -> None:
        info = self.record.run(run)
        self.record.add_measurements(run, [decode_measurement(item) for item in told.get("measurements", ())])
        spent_s, mode = float(told.get("spent_s", info.spent_s)), told.get("mode")
        self.record.set_state(run, "finished", spent_s=spent_s, mode=mode, summary=told["summary"])

    def restore(self, info: RunInfo, blobs: Blobs) -> int:
        """Bring back refs that the database knows and git lacks, from blobs where the commits are gone; how many."""
        present = self.repository.refs(f"refs/overnight/{info.run}/")
        experiments = sorted(self.record.experiments(info.run), key=lambda item: item.closed)
        if (info.summary or {}).get("collected"):  # the others were removed on purpose
            experiments = [item for item in experiments if item.status in ("baseline", "keep")]
        missing = [item for item in experiments if reference(info.run, item.n) not in present]
        if missing and not all(self._has(item.commit) for item in experiments):
            experiments = self._rebuild(info, experiments, blobs)
            missing = experiments
        changes = [RefChange(reference(info.run, item.n), item.commit) for item in missing]
        kept = [item for item in experiments if item.status in ("baseline", "keep")]
        if kept and branch(info.run) not in self.repository.refs(branch(info.run)):
            changes.append(RefChange(branch(info.run), kept[-1].commit, None))
        self.repository.update_refs(changes)
        if kept and (info.summary or {}).get("final") and f"refs/overnight/{info.run}/final" not in present:
            self.commit_final(info.run, kept[-1], info.summary or {}, info.mode, info.spent_s)
            return len(changes) + 1
        return len(changes)

    def _has(self, commit: str) -> bool:
        try:
            self.repository.read_files(self.repository.arena_tree(commit))
        except GitError:
            return False
        return True

    def _rebuild(self, info: RunInfo, experiments: Sequence[Experiment], blobs: Blobs) -> list[Experiment]:
        base: dict[str, Entry] = {}
        commits: dict[str | None, str] = {}
        rebuilt = []
        for item in experiments:
            files = dict(base)
            for path, kept in item.files.items():
                mode, _, blob = (kept or "").partition(" ")
                if not kept:
                    files.pop(path, None)
                elif mode == "160000":
                    files[path] = Entry(cast(Mode, mode), blob)
                else:
                    files[path] = Entry(cast(Mode, mode), self.repository.write_blobs([blobs.get(blob)])[0])
            if item.n == 0:
                base = files
            parent = commits.get(item.parent)
            told = self.record.findings(info.run)
            finding = next((finding for _, finding in told if finding.n == item.n), None)
            anew = replace(item, parent=parent, tree=self.repository.write_tree(files))
            message = _message(
                anew,
                [one for one in self.record.measurements(info.run, item.n) if one.role not in _AT_THE_END],
                finding,
                info.settings if item.n == 0 else None,
                info.spent_s,
            )
            tree = self.repository.graft(parent, anew.tree)
            commit = self.repository.write_commit(tree, [parent] if parent else [], message, at_s=item.at)
            commits[item.commit] = commit
            rebuilt.append(replace(anew, commit=commit))
        self.record.replace_commits(info.run, rebuilt)
        return rebuilt

    def _recreate(self, run: str, told: Told) -> None:
        # The seed key is not in git, on purpose: a fresh one only means fresh seeds from here on.
        settings = dict(told.run)
        mode = str(settings.get("mode", "noise"))
        self.record.create(run, str(settings.get("name", run)), settings, secrets.token_hex(32), "interrupted")
        self.record.set_state(run, "interrupted", spent_s=0.0, mode="noise" if mode == "noise" else "deterministic")


def read(repository: Repository, commit_id: str) -> Told:
    """What the commit's message says.

    Raises:
        GitError: it carries no record.
    """
    data = _told(repository, commit_id)
    return Told(
        decode_experiment(data["experiment"], commit_id, data.get("parent")),
        tuple(decode_measurement(item) for item in data["measurements"]),
        Finding(**data["finding"]) if data.get("finding") else None,
        data.get("run") or {},
        float(data.get("spent_s", 0.0)),
    )


def _told(repository: Repository, commit_id: str) -> dict[str, Any]:
    for line in reversed(repository.read_commit(commit_id).message.splitlines()):
        if line.startswith(_MARK):
            data: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return data
    raise GitError(f"commit {commit_id} carries no Overnight-Record", hint="was the ref moved by hand?")


def _message(
    experiment: Experiment,
    measurements: Sequence[Measurement],
    finding: Finding | None,
    run: Mapping[str, Any] | None,
    spent_s: float,
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
        "spent_s": round(spent_s, 3),
    }
    # ASCII keeps the line whole whatever the hypothesis holds: no character of it can end the line.
    record = json.dumps({name: value for name, value in told.items() if value is not None}, allow_nan=False)
    body = visible(experiment.hypothesis, lines=True).strip()
    parts = [subject, "", body, "", visible(experiment.reason), "", f"Overnight-Run: {experiment.run}", _MARK + record]
    return "\n".join(part for index, part in enumerate(parts) if part or parts[index - 1]) + "\n"


def now() -> float:
    """The time as records keep it: milliseconds, so that git and the database agree to the digit."""
    return round(time.time(), 3)
