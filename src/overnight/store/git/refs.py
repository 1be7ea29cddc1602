"""Refs of a repository, changed in transactions of one long-lived `update-ref --stdin`."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from overnight.core.errors import GitError
from overnight.store.git.objects import Objects
from overnight.store.git.process import Helper, failure

_NAME = re.compile(r"refs/(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$))[^\x00-\x20\x7f~^:?*\[\\\"]+")
_OURS = ("refs/overnight/", "refs/heads/overnight/")
STALE_LOCK_S = 5.0
"""A transaction of ours holds its locks for some milliseconds (the slowest of 3,000 took 20 ms)."""


@dataclass(frozen=True)
class RefChange:
    """One step of a transaction: `name` becomes `new` (None deletes it) if it is `old` (None: must not exist)."""

    name: str
    new: str | None
    old: str | Literal["any"] | None = "any"


def check_ref(name: str) -> str:
    """Return `name` if it is a full ref name; nothing else ever reaches git.

    Raises:
        GitError: it is not.
    """
    if _NAME.fullmatch(name) is None:
        raise GitError(f"{name!r} is not a ref name", hint="use a full name such as refs/overnight/RUN/1")
    return name


class Refs:
    """Changes refs; any method from any thread."""

    def __init__(self, common_dir: Path, objects: Objects, writer: Helper) -> None:
        """`writer` is an `update-ref --stdin`."""
        self._common_dir = common_dir
        self._objects = objects
        self._writer = writer

    def update(self, changes: Sequence[RefChange]) -> None:
        """Apply all changes in one transaction, or none; see `Repository.update_refs`."""
        if not changes:
            return
        occupied = self.checked_out() if any(change.name.startswith("refs/heads/") for change in changes) else {}
        for change in changes:
            if check_ref(change.name) in occupied:
                raise GitError(
                    f"{change.name} is checked out in {occupied[change.name]}, so it is left as it is",
                    hint="check out another branch there",
                )
        request = "\n".join(["start", *map(self._step, changes), "prepare", "commit", ""]).encode()
        with self._writer.lock:
            try:
                self._transact(request)
            except GitError as problem:
                if "File exists" not in problem.message or not self._cleared_locks(changes):
                    raise
                self._transact(request)

    def checked_out(self) -> dict[str, str]:
        """Branches that are checked out in any working tree: full name → where."""
        found = {}
        for folder in (self._common_dir, *(self._common_dir / "worktrees").glob("*")):
            try:
                head = (folder / "HEAD").read_text("utf-8", "surrogateescape").strip()
                place = folder / "gitdir"
                where = place.read_text("utf-8", "surrogateescape").strip() if place.exists() else str(folder)
            except OSError:
                continue  # a working tree that is being removed
            if head.startswith("ref: "):
                found[head[5:].strip()] = str(Path(where).parent)
        return found

    def _step(self, change: RefChange) -> str:
        if change.new is None and change.old is None:
            raise GitError(f"{change.name}: nothing to delete, nothing to make", hint="give `new` or `old`")
        nothing = "0" * self._objects.id_length
        new = nothing if change.new is None else self._objects.check_id(change.new)
        if change.old == "any":
            return f"update {change.name} {new}"
        return f"update {change.name} {new} {nothing if change.old is None else self._objects.check_id(change.old)}"

    def _transact(self, request: bytes) -> None:
        self._writer.send(request)
        for answer in (b"start: ok", b"prepare: ok", b"commit: ok"):
            if self._writer.line() != answer:
                raise failure("update-ref", self._writer.stop() or "unexpected answer")

    def _cleared_locks(self, changes: Sequence[RefChange]) -> bool:
        """Whether locks that stood in the way are gone now.

        A killed process leaves its locks behind. Only those of our own refs are ever removed, and they are waited for
        until nobody alive can hold them.
        """
        cleared = False
        for change in changes:
            if not change.name.startswith(_OURS):
                continue
            lock = self._common_dir / f"{change.name}.lock"
            try:
                time.sleep(min(STALE_LOCK_S, max(0.0, STALE_LOCK_S - (time.time() - lock.stat().st_mtime))))
                # A live process may have taken it anew in the meantime.
                if time.time() - lock.stat().st_mtime >= STALE_LOCK_S:
                    lock.unlink()
                    cleared = True
            except FileNotFoundError:
                cleared = True
        return cleared
