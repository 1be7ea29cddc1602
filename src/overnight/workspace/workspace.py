"""A workspace: a folder whose state lies in its `.overnight/`, and the doors to what is recorded there."""

import contextlib
import dataclasses
import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from overnight.core.errors import NotFound, StoreError, UsageError
from overnight.loop.place import Place
from overnight.loop.record.record import Record
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.workspace import recent, settings
from overnight.workspace.settings import FILE, Resolved

STATE = ".overnight"
_FIRST_SETTINGS = """\
# Settings of this workspace; `overnight config` prints each value and where it comes from.

[run]
# workers = 2            # evaluations at a time
# for = "8h"             # stop after so much wall clock

[sandbox]
# isolation = "auto"     # bwrap, else landlock; "none" runs without isolation and says so in every record

# A program of yours as an author, for `overnight run ARENA --author NAME`:
# [authors.NAME]
# command = "python author.py"
# hosts = ["api.example.com"]        # nothing else is reachable
# environment = ["EXAMPLE_API_KEY"]  # handed on from your own environment
# timeout = "10m"
"""


@dataclass(frozen=True)
class Workspace:
    """An open workspace. Its parts are made at first use."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> "Workspace":
        """The workspace in `folder` itself."""
        folder = folder.expanduser().resolve()
        if not folder.is_dir():
            raise NotFound(f"{folder} is not a folder", hint="name the folder of a workspace or an arena")
        return cls(folder)

    @classmethod
    def enclosing(cls, start: Path) -> "Workspace | None":
        """The nearest folder from `start` upwards that has `overnight.toml` or `.overnight/`."""
        start = start.resolve()
        for folder in (start, *start.parents):
            if (folder / FILE).is_file() or (folder / STATE / "overnight.db").is_file():
                return cls(folder)
        return None

    @classmethod
    def of_arena(cls, arena: Path) -> "Workspace":
        """The enclosing folder with `overnight.toml`, else the arena's own."""
        arena = arena.resolve()
        for folder in (arena, *arena.parents):
            if (folder / FILE).is_file():
                return cls(folder)
        return cls(arena)

    @classmethod
    def init(cls, folder: Path) -> tuple["Workspace", list[str]]:
        """Make a workspace of `folder`; what was made. What is there already stays as it is."""
        folder = folder.expanduser().resolve()
        made = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / FILE).exists():
                (folder / FILE).write_text(_FIRST_SETTINGS, "utf-8")
                made.append(FILE)
            if not (folder / "arenas").exists():
                (folder / "arenas").mkdir()
                made.append("arenas/")
        except OSError as problem:
            raise UsageError(f"cannot make a workspace in {folder}: {problem.strerror}") from problem
        workspace = cls(folder)
        if not (workspace.state / "overnight.db").exists():
            made.append(f"{STATE}/")
        _ = workspace.database
        return workspace, made

    @property
    def state(self) -> Path:
        """Its `.overnight/`."""
        return self.folder / STATE

    @cached_property
    def resolved(self) -> Resolved:
        """Its settings in force, and where each came from.

        Raises:
            SettingsError: they cannot be used.
            Refused: they were never trusted, though there is somebody who could.
        """
        # Imported late: it brings the cryptography that most commands do without.
        from overnight.workspace.settings_trust import text_in_force

        text, remark = text_in_force(self.folder, lambda: self.database)
        return dataclasses.replace(settings.load(self.folder, text=text), remark=remark)

    @cached_property
    def database(self) -> Database:
        """Its database, made if there is none."""
        database = Database(self.state / "overnight.db")
        ignore = self.state / ".gitignore"
        if not ignore.exists():
            with contextlib.suppress(OSError):  # a workspace that can only be read
                ignore.write_text("*\n")
        return database

    @cached_property
    def record(self) -> Record:
        """All its runs."""
        return Record(self.database)

    @cached_property
    def blobs(self) -> Blobs:
        """Its blobs."""
        return Blobs(self.state / "blobs")

    def place(self) -> Place:
        """What a run of the loop needs to know of it.

        Raises:
            StoreError: nothing can be written there.
        """
        if self.state.is_dir() and not os.access(self.state, os.W_OK):
            raise StoreError(
                f"{self.state} cannot be written, and a run keeps its record there",
                hint="make it writable for you, or copy the workspace; `status`, `log` and `report` work as it is",
            )
        recent.remember(self.folder)
        return Place(self.folder, self.state, self.database, self._key(), self.resolved.settings.authors)

    def _key(self) -> bytes:
        path = self.state / "keys" / "seeds.key"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_bytes()
        with open(descriptor, "wb") as file:
            key = secrets.token_bytes(32)
            file.write(key)
        return key


def find(folder: Path | None) -> tuple[Workspace, str]:
    """The workspace that a command means, and a remark for the person if it is not the obvious one.

    Args:
        folder: what the person named; None for the enclosing one, else the one used last.

    Raises:
        NotFound: there is none.
    """
    if folder is not None:
        workspace = Workspace.at(folder)
        if not (workspace.folder / FILE).is_file() and not workspace.state.is_dir():
            raise NotFound(
                f"{workspace.folder} is not a workspace", hint=f"`overnight init {workspace.folder}` makes one"
            )
        return workspace, ""
    enclosing = Workspace.enclosing(Path.cwd())
    if enclosing is not None:
        return enclosing, ""
    for used in recent.folders():
        if (used / STATE / "overnight.db").is_file():
            return Workspace(used), f"no workspace encloses this folder; using the last one, {used}"
    raise NotFound("no workspace encloses this folder", hint="go to one, or name it with --workspace DIR")
