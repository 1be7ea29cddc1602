import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.core.errors import GitError
from overnight.store.git.repository import Entry, RefChange, Repository
from overnight.store.git.snapshot import snapshot

Git = Callable[..., str]
Project = Callable[..., Path]
Experiment = Callable[..., str]
Belongings = Callable[[Path], dict[str, bytes]]


def test_without_git_a_repository_is_made(tmp_path: Path, git: Git) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(GitError, match="not in a git repository"):
        Repository.open(tmp_path, create=False)
    with Repository.open(tmp_path) as repository:
        assert (repository.prefix, repository.head(), repository.head_tree()) == ("", None, None)
        assert list(snapshot(repository).files) == ["a.py"]
    assert git(tmp_path, "status", "--porcelain") == "?? a.py"


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="not a folder"):
        Repository.open(tmp_path / "nowhere")


def test_a_broken_repository_is_not_made_anew(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(GitError):
        Repository.open(tmp_path)
    (tmp_path / "arena").mkdir()
    (tmp_path / ".git").rmdir()
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    with pytest.raises(GitError):
        Repository.open(tmp_path / "arena")
    assert os.listdir(tmp_path / "arena") == []


def test_a_folder_that_the_repository_around_it_ignores_gets_its_own(project: Project, git: Git) -> None:
    root = project()
    (root / ".gitignore").write_text("arenas/\n")
    arena = root / "arenas" / "one"
    arena.mkdir(parents=True)
    (arena / "a.py").write_text("x")
    with Repository.open(arena) as repository:
        assert repository.root == arena
        assert list(snapshot(repository).files) == ["a.py"]
    assert git(root, "status", "--porcelain") == "?? .gitignore"


def test_a_bare_repository_above(tmp_path: Path, git: Git, project: Project) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(project()), "bare.git")
    inside = tmp_path / "bare.git" / "arena"
    inside.mkdir()
    with pytest.raises(GitError, match="inside a git folder"):
        Repository.open(inside)
    git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree", "main")
    with Repository.open(tmp_path / "tree" / "sub") as repository:
        assert (repository.prefix, repository.common_dir) == ("sub", tmp_path / "bare.git")
    # The layout with a bare repository beside its working trees.
    holder = tmp_path / "holder"
    holder.mkdir()
    (holder / ".git").write_text("gitdir: ../bare.git\n")
    with pytest.raises(GitError, match="work"):
        Repository.open(holder)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("where", ["", "sub", "new/ü \"quoted\" 'x'\nline"])
def test_experiments_leave_what_is_the_persons_alone(
    project: Project, git: Git, experiment: Experiment, belongings: Belongings, object_format: str, where: str
) -> None:
    root = project(object_format, "pro ject\nñ")
    (root / where).mkdir(parents=True, exist_ok=True)
    (root / "a.py").write_text("stashed\n")
    git(root, "stash")
    (root / "a.py").write_text("staged\n")
    git(root, "add", "a.py")
    (root / "a.py").write_text("dirty\n")
    (root / where / "new.py").write_text("z")
    before = belongings(root)
    with Repository.open(root / where) as repository:
        start = snapshot(repository)
        assert "new.py" in start.files
        head = repository.head()
        assert head == git(root, "rev-parse", "HEAD")
        first = repository.write_commit(repository.graft(head, start.tree), [head], "start", at_s=5.9)
        repository.update_refs([RefChange("refs/heads/overnight/x", first, None)])
        commits = [experiment(repository, n, first) for n in range(3)]
        repository.update_refs([RefChange("refs/heads/overnight/x", commits[-1], first)])
        repository.exclude(["/.overnight/", "/MEMORY.md"])
        assert repository.arena_tree(first) == start.tree
        assert repository.read_files(repository.arena_tree(commits[1])).keys() == {"a.py"}
        assert repository.read_commit(first).parents == (head,)
        assert repository.head_tree() == repository.arena_tree(head)
        repository.diff(start.tree, repository.arena_tree(commits[1]))
        assert repository.refs("refs/overnight/x") == {f"refs/overnight/x/{n}": commits[n] for n in range(3)}
        # The rest of the repository is on the branch as it was.
        kept = git(root, "ls-tree", "-r", "--name-only", "-z", commits[0]).split("\0")
        assert where == "" or "run.sh" in kept
        assert f"{where}/a.py".lstrip("/") in kept
    assert belongings(root) == before
    assert git(root, "stash", "list").startswith("stash@{0}")
    git(root, "fsck", "--full", "--strict")


