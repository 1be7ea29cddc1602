"""Git's object database: objects are read through one `cat-file --batch` and written directly as loose files.

A loose object is `zlib(b"<kind> <size>\\0" + content)` in a file named by the hash of the uncompressed bytes, the same
for sha1 and sha256 repositories. It's written as git itself writes it: to `tmp_obj_*` in its folder (which `git prune`
clears away after a crash), then renamed, so that no reader ever sees half an object. A process for
each object would cost several times as much as the whole of it (`benchmarks/git_cost.py` compares).
"""

import hashlib
import os
import secrets
import stat
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from overnight.core.errors import GitError
from overnight.store.git.process import Helper, failure

Kind = Literal["blob", "tree", "commit"]
ObjectFormat = Literal["sha1", "sha256"]

CHUNK_BYTES = 1 << 20
_CACHE_BYTES = 32 << 20
_CACHE_ITEM_BYTES = 1 << 20
_HEX = frozenset("0123456789abcdef")


class Objects:
    """Objects of one repository; any method from any thread."""

    def __init__(self, folder: Path, object_format: ObjectFormat, reader: Helper) -> None:
        """`folder` is the repository's `objects` folder, `reader` a `cat-file --batch`."""
        self.object_format = object_format
        self.id_length = 40 if object_format == "sha1" else 64
        self._folder = os.fsencode(folder)
        self._reader = reader
        self._cache: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._cached_bytes = 0
        self._cache_lock = threading.Lock()

    def check_id(self, oid: str) -> str:
        """Return `oid` if it is a full object id of this repository; nothing else ever reaches a command line.

        Raises:
            GitError: it is not.
        """
        if len(oid) != self.id_length or not _HEX.issuperset(oid):
            raise GitError(f"{oid!r} is not a {self.object_format} object id", hint="use the full id, as recorded")
        return oid

    def name(self, kind: Kind, content: bytes) -> str:
        """The id that `content` has or would have."""
        hasher = self._hasher(kind, len(content))
        hasher.update(content)
        return hasher.hexdigest()

    def write(self, kind: Kind, content: bytes) -> str:
        """Store `content`, return its id.

        Raises:
            GitError: it cannot be written.
        """
        oid = self.name(kind, content)
        if not self._freshen(oid):
            self._write_file(kind, len(content), (content,), expected=oid)
        return oid

    def write_file(self, path: bytes, *, known: str = "") -> str:
        """Store the bytes of a regular file as a blob, in constant memory; returns its id.

        Args:
            path: the file; a symlink is not followed.
            known: an id that is in the repository already, so that a file of that content is only read.

        Raises:
            OSError: it cannot be read.
            GitError: it cannot be stored, or changed while it was read.
        """
        # A pipe put in the file's place must not block us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as source:
            size = os.fstat(descriptor).st_size
            if size <= CHUNK_BYTES:
                content = source.read()
                oid = self.name("blob", content)
                return oid if oid == known else self.write("blob", content)
            if known:
                hasher = self._hasher("blob", size)
                for chunk in _chunks(source):
                    hasher.update(chunk)
                if hasher.hexdigest() == known:
                    return known
                source.seek(0)
            return self._write_file("blob", size, _chunks(source), expected=None)

    def read(self, oid: str, kind: Kind) -> bytes:
        """The content of an object; small ones are remembered.

        Raises:
            GitError: it is not there (a shallow or partial clone may lack it), is damaged, or is of another kind.
        """
        self.check_id(oid)
        with self._cache_lock:
            found = self._cache.get(oid)
            if found is not None:
                self._cache.move_to_end(oid)
        if found is None:
            found = self._fetch(oid)
            self._remember(oid, found)
        if found[0] != kind:
            raise GitError(f"{oid} is a {found[0]}, not a {kind}")
        return found[1]

    def forget(self, oids: Iterable[str]) -> None:
        """Drop objects from the memory, because they were removed from disk."""
        with self._cache_lock:
            for oid in oids:
                gone = self._cache.pop(oid, None)
                self._cached_bytes -= len(gone[1]) if gone else 0

    def loose_path(self, oid: str) -> bytes:
        """Where the loose file of `oid` is or would be."""
        return b"%s/%s/%s" % (self._folder, oid[:2].encode(), oid[2:].encode())

    def _fetch(self, oid: str) -> tuple[str, bytes]:
        for attempt in (1, 2):
            with self._reader.lock:
                try:
                    self._reader.send(f"{oid}\n".encode())
                    header = self._reader.line().decode("ascii", "replace").split(" ")
                    if len(header) == 3 and header[2].isdigit():
                        content = self._reader.exactly(int(header[2]) + 1)
                        return header[1], content[:-1]
                except GitError:
                    # Reading changes nothing, so a helper that was killed from outside costs one more try.
                    if attempt == 2:
                        raise
                    continue
            if header[-1] == "missing":
                raise GitError(
                    f"object {oid} is not in the repository",
                    hint="a shallow or partial clone lacks it: fetch it with git, or run `git fsck` to find damage",
                )
            self._reader.stop()
            raise failure("cat-file", f"unexpected answer {' '.join(header)!r}")
        raise AssertionError("unreachable")

    def _remember(self, oid: str, found: tuple[str, bytes]) -> None:
        if len(found[1]) > _CACHE_ITEM_BYTES:
            return
        with self._cache_lock:
            if oid not in self._cache:
                self._cache[oid] = found
                self._cached_bytes += len(found[1])
            while self._cached_bytes > _CACHE_BYTES:
                _, (_, dropped) = self._cache.popitem(last=False)
                self._cached_bytes -= len(dropped)

    def _hasher(self, kind: Kind, size: int) -> "hashlib._Hash":
        start = f"{kind} {size}\0".encode()
        if self.object_format == "sha1":
            return hashlib.sha1(start, usedforsecurity=False)
        return hashlib.sha256(start)

    def _freshen(self, oid: str) -> bool:
        """Whether the loose object exists; its time is renewed, which keeps a `git prune` off it as git's own does."""
        path = self.loose_path(oid)
        try:
            # A power cut can leave an empty file behind: write over it.
            if os.stat(path).st_size == 0:
                return False
            os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # another user's object in a shared repository: it is there, only its time can't be renewed
        return True

    def _write_file(self, kind: Kind, size: int, chunks: Iterable[bytes], *, expected: str | None) -> str:
        hasher = self._hasher(kind, size)
        # A streamed object's folder is known only once it was read.
        folder = self._folder if expected is None else os.path.dirname(self.loose_path(expected))
        temporary = b"%s/tmp_obj_%s" % (folder, secrets.token_hex(8).encode())
        written = False
        try:
            mode = self._mode()
            if expected is not None:
                self._make_folder(folder, mode)
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444 & mode)
                with open(descriptor, "wb", buffering=0) as target:
                    for packed in _deflate(f"{kind} {size}\0".encode(), _counted(chunks, size, hasher)):
                        # Raw files may write less than asked, on a nearly full disk for one.
                        view = memoryview(packed)
                        while view:
                            view = view[target.write(view) :]
                oid = hasher.hexdigest()
                assert expected in (None, oid)
                path = self.loose_path(oid)
                if expected is None:
                    self._make_folder(os.path.dirname(path), mode)
                os.rename(temporary, path)
                written = True
                return oid
            finally:
                if not written:
                    try:
                        os.unlink(temporary)
                    except OSError:
                        pass
        except OSError as problem:
            raise failure("object write", f"{os.fsdecode(folder)}: {problem.strerror}") from problem

    def _mode(self) -> int:
        # The folder's own bits say what core.sharedRepository asked for, group writing and setgid included.
        return stat.S_IMODE(os.stat(self._folder).st_mode)

    @staticmethod
    def _make_folder(folder: bytes, mode: int) -> None:
        try:
            os.mkdir(folder)
        except FileExistsError:
            return
        os.chmod(folder, mode)


def _chunks(source: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: source.read(CHUNK_BYTES), b"")


def _counted(chunks: Iterable[bytes], size: int, hasher: "hashlib._Hash") -> Iterator[bytes]:
    seen = 0
    for chunk in chunks:
        seen += len(chunk)
        if seen > size:
            break
        hasher.update(chunk)
        yield chunk
    if seen != size:
        raise GitError(f"a file changed while it was read ({size} bytes at first)", hint="stop what writes it, retry")


def _deflate(start: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    # The fastest level: a repack compresses anew anyway.
    packer = zlib.compressobj(1)
    yield packer.compress(start)
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()
