"""Milliseconds that git takes per experiment: ours, and the plain commands that do the same.

One experiment is one changed blob, its trees, one commit and two refs, in an arena of 200 files in a subfolder.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from overnight.store.git.repository import Entry, RefChange, Repository

EXPERIMENTS = 1000
PLAIN_EXPERIMENTS = 40


def ours(repository: Repository) -> Callable[[int], None]:
    files = {
        f"d{n // 10}/f{n % 10}.py": Entry("100644", repository.write_blobs([b"x = %d\n" % n])[0]) for n in range(200)
    }
    last: list[str] = []

    def experiment(n: int) -> None:
        files["d3/f1.py"] = Entry("100644", repository.write_blobs([b"x = %d\n" % (1000 + n)])[0])
        tree = repository.graft(last[-1] if last else None, repository.write_tree(files))
        commit = repository.write_commit(tree, last[-1:], f"experiment {n}", at_s=n)
        branch = RefChange("refs/heads/overnight/x", commit, last[-1] if last else None)
        repository.update_refs([RefChange(f"refs/overnight/x/{n}", commit, None), branch])
        last.append(commit)

    return experiment


def plain(folder: Path) -> Callable[[int], None]:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)

    for n in range(200):
        path = folder / "arena" / f"d{n // 10}" / f"f{n % 10}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"x = {n}\n")
    git("add", "-A")
    git("commit", "-q", "-m", "start")

    def experiment(n: int) -> None:
        (folder / "arena" / "d3" / "f1.py").write_text(f"x = {1000 + n}\n")
        git("add", "-A")
        git("commit", "-q", "-m", f"experiment {n}")
        git("update-ref", f"refs/overnight/x/{n}", "HEAD")

    return experiment


def measure(experiment: Callable[[int], None], count: int) -> list[float]:
    times_ms = []
    for n in range(count):
        start_s = time.perf_counter()
        experiment(n)
        times_ms.append(1000 * (time.perf_counter() - start_s))
    return times_ms


def main() -> None:
    result: dict[str, object] = {"benchmark": "git_cost", "experiments": EXPERIMENTS}
    with tempfile.TemporaryDirectory() as name:
        for object_format in ("sha1", "sha256"):
            folder = Path(name) / object_format
            subprocess.run(["git", "init", "-q", f"--object-format={object_format}", str(folder)], check=True)
            (folder / "arena").mkdir()
            with Repository.open(folder / "arena") as repository:
                times_ms = measure(ours(repository), EXPERIMENTS)
            subprocess.run(["git", "fsck", "--strict"], cwd=folder, check=True, capture_output=True)
            result[object_format] = summary(times_ms)
            print(f"{object_format} done", file=sys.stderr)
        folder = Path(name) / "plain"
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        result["plain_commands"] = summary(measure(plain(folder), PLAIN_EXPERIMENTS))
    # With more than the cores' worth of other work these are times of waiting, not of git.
    result["load_average"] = round(os.getloadavg()[0], 1)
    print(json.dumps(result))


def summary(times_ms: list[float]) -> dict[str, float]:
    edge = len(times_ms) // 10
    cuts = statistics.quantiles(times_ms, n=20)
    return {
        "median_ms": round(statistics.median(times_ms), 2),
        "p5_ms": round(cuts[0], 2),
        "p95_ms": round(cuts[-1], 2),
        "first_tenth_ms": round(statistics.median(times_ms[:edge]), 2),
        "last_tenth_ms": round(statistics.median(times_ms[-edge:]), 2),
    }


if __name__ == "__main__":
    main()