def test_an_unborn_and_a_detached_head(project: Project, git: Git, tmp_path: Path, experiment: Experiment) -> None:
    git(tmp_path, "init", "-q", "unborn")
    with Repository.open(tmp_path / "unborn") as repository:
        assert repository.head() is None and repository.head_tree() is None
        experiment(repository, 1)
    assert git(tmp_path / "unborn", "log", "--format=%s", "refs/overnight/x/1") == "experiment 1"
    root = project()
    git(root, "checkout", "-q", "--detach")
    with Repository.open(root) as repository:
        assert repository.head() == git(root, "rev-parse", "HEAD")
        experiment(repository, 1, repository.head())
    assert git(root, "status", "--porcelain=v2", "--branch").splitlines()[1] == "# branch.head (detached)"


def test_a_linked_working_tree(project: Project, git: Git, belongings: Belongings, experiment: Experiment) -> None:
    root = project()
    git(root, "worktree", "add", "-q", "-b", "other", "../linked")
    (root.parent / "linked" / "a.py").write_text("linked\n")
    git(root.parent / "linked", "commit", "-q", "-am", "linked")
    before = belongings(root), belongings(root.parent / "linked")
    with Repository.open(root.parent / "linked") as repository:
        assert repository.head() == git(root, "rev-parse", "other")
        assert repository.common_dir == root / ".git"
        commit = experiment(repository, 1, repository.head())
        repository.exclude(["/.overnight/"])
    assert git(root, "rev-parse", "refs/overnight/x/1") == commit
    assert (belongings(root), belongings(root.parent / "linked")) == before


def test_a_checked_out_branch_never_moves(project: Project, git: Git, experiment: Experiment) -> None:
    root = project()
    git(root, "worktree", "add", "-q", "-b", "other", "../linked")
    with Repository.open(root) as repository:
        commit = experiment(repository, 1, repository.head())
        for branch in ("main", "other"):
            with pytest.raises(GitError, match="checked out in"):
                repository.update_refs([RefChange(f"refs/heads/{branch}", commit)])
        assert repository.checked_out() == {
            "refs/heads/main": str(root),
            "refs/heads/other": str(root.parent / "linked"),
        }


def test_a_shallow_clone(project: Project, git: Git, tmp_path: Path, experiment: Experiment) -> None:
    root = project()
    (root / "a.py").write_text("second\n")
    git(root, "commit", "-q", "-am", "second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{root}", "shallow")
    with Repository.open(tmp_path / "shallow") as repository:
        head = repository.head()
        assert head
        experiment(repository, 1, head)
        missing = repository.read_commit(head).parents[0]
        with pytest.raises(GitError, match="not in the repository"):
            repository.read_commit(missing)
    git(tmp_path / "shallow", "fsck", "--full")


def test_packed_refs_and_objects(project: Project, git: Git, experiment: Experiment) -> None:
    root = project()
    with Repository.open(root) as repository:
        commits = [experiment(repository, n, repository.head()) for n in range(5)]
        assert repository.read_blob(repository.read_files(repository.arena_tree(commits[0]))["a.py"].oid) == b"n = 0\n"
        git(root, "pack-refs", "--all")
        git(root, "gc", "-q", "--prune=now")
        assert len(repository.refs("refs/overnight")) == 5
        with pytest.raises(GitError, match="update-ref"):
            experiment(repository, 3, repository.head())
        experiment(repository, 5, repository.head())
        repository.update_refs([RefChange("refs/overnight/x/0", None, commits[0])])
        assert len(repository.refs("refs/overnight/x")) == 5
        assert repository.read_commit(commits[1]).message == "experiment 1"
        assert repository.read_files(repository.arena_tree(commits[2]))


