"""Experiments lost, and orphans left, after `kill -9` at a random moment and `overnight resume`; 20 trials.

Each trial starts `overnight run` as a process of its own, kills it, notes what git and the database then hold, resumes
it, and compares: nothing recorded may be gone or there twice, every number has one verdict, no process and no checkout
is left, and the search goes on exactly as a run that nobody killed.

Usage: python benchmarks/kill.py [--trials N] [--seed N]
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from overnight.workspace.workspace import Workspace

EXPERIMENTS = 12
FILES = {
    "program.md": """---
metric: score
direction: maximize
evaluate: python evaluate.py
editable: [art.py]
budget: 2s
timeout: 10s
---
""",
    "art.py": "X = 3.0  # knob: 0..10\nY = 2.0  # knob: 0..10\n",
    # The sleep makes most kills hit an evaluation in flight, and gives orphans something to do.
    "evaluate.py": "import art, time\ntime.sleep(0.08)\nprint('score:', -((art.X - 7) ** 2) - (art.Y - 4) ** 2)\n",
}


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "overnight", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def arena(folder: Path) -> None:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)


def run(folder: Path, workers: int) -> list[str]:
    return [
        "run",
        str(folder),
        "--experiments",
        str(EXPERIMENTS),
        "--seed",
        "7",
        "--run",
        "night",
        "--workers",
        str(workers),
    ]


def recorded(folder: Path) -> dict[int, str]:
    """Number → commit of every experiment in git."""
    out = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname) %(objectname)", "refs/overnight/night"],
        cwd=folder,
        capture_output=True,
        text=True,
    ).stdout
    pairs = [line.split() for line in out.splitlines()]
    return {int(name.rsplit("/", 1)[1]): oid for name, oid in pairs if name.rsplit("/", 1)[1].isdigit()}


def state(folder: Path) -> tuple[list[Any], list[Any]]:
    workspace = Workspace.at(folder)
    if not (workspace.state / "overnight.db").exists():
        return [], []
    found = workspace.record.experiments("night"), workspace.record.measurements("night")
    workspace.database.close()
    return found


def processes(folder: Path) -> list[int]:
    """Processes that work in or on the folder, by what the kernel says of them."""
    mark = str(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "mountinfo").read_bytes()
        except OSError:
            continue
        if mark.encode() in told:
            found.append(int(entry.name))
    return found


def trial(folder: Path, delay_s: float, workers: int, expected: list[str]) -> dict[str, Any]:
    arena(folder)
    process = start(folder, *run(folder, workers))
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 2
    while processes(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    orphans = len(processes(folder))
    in_git, (in_database, measured) = recorded(folder), state(folder)
    before = {**{item.n: item.commit for item in in_database}, **in_git}
    resumed = (
        start(folder, "resume", "night")
        if measured or in_database
        else start(folder, *run(folder, workers)[:-4], "--run", "again", "--workers", str(workers))
    )
    said = resumed.communicate()[1].decode()
    after_git, (after, measurements) = recorded(folder), state(folder)
    begun = bool(measured or in_database)
    numbers = [item.n for item in after]
    kept_measurements = {item.seq for item in measured} <= {item.seq for item in measurements}
    return {
        "begun": begun,
        "recorded": len(before),
        "lost": sum(after_git.get(n) != oid for n, oid in before.items()) if begun else 0,
        "twice": len(numbers) - len(set(numbers)),
        "whole": not begun or (sorted(numbers) == list(range(EXPERIMENTS + 1)) and kept_measurements),
        "baseline_paid_again": sum(item.role == "baseline" for item in measurements) > 6,
        "orphans": orphans,
        "checkouts": len(list((folder / ".overnight/checkouts").glob("*"))),
        "same_search": not begun or workers > 1 or [item.tree for item in after if item.n] == expected,
        "exit_code": resumed.returncode,
        "said": said if resumed.returncode else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    chance = random.Random(chosen.seed)
    top = Path(tempfile.mkdtemp(prefix="overnight-kill-"))
    os.environ["OVERNIGHT_CONFIG_DIR"] = str(top / "config")
    try:
        arena(top / "whole")
        began = time.monotonic()
        process = start(top / "whole", *run(top / "whole", 1))
        process.communicate()
        length_s = time.monotonic() - began
        expected = [item.tree for item in state(top / "whole")[0] if item.n]
        rows = []
        for number in range(chosen.trials):
            delay_s = chance.uniform(0.1, length_s)
            rows.append(trial(top / f"trial {number} ü", delay_s, 1 + number % 2, expected))
            print(number, f"{delay_s:.2f}s", rows[-1], file=sys.stderr)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(
        json.dumps(
            {
                "benchmark": "kill",
                "trials": len(rows),
                "killed_before_the_run_was_on_record": sum(not row["begun"] for row in rows),
                "experiments_on_record_when_killed": sum(row["recorded"] for row in rows),
                "experiments_lost": sum(row["lost"] for row in rows),
                "experiments_counted_twice": sum(row["twice"] for row in rows),
                "baselines_paid_again": sum(row["baseline_paid_again"] for row in rows),
                "runs_whole_after_resume": sum(row["whole"] for row in rows),
                "orphans": sum(row["orphans"] for row in rows),
                "stray_checkouts": sum(row["checkouts"] for row in rows),
                "search_went_on_as_if_not_killed": all(row["same_search"] for row in rows),
                "failures": [row["said"] for row in rows if row["exit_code"]],
            }
        )
    )


if __name__ == "__main__":
    main()
