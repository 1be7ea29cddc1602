"""The gateway of a workspace: its settings as they change, its database, its traces."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from overnight.core.errors import OvernightError, UsageError
from overnight.models.gateway.gateway import Gateway
from overnight.models.release import Releases
from overnight.models.settings import ModelSettings
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace.storage import TraceStore
from overnight.workspace import settings
from overnight.workspace.settings import FILE
from overnight.workspace.settings_trust import needs_trust, text_in_force, trusted_digest
from overnight.workspace.workspace import Workspace

_LOOK_S: Final = 1.0
"""How often a running gateway looks whether other settings were trusted."""


def trace_store(workspace: Workspace) -> TraceStore:
    """Where a workspace's traces are kept. Their long texts have a folder of their own: `gc` decides about blobs."""
    return TraceStore(workspace.database, Blobs(workspace.state / "bodies"))


class WatchedSettings:
    """The model settings of a workspace, read again whenever they have changed; see `models.gateway.Configuration`.

    What is in force where there is an approver is looked for in the database, once a second.
    """

    def __init__(self, workspace: Workspace, path: Path | None = None) -> None:
        """Read them.

        Args:
            workspace: whose they are.
            path: a file instead of its `overnight.toml`, in force as it stands.

        Raises:
            SettingsError: they cannot be used.
            Refused: they were never trusted.
        """
        self._workspace = workspace
        self._path = path or workspace.folder / FILE
        self._own = path is None
        self._next_s = 0.0
        self._trusted: str | None = None
        self._stamp = self._look()
        self._remark = ""
        self._current = self._read()

    def current(self) -> ModelSettings:
        """The settings in force; those before, as long as these cannot be used."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                found = self._read()
                if found != self._current:
                    self._current = found
                    print(f"overnight gateway: read {self._path} again", file=sys.stderr)
            except (OvernightError, OSError, UnicodeDecodeError) as problem:
                print(f"overnight gateway: the old settings stay in force: {problem}", file=sys.stderr)
        return self._current

    def _read(self) -> ModelSettings:
        folder = self._workspace.folder
        if self._own:
            text, remark = text_in_force(folder, lambda: self._workspace.database)
            if remark and remark != self._remark:
                print(f"overnight gateway: {remark}", file=sys.stderr)
            self._remark = remark
        else:
            text = self._path.read_text("utf-8")
        found = settings.load(folder, text=text, source=None if self._own else self._path).settings
        models = ModelSettings(found.providers, found.models, found.gateway)
        Releases(models)
        return models

    def _look(self) -> tuple[object, ...]:
        try:
            found = os.stat(self._path)
            standing = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError:
            standing = (0, 0, 0)
        now_s = time.monotonic()
        if self._own and now_s >= self._next_s:
            self._next_s = now_s + _LOOK_S
            try:
                ruled = needs_trust(self._workspace.folder)
                self._trusted = trusted_digest(self._workspace.database) if ruled else None
            except OvernightError as problem:
                self._trusted = str(problem)
        return (*standing, self._trusted)


def serve(
    workspace: Workspace,
    configuration: WatchedSettings,
    host: str | None,
    port: int | None,
    say: Callable[[str], None],
) -> None:
    """Run the gateway until it is interrupted; `say` gets its address once it listens.

    Raises:
        UsageError: the address cannot be had.
    """
    asyncio.run(_serve(workspace.database, trace_store(workspace), configuration, host, port, say))


async def _serve(
    database: Database,
    store: TraceStore,
    configuration: WatchedSettings,
    host: str | None,
    port: int | None,
    say: Callable[[str], None],
) -> None:
    chosen = configuration.current().gateway
    host, port = host or chosen.host, chosen.port if port is None else port
    gateway = Gateway(store, configuration)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        taken = await gateway.listen(host, port)
    except OSError as problem:
        raise UsageError(
            f"cannot listen on {host}:{port}: {problem.strerror}", hint="choose another --host or --port"
        ) from problem
    # What start-up made stays; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    say(f"http://{f'[{host}]' if ':' in host else host}:{taken}")
    await stop.wait()
    await gateway.close()
    database.close()
