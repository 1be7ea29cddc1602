"""Where runs are kept, and where the arenas are that the record names."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from overnight.core.errors import ArenaError
from overnight.loop.arena.arena import PROGRAM
from overnight.loop.authors.settings import CommandSettings
from overnight.store.database import Database

if TYPE_CHECKING:  # commands that only read the record start without models
    from overnight.models.ask.client import Models
    from overnight.trace.tracer import Tracer

Isolation = Literal["auto", "bwrap", "landlock", "none"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class ModelAccess:
    """What an author that asks a model works with.

    Attributes:
        models: whoever answers, within the run's budget; stopped when the run is.
        tracer: of the workspace.
        context_tokens: what one proposal may show the model.
    """

    models: "Models"
    tracer: "Tracer"
    context_tokens: int


OpenModels = Callable[[str, str, float | None, threading.Event], ModelAccess]
"""Takes the model's name, the run, its budget in US dollars, and the event that stops the run; `NotFound` if there is
no such model. What is opened is closed by whoever made the `Place`, after the run."""


@dataclass(frozen=True)
class Place:
    """Where runs are kept.

    Attributes:
        workspace: folder with MEMORY.md.
        state: its `.overnight/`.
        database: of that state.
        key: of this workspace's own, for deriving seeds; never shown to authors.
        authors: `[authors.NAME]` of the settings.
        tracer: of the workspace; None traces nothing.
        open_models: for the author `model`; None where models cannot be had.
    """

    workspace: Path
    state: Path
    database: Database
    key: bytes
    authors: Mapping[str, CommandSettings] = field(default_factory=dict)
    open_models: OpenModels | None = None
    tracer: "Tracer | None" = None


def arena_name(workspace: Path, folder: Path) -> str:
    """How the record names an arena: its path in the workspace, or in full if it lies outside."""
    try:
        inside = folder.relative_to(workspace)
    except ValueError:
        return str(folder)
    return str(inside) if inside.parts else folder.name


def find_folder(workspace: Path, name: str) -> Path:
    """The folder of an arena that the record names.

    Raises:
        ArenaError: it has gone.
    """
    for folder in (workspace / name, Path(name)):
        if folder.is_absolute() and (folder / PROGRAM).is_file():
            return folder.resolve()
    # An arena that is its own workspace is recorded by its folder's name, and folders are renamed.
    if "/" not in name and (workspace / PROGRAM).is_file():
        return workspace.resolve()
    raise ArenaError(f"the arena {name!r} is not in {workspace} any more", hint="move it back, then try again")
