"""What old experiments cost in git, and freeing it, for `overnight gc`.

Git's own `prune` removes every unreachable object past an age, so also a dropped stash or a lost commit that a person
could still fish for. Here an object goes only if all of this holds:

- it was reachable from the refs that were deleted, and from nothing that git keeps alive: other refs, HEADs and
  indexes of all working trees, reflogs, and `*_HEAD` files;
- it is not below any other unreachable object either, so what was lost before stays as complete as it was;
- it is a loose file that nobody wrote or renewed for `grace_s`, because a git at work may be about to name it.

Packed objects stay until the person's own `git gc`. Whatever cannot be decided keeps the objects: then only the refs
go. Another repository that borrows objects from this one (`git clone --shared`) is not seen, as with git's own gc.
"""

import os
import re
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from overnight.core.errors import GitError
from overnight.store.git.repository import RefChange, Repository

GRACE_S = 3600.0
"""No git command takes longer than this from writing an object to naming it in a ref or an index."""


@dataclass(frozen=True)
class Pruned:
    """What a prune did: refs deleted, loose objects removed with their bytes on disk, objects that stay for now."""

    refs: int
    objects: int
    freed_bytes: int
    left: int


def cost_bytes(repository: Repository, refs: Iterable[str]) -> int:
    """Bytes on disk of the objects that only these refs reach.

    Raises:
        GitError: a ref does not exist, or git failed.
    """
    chosen = _existing(repository, refs)
    if not chosen:
        return 0
    return sum(_disk_bytes(repository, _only_below(repository, chosen)))


def prune(repository: Repository, refs: Iterable[str], *, grace_s: float = GRACE_S) -> Pruned:
    """Delete refs in one transaction, then the loose objects that only they reached.

    Args:
        repository: any; other processes may go on using it.
        refs: full names; all must exist.
        grace_s: objects touched within this many seconds stay.

    Raises:
        GitError: a ref does not exist, changed meanwhile or is checked out; then nothing was deleted.
    """
    chosen = _existing(repository, refs)
    if not chosen:
        return Pruned(0, 0, 0, 0)
    started_s = time.time()
    candidates = _only_below(repository, chosen)
    repository.update_refs([RefChange(name, None, oid) for name, oid in chosen.items()])
    try:
        doomed = candidates - _still_wanted(repository, candidates)
    except GitError:
        # A damaged or shallow history somewhere: the next `git gc` of the person decides.
        doomed = set()
    removed, freed_bytes = _remove(repository, doomed, before_s=started_s - grace_s)
    repository.objects.forget(removed)
    repository.trees.forget()
    return Pruned(len(chosen), len(removed), freed_bytes, len(candidates) - len(removed))


def _existing(repository: Repository, refs: Iterable[str]) -> dict[str, str]:
    every = repository.refs("refs")
    chosen = {}
    for name in refs:
        if name not in every:
            raise GitError(f"there is no ref {name}", hint="list them with `git for-each-ref refs/overnight`")
        chosen[name] = every[name]
    return chosen


def _only_below(repository: Repository, chosen: Mapping[str, str]) -> set[str]:
    return _reachable(repository, chosen.values()) - _alive(repository, but=chosen)


def _alive(repository: Repository, but: Container[str] = ()) -> set[str]:
    """Every object that git keeps: below refs (except `but`), HEADs, indexes and reflogs of all working trees."""
    kept = [oid for name, oid in repository.refs("refs").items() if name not in but]
    # `--all` with every ref excluded leaves the HEADs; thousands of excluded names would not fit a command line.
    everywhere = ("--exclude=refs/*", "--all", "--reflog", "--indexed-objects")
    return _reachable(repository, [*kept, *_loose_heads(repository)], *everywhere)


def _reachable(repository: Repository, tips: Iterable[str], *more: str) -> set[str]:
    options = ("--objects", "--no-object-names", "--ignore-missing", *more, "--stdin")
    out = repository.git("rev-list", *options, stdin="".join(f"{oid}\n" for oid in tips).encode())[1]
    return set(out.decode().split())


def _still_wanted(repository: Repository, candidates: set[str]) -> set[str]:
    """Objects that something alive needs, or something that was unreachable before."""
    alive = _alive(repository)
    rows = repository.git("cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname) %(objecttype)")
    lost = []
    for row in rows[1].decode().splitlines():
        oid, kind = row.split(" ")
        if kind != "blob" and oid not in alive and oid not in candidates:
            lost.append(oid)
    return alive | _reachable(repository, lost, "--missing=allow-any") if lost else alive


def _disk_bytes(repository: Repository, oids: Iterable[str]) -> Iterator[int]:
    asked = "".join(f"{oid}\n" for oid in oids).encode()
    for size in repository.git("cat-file", "--batch-check=%(objectsize:disk)", stdin=asked)[1].split():
        yield int(size) if size.isdigit() else 0


def _loose_heads(repository: Repository) -> list[str]:
    """Ids in files such as ORIG_HEAD and MERGE_HEAD, and in refs of single working trees, that `--all` leaves out."""
    found: set[str] = set()
    id_ = re.compile(rf"\b[0-9a-f]{{{repository.objects.id_length}}}\b")
    trees = [repository.common_dir, *(repository.common_dir / "worktrees").glob("*")]
    for folder in trees:
        own = [*folder.glob("*HEAD"), *(folder / "rebase-merge").glob("*"), *(folder / "rebase-apply").glob("*")]
        own += [*(folder / "sequencer").glob("*"), *(folder / "refs" / "bisect").rglob("*")]
        own += (folder / "refs" / "worktree").rglob("*")
        for path in own:
            if path.is_file():
                found.update(id_.findall(path.read_text("utf-8", "replace")))
    return sorted(found)


def _remove(repository: Repository, doomed: Iterable[str], *, before_s: float) -> tuple[list[str], int]:
    removed, freed_bytes = [], 0
    for oid in doomed:
        path = repository.objects.loose_path(oid)
        try:
            status = os.stat(path)
            if status.st_mtime < before_s:
                os.unlink(path)
                removed.append(oid)
                freed_bytes += status.st_size
        except OSError:
            continue  # packed, or another user's
    return removed, freed_bytes
