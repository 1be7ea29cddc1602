import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import GitError
from overnight.store.git.checkout import checkout, points_inside
from overnight.store.git.repository import Entry, Repository
from overnight.store.git.snapshot import snapshot

Git = Callable[..., str]
Project = Callable[..., Path]


def test_the_folder_as_it_stands(project: Project, git: Git) -> None:
    root = project()
    (root / ".gitignore").write_text("*.log\n__pycache__/\n")
    (root / "gone.py").write_text("x")
    (root / "tracked.log").write_text("x")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "more")
    (root / "a.py").write_text("dirty\n")
    (root / "gone.py").unlink()
    (root / "staged.py").write_text("staged\n")
    git(root, "add", "staged.py")
    (root / "staged.py").write_text("different\n")
    (root / "new.sh").write_text("#!/bin/sh\n")
    (root / "new.sh").chmod(0o755)
    (root / "ignored.log").write_text("x")
    (root / "empty").mkdir()
    (root / ".overnight").mkdir()
    (root / ".overnight" / "db").write_text("x")
    (root / "MEMORY.md").write_text("x")
    (root / "sub" / "MEMORY.md").write_text("theirs")
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        assert set(taken.files) == {
            *(".gitignore", "a.py", "sub/b.py", "run.sh", "tracked.log", "staged.py", "new.sh", "sub/MEMORY.md")
        }
        assert {path for path, entry in taken.files.items() if entry.mode == "100755"} == {"run.sh", "new.sh"}
        assert repository.read_blob(taken.files["a.py"].oid) == b"dirty\n"
        assert repository.read_blob(taken.files["staged.py"].oid) == b"different\n"
        assert repository.read_files(taken.tree) == taken.files
        assert (taken.skipped, taken.filtered) == ((), ())
        more = snapshot(repository, ["ignored.log", "sub/", "nowhere"])
        assert set(more.files) - set(taken.files) == {"ignored.log"}
        assert more.skipped == (("nowhere", "not there"),)


def test_only_the_arenas_folder_counts(project: Project) -> None:
    with Repository.open(project() / "sub") as repository:
        assert list(snapshot(repository).files) == ["b.py"]


def test_odd_names_survive(project: Project, tmp_path: Path) -> None:
    root = project()
    names = [
        b"sp ace",
        b"qu\"o'te",
        b"new\nline",
        "ünï".encode(),
        b"\xff\xfe",
        b"-dash",
        b"*",
        b":x",
        b"tab\t",
        b"back\\s",
    ]
    for name in names:
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_bytes(name)
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        assert {os.fsencode(name) for name in taken.files} >= set(names)
        checkout(repository, taken.files, tmp_path / "out")
    for name in names:
        assert Path(os.fsdecode(os.fsencode(tmp_path / "out") + b"/" + name)).read_bytes() == name


def test_what_cannot_be_kept_is_reported(project: Project, git: Git) -> None:
    root = project()
    library = project(name="library")
    git(root, "submodule", "add", "-q", str(library), "library")
    git(root, "commit", "-q", "-m", "submodule")
    git(root, "init", "-q", "nested")
    (root / "nested" / "f").write_text("x")
    os.symlink("a.py", root / "inside")
    os.symlink("../a.py", root / "sub" / "up")
    os.symlink("/etc/hostname", root / "absolute")
    os.symlink("../../outside", root / "sub" / "outside")
    os.mkfifo(root / "pipe")
    with Repository.open(root) as repository:
        taken = snapshot(repository, ["library/a.py"])
        assert taken.files["library"] == Entry("160000", git(library, "rev-parse", "HEAD"))
        assert taken.files["inside"].mode == taken.files["sub/up"].mode == "120000"
        assert not {"nested/f", "absolute", "sub/outside", "pipe", "library/a.py"} & taken.files.keys()
        reasons = dict(taken.skipped)
        assert reasons.keys() == {"library", "nested", "absolute", "sub/outside"} | ({"pipe"} & reasons.keys())
        assert "submodule" in reasons["library"] and "symlink out of" in reasons["absolute"]
        # Named, a repository of its own is taken like any folder, but for its .git.
        named = snapshot(repository, ["nested", "pipe"])
        assert "nested/f" in named.files and not any(".git/" in path for path in named.files)
        assert dict(named.skipped).keys() == {"library", "absolute", "sub/outside", "pipe"}
        with pytest.raises(GitError, match="not a path inside"):
            snapshot(repository, ["../project/a.py"])


def test_a_tracked_symlink_that_leads_out_is_kept_and_never_written(project: Project, git: Git, tmp_path: Path) -> None:
    """A branch made from the snapshot would otherwise delete it."""
    root = project()
    os.symlink("../outside", root / "out")
    git(root, "add", "out")
    git(root, "commit", "-q", "-m", "link")
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        assert taken.files["out"] == Entry("120000", git(root, "rev-parse", "HEAD:out"))
        assert taken.tree == git(root, "rev-parse", "HEAD^{tree}")
        assert "never followed" in dict(taken.skipped)["out"]
        assert checkout(repository, taken.files, tmp_path / "copy") == ("out",)
        assert not os.path.lexists(tmp_path / "copy" / "out")


def test_a_folder_that_became_a_symlink(project: Project, tmp_path: Path) -> None:
    root = project()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.py").write_text("secret")
    (root / "sub" / "b.py").unlink()
    (root / "sub").rmdir()
    os.symlink(tmp_path / "elsewhere", root / "sub")
    with Repository.open(root) as repository:
        taken = snapshot(repository, ["sub/b.py"])
        assert not any(path.startswith("sub") for path in taken.files)
        assert "symlink" in dict(taken.skipped)["sub"]


