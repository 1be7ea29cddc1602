"""The gateway of a workspace: its settings as they change, its database, its traces."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from overnight.core.errors import OvernightError, UsageError
from overnight.models.gateway import Gateway
from overnight.models.release import Releases
from overnight.models.settings import ModelSettings
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace.storage import TraceStore
from overnight.workspace import settings
from overnight.workspace.settings import FILE
from overnight.workspace.workspace import Workspace


def trace_store(workspace: Workspace) -> TraceStore:
    """Where a workspace's traces are kept. Their long texts have a folder of their own: `gc` decides about blobs."""
    return TraceStore(workspace.database, Blobs(workspace.state / "bodies"))


class WatchedSettings:
    """The model settings of a folder, read again whenever the file has changed; see `models.gateway.Configuration`."""

    def __init__(self, folder: Path, path: Path | None = None) -> None:
        """Read them.

        Args:
            folder: of the workspace.
            path: a file instead of its `overnight.toml`.

        Raises:
            SettingsError: they cannot be used.
        """
        self._folder = folder
        self._path = path or folder / FILE
        self._own = path is None
        self._stamp = self._look()
        self._current = self._read()

    def current(self) -> ModelSettings:
        """The settings in force; those before, as long as the file cannot be used."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._current = self._read()
                print(f"overnight gateway: read {self._path} again", file=sys.stderr)
            except OvernightError as problem:
                print(f"overnight gateway: the old settings stay in force: {problem}", file=sys.stderr)
        return self._current

    def _read(self) -> ModelSettings:
        text = None if self._own else self._path.read_text("utf-8")
        found = settings.load(self._folder, text=text).settings
        models = ModelSettings(found.providers, found.models, found.gateway)
        Releases(models)
        return models

    def _look(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)


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
            f"cannot listen on {host}:{port}: {problem.strerror}", hint="choose another --port"
        ) from problem
    # What start-up made stays; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    say(f"http://{f'[{host}]' if ':' in host else host}:{taken}")
    await stop.wait()
    await gateway.close()
    database.close()
