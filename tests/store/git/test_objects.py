import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import GitError
from overnight.store.git.repository import Entry, Repository
from overnight.store.git.snapshot import snapshot

Git = Callable[..., str]
Project = Callable[..., Path]


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("content", [b"", b"x", b"\0\xff\r\n", os.urandom(70_000), b"line\n" * 300_000])
def test_objects_are_what_git_would_write(project: Project, git: Git, object_format: str, content: bytes) -> None:
    root = project(object_format)
    with Repository.open(root) as repository:
        oid = repository.write_blobs([content])[0]
        assert repository.write_blobs([content, content]) == [oid, oid]
        assert repository.read_blob(oid) == content == repository.read_blob(oid)
    done = subprocess.run(["git", "hash-object", "--stdin"], cwd=root, input=content, capture_output=True)
    assert done.stdout.decode().strip() == oid
    assert git(root, "cat-file", "-s", oid) == str(len(content))
    mode = (root / ".git" / "objects" / oid[:2] / oid[2:]).stat().st_mode
    assert stat.S_IMODE(mode) == 0o444
    git(root, "fsck", "--full", "--strict")


def test_a_file_of_50_mb(project: Project, git: Git) -> None:
    root = project()
    block = os.urandom(1 << 16)
    with (root / "huge").open("wb") as target:
        for n in range(800):
            target.write(block[n:] + block[:n])
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        assert taken.files["huge"].oid == git(root, "hash-object", "huge")
        assert repository.read_blob(taken.files["huge"].oid) == (root / "huge").read_bytes()
        # It's tracked now: only read, not written again.
        git(root, "add", "huge")
        assert snapshot(repository).tree == taken.tree
    assert not list((root / ".git" / "objects").rglob("tmp_obj_*"))


@pytest.mark.parametrize(("shared", "folder", "file"), [("group", 0o2775, 0o444), ("0660", 0o2770, 0o440)])
def test_a_shared_repository_stays_shared(tmp_path: Path, git: Git, shared: str, folder: int, file: int) -> None:
    git(tmp_path, "init", "-q", f"--shared={shared}")
    with Repository.open(tmp_path) as repository:
        oid = repository.write_blobs([b"x"])[0]
    path = tmp_path / ".git" / "objects" / oid[:2]
    assert stat.S_IMODE(path.stat().st_mode) == folder
    assert stat.S_IMODE((path / oid[2:]).stat().st_mode) == file


def test_objects_borrowed_from_another_repository(project: Project, git: Git, tmp_path: Path) -> None:
    root = project()
    git(tmp_path, "clone", "-q", "--shared", str(root), "borrower")
    with Repository.open(tmp_path / "borrower") as repository:
        head = repository.head()
        assert head
        files = repository.read_files(repository.arena_tree(head))
        assert repository.read_blob(files["a.py"].oid) == b"x = 1\n"


def test_an_object_in_use_is_kept_fresh(project: Project, git: Git) -> None:
    root = project()
    with Repository.open(root) as repository:
        oid = repository.write_blobs([b"once unreachable"])[0]
        path = root / ".git" / "objects" / oid[:2] / oid[2:]
        os.utime(path, (1000, 1000))
        repository.write_blobs([b"once unreachable"])
        git(root, "prune", "--expire=1.hour.ago")
        assert path.exists()


def test_damage_is_an_error(project: Project) -> None:
    root = project()
    with Repository.open(root) as repository:
        oid = repository.write_blobs([b"important"])[0]
        path = root / ".git" / "objects" / oid[:2] / oid[2:]
        path.chmod(0o644)
        path.write_bytes(b"rubbish")
        with pytest.raises(GitError):
            repository.read_blob(oid)
        # After a power cut the file may be empty: written again, it is whole.
        path.write_bytes(b"")
        assert repository.write_blobs([b"important"]) == [oid]
        assert repository.read_blob(oid) == b"important"
        with pytest.raises(GitError, match="not in the repository"):
            repository.read_blob("0" * 39 + "1")
        with pytest.raises(GitError, match="object id"):
            repository.read_blob("main\n")
        tree = repository.write_tree({"a": Entry("100644", oid)})
        with pytest.raises(GitError, match="is a tree, not a blob"):
            repository.read_blob(tree)
