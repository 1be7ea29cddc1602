"""Anchors: signed heads kept where whoever holds the database cannot reach them.

A file on another disk or host, or a chain of commits under `refs/overnight-journal/` that is pushed elsewhere. An
anchor proves what the journal held at its time; it is as good as the place it lies in.
"""

import json
import os
import re
from pathlib import Path
from typing import cast

from overnight.core.errors import StoreError, UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.journal.head import Head
from overnight.store.git.refs import RefChange
from overnight.store.git.repository import Repository

_REFS = "refs/overnight-journal/"


def write_anchor(path: Path, head: Head, public: bytes) -> None:
    """Append `head` to the file `path`, one JSON document a line, with the public key that checks it.

    Raises:
        StoreError: it cannot be written.
    """
    line = json.dumps({**head.to_json(), "public": public.hex()}, separators=(",", ":")) + "\n"
    try:
        with path.open("a", encoding="ascii") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror}", hint="name a file you can write") from problem


def parse_anchor(text: str, where: str) -> list[Head]:
    """The heads of an anchor, oldest first.

    Raises:
        UsageError: a line holds no head, or there is none at all.
    """
    heads = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise UsageError(
                f"{where}:{number} holds no tree head", hint="name a file made by `overnight audit anchor`"
            )
        cast(dict[str, Json], document).pop("public", None)
        heads.append(Head.parse(json.dumps(document), f"{where}:{number}"))
    if not heads:
        raise UsageError(f"{where} holds no tree head", hint="name a file made by `overnight audit anchor`")
    return heads


def anchor_in_git(repository: Repository, head: Head, public: bytes) -> str:
    """Put `head` as a commit on top of the journal's earlier anchors; the ref, which a person may push elsewhere.

    Raises:
        GitError: git refused.
    """
    ref = f"{_REFS}{head.journal}"
    before = repository.resolve(ref)
    message = json.dumps({**head.to_json(), "public": public.hex()}, separators=(",", ":")) + "\n"
    commit = repository.write_commit(
        repository.write_tree({}), [] if before is None else [before], message, at_s=head.at_us / 1e6
    )
    repository.update_refs([RefChange(ref, commit, before)])
    return ref


def anchors_in_git(repository: Repository, journal: str) -> list[Head]:
    """The heads anchored there, newest first; empty if there is none.

    Raises:
        GitError: git refused.
        UsageError: a commit under the ref holds no head.
    """
    if re.fullmatch(r"jrn_[0-9a-f]{24}", journal) is None:
        raise UsageError(f"{journal!r} is no journal's id", hint="it is in the newest head: `audit verify --json`")
    heads = []
    oid = repository.resolve(f"{_REFS}{journal}")
    while oid is not None:
        commit = repository.read_commit(oid)
        heads += parse_anchor(commit.message, f"git {oid[:12]}")
        oid = commit.parents[0] if commit.parents else None
    return heads
