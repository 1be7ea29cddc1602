"""Entries of git written out as a folder, without git's working-tree machinery: nothing is filtered or followed."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from overnight.store.git.process import failure
from overnight.store.git.repository import Repository
from overnight.store.git.trees import Files, Mode, check_path, to_bytes


def checkout(
    repository: Repository, files: Files, target: Path, select: Callable[[str], bool] | None = None
) -> tuple[str, ...]:
    """Write `files` as a folder: raw bytes, modes 644 and 755, submodules as empty folders.

    Args:
        repository: holds the blobs.
        files: what to write.
        target: a folder, made if missing; nothing in it is overwritten or followed.
        select: which paths to write; all if None.

    Returns:
        Symlinks that point out of the folder and were left out.

    Raises:
        GitError: a path leaves the folder, a file is in the way, a blob is missing, or the disk refuses.
    """
    top = os.fsencode(target)
    made = {b""}
    links: list[tuple[str, bytes]] = []
    outside: list[str] = []
    path = ""
    try:
        os.makedirs(top, exist_ok=True)
        for path, entry in files.items():
            if select is not None and not select(path):
                continue
            raw = to_bytes(check_path(path))
            if entry.mode == "160000":
                _make_folders(top, raw, made)
                continue
            _make_folders(top, os.path.dirname(raw), made)
            content = repository.read_blob(entry.oid)
            if entry.mode != "120000":
                _write(os.path.join(top, raw), content, entry.mode)
            elif points_inside(path, content):
                links.append((path, content))
            else:
                outside.append(path)
        # Last, so that no file is ever written through one.
        for path, content in links:
            os.symlink(content, os.path.join(top, to_bytes(path)))
    except OSError as problem:
        raise failure("checkout", f"{target / path}: {os.strerror(problem.errno or 0)}") from problem
    return tuple(outside)


def points_inside(path: str, link: bytes) -> bool:
    """Whether the symlink at `path` with text `link` leads to a place inside the folder, whatever else is a symlink.

    Only ".." at its start are counted: there they leave real folders, further on they could leave what another symlink
    leads to.
    """
    if not link or link.startswith(b"/") or b"\0" in link:
        return False
    up, below = 0, False
    for part in link.split(b"/"):
        if part == b"..":
            if below:
                return False
            up += 1
        elif part not in (b"", b"."):
            if part.lower() == b".git":
                return False
            below = True
    return up <= path.count("/")


def _make_folders(top: bytes, folder: bytes, made: set[bytes]) -> None:
    if folder in made:
        return
    _make_folders(top, os.path.dirname(folder), made)
    full = os.path.join(top, folder)
    try:
        os.mkdir(full)
    except FileExistsError:
        if not is_folder(full):
            raise OSError(errno.ENOTDIR, "", full) from None
    made.add(folder)


def _write(path: bytes, content: bytes, mode: Mode) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "wb", buffering=0) as target:
        view = memoryview(content)
        while view:
            view = view[target.write(view) :]
        os.fchmod(descriptor, 0o755 if mode == "100755" else 0o644)


def is_folder(path: bytes) -> bool:
    """Whether `path` is a folder in itself, not a symlink to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def remove(folder: Path) -> None:
    """Remove a checkout that nothing uses any more, whatever permissions the programs in it left on its folders."""
    try:
        shutil.rmtree(folder)
        return
    except OSError:
        pending = [str(folder)] if folder.is_dir() and not folder.is_symlink() else []
    while pending:
        place = pending.pop()
        with contextlib.suppress(OSError):
            os.chmod(place, 0o700)
            pending += [entry.path for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)]
    shutil.rmtree(folder, ignore_errors=True)
