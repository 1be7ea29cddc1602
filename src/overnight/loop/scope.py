"""What an author may touch: the difference between the checkout it was given and the one it left, checked."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from overnight.loop.arena.arena import Paths

# What tools leave behind by themselves; never part of a change, and said so.
LEFTOVERS = Paths(
    [
        "**/__pycache__/",
        "**/.pytest_cache/",
        "**/.mypy_cache/",
        "**/.ruff_cache/",
        "**/.ipynb_checkpoints/",
        "**/.cache/",
        "**/node_modules/",
        "**/.DS_Store",
        "**/*.pyc",
        "**/*.swp",
        "**/*~",
        "**/.git/",
        "**/.coverage",
    ]
)
LARGEST_FILE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Change:
    """What an author did.

    Attributes:
        files: path → new content; None where it deleted the file.
        violations: why the change is rejected, one sentence each; empty if it is within scope.
        ignored: what was left behind and does not count.
    """

    files: Mapping[str, bytes | None]
    violations: tuple[str, ...]
    ignored: tuple[str, ...]


def check_files(files: Mapping[str, bytes | None], editable: Paths, hidden: Paths) -> tuple[str, ...]:
    """Violations of a change that is given as file contents."""
    problems = []
    for path, content in files.items():
        if path.startswith("/") or ".." in path.split("/") or "\0" in path or not path or "\\" in path:
            problems.append(f"{path!r} is not a path inside the arena")
        elif path in hidden:
            problems.append(f"{path!r} is hidden from authors")
        elif path not in editable:
            problems.append(f"{path!r} is not editable")
        elif content is not None and len(content) > LARGEST_FILE_BYTES:
            problems.append(f"{path!r} has {len(content):,} bytes; at most {LARGEST_FILE_BYTES:,} are taken")
    return tuple(problems)


def compare(
    folder: Path, before: Mapping[str, bytes], modes: Mapping[str, str], editable: Paths, hidden: Paths
) -> Change:
    """The change between `before`, which was checked out into `folder`, and what lies there now.

    Args:
        folder: the checkout after the author has ended; nothing may be running in it.
        before: content of every file that was put there.
        modes: git mode of every file that was put there (100644 or 100755).
        editable: what may be changed.
        hidden: what must not appear.
    """
    changed: dict[str, bytes | None] = {}
    violations: list[str] = []
    ignored: list[str] = []
    seen = set()
    for path, status in _walk(folder):
        known = path in before
        if not known and path in LEFTOVERS:
            ignored.append(path)
            continue
        seen.add(path)
        if stat.S_ISLNK(status.st_mode):
            violations.append(f"{path!r} is a symbolic link")
        elif stat.S_ISDIR(status.st_mode):
            violations.append(f"the folder {path!r} was made unreadable")
        elif not stat.S_ISREG(status.st_mode):
            violations.append(f"{path!r} is not a regular file")
        elif known and bool(status.st_mode & 0o111) != (modes[path] == "100755"):
            violations.append(f"the mode of {path!r} was changed")
        elif not known and status.st_mode & 0o111:
            violations.append(f"{path!r} was added as an executable file")
        elif status.st_size > LARGEST_FILE_BYTES:
            if not known or status.st_size != len(before[path]):
                violations.append(f"{path!r} has {status.st_size:,} bytes; at most {LARGEST_FILE_BYTES:,} are taken")
        else:
            try:
                content = (folder / path).read_bytes()
            except PermissionError:
                violations.append(f"{path!r} was made unreadable")
                continue
            if before.get(path) != content:
                changed[path] = content
    for path in before:
        if path not in seen:
            changed[path] = None
    violations += check_files(changed, editable, hidden)
    return Change(changed, tuple(violations), tuple(_summarised(ignored)))


def _walk(folder: Path, prefix: str = "") -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = os.scandir(folder / prefix)
    except PermissionError:
        yield prefix.rstrip("/") or ".", os.lstat(folder / prefix)
        return
    with entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if path in LEFTOVERS:
                    yield path, entry.stat(follow_symlinks=False)
                else:
                    yield from _walk(folder, f"{path}/")
            else:
                yield path, entry.stat(follow_symlinks=False)


def _summarised(paths: list[str]) -> list[str]:
    paths = sorted(paths)
    return paths if len(paths) <= 5 else [*paths[:4], f"and {len(paths) - 4} more"]
