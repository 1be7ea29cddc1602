"""The arena folder as it stands, as entries of git.

A snapshot holds raw bytes: no filter of the repository runs, neither on the way in nor out, because a filter is a
program that the repository names. So where git keeps something else than what lies in the folder (line endings, LFS
pointers, encryption) the snapshot holds what lies in the folder, which is what a program there reads, and says so in
`Snapshot.filtered`: a branch made from it shows such files as changed.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from overnight.core.errors import GitError
from overnight.store.git.checkout import is_folder, points_inside
from overnight.store.git.repository import Repository
from overnight.store.git.trees import Entry, Files, Mode, to_bytes, to_text

OURS = (".overnight", "MEMORY.md")
"""What Overnight itself writes at the top of an arena; never part of a snapshot."""


@dataclass(frozen=True)
class Snapshot:
    """An arena folder at one moment.

    Attributes:
        files: what it holds; submodules and tracked symlinks that lead out stay as entries, so that a branch does not
            lose them.
        tree: git tree of `files`.
        skipped: path → why it is not in `files`, or not with its content.
        filtered: path → why its bytes in the folder differ from what git keeps though it may be unmodified.
    """

    files: Files
    tree: str
    skipped: tuple[tuple[str, str], ...]
    filtered: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Tracked:
    mode: Mode
    oid: str
    sparse: bool


def snapshot(repository: Repository, include: Sequence[str] = ()) -> Snapshot:
    """The arena folder as it stands: tracked and untracked files that git doesn't ignore, as they lie on disk.

    Args:
        repository: of the arena folder.
        include: files and folders, relative to the arena folder, that belong to it even if ignored.

    Raises:
        GitError: git failed, a file of `include` is not inside the folder, or a file changed while it was read.
    """
    return _Taking(repository).take(include)


class _Taking:
    """One snapshot in the making."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._top = os.fsencode(repository.folder)
        self._files: dict[str, Entry] = {}
        self._skipped: dict[str, str] = {}
        self._real: dict[str, bool] = {"": True}
        self._differ: dict[str, str] = {}

    def take(self, include: Sequence[str]) -> Snapshot:
        tracked = self._tracked()
        trusts_mode = self._repository.git_here("config", "--type=bool", "--default=true", "core.fileMode").strip()
        for path, known in tracked.items():
            self._add(path, known, trusts_mode == b"true")
        others = self._repository.git_here("ls-files", "-z", "--others", "--exclude-standard")
        for path in _names(others):
            if path.endswith("/"):
                self._skip(path.rstrip("/"), "a repository of its own")
            else:
                self._add(path)
        for path in include:
            for found in self._included(path.rstrip("/")):
                if found not in self._files:
                    self._add(found)
        filtered = self._filtered()
        return Snapshot(
            self._files,
            self._repository.write_tree(self._files),
            tuple(sorted(self._skipped.items())),
            tuple(sorted(filtered.items())),
        )

    def _tracked(self) -> dict[str, _Tracked]:
        found: dict[str, _Tracked] = {}
        for row in self._repository.git_here("ls-files", "-z", "--stage", "-t").split(b"\0")[:-1]:
            facts, _, name = row.partition(b"\t")
            tag, mode, oid, stage = facts.decode().split(" ")
            # An unmerged path has up to three stages and no id of its own.
            found[to_text(name)] = _Tracked(cast(Mode, mode), oid if stage == "0" else "", tag == "S")
        return found

    def _add(self, path: str, known: _Tracked | None = None, trusts_mode: bool = True) -> None:
        if path.split("/", 1)[0] in OURS:
            if known:
                self._skip(path, "Overnight's own, though git tracks it")
            return
        if known and known.mode == "160000":
            self._files[path] = Entry("160000", known.oid)
            self._skip(path, "a submodule: the commit it stands at is kept, its files are not copied")
            return
        full = self._full(path)
        try:
            status = os.lstat(full) if self._is_real(os.path.dirname(path)) else None
        except (FileNotFoundError, NotADirectoryError):
            status = None
        except OSError as problem:
            self._skip(path, f"cannot be read: {problem.strerror}")
            return
        if status is None:
            if known and known.sparse:
                self._files[path] = Entry(known.mode, known.oid)
                self._skip(path, "not in the folder (sparse checkout): taken from git")
            return
        try:
            if stat.S_ISREG(status.st_mode):
                oid = self._repository.objects.write_file(full, known=known.oid if known else "")
                executable = status.st_mode & 0o100 if trusts_mode or not known else known.mode == "100755"
                self._files[path] = Entry("100755" if executable else "100644", oid)
                if known and known.oid and known.oid != oid:
                    self._differ[path] = known.oid
            elif stat.S_ISLNK(status.st_mode):
                self._add_link(path, os.readlink(full), known)
            elif not stat.S_ISDIR(status.st_mode):
                self._skip(path, "neither a file nor a folder")
        except OSError as problem:
            self._skip(path, f"cannot be read: {problem.strerror}")

    def _add_link(self, path: str, link: bytes, known: _Tracked | None) -> None:
        inside = points_inside(path, link)
        if inside or known:
            self._files[path] = Entry("120000", self._repository.write_blobs([link])[0])
        if not inside and known:  # a branch must not lose what git tracks
            self._skip(path, f"a symlink out of the arena's folder, to {to_text(link)!r}: kept, but never followed")
        elif not inside:
            self._skip(path, f"a symlink out of the arena's folder, to {to_text(link)!r}")

    def _included(self, path: str) -> Iterator[str]:
        parts = path.split("/")
        if path in ("", "."):
            path, parts = "", []
        elif ".." in parts or path.startswith("/") or "." in parts or "" in parts:
            raise GitError(f"{path!r} is not a path inside {self._repository.folder}", hint="write it relative to it")
        above = (self._files.get("/".join(parts[:depth])) for depth in range(1, len(parts)))
        if any(entry is not None and entry.mode == "160000" for entry in above):
            return  # a submodule's, which has been reported
        if not self._is_real(os.path.dirname(path)):
            self._skip(path, "a folder on the way to it is a symlink or missing")
            return
        full = self._full(path)
        if not os.path.lexists(full):
            self._skip(path, "not there")
        elif os.path.isdir(full) and not os.path.islink(full):
            yield from self._walk(path)
        else:
            yield path

    def _walk(self, folder: str) -> Iterator[str]:
        entry = self._files.get(folder)
        if entry is not None and entry.mode == "160000":
            return
        self._skipped.pop(folder, None)
        try:
            with os.scandir(self._full(folder)) as found:
                items = sorted(found, key=lambda item: item.name)
        except OSError as problem:
            self._skip(folder, f"cannot be read: {problem.strerror}")
            return
        for item in items:
            name = to_text(item.name)
            if name.lower() == ".git":
                continue
            path = f"{folder}/{name}" if folder else name
            if item.is_dir(follow_symlinks=False):
                if path not in OURS:
                    yield from self._walk(path)
            else:
                yield path

    def _filtered(self) -> dict[str, str]:
        """Of the tracked files whose bytes are not git's, those that git may still call unmodified."""
        if not self._differ:
            return {}
        asked = b"".join(to_bytes(path) + b"\0" for path in self._differ)
        out = self._repository.git_here(
            "check-attr", "-z", "--stdin", "filter", "ident", "working-tree-encoding", stdin=asked
        )
        fields = out.split(b"\0")[:-1]
        why: dict[str, str] = {}
        for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
            if value not in (b"unspecified", b"unset"):
                why[to_text(name)] = f"git keeps it as changed by its attribute {to_text(attribute)}={to_text(value)}"
        for path, oid in self._differ.items():
            if path not in why and self._same_but_line_ends(self._files[path].oid, oid):
                why[path] = "git keeps it with other line endings"
        return why

    def _same_but_line_ends(self, ours: str, theirs: str) -> bool:
        content = self._repository.read_blob(ours)
        return b"\r\n" in content and self._repository.objects.name("blob", content.replace(b"\r\n", b"\n")) == theirs

    def _is_real(self, folder: str) -> bool:
        """Whether `folder` is one in itself, not through a symlink: what lies behind one is not in the arena."""
        known = self._real.get(folder)
        if known is None:
            known = self._is_real(os.path.dirname(folder)) and is_folder(self._full(folder))
            self._real[folder] = known
        return known

    def _full(self, path: str) -> bytes:
        return os.path.join(self._top, to_bytes(path)) if path else self._top

    def _skip(self, path: str, why: str) -> None:
        self._skipped[path] = why


def _names(out: bytes) -> list[str]:
    return [to_text(name) for name in out.split(b"\0")[:-1]]