def test_ref_changes_are_all_or_none(project: Project, experiment: Experiment) -> None:
    with Repository.open(project()) as repository:
        one, two = (experiment(repository, n, repository.head()) for n in (1, 2))
        before = repository.refs("refs")
        name = "refs/overnight/x/9"
        wrong: list[list[RefChange]] = [
            [RefChange(name, one, None), RefChange("refs/overnight/x/1", two, two)],
            [RefChange(name, one, None), RefChange("refs/overnight/x/1", two, None)],
            [RefChange(name, one, None), RefChange("refs/overnight/x/1/below", two, None)],
            [RefChange(name, one, None), RefChange(name, two, None)],
            [RefChange(name, "1" * 40, None)],
            [RefChange(name, "-x", None)],
            [RefChange(name, None, None)],
            [RefChange(name, None, one)],
            [RefChange("refs/overnight/../../HEAD", one)],
            [RefChange("refs/overnight/a b", one)],
            [RefChange("refs/overnight/a\nrefs/heads/main", one)],
            [RefChange("HEAD", one)],
            [RefChange("refs/overnight/x.lock", one)],
        ]
        for changes in wrong:
            with pytest.raises(GitError):
                repository.update_refs(changes)
            assert repository.refs("refs") == before
        repository.update_refs([RefChange("refs/overnight/x/1", two, one), RefChange("refs/overnight/x/2", None)])
        assert repository.refs("refs/overnight") == {"refs/overnight/x/1": two}
        repository.update_refs([])


def test_commits_are_deterministic_and_carry_any_text(project: Project, git: Git) -> None:
    root = project()
    with Repository.open(root) as repository:
        tree = repository.write_tree({})
        texts = ["", "one", "two\n\nlines\n", "ünï\u202e 日本", "tree 123\nparent x\n\nbody", "a\x00b", "\udcff\ud800"]
        for text in texts:
            commit = repository.write_commit(tree, [], text, at_s=1_700_000_000.9)
            assert commit == repository.write_commit(tree, [], text, at_s=1_700_000_000)
            read = repository.read_commit(commit)
            assert (read.tree, read.parents, read.at_s) == (tree, (), 1_700_000_000)
            plain = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
            assert read.message == plain.removesuffix("\n")
            git(root, "fsck", "--strict", commit)
            assert git(root, "log", "-1", "--format=%an <%ae> %ct", commit).startswith(
                "Overnight <overnight@localhost>"
            )


def test_commits_of_others_are_read(project: Project, git: Git) -> None:
    root = project()
    head = git(root, "rev-parse", "HEAD")
    text = (
        f"tree {git(root, 'rev-parse', 'HEAD^{tree}')}\nparent {head}\nauthor Ä <ä@x> 5 +0100\n"
        "committer B <b@x> 1234567890 -0500\nencoding ISO-8859-1\ngpgsig -----BEGIN\n tree 000\n \n parent 111\n"
        " -----END\n\nsubject\n\nbody\n"
    )
    (root.parent / "raw").write_bytes(text.encode("latin-1"))
    oid = git(root, "hash-object", "-t", "commit", "-w", str(root.parent / "raw"))
    with Repository.open(root) as repository:
        commit = repository.read_commit(oid)
        assert (commit.parents, commit.at_s, commit.message) == ((head,), 1234567890, "subject\n\nbody")
        with pytest.raises(GitError, match="not a tree"):
            repository.read_files(oid)
        with pytest.raises(GitError, match="not a sha1 object id"):
            repository.read_commit("HEAD")


