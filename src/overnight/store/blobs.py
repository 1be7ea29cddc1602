"""Content-addressed bytes outside git: logs, outputs, raw sources. Equal content is stored once."""

import hashlib
import re
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path

from overnight.core.errors import NotFound, StoreError

_ID = re.compile(r"[0-9a-f]{64}")
_RAW, _DEFLATED = b"\x00", b"\x01"
# Below this a file takes one disk block either way.
_SMALLEST_WORTH_PACKING_BYTES = 4096


class Blobs:
    """A folder of blobs named by the sha256 of their content; any method from any thread or process.

    A blob appears whole or not at all, and is never changed. On disk it is one byte that says how it is kept (raw, or
    deflated where that makes it smaller), then the content, in `ab/cdef…` below the folder.
    """

    def __init__(self, folder: Path) -> None:
        """Keep blobs in `folder`, made at the first `put`."""
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Store `content`, return its id: 64 hex digits.

        Raises:
            StoreError: it cannot be written.
        """
        blob_id = hashlib.sha256(content).hexdigest()
        path = self._path(blob_id)
        if self.exists(blob_id):
            return blob_id
        packed = zlib.compress(content, 1) if len(content) >= _SMALLEST_WORTH_PACKING_BYTES else content
        stored = _DEFLATED + packed if len(packed) < len(content) else _RAW + content
        temporary = path.with_name(f"tmp-{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_bytes(stored)
                temporary.rename(path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as problem:
            raise StoreError(
                f"cannot write blob {blob_id} in {self.folder}: {problem.strerror}",
                hint="free disk space, or make the folder writable for you",
            ) from problem
        return blob_id

    def get(self, blob_id: str) -> bytes:
        """The content of a blob, checked against its id.

        Raises:
            NotFound: there is none of that id.
            StoreError: it is damaged or cannot be read.
        """
        path = self._path(blob_id)
        try:
            stored = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"there is no blob {blob_id}", hint="`overnight gc` may have removed it") from None
        except OSError as problem:
            raise StoreError(f"cannot read blob {blob_id}: {problem.strerror}") from problem
        try:
            content = zlib.decompress(stored[1:]) if stored[:1] == _DEFLATED else stored[1:]
        except zlib.error:
            content = b""
        if stored[:1] not in (_RAW, _DEFLATED) or hashlib.sha256(content).hexdigest() != blob_id:
            raise StoreError(f"blob {blob_id} is damaged", hint=f"restore {path} from a backup, or delete it")
        return content

    def exists(self, blob_id: str) -> bool:
        """Whether there is a blob of that id, damaged or not."""
        try:
            # A power cut can leave an empty file behind, which `put` writes over.
            return self._path(blob_id).stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False

    def size_bytes(self, blob_id: str) -> int:
        """Bytes that a blob takes on disk.

        Raises:
            NotFound: there is none of that id.
        """
        try:
            return self._path(blob_id).stat().st_size
        except FileNotFoundError:
            raise NotFound(f"there is no blob {blob_id}") from None

    def ids(self) -> Iterator[str]:
        """All ids, in order."""
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            for path in sorted(folder.iterdir()):
                if _ID.fullmatch(folder.name + path.name):
                    yield folder.name + path.name

    def delete(self, blob_id: str) -> None:
        """Remove a blob; nothing happens if there is none."""
        try:
            self._path(blob_id).unlink(missing_ok=True)
        except OSError as problem:
            raise StoreError(f"cannot delete blob {blob_id}: {problem.strerror}") from problem

    def _path(self, blob_id: str) -> Path:
        if _ID.fullmatch(blob_id) is None:
            raise NotFound(f"{blob_id!r} is not a blob id", hint="it is 64 hex digits")
        return self.folder / blob_id[:2] / blob_id[2:]
