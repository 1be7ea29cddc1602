"""A gateway within this process for our own calls, on a port of its own that takes one key only."""

import asyncio
import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Iterator
from typing import Final

from overnight.kernel.ledger.limits import Limit
from overnight.models.ask.client import GatewayClient, Models
from overnight.models.gateway.gateway import Configuration, Gateway
from overnight.models.gateway.keys import OWN, Keys
from overnight.models.settings import ModelSettings
from overnight.workspace.gateway import WatchedSettings, trace_store
from overnight.workspace.workspace import Workspace

_KEY_LIFE_S: Final = 7 * 86400.0


@contextlib.contextmanager
def own_gateway(workspace: Workspace, agent: str, run: str = "", budget_usd: float | None = None) -> Iterator[Models]:
    """Whoever answers our own calls.

    Args:
        workspace: whose settings, budgets and record apply.
        agent: who is charged.
        run: run of the loop that is charged.
        budget_usd: the most that all calls of that run may ever cost, earlier stretches included.
    """
    limits = () if budget_usd is None else (Limit("usd", budget_usd, "total", only=(("run", run),)),)
    keys = Keys(workspace.database)
    key, secret = keys.make(f"{OWN}{secrets.token_hex(8)}", agent=agent, run=run, expires_in_s=_KEY_LIFE_S)
    try:
        with _Served(workspace, _Limited(WatchedSettings(workspace), limits)) as port:
            client = GatewayClient("127.0.0.1", port, secret)
            try:
                yield client
            finally:
                client.stop()
    finally:
        keys.revoke(key.name)


class _Limited:
    """The settings in force, with limits of a run beside their own; see `models.gateway.Configuration`."""

    def __init__(self, settings: Configuration, limits: tuple[Limit, ...]) -> None:
        self._settings = settings
        self._limits = limits
        self._seen: ModelSettings | None = None
        self._current: ModelSettings | None = None

    def current(self) -> ModelSettings:
        found = self._settings.current()
        if found is not self._seen or self._current is None:
            gateway = dataclasses.replace(found.gateway, limits=(*found.gateway.limits, *self._limits))
            self._seen, self._current = found, dataclasses.replace(found, gateway=gateway)
        return self._current


class _Served:
    """A gateway in a thread with an event loop of its own."""

    def __init__(self, workspace: Workspace, configuration: Configuration) -> None:
        self._workspace = workspace
        self._configuration = configuration
        self._ready = threading.Event()
        self._port = 0
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="overnight-gateway", daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        self._ready.wait()
        if self._problem is not None:
            raise self._problem
        return self._port

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self._stop is not None
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        gateway = Gateway(trace_store(self._workspace), self._configuration)
        self._port = await gateway.listen("127.0.0.1", 0)
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            await gateway.close()
