"""Where an arena folder lies in git: the enclosing repository, or a new one made in it."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from overnight.core.errors import GitError
from overnight.store.git.objects import ObjectFormat
from overnight.store.git.process import failure, run


@dataclass(frozen=True)
class Place:
    """Absolute paths of a repository and the arena `folder` in it; see `Repository` for what each is."""

    folder: Path
    root: Path
    prefix: str
    git_dir: Path
    common_dir: Path
    object_format: ObjectFormat


def find(folder: Path, *, create: bool) -> Place:
    """The enclosing repository of `folder`; if there is none, or it ignores `folder`, a new one in it if `create`.

    Raises:
        GitError: none found and not `create`; another user's; no working tree; no such folder.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise GitError(f"{folder} is not a folder")
    with _alone(folder):
        return _find(folder, create)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two that find no repository at the same moment must not see each other's half-made one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise GitError(f"{folder}: {problem.strerror}") from problem
    try:
        # Where the file system has no locks, two at the same moment are the person's to avoid.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _find(folder: Path, create: bool) -> Place:
    # Git itself looks for the repository, because that is where it checks whose repository it is (safe.directory).
    status, out = run(["rev-parse", "--is-inside-work-tree", "--is-inside-git-dir"], cwd=folder, expect=(0, 128))
    inside_tree, inside_git = [*out.split(), b"", b""][:2]
    if inside_git == b"true":
        raise GitError(f"{folder} lies inside a git folder", hint="move the arena into a working tree")
    own = os.path.lexists(folder / ".git")
    if status != 0 and not own and not _enclosed(folder):
        return _create(folder, create)
    if inside_tree != b"true":
        if status == 0 and not own:
            return _create(folder, create)
        # Asking again for the one thing that needs a working tree lets git say in its own words what is wrong.
        run(["rev-parse", "--show-cdup"], cwd=folder)
        raise GitError(f"the repository of {folder} has no working tree", hint="use a folder of a `git worktree add`")
    place = _place(folder)
    return _create(folder, create) if place.prefix and _ignored(place) else place


def _ignored(place: Place) -> bool:
    """Whether the repository wants nothing to do with the folder: ignored, and nothing in it tracked all the same."""
    # check-ignore refuses literal pathspecs, and "." has nothing to take literally.
    magic = {"GIT_LITERAL_PATHSPECS": "0"}
    status, _ = run(["check-ignore", "--quiet", "--", "."], cwd=place.folder, extra=magic, expect=(0, 1))
    return status == 0 and not run(["ls-files", "-z"], cwd=place.folder)[1]


def _enclosed(folder: Path) -> bool:
    # Git failed: is that because there is no repository, or because the one there can't be used?
    return any(os.path.lexists(parent / ".git") for parent in folder.parents) or _refused(folder)


def _refused(folder: Path) -> bool:
    try:
        run(["rev-parse", "--git-dir"], cwd=folder)
    except GitError as problem:
        return "not a git repository" not in problem.message
    return True


def _create(folder: Path, create: bool) -> Place:
    if not create:
        raise GitError(f"{folder} is not in a git repository", hint="`git init` there, or let Overnight make one")
    # No template: it could bring hooks and configuration that nobody looked at.
    run(["init", "--quiet", "--template=", "--initial-branch=main", "."], cwd=folder)
    return _place(folder)


def _place(folder: Path) -> Place:
    # One question a call: paths may hold newlines, so answers can't share one output.
    def ask(*question: str) -> bytes:
        return run(["rev-parse", *question], cwd=folder)[1].removesuffix(b"\n")

    up = ask("--show-cdup").rstrip(b"/")
    root = folder
    for part in up.split(b"/") if up else ():
        if part != b"..":
            raise failure("rev-parse", f"unexpected way to the top: {up!r}")
        root = root.parent
    kind = ask("--show-object-format").decode()
    if kind not in ("sha1", "sha256"):
        raise GitError(f"{root} keeps objects as {kind!r}", hint="Overnight knows sha1 and sha256 repositories")
    return Place(
        folder=folder,
        root=root,
        prefix="" if folder == root else folder.relative_to(root).as_posix(),
        git_dir=Path(os.fsdecode(ask("--absolute-git-dir"))),
        common_dir=Path(os.fsdecode(ask("--path-format=absolute", "--git-common-dir"))),
        object_format=cast(ObjectFormat, kind),
    )
