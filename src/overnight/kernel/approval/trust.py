"""What executes or decides is in force as a person last trusted it: AGENTS.md files, `overnight.toml`, `program.md`,
skills. A changed file waits; until the approver has seen the difference, the trusted copy rules.

The copies lie in the workspace's database, each with a signature by a key outside the workspace: whoever can write to
the database, but not read that key, cannot put a rule in force.
"""

import difflib
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overnight.core.errors import Refused, StoreError, UsageError
from overnight.kernel.approval.approver import Credential
from overnight.kernel.approval.inbox import Inbox, Item
from overnight.kernel.canonical import Json, canonical_json, content_hash
from overnight.kernel.journal.journal import Change, Draft, Journal
from overnight.kernel.keys import SigningKey, signed_by
from overnight.store.database import Database

NAMES = frozenset({"AGENTS.md", "overnight.toml", "program.md"})
LARGEST_BYTES = 1 << 20
_LONGEST_SHOWN = 20_000
_SKIPPED = frozenset({"node_modules", "__pycache__", "raw", "wiki"})
FIRST_RUN = "first run at a terminal"
NO_APPROVER = "a run, there being no approver"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A file that is not in force as it stands.

    Attributes:
        path: relative to the workspace.
        sha256: of the file as it stands; empty when it is gone.
        diff: from the trusted copy to the file, as text; untrusted, to be shown escaped.
        known: whether there is a trusted copy, which rules meanwhile.
    """

    path: str
    sha256: str
    diff: str
    known: bool


class Trust:
    """The trusted copies of one workspace. Thread-safe; what another process trusts is seen."""

    def __init__(self, root: Path, database: Database, journal: Journal, key: SigningKey) -> None:
        """Look after the files below `root`; `key` lies outside the workspace."""
        self._root = Path(os.path.realpath(root))
        self._database = database
        self._journal = journal
        self._key = key

    def in_force(self, path: str) -> bytes | None:
        """The last trusted content of a file; None if it was never trusted.

        Raises:
            StoreError: the copy in the database is not the one that was trusted.
        """
        return trusted(self._database, self._key, path)

    def current(self, path: str) -> bytes | None:
        """The file as it stands, trusted or not; None if there is none."""
        return self._read(path)

    def paths(self) -> list[str]:
        """Every file that has a trusted copy."""
        return [row["path"] for row in self._database.rows("SELECT path FROM trusted_files ORDER BY path")]

    def copies(self) -> str:
        """Which copies are trusted, to see cheaply whether that has changed; nothing is checked."""
        rows = self._database.rows("SELECT path, sha256, signature FROM trusted_files ORDER BY path")
        return content_hash([[row["path"], row["sha256"], row["signature"]] for row in rows])

    def pending(self) -> list[Waiting]:
        """Every file that executes or decides and is not in force as it stands, by path.

        Raises:
            StoreError: a file cannot be read.
        """
        found = {path: self._read(path) for path in self._files()}
        waiting = []
        for path in sorted({*found, *self.paths()}):
            try:
                trusted = self.in_force(path)
            except StoreError:
                trusted = None
            now = found.get(path)
            if now != trusted:
                digest = hashlib.sha256(now).hexdigest() if now is not None else ""
                waiting.append(Waiting(path, digest, _diff(path, trusted, now), trusted is not None))
        return waiting

    def trust(self, seen: Sequence[Waiting], credential: Credential) -> None:
        """Put files in force exactly as a person saw them.

        Args:
            seen: what was shown.
            credential: whose word it is.

        Raises:
            Refused: a file has changed since it was shown; nothing was trusted.
            StoreError: it cannot be recorded.
        """
        self._put(seen, credential.name)

    def trust_first(self, paths: Sequence[str], *, by_person_at_terminal: bool) -> list[str]:
        """At the first run by a person at a terminal, put in force what has no trusted copy yet.

        Args:
            paths: of the run: its `program.md` and the like.
            by_person_at_terminal: the caller's assertion that a person started this, at a terminal.

        Returns:
            The files that are in force from now on because of this call, for the message that says so.

        Raises:
            Refused: a file was never trusted, and nobody is there to do it.
        """
        fresh = [path for path in paths if self.in_force(path) is None]
        if fresh and not by_person_at_terminal:
            raise Refused(
                f"{fresh[0]} was never trusted, and nobody is at the terminal",
                reason="not_trusted",
                hint="run `overnight gate trust`, or start the first run at a terminal",
            )
        waiting = [item for item in self.pending() if item.path in fresh and item.sha256]
        self._put(waiting, FIRST_RUN)
        return [item.path for item in waiting]

    def trust_as_started(self, seen: Sequence[Waiting]) -> None:
        """Put files in force because a run was started with them, where no approver exists who could have.

        Args:
            seen: what the run was started with.

        Raises:
            Refused: a file has changed meanwhile; nothing was trusted.
        """
        self._put(seen, NO_APPROVER)

    def ask(self, inbox: Inbox) -> list[tuple[Waiting, Item]]:
        """Put every change of a file that has a trusted copy into the inbox, or find it there.

        Raises:
            StoreError: it cannot be written.
        """
        asked = []
        for item in self.pending():
            if item.known:
                title = f"{item.path} has changed; the trusted copy rules" if item.sha256 else f"{item.path} is gone"
                bound: dict[str, Json] = {"path": item.path, "sha256": item.sha256}
                question = inbox.add("trust", title, bound, context={"difference": item.diff[:_LONGEST_SHOWN]})
                asked.append((item, question))
        return asked

    def take(self, inbox: Inbox, item: Waiting, question: Item) -> bool:
        """Put a change in force if its question was answered with yes; whether it was.

        Raises:
            Refused: the file has changed since it was shown.
            StoreError: it cannot be recorded.
        """
        if inbox.state(question.id) != "approved":
            return False
        names = ", ".join(vote.name for vote in inbox.votes(question.id))
        inbox.use(question.id, question.bound)
        self._put([item], names)
        return True

    def _put(self, seen: Sequence[Waiting], by: str) -> None:
        rows: list[tuple[str, bytes | None]] = []
        for item in seen:
            content = self._read(item.path)
            digest = hashlib.sha256(content).hexdigest() if content is not None else ""
            if digest != item.sha256:
                raise Refused(f"{item.path} has changed since it was shown", reason="changed", hint="look at it again")
            rows.append((item.path, content))
        if not rows:
            return
        now_s = time.time()
        changes = tuple(Change(f"trust:{item.path}", None, item.sha256 or None) for item in seen)
        self._journal.append(Draft("trust", {"by": by, "files": [item.path for item in seen]}, changes=changes))
        with self._database.transaction():
            for path, content in rows:
                self._database.execute("DELETE FROM trusted_files WHERE path = ?", (path,))
                if content is None:
                    continue
                digest = hashlib.sha256(content).hexdigest()
                signature = self._key.sign(_message(path, digest, now_s, by)).hex()
                self._database.execute(
                    "INSERT INTO trusted_files (path, sha256, content, trusted_at, trusted_by, signature)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (path, digest, content, now_s, by, signature),
                )

    def _files(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root):
            here = Path(folder).relative_to(self._root)
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
            if (Path(folder) / "pyvenv.cfg").exists():
                folders.clear()
                continue
            skill = "skills" in here.parts
            for name in files:
                if name in NAMES or skill:
                    yield (here / name).as_posix()

    def _read(self, path: str) -> bytes | None:
        """A regular file inside the workspace; None if there is none.

        A link would let the content change without this file changing, so that it could not be trusted.
        """
        if path.startswith("/") or ".." in path.split("/"):
            raise UsageError(f"{path!r} is no file of the workspace", hint="name it from the workspace's root")
        place = self._root / path
        try:
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise StoreError(f"{path} cannot be read: {problem.strerror}", hint="make it a plain file") from None
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_BYTES:
                raise StoreError(f"{path} is no plain file of up to {LARGEST_BYTES} bytes", hint="make it one")
            return file.read()


def trusted(database: Database, key: SigningKey, path: str) -> bytes | None:
    """The last trusted content of a file; None if it was never trusted. For readers that trust nothing themselves.

    Raises:
        StoreError: the copy in the database is not the one that was trusted.
    """
    row = database.row("SELECT * FROM trusted_files WHERE path = ?", (path,))
    if row is None:
        return None
    content = bytes(row["content"])
    digest = hashlib.sha256(content).hexdigest()
    message = _message(path, digest, row["trusted_at"], row["trusted_by"])
    try:
        signature = bytes.fromhex(row["signature"])
    except (TypeError, ValueError):
        signature = b""
    if digest != row["sha256"] or not signed_by(key.public, message, signature):
        raise StoreError(
            f"the trusted copy of {path} was changed in the database", hint="run `overnight gate trust` to renew it"
        )
    return content


def _message(path: str, digest: str, at_s: float, by: str) -> bytes:
    return canonical_json(["overnight trust 1", path, digest, at_s, by])


def _diff(path: str, before: bytes | None, after: bytes | None) -> str:
    def lines(content: bytes | None) -> list[str]:
        return [] if content is None else content.decode("utf-8", "backslashreplace").splitlines(keepends=True)

    names = ("trusted" if before is not None else "nothing", "now" if after is not None else "gone")
    return "".join(difflib.unified_diff(lines(before), lines(after), f"{path} ({names[0]})", f"{path} ({names[1]})"))
