"""The one door to git: the repository around an arena folder, read and extended without touching what is a person's.

Nothing here writes to the index, the working tree, HEAD, the checked-out branch, the stash or an existing reflog, and
nothing that a repository's configuration names is executed (`git.process`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from overnight.store.git import process
from overnight.store.git.objects import ObjectFormat, Objects
from overnight.store.git.place import Place, find
from overnight.store.git.refs import RefChange, Refs, check_ref
from overnight.store.git.trees import Entry, Files, Mode, Trees, to_text

__all__ = ["Commit", "Entry", "Files", "Mode", "RefChange", "Repository"]

IDENTITY = "Overnight <overnight@localhost>"
_STABLE_DIFF = [
    "-r",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--no-color",
    "--no-relative",
    "--full-index",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=none",
    "--submodule=short",
]


@dataclass(frozen=True)
class Commit:
    """A commit; `tree` is of the whole repository, `message` without its last newline, `at_s` since the epoch."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: str
    at_s: int


class Repository:
    """The repository around one arena folder. Any method may be called from any thread; close it at the end.

    Attributes:
        folder: the arena folder, resolved.
        root: top of the working tree.
        prefix: `folder` relative to `root`, "" or "a/b".
        git_dir: this working tree's own git folder.
        common_dir: the git folder that all its working trees share.
        object_format: sha1 or sha256.
        objects: raw objects; needed only inside `store`.
    """

    def __init__(self, place: Place) -> None:
        """Wrap a place that `find` found; callers use `open`."""
        self.folder = place.folder
        self.root = place.root
        self.prefix = place.prefix
        self.git_dir = place.git_dir
        self.common_dir = place.common_dir
        self.object_format: ObjectFormat = place.object_format
        # With a working tree that is no working tree, no .gitattributes of the arena can hide a diff or name a driver.
        self._bare = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.git_dir)}
        self._reader = process.Helper(["cat-file", "--batch"], cwd=self.git_dir, extra=self._bare)
        self._writer = process.Helper(["update-ref", "--stdin"], cwd=self.git_dir, extra=self._bare)
        self.objects = Objects(self.common_dir / "objects", self.object_format, self._reader)
        self._refs = Refs(self.common_dir, self.objects, self._writer)
        self.trees = Trees(self.objects)

    @classmethod
    def open(cls, folder: Path, *, create: bool = True) -> Self:
        """The repository that encloses `folder`; if there is none, or it ignores `folder`, a new one in it.

        Raises:
            GitError: there is none and `create` is false; it is another user's and not trusted; it has no working
                tree; `folder` does not exist.
            Missing: git is not installed.
        """
        return cls(find(folder, create=create))

    def git(self, *arguments: str | bytes, stdin: bytes = b"", expect: Sequence[int] = (0,)) -> tuple[int, bytes]:
        """Run a git command without working tree; exit status and stdout. For use inside `store`."""
        return process.run(arguments, cwd=self.git_dir, extra=self._bare, stdin=stdin, expect=expect)

    def git_here(self, *arguments: str | bytes, stdin: bytes = b"") -> bytes:
        """Run a git command in the arena folder of the person's working tree. For use inside `store`."""
        extra = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root)}
        return process.run(arguments, cwd=self.folder, extra=extra, stdin=stdin)[1]

    def head(self) -> str | None:
        """Commit that HEAD names, or None while it is unborn."""
        return self.resolve("HEAD")

    def head_tree(self) -> str | None:
        """Tree of the arena folder in HEAD, or None while HEAD is unborn."""
        head = self.head()
        return None if head is None else self.arena_tree(head)

    def resolve(self, ref: str) -> str | None:
        """Commit that HEAD or a full ref name points to, or None if there is no such ref."""
        if ref != "HEAD":
            check_ref(ref)
        status, out = self.git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", expect=(0, 1))
        return out.decode().strip() if status == 0 else None

    def write_blobs(self, contents: Sequence[bytes]) -> list[str]:
        """Store blobs, return their ids in the same order."""
        return [self.objects.write("blob", content) for content in contents]

    def read_blob(self, oid: str) -> bytes:
        """Content of a blob."""
        return self.objects.read(oid, "blob")

    def write_tree(self, files: Files) -> str:
        """Store the tree of the arena folder, return its id; costs what differs from the last one written."""
        return self.trees.write(files)

    def read_files(self, tree: str) -> dict[str, Entry]:
        """All files of the tree of an arena folder."""
        return self.trees.read(tree)

    def graft(self, base: str | None, subtree: str) -> str:
        """Tree of the whole repository: that of commit `base` (None: nothing) with the arena folder as `subtree`."""
        return self.trees.replace(self.read_commit(base).tree if base else None, self.prefix, subtree)

    def arena_tree(self, commit: str) -> str:
        """Tree of the arena folder in a commit; the empty tree if it has no such folder."""
        return self.trees.below(self.read_commit(commit).tree, self.prefix)

    def write_commit(self, tree: str, parents: Sequence[str], message: str, *, at_s: float) -> str:
        """Store a commit of a whole-repository tree, return its id; equal input gives an equal id.

        What git can't carry in `message` (NUL, lone surrogates) is spelt out as an escape.
        """
        who = f"{IDENTITY} {int(at_s)} +0000"
        lines = [f"tree {self.objects.check_id(tree)}", *(f"parent {self.objects.check_id(oid)}" for oid in parents)]
        lines += [f"author {who}", f"committer {who}", "", message.replace("\0", "\\x00")]
        text = "\n".join(lines)
        return self.objects.write(
            "commit", (text if text.endswith("\n") else text + "\n").encode("utf-8", "backslashreplace")
        )

    def read_commit(self, oid: str) -> Commit:
        """A commit.

        Raises:
            GitError: there is none of that id, or it is damaged.
        """
        head, _, message = self.objects.read(oid, "commit").decode("utf-8", "replace").partition("\n\n")
        tree, parents, at_s = "", [], 0
        for line in head.split("\n"):
            key, _, value = line.partition(" ")
            if key == "tree":
                tree = value
            elif key == "parent":
                parents.append(value)
            elif key == "committer" and (stamp := re.search(r" (-?\d+) [+-]\d{4}$", value)):
                at_s = int(stamp[1])
        return Commit(oid, self.objects.check_id(tree), tuple(parents), message.removesuffix("\n"), at_s)

    def update_refs(self, changes: Sequence[RefChange]) -> None:
        """Apply all changes in one transaction, or none.

        Raises:
            GitError: a ref is not what `old` says, is locked, is checked out somewhere, or a name is not valid.
        """
        self._refs.update(changes)

    def refs(self, prefix: str) -> dict[str, str]:
        """Full name → object id of the ref `prefix` and all below `prefix/`, sorted; "refs" gives all."""
        prefix = prefix.rstrip("/")
        out = self.git(
            "for-each-ref", "--format=%(objectname) %(refname)", prefix if prefix == "refs" else check_ref(prefix)
        )[1]
        pairs = (line.split(" ", 1) for line in to_text(out).splitlines())
        return {name: oid for oid, name in pairs}

    def checked_out(self) -> dict[str, str]:
        """Branches that are checked out in any working tree: full name → where."""
        return self._refs.checked_out()

    def diff(self, old_tree: str, new_tree: str, *, names_only: bool = False, context: int = 3) -> str:
        """The change between two trees, to be read; odd names are quoted by git, bytes that aren't UTF-8 replaced.

        Args:
            old_tree: tree (or commit) before.
            new_tree: tree (or commit) after.
            names_only: just the names, one a line.
            context: unchanged lines around each change.
        """
        shape = ["--name-only"] if names_only else ["-p", f"--unified={context}"]
        return self._diff(*shape, old_tree, new_tree).decode("utf-8", "replace")

    def diff_stat(self, old_tree: str, new_tree: str) -> tuple[int, int, int]:
        """Changed files, added lines, removed lines; binary files count as no lines."""
        files = added = removed = 0
        for row in filter(None, self._diff("--numstat", "-z", old_tree, new_tree).split(b"\0")):
            plus, minus, _ = row.split(b"\t", 2)
            files += 1
            added += int(plus) if plus.isdigit() else 0
            removed += int(minus) if minus.isdigit() else 0
        return files, added, removed

    def _diff(self, *arguments: str) -> bytes:
        *shape, old, new = arguments
        self.objects.check_id(old), self.objects.check_id(new)
        return self.git("diff-tree", *_STABLE_DIFF, *shape, old, new)[1]

    def exclude(self, patterns: Sequence[str]) -> None:
        """Make git ignore `patterns` (in .gitignore's words; a leading "/" is the arena folder), once for all."""
        path = self.common_dir / "info" / "exclude"
        try:
            path.parent.mkdir(exist_ok=True)
            present = path.read_bytes() if path.exists() else b""
            known = set(present.splitlines())
            here = re.sub(r"([\\*?\[ ])", r"\\\1", self.prefix).replace("\n", "?")
            lines = [f"/{here}{text}" if here and text.startswith("/") else text for text in patterns]
            missing = [raw for line in lines if (raw := line.encode("utf-8", "surrogateescape")) not in known]
            if missing:
                gap = b"\n" if present and not present.endswith(b"\n") else b""
                with path.open("ab") as target:
                    target.write(gap + b"".join(line + b"\n" for line in missing))
        except OSError as problem:
            raise process.failure("exclude", f"{path}: {problem.strerror}") from problem

    def close(self) -> None:
        """End the helper processes; they start again if the repository is used further."""
        for helper in (self._reader, self._writer):
            with helper.lock:
                helper.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
