"""A person's repositories, made with plain git under a home of the test's own."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.store.git.repository import Entry, RefChange, Repository

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def home(_own_configuration: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No configuration of whoever runs the tests reaches them."""
    folder = tmp_path_factory.mktemp("home")
    (folder / ".gitconfig").write_text(
        "[user]\nname = A Person\nemail = person@example.org\n[init]\ndefaultBranch = main\n"
        '[protocol "file"]\nallow = always\n[advice]\ndetachedHead = false\n'
    )
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return folder


@pytest.fixture
def git() -> Git:
    """`git(folder, *arguments)` as the person would run it; its output without the last newline."""

    def run(folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    return run


@pytest.fixture
def project(tmp_path: Path, git: Git) -> Callable[..., Path]:
    """`project(object_format="sha1")`: a repository with one commit of a.py, sub/b.py and run.sh (executable)."""

    def make(object_format: str = "sha1", name: str = "project") -> Path:
        root = tmp_path / name
        (root / "sub").mkdir(parents=True)
        git(root, "init", "-q", f"--object-format={object_format}")
        (root / "a.py").write_text("x = 1\n")
        (root / "sub" / "b.py").write_text("y = 2\n")
        (root / "run.sh").write_text("#!/bin/sh\n")
        (root / "run.sh").chmod(0o755)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "first")
        return root

    return make


@pytest.fixture
def experiment() -> Callable[..., str]:
    """`experiment(repository, n, parent=None, **files)`: one recorded experiment, as the loop does it; its commit."""

    def record(repository: Repository, n: int, parent: str | None = None, run: str = "x", **files: bytes) -> str:
        named = {name.replace("__", "."): content for name, content in files.items()} or {"a.py": b"n = %d\n" % n}
        entries = {path: Entry("100644", repository.write_blobs([content])[0]) for path, content in named.items()}
        tree = repository.graft(parent, repository.write_tree(entries))
        commit = repository.write_commit(tree, [parent] if parent else [], f"experiment {n}", at_s=1000 + n)
        repository.update_refs([RefChange(f"refs/overnight/{run}/{n}", commit, None)])
        return commit

    return record


@pytest.fixture
def belongings() -> Callable[[Path], dict[str, bytes]]:
    """`belongings(root)`: every byte of a working tree and its git folder that is a person's, not ours."""

    def collect(root: Path) -> dict[str, bytes]:
        found = {}
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            # Objects are only added, refs of ours are ours, and info/exclude is where we may write.
            if "/objects/" in name or "refs/overnight" in name or "refs/heads/overnight" in name:
                continue
            if name.endswith("info/exclude") or path.is_dir():
                continue
            if path.is_symlink():
                found[name] = str(path.readlink()).encode()
            elif path.is_file():
                found[name] = path.read_bytes() + b"%o" % path.stat().st_mode
        return found

    return collect
