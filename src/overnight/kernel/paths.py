"""Where a path really leads, also when nothing is there yet.

Every component is looked up in the directory descriptor of the one before it, by the kernel itself in the common case
(see `linkless`), so that a folder that is swapped while we look cannot lead elsewhere; symbolic links are followed by
hand, and `..` after a link means the link's target.
"""

import contextlib
import errno
import os
import stat
import weakref
from dataclasses import dataclass
from pathlib import Path

from overnight.core.errors import UsageError
from overnight.kernel.linkless import FOLDER, look_from

_MAX_LINKS = 40  # as Linux
_REMEMBERED = 4096
_ODD = frozenset({"", ".", ".."})


class PathRefused(UsageError):
    """A path cannot be resolved with certainty."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a path leads.

    Attributes:
        real: absolute, without links, `.` or `..`.
        name: relative to the root with `/` between components, `.` for the root itself; the absolute path when it
            leads outside.
        inside: whether it is at or below the root.
        exists: whether something is there.
    """

    real: str
    name: str
    inside: bool
    exists: bool


class PathRoot:
    """The folder that relative paths start from. Thread-safe."""

    def __init__(self, root: Path) -> None:
        """Start at `root`, which must exist."""
        self.root = str(root.resolve(strict=True))
        self._raw: dict[str, bytes] = {}
        handle = os.open(self.root, FOLDER)
        self._look = look_from(handle)
        weakref.finalize(self, os.close, handle)

    def resolve(self, path: str) -> Resolved:
        """Where `path` leads, relative ones from the root.

        Raises:
            PathRefused: it is empty, has control characters, loops, or cannot be looked at.
        """
        _check(path)
        plain = self._plain(path)
        if plain is not None:
            name, found = plain
            return Resolved(f"{self.root}/{name}", name, True, found)
        pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        if not path.startswith("/"):
            pending.extend(part for part in reversed(self.root.split("/")) if part)
        try:
            real, exists = self._walk(pending)
        except OSError as problem:
            raise PathRefused(f"{path!r} cannot be resolved: {problem.strerror}", hint="check the path") from None
        inside = real == self.root or real.startswith(self.root.rstrip("/") + "/")
        name = (real[len(self.root) :].lstrip("/") or ".") if inside else real
        return Resolved(real, name, inside, exists)

    def name(self, path: str) -> str:
        """`resolve(path).name`, without the rest: what every decision needs of every path."""
        raw = self._raw.get(path)
        if raw is None:
            _check(path)
            if not _ODD.isdisjoint(path.split("/")):
                plain = self._plain(path)
                return self.resolve(path).name if plain is None else plain[0]
            # How a text is written for the system never changes; where it leads is looked up each time.
            if len(self._raw) >= _REMEMBERED:
                self._raw.clear()
            raw = self._raw[path] = os.fsencode(path)
        return self.resolve(path).name if self._look(raw) is None else path

    def _plain(self, path: str) -> tuple[str, bool] | None:
        """The common case: a relative path without `..` that meets no link, and whether it exists. None otherwise."""
        parts = path.split("/")
        name = path
        if not _ODD.isdisjoint(parts):
            parts = [part for part in parts if part not in ("", ".")]
            if path.startswith("/") or ".." in parts or not parts:
                return None
            name = "/".join(parts)
        found = self._look(os.fsencode(name))
        return None if found is None else (name, found)

    def _walk(self, pending: list[str]) -> tuple[str, bool]:
        """Follow components (innermost first in `pending`); returns the real path and whether it exists."""
        done: list[str] = []
        links = 0
        current = os.open("/", FOLDER)
        try:
            while pending:
                part = pending.pop()
                if part == "..":
                    if done:
                        done.pop()
                        current = _reopen(current, done)
                    continue
                try:
                    mode = os.stat(part, dir_fd=current, follow_symlinks=False).st_mode
                except FileNotFoundError:
                    # Nothing below here exists, so no link can redirect it; but `..` may lead back to what does.
                    rest = [part]
                    while pending and rest:
                        later = pending.pop()
                        if later == "..":
                            rest.pop()
                        else:
                            rest.append(later)
                    if rest:
                        return "/" + "/".join([*done, *rest]), False
                    continue
                if stat.S_ISLNK(mode):
                    links += 1
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    target = os.readlink(part, dir_fd=current)
                    pending.extend(step for step in reversed(target.split("/")) if step not in ("", "."))
                    if target.startswith("/"):
                        done.clear()
                        current = _reopen(current, done)
                    continue
                done.append(part)
                if stat.S_ISDIR(mode):
                    below = os.open(part, FOLDER, dir_fd=current)
                    os.close(current)
                    current = below
                elif pending:
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            return "/" + "/".join(done), True
        finally:
            with contextlib.suppress(OSError):
                os.close(current)

    def open(self, name: str, flags: int, mode: int = 0o644) -> int:
        """A descriptor of exactly the file that was decided on: no component may have become a link since.

        Args:
            name: `Resolved.name`, as the gate hands it to a tool.
            flags: as for `os.open`.
            mode: of a file that is created.

        Raises:
            PathRefused: the way there changed after the decision.
            OSError: as `os.open`, for ordinary failures.
        """
        real = name if name.startswith("/") else f"{self.root}/{name}"
        parts = [part for part in real.split("/") if part not in ("", ".")]
        current = os.open("/", FOLDER)
        try:
            for part in parts[:-1]:
                below = os.open(part, FOLDER, dir_fd=current)
                os.close(current)
                current = below
            return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=current)
        except OSError as problem:
            if problem.errno in (errno.ELOOP, errno.ENOTDIR):
                raise PathRefused(f"{name!r} was replaced by a link after it was checked", hint="try again") from None
            raise
        finally:
            os.close(current)


def _check(path: str) -> None:
    if not path or not path.isprintable():
        raise PathRefused(f"{path!r} is not a path", hint="write a plain path")
    if path.startswith("~"):
        raise PathRefused(f"{path!r} starts with '~', which tools expand differently", hint="write it out")


def _reopen(current: int, done: list[str]) -> int:
    """The descriptor of the directory `done`, without following links; closes `current`."""
    fresh = os.open("/", FOLDER)
    try:
        for part in done:
            below = os.open(part, FOLDER, dir_fd=fresh)
            os.close(fresh)
            fresh = below
    except OSError:
        os.close(fresh)
        raise
    os.close(current)
    return fresh