def test_files_and_folders_that_swapped_places(project: Project) -> None:
    root = project()
    (root / "sub" / "b.py").unlink()
    (root / "sub").rmdir()
    (root / "sub").write_text("now a file")
    (root / "a.py").unlink()
    (root / "a.py").mkdir()
    (root / "a.py" / "inner").write_text("now a folder")
    with Repository.open(root) as repository:
        assert set(snapshot(repository).files) == {"sub", "a.py/inner", "run.sh"}


def test_bytes_that_git_keeps_otherwise_are_said(project: Project, git: Git) -> None:
    root = project()
    git(root, "config", "core.autocrlf", "true")
    git(root, "config", "filter.upper.clean", "tr a-z A-Z")
    (root / ".gitattributes").write_text("*.up filter=upper\n")
    (root / "f.up").write_text("letters\n")
    (root / "ends.txt").write_bytes(b"one\r\ntwo\r\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "filtered")
    (root / "a.py").write_text("really changed\n")
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        assert repository.read_blob(taken.files["ends.txt"].oid) == b"one\r\ntwo\r\n"
        assert repository.read_blob(taken.files["f.up"].oid) == b"letters\n"
        assert dict(taken.filtered).keys() == {"ends.txt", "f.up"}
        assert "line endings" in dict(taken.filtered)["ends.txt"]
        assert "filter=upper" in dict(taken.filtered)["f.up"]


def test_a_sparse_checkout_loses_nothing(project: Project, git: Git) -> None:
    root = project()
    git(root, "sparse-checkout", "set", "--no-cone", "/a.py")
    assert not (root / "sub").exists()
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        assert taken.tree == repository.head_tree()
        assert dict(taken.skipped).keys() == {"sub/b.py", "run.sh"}


def test_without_executable_bits(project: Project, git: Git) -> None:
    root = project()
    git(root, "config", "core.fileMode", "false")
    (root / "run.sh").chmod(0o644)
    (root / "a.py").chmod(0o755)
    with Repository.open(root) as repository:
        assert snapshot(repository).tree == repository.head_tree()


def test_an_unfinished_merge(project: Project, git: Git) -> None:
    root = project()
    git(root, "checkout", "-q", "-b", "other")
    (root / "a.py").write_text("theirs\n")
    git(root, "commit", "-q", "-am", "theirs")
    git(root, "checkout", "-q", "main")
    (root / "a.py").write_text("ours\n")
    git(root, "commit", "-q", "-am", "ours")
    with pytest.raises(AssertionError):
        git(root, "merge", "-q", "other")
    with Repository.open(root) as repository:
        assert b"<<<<<<<" in repository.read_blob(snapshot(repository).files["a.py"].oid)


def test_a_checkout_is_the_folder_again(project: Project, tmp_path: Path) -> None:
    root = project()
    os.symlink("a.py", root / "link")
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        out = tmp_path / "out" / "deep"
        assert checkout(repository, taken.files, out) == ()
        for path in ("a.py", "sub/b.py", "run.sh"):
            assert (out / path).read_bytes() == (root / path).read_bytes()
            assert (out / path).stat().st_mode & 0o777 == (0o755 if path == "run.sh" else 0o644)
        assert os.readlink(out / "link") == "a.py"
        checkout(repository, taken.files, tmp_path / "some", lambda path: path.endswith(".py"))
        assert sorted(path.name for path in (tmp_path / "some").rglob("*.*")) == ["a.py", "b.py"]
        with pytest.raises(GitError, match="File exists"):
            checkout(repository, taken.files, out)


def test_a_checkout_writes_nowhere_else(project: Project, tmp_path: Path) -> None:
    with Repository.open(project()) as repository:
        ids = repository.write_blobs([b"x", b"../outside", b"/etc"])
        file, up, out = Entry("100644", ids[0]), Entry("120000", ids[1]), Entry("120000", ids[2])
        outside = tmp_path / "outside"
        outside.mkdir()
        for path in ("../outside/f", "/tmp/f", "a/../../outside/f", "..", ".git/hooks/x"):
            with pytest.raises(GitError, match="not a path"):
                checkout(repository, {path: file}, tmp_path / "target")
        assert checkout(repository, {"l": up, "m": out, "f": file}, tmp_path / "links") == ("l", "m")
        assert os.listdir(tmp_path / "links") == ["f"]
        # A folder that is a symlink already is not followed.
        (tmp_path / "planted").mkdir()
        os.symlink(outside, tmp_path / "planted" / "d")
        with pytest.raises(GitError, match="checkout"):
            checkout(repository, {"d/f": file}, tmp_path / "planted")
        os.symlink(outside / "f", tmp_path / "planted" / "f")
        with pytest.raises(GitError, match="checkout"):
            checkout(repository, {"f": file}, tmp_path / "planted")
        assert os.listdir(outside) == []


@pytest.mark.parametrize(
    ("path", "link", "inside"),
    [
        ("l", b"a", True),
        ("l", b"./a//b", True),
        ("l", b"..", False),
        ("d/l", b"..", True),
        ("d/l", b"../..", False),
        ("d/e/l", b"../../x", True),
        ("d/e/l", b"x/../../../y", False),
        # Where x is a symlink to the top, x/.. is outside though the text looks harmless.
        ("d/e/l", b"x/../y", False),
        ("l", b"/etc/passwd", False),
        ("l", b"", False),
        ("l", b".git/config", False),
    ],
)
def test_where_symlinks_lead(path: str, link: bytes, inside: bool) -> None:
    assert points_inside(path, link) is inside
