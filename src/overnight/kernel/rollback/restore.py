"""The tools a rollback acts with. They are tools like any other: decided by the matrix, recorded, and reversible."""

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from overnight.core.errors import NotFound, Refused, StoreError
from overnight.kernel.canonical import Json
from overnight.kernel.paths import PathRefused, PathRoot
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.store.blobs import Blobs
from overnight.store.git.refs import RefChange
from overnight.store.git.repository import Repository

ABSENT = ""
"""Stands for "no such file" and "no such ref" in the tools' arguments."""

RESTORE_FILE = ToolSpec(
    "audit.restore_file",
    "write",
    (Argument("path", kind="path"), Argument("content", integrity="any"), Argument("expected", integrity="any")),
    reversible=True,
    description="Put a file back to what it was before an action.",
)
RESTORE_REF = ToolSpec(
    "audit.restore_ref",
    "write",
    (Argument("ref", integrity="any"), Argument("commit", integrity="any"), Argument("expected", integrity="any")),
    reversible=True,
    description="Put a git ref back to what it was before an action.",
)


def content_id(paths: PathRoot, name: str) -> str:
    """The blob id of the file as it is now; ABSENT if there is none.

    Raises:
        StoreError: it cannot be read, or is no regular file.
    """
    try:
        descriptor = paths.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return ABSENT
    except (OSError, PathRefused) as problem:
        raise StoreError(f"cannot read {name!r}: {problem}", hint="look at it, then try again") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(f"{name!r} is no file any more", hint="move it away, then try again")
        return hashlib.file_digest(file, "sha256").hexdigest()


def restore_file(paths: PathRoot, blobs: Blobs) -> ToolCode:
    """The tool that puts files back from the blob store, if they still are as `expected`."""

    def run(arguments: Mapping[str, Json]) -> Json:
        name, content, expected = (str(arguments[key]) for key in ("path", "content", "expected"))
        # What is to be restored is read first: a damaged blob must not cost the present content.
        restored = None if content == ABSENT else blobs.get(content)
        found = content_id(paths, name)
        if found != expected:
            raise Refused(f"{name!r} changed meanwhile", reason="changed", hint="plan the rollback again")
        parent = str(PurePosixPath(name).parent)
        if restored is not None:
            Path(paths.root, parent).mkdir(parents=True, exist_ok=True)
        elif found == ABSENT:
            return {"path": name, "restored": content}
        _replace(paths, parent, PurePosixPath(name).name, restored)
        return {"path": name, "restored": content}

    return ToolCode(RESTORE_FILE, run)


def restore_ref(repository: Repository) -> ToolCode:
    """The tool that puts git refs back, if they still are as `expected`. Git's objects are never removed by it."""

    def run(arguments: Mapping[str, Json]) -> Json:
        ref, commit, expected = (str(arguments[key]) for key in ("ref", "commit", "expected"))
        repository.update_refs([RefChange(ref, commit or None, expected or None)])
        return {"ref": ref, "restored": commit}

    return ToolCode(RESTORE_REF, run)


def ref_id(repository: Repository | None, ref: str) -> str:
    """What the ref points to now; ABSENT if there is none.

    Raises:
        NotFound: there is no repository.
    """
    if repository is None:
        raise NotFound(f"there is no repository to restore {ref} in", hint="run it in the arena's folder")
    return repository.refs(ref).get(ref, ABSENT)


def _replace(paths: PathRoot, parent: str, name: str, content: bytes | None) -> None:
    folder = paths.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    draft = f".{name[:100]}.{secrets.token_hex(6)}"
    try:
        if content is None:
            os.unlink(name, dir_fd=folder)
            return
        mode = 0o644
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        descriptor = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        os.close(folder)