def test_diffs_are_stable_and_complete(project: Project, git: Git) -> None:
    root = project()
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "color.ui": "always",
        "diff.renames": "copies",
        "diff.context": "0",
        "core.quotePath": "false",
    }.items():
        git(root, "config", key, value)
    (root / ".gitattributes").write_text("* -diff\n")
    with Repository.open(root) as repository:
        ids = repository.write_blobs([b"1\n2\n3\n4\n5\n", b"1\n2\nX\n4\n5\n", b"\0\1", b"\xff\n"])
        old = repository.write_tree({"f": Entry("100644", ids[0]), "moved": Entry("100644", ids[0])})
        new = repository.write_tree(
            {"f": Entry("100644", ids[1]), "b": Entry("100644", ids[2]), "n\n\udcff": Entry("100755", ids[3])}
        )
        text = repository.diff(old, new)
        assert "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+X\n 4\n 5\n" in text
        assert "deleted file mode 100644" in text and "\x1b" not in text and "\ufffd" in text
        assert repository.diff(old, new, names_only=True).splitlines() == ["b", "f", "moved", '"n\\n\\377"']
        assert repository.diff_stat(old, new) == (4, 2, 6)
        assert repository.diff(old, old) == "" and repository.diff_stat(old, old) == (0, 0, 0)
        with pytest.raises(GitError):
            repository.diff(old, "--output=marker")


@pytest.mark.parametrize("where", ["", "we ird*[x]/sub"])
def test_exclude_is_written_once_and_hides_ours(project: Project, git: Git, where: str) -> None:
    root = project()
    (root / where).mkdir(parents=True, exist_ok=True)
    exclude = root / ".git" / "info" / "exclude"
    exclude.write_bytes(b"# theirs\n*.tmp")
    with Repository.open(root / where) as repository:
        for _ in range(3):
            repository.exclude(["/.overnight/", "/MEMORY.md"])
        (root / where / ".overnight").mkdir()
        (root / where / ".overnight" / "db").write_text("x")
        (root / where / "MEMORY.md").write_text("x")
        (root / where / "deeper").mkdir()
        (root / where / "deeper" / "MEMORY.md").write_text("theirs")
    assert exclude.read_bytes().startswith(b"# theirs\n*.tmp\n/")
    assert exclude.read_bytes().count(b"MEMORY.md") == 1
    status = git(root, "-c", "core.quotePath=false", "status", "--porcelain", "-uall", "-z").split("\0")
    assert status == ["?? " + f"{where}/deeper/MEMORY.md".lstrip("/"), ""]


def test_helpers_that_die_come_back(project: Project, experiment: Experiment) -> None:
    with Repository.open(project()) as repository:
        experiment(repository, 0, repository.head())
        for n in range(1, 4):
            for helper in (repository._reader, repository._writer):
                assert helper.pid is not None
                os.kill(helper.pid, signal.SIGKILL)
            commit = experiment(repository, n, repository.head())
            repository.objects.forget([commit])
            assert repository.read_commit(commit).message == f"experiment {n}"
        repository.close()
        experiment(repository, 4, repository.head())
        assert len(repository.refs("refs/overnight")) == 5


def test_locks_that_a_killed_process_left(project: Project, experiment: Experiment) -> None:
    root = project()
    with Repository.open(root) as repository:
        one = experiment(repository, 1, repository.head())
        ours, theirs = (root / ".git" / "refs" / name for name in ("overnight/x/2.lock", "heads/mine.lock"))
        for lock in (ours, theirs):
            lock.touch()
            os.utime(lock, (1000, 1000))
        repository.update_refs([RefChange("refs/overnight/x/2", one, None)])
        assert not ours.exists()
        with pytest.raises(GitError, match="File exists"):
            repository.update_refs([RefChange("refs/heads/mine", one, None)])
        assert theirs.exists()


