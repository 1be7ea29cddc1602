import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.core.errors import GitError
from overnight.store.git.repository import Entry, Repository
from overnight.store.git.trees import Trees, check_path

NAME = st.sampled_from(["a", "a.b", "a-", "a0", "b", "ü", "\udcff", "x y", "n\nl", "-"])
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
MODE = st.sampled_from(["100644", "100755", "120000", "160000"])
LISTING = st.dictionaries(PATH, st.tuples(MODE, st.integers(0, 3)), max_size=12)


def without_clashes(listing: dict[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    folders = {path[:at] for path in listing for at, char in enumerate(path) if char == "/"}
    return {path: value for path, value in listing.items() if path not in folders}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    with Repository.open(tmp_path_factory.mktemp("trees")) as opened:
        yield opened
        # Checks the order and form of every tree that any test here wrote.
        done = subprocess.run(["git", "fsck", "--full", "--strict"], cwd=opened.root, capture_output=True)
        assert done.returncode == 0, done.stderr


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(listings=st.lists(LISTING.map(without_clashes), min_size=1, max_size=5))
def test_any_sequence_of_folders_is_written_and_read(
    repository: Repository, listings: list[dict[str, tuple[str, int]]]
) -> None:
    """Each is written after the one before, so every kind of change between two is met: files, folders, swaps."""
    ids = repository.write_blobs([b"%d" % n for n in range(4)])
    for listing in listings:
        files = {path: Entry(mode, ids[n]) for path, (mode, n) in listing.items()}  # type: ignore[arg-type]  # sampled
        tree = repository.write_tree(files)
        assert repository.read_files(tree) == files
        assert Trees(repository.objects).write(files) == tree


def test_git_finds_nothing_wrong(repository: Repository) -> None:
    blob = repository.write_blobs([b"x"])[0]
    paths = ["a/b", "a.b", "a-b", "a0", "a/c/d", "\udcff/x", "A", "z" * 250, "deep/" * 100 + "x"]
    tree = repository.write_tree({path: Entry("100644", blob) for path in paths})
    listed = subprocess.run(
        ["git", "mktree"],
        cwd=repository.root,
        input=subprocess.run(["git", "ls-tree", tree], cwd=repository.root, capture_output=True).stdout,
        capture_output=True,
    )
    assert listed.stdout.decode().strip() == tree
    subprocess.run(["git", "fsck", "--strict", tree], cwd=repository.root, check=True, capture_output=True)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "a/../b",
        "..",
        ".git/config",
        "sub/.GIT",
        "git~1",
        ".git. ",
        ".git::$x",
        ".g\u200cit",
        "a\0b",
    ],
)
def test_paths_that_git_must_not_hold(repository: Repository, path: str) -> None:
    blob = repository.write_blobs([b"x"])[0]
    with pytest.raises(GitError, match="not a path"):
        check_path(path)
    with pytest.raises(GitError, match="not a path"):
        repository.write_tree({path: Entry("100644", blob), "fine": Entry("100644", blob)})
    assert repository.read_files(repository.write_tree({"fine": Entry("100644", blob)})) == {
        "fine": Entry("100644", blob)
    }


def test_a_name_that_is_file_and_folder(repository: Repository) -> None:
    entry = Entry("100644", repository.write_blobs([b"x"])[0])
    for first in ({}, {"a": entry}, {"a/b": entry}):
        repository.write_tree(first)
        for files in ({"a": entry, "a/b": entry}, {"a/b": entry, "a": entry}, {"a/b/c": entry, "a": entry}):
            with pytest.raises(GitError, match="both a file and a folder"):
                repository.write_tree(files)


def test_wrong_modes_and_ids(repository: Repository) -> None:
    blob = repository.write_blobs([b"x"])[0]
    with pytest.raises(GitError, match="mode"):
        repository.write_tree({"a": Entry("040000", blob)})  # type: ignore[arg-type]  # what is tested
    with pytest.raises(GitError, match="object id"):
        repository.write_tree({"a": Entry("100644", blob[:10])})


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_grafts(project: Callable[..., Path], object_format: str) -> None:
    root = project(object_format)
    for where in ("sub", "sub/deeper", "new/er", "a.py/below"):
        with Repository.open(root) as whole:
            place = Repository.open(root / "sub") if where == "sub" else whole
            head = whole.head()
            assert head
            base = whole.read_files(whole.read_commit(head).tree)
            blob = whole.write_blobs([b"new"])[0]
            subtree = whole.write_tree({"f": Entry("100644", blob)})
            tree = whole.trees.replace(whole.read_commit(head).tree, where, subtree)
            kept = {
                path: entry
                for path, entry in base.items()
                if not path.startswith(f"{where}/") and not where.startswith(f"{path}/")
            }
            assert whole.read_files(tree) == {**kept, f"{where}/f": Entry("100644", blob)}
            assert whole.trees.below(tree, where) == subtree
            # An arena that became empty leaves no folder behind.
            assert whole.read_files(whole.trees.replace(tree, where, whole.write_tree({}))) == kept
            if where == "sub":
                assert place.graft(head, subtree) == tree
                assert place.read_files(place.graft(None, subtree)) == {"sub/f": Entry("100644", blob)}
                place.close()
