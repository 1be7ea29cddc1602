"""Interrupted, killed, crowded: what was recorded stays, what was in flight is measured again, git and database agree."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import NotFound, UsageError
from overnight.loop.arena import arena as arenas
from overnight.loop.holding import holding
from overnight.loop.night import Limits
from overnight.loop.progress import Progress
from overnight.loop.record.repair import repair
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.workspace import Workspace

Arena = Callable[..., Path]


def facts(workspace: Workspace, name: str) -> list[tuple[Any, ...]]:
    return [
        (item.n, item.status, item.metric, item.tree, item.hypothesis) for item in workspace.record.experiments(name)
    ]


@contextlib.contextmanager
def opened(folder: Path) -> Any:
    workspace = Workspace.of_arena(folder)
    try:
        yield workspace
    finally:
        workspace.database.close()


def stop_after(number: int) -> tuple[threading.Event, Callable[[Progress], None]]:
    stop = threading.Event()

    def watch(progress: Progress) -> None:
        if progress.ended >= number:
            stop.set()

    return stop, watch


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_goes_on_where_it_was_stopped(arena: Arena, spend: Any, workers: int) -> None:
    whole = spend(arena(name="whole"), 9, seed=5)
    folder = arena(name="parts")
    stop, watch = stop_after(4)
    options = Options(Limits(9), seed=5, workers=workers)
    with opened(folder) as workspace:
        first = night.run(folder, options, "night", stop, watch, workspace=workspace)
        assert first["state"] == "interrupted" and 4 <= first["experiments"] < 9
        before = facts(workspace, "night")
        again = night.resume(workspace, None, threading.Event())
        assert again["state"] == "finished" and again["experiments"] == 9
        after = facts(workspace, "night")
        assert set(before) <= set(after)
        assert [row[0] for row in after] == list(range(10))
        measurements = workspace.record.measurements("night")
        assert sum(item.role == "baseline" for item in measurements) == 6
        assert len({item.seq for item in measurements}) == len(measurements)
        if workers == 1:  # the same search as if nobody had stopped it
            assert after[1:] == facts(whole.workspace, "night")[1:]
        assert list((workspace.state / "checkouts").iterdir()) == []


def test_stopping_during_the_baseline_pays_it_only_once(arena: Arena) -> None:
    folder = arena({"evaluate.py": "import art, time\ntime.sleep(0.2)\nprint('score:', art.X)\n"})
    stop = threading.Event()

    def watch(progress: Progress) -> None:
        if progress.evaluations >= 2:
            stop.set()

    with opened(folder) as workspace:
        first = night.run(folder, Options(Limits(1), seed=1), "night", stop, watch, workspace=workspace)
        paid = len(workspace.record.measurements("night"))
        assert first["experiments"] == 0 and 2 <= paid < 6
        again = night.resume(workspace, "night", threading.Event())
        assert again["state"] == "finished"
        assert sum(item.role == "baseline" for item in workspace.record.measurements("night")) == 6


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [1.0, 2.0, 3.0])
def test_kill_9_loses_nothing_and_leaves_nobody(arena: Arena, delay_s: float) -> None:
    folder = arena({"evaluate.py": "import art, time\ntime.sleep(0.1)\nprint('score:', -abs(art.X - 7))\n"})
    command = [
        sys.executable,
        "-m",
        "overnight",
        "run",
        str(folder),
        "--experiments",
        "8",
        "--seed",
        "2",
        "--run",
        "night",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 300
    while (orphans := _working_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert orphans == []
    with opened(folder) as workspace:
        before = workspace.record.experiments("night") if workspace.record.runs() else []
        if not workspace.record.runs():
            pytest.skip("it was killed before there was anything to resume")
        again = night.resume(workspace, "night", threading.Event())
        assert again["experiments"] == 8
        after = {item.n: item.commit for item in workspace.record.experiments("night")}
        assert all(after[item.n] == item.commit for item in before)


def _working_in(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                told = (entry / "cmdline").read_bytes() + (entry / "mountinfo").read_bytes()
                if str(folder).encode() in told:
                    found.append(told.decode(errors="replace")[:80])
    return found


def test_the_database_is_rebuilt_from_git(arena: Arena, spend: Any) -> None:
    folder = arena()
    result = spend(folder, 6)
    before = facts(result.workspace, "night")
    measured = result.workspace.record.measurements("night")
    claimed = result.report
    result.workspace.database.close()
    for path in (folder / ".overnight").glob("overnight.db*"):
        path.unlink()
    with opened(folder) as workspace:
        done = repair(workspace.folder, workspace.record, workspace.blobs)
        assert "7 experiment(s) brought from git" in " ".join(done)
        assert facts(workspace, "night") == before
        assert workspace.record.measurements("night") == measured
        assert {item.role for item in measured} >= {"baseline", "challenger", "final"}
        report = night.report(workspace, "night")
        same = (
            "baseline",
            "best",
            "gain",
            "gain_low",
            "gain_high",
            "experiments",
            "kept",
            "crashed",
            "state",
            "seconds",
        )
        assert {key: report[key] for key in same} == {key: claimed[key] for key in same}
        assert repair(workspace.folder, workspace.record, workspace.blobs) == []


@pytest.mark.parametrize("lost", ["refs", "repository"])
def test_git_is_rebuilt_from_the_database(arena: Arena, spend: Any, lost: str) -> None:
    folder = arena({"more/deep/x.txt": "unchanged"})
    result = spend(folder, 6)
    trees = {item.n: item.tree for item in result.workspace.record.experiments("night")}
    if lost == "refs":
        names = subprocess.run(
            ["git", "for-each-ref", "--format=delete %(refname)", "refs/overnight", "refs/heads/overnight"],
            cwd=folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        subprocess.run(["git", "update-ref", "--stdin"], cwd=folder, input=names, text=True, check=True)
    else:
        shutil.rmtree(folder / ".git")
    with opened(folder) as workspace:
        assert repair(workspace.folder, workspace.record, workspace.blobs)
        for item in workspace.record.experiments("night"):
            found = subprocess.run(
                ["git", "rev-parse", f"refs/overnight/night/{item.n}^{{tree}}"],
                cwd=folder, capture_output=True, text=True, check=True,
            ).stdout.strip()  # fmt: skip
            assert found == trees[item.n] == item.tree
        branch = subprocess.run(
            ["git", "log", "--format=%s", "overnight/night"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert len(branch) == 1 + result.report["kept"]
        assert repair(workspace.folder, workspace.record, workspace.blobs) == []


def test_a_run_goes_on_after_its_database_was_lost(arena: Arena) -> None:
    folder = arena()
    stop, watch = stop_after(3)
    with opened(folder) as workspace:
        night.run(folder, Options(Limits(7), seed=5), "night", stop, watch, workspace=workspace)
        before = facts(workspace, "night")
    for path in (folder / ".overnight").glob("overnight.db*"):
        path.unlink()
    with opened(folder) as workspace:
        repair(workspace.folder, workspace.record, workspace.blobs)
        again = night.resume(workspace, "night", threading.Event())
        assert again["experiments"] == 7 and set(before) <= set(facts(workspace, "night"))


def test_two_runs_on_one_arena_do_not_disturb_each_other(arena: Arena) -> None:
    folder = arena()
    results: dict[str, Any] = {}

    def work(name: str) -> None:
        workspace = Workspace.of_arena(folder)
        try:
            results[name] = night.run(folder, Options(Limits(5), seed=1), name, threading.Event(), workspace=workspace)
        finally:
            workspace.database.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {results[name]["state"] for name in ("one", "two")} == {"finished"}
    with opened(folder) as workspace:
        assert [row[:4] for row in facts(workspace, "one")] == [row[:4] for row in facts(workspace, "two")]
        assert (folder / "MEMORY.md").read_text().startswith("# Memory")


def test_a_run_that_another_process_works_on_is_not_taken_up(arena: Arena) -> None:
    folder = arena()
    stop, watch = stop_after(1)
    with opened(folder) as workspace:
        night.run(folder, Options(Limits(4), seed=5), "night", stop, watch, workspace=workspace)
        with holding(workspace.place(), "night"), pytest.raises(UsageError, match="another process"):
            night.resume(workspace, "night", threading.Event())


def test_there_being_nothing_to_resume_is_said(arena: Arena, spend: Any) -> None:
    result = spend(arena(), 1)
    with pytest.raises(NotFound, match="no unfinished run"):
        night.resume(result.workspace, None, threading.Event())
    assert night.resume(result.workspace, "night", threading.Event())["state"] == "finished"


def test_a_run_keeps_the_instructions_it_was_started_with(arena: Arena) -> None:
    folder = arena()
    stop, watch = stop_after(2)
    with opened(folder) as workspace:
        night.run(folder, Options(Limits(5), seed=5), "night", stop, watch, workspace=workspace)
        program = folder / "program.md"
        program.write_text(program.read_text().replace("maximize", "minimize"))
        (folder / "evaluate.py").write_text("print('score: 0')")
        again = night.resume(workspace, "night", threading.Event())
        assert again["direction"] == "maximize" and again["best"] >= again["baseline"]
    assert arenas.load(folder).front.direction == "minimize"


@pytest.mark.parametrize("where", ["sub folder/ünï", "."])
def test_an_arena_inside_a_larger_repository(tmp_path: Path, arena: Arena, spend: Any, where: str) -> None:
    top = tmp_path / "larger"
    folder = arena(name=f"larger/{where}" if where != "." else "larger")
    (top / "elsewhere.txt").write_text("mine")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=P", "-c", "user.email=p@x", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", *command], cwd=top, check=True)
    subprocess.run(["git", "checkout", "-q", "--detach"], cwd=top, check=True)
    spend(folder, 4)
    names = subprocess.run(
        ["git", "diff", "--name-only", "-z", "HEAD", "overnight/night"],
        cwd=top,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    prefix = "" if where == "." else f"{where}/"
    assert names.split("\0")[:-1] == [f"{prefix}art.py"]
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=top, capture_output=True, text=True, check=True
    ).stdout
    assert status == ""


def test_a_person_may_check_out_the_branch_meanwhile(arena: Arena) -> None:
    folder = arena()
    stop, watch = stop_after(2)
    with opened(folder) as workspace:
        night.run(folder, Options(Limits(12), seed=5), "night", stop, watch, workspace=workspace)
        subprocess.run(["git", "checkout", "-qf", "overnight/night"], cwd=folder, check=True, capture_output=True)
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        again = night.resume(workspace, "night", threading.Event())
        after = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        assert again["experiments"] == 12 and after == head
        moved = [item for item in workspace.record.experiments("night")[3:] if item.status == "keep"]
        assert bool(again["branch_behind"]) == bool(moved)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_a_clear_error(arena: Arena, spend: Any) -> None:
    folder = arena()
    folder.chmod(0o500)
    try:
        with pytest.raises(Exception, match="writ|create|denied"):
            spend(folder, 1)
    finally:
        folder.chmod(0o700)
