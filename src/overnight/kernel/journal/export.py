"""Exported journals: one JSON document a line, checkable without the database they came from.

The first line names the journal, its public key and what stood before the first entry; the last is a signed head.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from overnight.core.errors import StoreError, UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.journal.entry import Entry, chained, content, encode_body, genesis
from overnight.kernel.journal.head import Head
from overnight.kernel.journal.merkle import Tree

FORMAT = "overnight journal 1"


def export_lines(
    head: Head, public: bytes, entries: Iterable[Entry], before: tuple[int, list[str], str | None]
) -> Iterator[str]:
    """The lines of an export of `entries`, which end at `head`.

    Args:
        head: signed over the last entry.
        public: the key that checks it.
        entries: all from the first that is kept to `head.size`.
        before: size, peaks (hex) and last hash (hex) of what was retired before; (0, [], None) at the beginning.
    """
    size, peaks, tail = before
    first = {
        "format": FORMAT,
        "journal": head.journal,
        "public": public.hex(),
        "before": {"size": size, "peaks": peaks, "tail": tail},
    }
    yield _line(first)
    for entry in entries:
        yield _line(entry.to_json())
    yield _line({"head": head.to_json()})


def write_export(path: Path, lines: Iterable[str]) -> str:
    """Write lines to `path`, which must not exist; the SHA-256 of the file, which is on the disk when this returns.

    Raises:
        StoreError: it cannot be written.
        UsageError: it exists.
    """
    digest = hashlib.sha256()
    try:
        with path.open("xb") as file:
            for line in lines:
                data = line.encode("ascii")
                digest.update(data)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise UsageError(f"{path} exists already", hint="name a new file") from None
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror}", hint="name a file you can write") from problem
    return digest.hexdigest()


def verify_export(path: Path, public: bytes | None = None) -> Head:
    """The head of an export, if every entry of it is as it was signed.

    Args:
        path: the file.
        public: the key to trust; None takes the one in the file, which shows that the file is consistent, not whose it
            is.

    Raises:
        UsageError: it is no export, or something in it was changed; the message names the first bad entry.
        StoreError: it cannot be read.
    """
    try:
        with path.open(encoding="ascii") as file:
            return _verify(iter(file), public)
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror}", hint="name an export") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(f"{path} is no export of a journal: {problem}", hint="name a file of `audit export`") from None


def _verify(lines: Iterator[str], public: bytes | None) -> Head:
    first = json.loads(next(lines, "{}"))
    if first["format"] != FORMAT:
        raise ValueError(f"format {first['format']!r}")
    before = first["before"]
    tree = Tree(before["size"], [bytes.fromhex(peak) for peak in before["peaks"]])
    tail = genesis(first["journal"]) if before["tail"] is None else bytes.fromhex(before["tail"])
    key = bytes.fromhex(first["public"]) if public is None else public
    for line in lines:
        document = cast(dict[str, Json], json.loads(line))
        if "head" in document:
            head = Head(**cast(Mapping[str, str | int], document["head"]))  # type: ignore[arg-type]  # checked by its signature
            if next(lines, None) is not None:
                raise UsageError("there are lines after the head", hint="the export was changed")
            if head.size != tree.size or head.root != tree.root().hex() or not head.signed_by(key):
                raise UsageError(
                    f"the entries up to {head.size} are not those that were signed", hint="use the original"
                )
            return head
        names = "\n".join(str(document[name]) for name in ("kind", "action", "session", "tenant", "agent", "tool"))
        seq, at_us, objects = (int(str(document[name])) for name in ("seq", "at_us", "objects"))
        tail = chained(tail, content(seq, at_us, names, objects, encode_body(document["body"])))
        tree.append(tail)
        if seq != tree.size or tail.hex() != document["hash"]:
            raise UsageError(f"entry {tree.size} is not as it was written", hint="use the original")
    raise UsageError("the export has no head: its end was cut off", hint="use the original")


def _line(document: Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True) + "\n"
