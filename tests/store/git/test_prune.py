import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import GitError
from overnight.store.git.prune import cost_bytes, prune
from overnight.store.git.repository import RefChange, Repository
from overnight.store.git.snapshot import snapshot

Git = Callable[..., str]
Project = Callable[..., Path]
Experiment = Callable[..., str]
NOW = -5.0  # a grace that lets just written objects go


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_only_what_the_refs_alone_held_goes(
    project: Project, git: Git, experiment: Experiment, object_format: str
) -> None:
    root = project(object_format)
    with Repository.open(root) as repository:
        head = repository.head()
        before = set(git(root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
        kept = experiment(repository, 0, head, run="kept", a__py=b"shared\n")
        held = set(git(root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
        for n in range(5):
            experiment(repository, n, kept, a__py=b"shared\n", big=os.urandom(20_000))
        names = list(repository.refs("refs/overnight/x"))
        cost = cost_bytes(repository, names)
        assert 100_000 < cost < 110_000
        assert cost_bytes(repository, []) == 0
        pruned = prune(repository, names, grace_s=NOW)
        assert (pruned.refs, pruned.objects, pruned.freed_bytes, pruned.left) == (5, 15, cost, 0)
        after = set(git(root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
        assert after == held > before
        assert repository.refs("refs/overnight") == {"refs/overnight/kept/0": kept}
        # What is gone is not remembered as being there.
        experiment(repository, 9, kept, a__py=b"shared\n", other=b"again")
    git(root, "fsck", "--full", "--strict")


def test_what_a_person_could_still_reach_stays(project: Project, git: Git, experiment: Experiment) -> None:
    root = project()
    secrets = {name: f"{name} work\n" for name in ("dropped", "staged", "stashed", "amended", "detached")}
    (root / "a.py").write_text(secrets["dropped"])
    git(root, "stash")
    dropped = git(root, "rev-parse", "stash@{0}")
    git(root, "stash", "drop", "-q")
    (root / "a.py").write_text(secrets["stashed"])
    git(root, "stash")
    (root / "a.py").write_text(secrets["amended"])
    git(root, "commit", "-q", "-am", "to be amended")
    amended = git(root, "rev-parse", "HEAD")
    git(root, "commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    git(root, "worktree", "add", "-q", "--detach", "../linked")
    (root.parent / "linked" / "a.py").write_text(secrets["detached"])
    git(root.parent / "linked", "commit", "-q", "-am", "detached")
    (root.parent / "linked" / "staged.py").write_text("staged elsewhere\n")
    git(root.parent / "linked", "add", "staged.py")
    (root / "a.py").write_text(secrets["staged"])
    git(root, "add", "a.py")
    with Repository.open(root) as repository:
        # Experiments whose files have exactly the content that the person has somewhere.
        for n, text in enumerate([*secrets.values(), "staged elsewhere\n"]):
            experiment(repository, n, a__py=text.encode())
        seen = experiment(repository, 7, a__py=b"a person looked at this one\n")
        git(root, "tag", "looked-at", seen)
        looked = experiment(repository, 8, a__py=b"and at this one\n")
        (root / ".git" / "ORIG_HEAD").write_text(looked + "\n")
        pruned = prune(repository, repository.refs("refs/overnight"), grace_s=NOW)
        assert pruned.objects > 0
    assert git(root, "show", f"{dropped}:a.py") == "dropped work"
    assert git(root, "show", "stash@{0}:a.py") == "stashed work"
    assert git(root, "show", f"{amended}:a.py") == "amended work"
    assert git(root, "show", ":a.py") == "staged work"
    assert git(root.parent / "linked", "show", "HEAD:a.py") == "detached work"
    assert git(root.parent / "linked", "show", ":staged.py") == "staged elsewhere"
    assert git(root, "show", "looked-at:a.py") == "a person looked at this one"
    assert git(root, "show", f"{looked}:a.py") == "and at this one"
    git(root, "fsck", "--full", "--strict")


def test_recent_and_packed_objects_stay(project: Project, git: Git, experiment: Experiment) -> None:
    root = project()
    with Repository.open(root) as repository:
        packed = experiment(repository, 1)
        git(root, "gc", "-q")
        recent = experiment(repository, 2)
        pruned = prune(repository, repository.refs("refs/overnight"))
        assert (pruned.refs, pruned.objects, pruned.left) == (2, 0, 6)
        for commit in (packed, recent):
            repository.objects.forget([commit])
            repository.read_commit(commit)
        assert repository.refs("refs/overnight") == {}


def test_nothing_happens_if_something_is_wrong(project: Project, git: Git, experiment: Experiment) -> None:
    root = project()
    with Repository.open(root) as repository:
        commit = experiment(repository, 1)
        with pytest.raises(GitError, match="no ref"):
            prune(repository, ["refs/overnight/x/1", "refs/overnight/x/2"], grace_s=NOW)
        repository.update_refs([RefChange("refs/heads/overnight/x", commit, None)])
        git(root, "checkout", "-q", "-f", "overnight/x")
        with pytest.raises(GitError, match="checked out"):
            prune(repository, ["refs/overnight/x/1", "refs/heads/overnight/x"], grace_s=NOW)
        assert repository.refs("refs/overnight/x") == {"refs/overnight/x/1": commit}


def test_a_damaged_history_keeps_every_object(project: Project, git: Git, experiment: Experiment) -> None:
    root = project()
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    git(root, "update-ref", "refs/heads/broken", "HEAD")
    with Repository.open(root) as repository:
        taken = snapshot(repository)
        commit = experiment(repository, 1)
        first = git(root, "rev-parse", "HEAD~1")
        (root / ".git" / "objects" / first[:2] / first[2:]).unlink()
        with pytest.raises(GitError):
            prune(repository, ["refs/overnight/x/1"], grace_s=NOW)
        assert repository.read_files(repository.arena_tree(commit)) != taken.files
        assert "refs/overnight/x/1" in repository.refs("refs/overnight")
