"""Nothing that a repository's configuration names is executed."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import GitError, Missing
from overnight.store.git.checkout import checkout
from overnight.store.git.prune import cost_bytes, prune
from overnight.store.git.repository import Entry, RefChange, Repository
from overnight.store.git.snapshot import snapshot

Git = Callable[..., str]
Project = Callable[..., Path]

HOOKS = (
    "reference-transaction post-index-change pre-commit post-commit prepare-commit-msg commit-msg post-checkout "
    "pre-auto-gc post-merge pre-push update pre-receive post-rewrite fsmonitor-watchman"
)
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
COMMANDS = "rev-parse ls-files cat-file update-ref diff-tree for-each-ref rev-list config check-attr check-ignore init"


@pytest.fixture
def trapped(project: Project, git: Git, tmp_path: Path) -> tuple[Path, Path]:
    """A repository with every trap we know of, and the folder in which a sprung one leaves a file."""
    root = project()
    sprung = tmp_path / "sprung"
    sprung.mkdir()
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)

    def trap(name: str, place: Path | None = None) -> str:
        path = place or tmp_path / f"trap-{name}"
        path.write_text(f"#!/bin/sh\ntouch '{sprung}/{name}'\nexit 1\n")
        path.chmod(0o755)
        return str(path)

    for hook in HOOKS.split():
        trap(f"hook-{hook}", hooks / hook)
    (tmp_path / "hooks").mkdir()
    for hook in HOOKS.split():
        trap(f"hooksPath-{hook}", tmp_path / "hooks" / hook)
    settings = {
        "core.fsmonitor": trap("fsmonitor"),
        "core.pager": trap("pager"),
        "pager.diff-tree": trap("pager-diff-tree"),
        "core.editor": trap("editor"),
        "core.askPass": trap("askpass"),
        "core.sshCommand": trap("ssh"),
        "core.gitProxy": trap("proxy"),
        "core.alternateRefsCommand": trap("alternates"),
        "credential.helper": trap("credential"),
        "diff.external": trap("external"),
        "diff.x.command": trap("diff-command"),
        "diff.x.textconv": trap("textconv"),
        "filter.x.clean": trap("clean"),
        "filter.x.smudge": trap("smudge"),
        "filter.x.process": trap("process"),
        "filter.x.required": "true",
        "merge.x.driver": trap("merge"),
        "gpg.program": trap("gpg"),
        "commit.gpgSign": "true",
        "tag.gpgSign": "true",
        "gpg.ssh.program": trap("gpg-ssh"),
        "uploadpack.packObjectsHook": trap("pack-objects"),
        "gc.auto": "1",
        "gc.autoDetach": "false",
        "maintenance.auto": "true",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{trap('fetch')}",
        "remote.origin.promisor": "true",
        "remote.origin.partialclonefilter": "blob:none",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
        "core.attributesFile": str(tmp_path / "attributes"),
        "submodule.recurse": "true",
        "submodule.x.update": f"!{trap('submodule')}",
        **{f"alias.{name}": f"!{trap('alias-' + name)}" for name in COMMANDS.split()},
    }
    (tmp_path / "attributes").write_text("* diff=x merge=x\n*.py filter=x\n")
    (root / ".gitattributes").write_text("* diff=x merge=x\n*.py filter=x\n")
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text("* diff=x merge=x\n*.py filter=x\n")
    for key, value in settings.items():
        git(root, "config", key, value)
    trap("path-git", root / "git")
    trap("path-sh", root / "sh")
    for sprout in sprung.iterdir():
        sprout.unlink()
    return root, sprung


def test_the_traps_work(trapped: tuple[Path, Path]) -> None:
    root, sprung = trapped
    for arguments in (
        ["status"],
        ["diff-tree", "-p", "--ext-diff", EMPTY_TREE, "HEAD", "run.sh"],
        ["diff-tree", "-p", "--textconv", EMPTY_TREE, "HEAD", "run.sh"],
        ["add", "-A"],
        ["update-ref", "refs/x", "HEAD"],
        ["cat-file", "-p", "1" * 40],
    ):
        subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=300)
    seen = {path.name for path in sprung.iterdir()}
    assert {"fsmonitor", "diff-command", "textconv", "hook-reference-transaction", "fetch"} <= seen
    assert seen & {"clean", "process"}


def test_no_trap_springs(trapped: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root, sprung = trapped
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}{os.pathsep}")
    hooks = str(tmp_path / "hooks")
    # What could reach git through our own environment.
    for name, value in {
        "GIT_EXTERNAL_DIFF": str(tmp_path / "trap-external"),
        "GIT_SSH_COMMAND": str(tmp_path / "trap-ssh"),
        "GIT_PAGER": str(tmp_path / "trap-pager"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": hooks,
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path / "objects"),
        "GIT_TRACE": str(sprung / "trace"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(root)
    for config in (None, hooks):
        if config:
            with (root / ".git" / "config").open("a") as target:
                target.write(f"[core]\n\thooksPath = {config}\n")
        with Repository.open(root) as repository:
            head = repository.head()
            assert head and repository.head_tree() and repository.resolve("refs/heads/main") == head
            for path in ("a.py", "new.py"):
                (root / path).write_text(f"changed {config}\n")
            taken = snapshot(repository, ["git"])
            assert taken.files["a.py"].oid != repository.read_files(repository.arena_tree(head))["a.py"].oid
            blob = repository.write_blobs([b"x"])[0]
            tree = repository.write_tree({"a.py": Entry("100644", blob), "s": Entry("160000", head)})
            commit = repository.write_commit(repository.graft(head, tree), [head], "x", at_s=1)
            run = "b" if config else "a"
            repository.update_refs([RefChange(f"refs/overnight/{run}/1", commit, None)])
            repository.update_refs([RefChange(f"refs/heads/overnight/{run}", commit, None)])
            assert "changed" in repository.diff(repository.arena_tree(head), taken.tree)
            repository.diff(head, commit, names_only=True)
            repository.diff_stat(head, commit)
            repository.exclude(["/.overnight/"])
            with pytest.raises(GitError, match="not in the repository"):
                repository.read_blob("1" * 40)
            checkout(repository, taken.files, tmp_path / f"checkout-{run}")
            cost_bytes(repository, repository.refs("refs/overnight"))
            prune(repository, [f"refs/heads/overnight/{run}", f"refs/overnight/{run}/1"], grace_s=0)
            repository.checked_out()
    assert [path.name for path in sprung.iterdir()] == []


def test_git_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="git is not installed"):
        Repository.open(tmp_path)
