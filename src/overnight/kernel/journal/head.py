"""Signed tree heads: the journal's size and root at a moment, signed; and where they are kept outside the database.

A chain that nobody outside has seen can lose its tail without a trace, and whoever holds its keys can rewrite it. So
every commit signs a head with a key outside the workspace and leaves it, after the commit, in the configuration folder
(`journals/<id>.<place>.head`). A head can also be anchored in any file (another disk, another host) and in git.
"""

import fcntl
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from overnight.core.errors import StoreError, UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.keys import SigningKey, key_id, private_folder, signed_by

# One disk sector: written in place, it is either old or new, also after a power cut.
_RECORD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Head:
    """A signed statement: at `at_us` the journal had `size` entries with this Merkle root.

    Attributes:
        journal: id of the journal.
        size: entries covered.
        root: Merkle tree hash, hex.
        at_us: microseconds since the epoch.
        signer: id of the key.
        signature: Ed25519, hex.
    """

    journal: str
    size: int
    root: str
    at_us: int
    signer: str
    signature: str

    @classmethod
    def sign(cls, key: SigningKey, journal: str, size: int, root: bytes, at_us: int) -> "Head":
        """A new head, signed by `key`."""
        signature = key.sign(_message(journal, size, root.hex(), at_us))
        return cls(journal, size, root.hex(), at_us, key.id, signature.hex())

    def signed_by(self, public: bytes) -> bool:
        """Whether the owner of `public` signed it."""
        try:
            signature = bytes.fromhex(self.signature)
        except ValueError:
            return False
        return self.signer == key_id(public) and signed_by(
            public, _message(self.journal, self.size, self.root, self.at_us), signature
        )

    def to_json(self) -> dict[str, Json]:
        """As anchors keep it."""
        return {
            "journal": self.journal,
            "size": self.size,
            "root": self.root,
            "at_us": self.at_us,
            "signer": self.signer,
            "signature": self.signature,
        }

    @classmethod
    def parse(cls, text: str, where: str) -> "Head":
        """The head in the JSON `text`.

        Raises:
            UsageError: it is none; `where` names its place.
        """
        try:
            data = json.loads(text)
            head = cls(**data)
        except (ValueError, TypeError):
            raise UsageError(
                f"{where} holds no tree head", hint="name a file made by `overnight audit anchor`"
            ) from None
        texts = (head.journal, head.root, head.signer, head.signature)
        numbers = (head.size, head.at_us)
        if not all(type(item) is str for item in texts) or not all(type(item) is int for item in numbers):
            raise UsageError(f"{where} holds no tree head", hint="name a file made by `overnight audit anchor`")
        return head


def _message(journal: str, size: int, root: str, at_us: int) -> bytes:
    return f"overnight journal head 1\n{journal}\n{size}\n{root}\n{at_us}\n".encode()


class OutsideHead:
    """The newest head of the journal in one database, kept in the configuration folder, out of reach of its agents.

    A file for each journal and place: a copied workspace goes its own way from then on, a moved one takes its head
    along, and a database that was replaced by a fresh one is noticed.
    """

    def __init__(self, folder: Path, journal: str, database: Path) -> None:
        """Keep it below `folder`, which is made if need be.

        Raises:
            StoreError: the folder cannot be used.
        """
        self._place = os.path.realpath(database)
        self._tag = hashlib.sha256(os.fsencode(self._place)).hexdigest()[:12]
        self._journal = journal
        self._folder = private_folder(folder / "journals")
        self.path = self._folder / f"{journal}.{self._tag}.head"
        self._last = b""

    def read(self) -> Head | None:
        """The head, or None if none was ever left.

        Raises:
            StoreError: it cannot be read or is damaged.
        """
        for path in [self.path, *self._left_behind()]:
            head = _read(path)
            if head is not None:
                return head
        return None

    def advance(self, head: Head) -> None:
        """Leave `head`, unless a later one is there already (from any process). One thread at a time.

        Raises:
            StoreError: it cannot be written.
        """
        record = json.dumps(head.to_json(), separators=(",", ":")).encode()
        assert len(record) <= _RECORD_BYTES, f"a head of {len(record)} bytes does not fit into a sector"
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise StoreError(f"cannot write {self.path}: {problem.strerror}", hint="check its owner") from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            present = os.pread(descriptor, _RECORD_BYTES, 0)
            if not present:
                os.pwrite(descriptor, os.fsencode(self._place), _RECORD_BYTES)
            if not present or present == self._last or _parse(self.path, present).size < head.size:
                self._last = record.ljust(_RECORD_BYTES)
                os.pwrite(descriptor, self._last, 0)
        except OSError as problem:
            raise StoreError(f"cannot write {self.path}: {problem.strerror}", hint="check the disk") from problem
        finally:
            os.close(descriptor)

    def forget_left_behind(self) -> None:
        """Remove what a moved workspace left at its old place; to be called once its head was left here.

        Raises:
            StoreError: it cannot be removed.
        """
        for path in self._left_behind():
            try:
                path.unlink(missing_ok=True)
            except OSError as problem:
                raise StoreError(f"cannot remove {path}: {problem.strerror}", hint="check its owner") from problem

    def others_here(self) -> list[Head]:
        """Heads of other journals that were kept in the same database: it was replaced since.

        Raises:
            StoreError: one cannot be read or is damaged.
        """
        paths = sorted(self._folder.glob(f"*.{self._tag}.head"))
        heads = [_read(path) for path in paths if path != self.path]
        return [head for head in heads if head is not None]

    def _left_behind(self) -> list[Path]:
        """Files of this journal for places where there is no database any more: it was moved here."""
        paths = [path for path in sorted(self._folder.glob(f"{self._journal}.*.head")) if path != self.path]
        places = [(path, _content(path)[_RECORD_BYTES:]) for path in paths]
        return [path for path, place in places if place and not os.path.exists(place)]


def _content(path: Path) -> bytes:
    """What is in the file, once nobody is writing it; empty if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror}", hint="check its owner") from problem
    with os.fdopen(descriptor, "rb") as file:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            return file.read()
        except OSError as problem:
            raise StoreError(f"cannot read {path}: {problem.strerror}", hint="check the disk") from problem


def _read(path: Path) -> Head | None:
    content = _content(path)
    return _parse(path, content[:_RECORD_BYTES]) if content else None


def _parse(path: Path, record: bytes) -> Head:
    try:
        return Head.parse(record.decode("ascii"), str(path))
    except (UnicodeDecodeError, UsageError) as problem:
        raise StoreError(
            f"{path} is damaged", hint="verify against another anchor, then move the file away"
        ) from problem