def test_all_methods_from_many_threads(project: Project, git: Git) -> None:
    root = project()
    problems: list[BaseException] = []
    with Repository.open(root) as repository:
        head = repository.head()

        def work(worker: int) -> None:
            try:
                for n in range(15):
                    content = b"%d %d\n" % (worker, n)
                    oid = repository.write_blobs([content])[0]
                    tree = repository.write_tree({f"d{worker}/f": Entry("100644", oid), "top": Entry("100644", oid)})
                    commit = repository.write_commit(repository.graft(head, tree), [], "x", at_s=n)
                    repository.update_refs([RefChange(f"refs/overnight/t/{worker}-{n}", commit, None)])
                    repository.objects.forget([oid, tree, commit])
                    files = repository.read_files(repository.arena_tree(commit))
                    assert files.keys() == {f"d{worker}/f", "top"}
                    assert repository.read_blob(files["top"].oid) == content
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        assert len(repository.refs("refs/overnight/t")) == 90
    git(root, "fsck", "--full", "--strict")


WRITER = """
import sys
from pathlib import Path
from overnight.store.git.repository import Entry, RefChange, Repository
with Repository.open(Path(sys.argv[1])) as repository:
    head = repository.head()
    for n in range(int(sys.argv[3])):
        blob = repository.write_blobs([b"shared %d" % n + b"x" * 3000])[0]
        tree = repository.graft(head, repository.write_tree({"d/f": Entry("100644", blob)}))
        commit = repository.write_commit(tree, [head], f"{sys.argv[2]} {n}", at_s=n)
        repository.update_refs([RefChange(f"refs/overnight/{sys.argv[2]}/{n}", commit, None)])
        print(n, flush=True)
"""


def test_two_processes_at_once(project: Project, git: Git) -> None:
    root = project()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(root), name, "60"], stdout=-3) for name in "pq"]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(git(root, "for-each-ref", "refs/overnight").splitlines()) == 120
    git(root, "fsck", "--full", "--strict")


def test_killed_at_any_moment_the_repository_is_whole(project: Project, git: Git) -> None:
    root = project()
    for trial in range(6):
        name = f"k{trial}"
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(root), name, "100000"], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(1 + 7 * trial):
            last = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
        writer.stdout.close()
        git(root, "fsck", "--full", "--strict")
        with Repository.open(root) as repository:
            recorded = repository.refs(f"refs/overnight/{name}")
            assert {f"refs/overnight/{name}/{n}" for n in range(last + 1)} <= recorded.keys()
            # Neither a lock nor half an object stands in the way of going on.
            repository.update_refs([RefChange(ref, None) for ref in recorded])


def as_nobody(root: Path) -> str:
    """What another user is told who opens `root` and writes to it, from a process of that user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            tempfile.tempdir = "/tmp"
            with Repository.open(root) as repository:
                head = repository.head()
                assert head
                said += f"opened {repository.read_commit(head).message}\n"
                for step in (
                    lambda: repository.write_blobs([b"new"]),
                    lambda: repository.update_refs([RefChange("refs/overnight/x/1", head, None)]),
                    lambda: repository.exclude(["/.overnight/"]),
                ):
                    try:
                        step()
                    except GitError as problem:
                        said += f"refused {problem.hint}\n"
        except BaseException as problem:
            said += f"closed {problem}\n"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, encoding="utf-8") as answer:
        return answer.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")
def test_another_users_and_a_read_only_repository(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest's own folders are closed to other users, and so may be what TMPDIR names.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        home = Path(name).resolve()
        home.chmod(0o755)
        monkeypatch.setenv("HOME", name)
        root = home / "project"
        git(home, "init", "-q", "project")
        git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
        said = as_nobody(root)
        assert said.startswith("closed") and "belongs to another user" in said
        assert f"safe.directory '{root}'" in said
        git(home, "config", "--global", "safe.directory", str(root))
        said = as_nobody(root)
        assert said.startswith("opened first")
        assert said.count("refused make the repository's .git folder writable") == 3
