"""A gateway within this process for our own calls, on a port of its own that takes one key only."""

import contextlib
import dataclasses
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Final

from overnight.kernel.ledger.limits import Limit
from overnight.models.ask.client import GatewayClient, Models
from overnight.models.gateway.background import Background
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
        settings = _Limited(WatchedSettings(workspace), limits)
        with Background("overnight-gateway", lambda: _serving(workspace, settings)) as port:
            client = GatewayClient("127.0.0.1", port, secret)
            try:
                yield client
            finally:
                client.stop()
    finally:
        keys.revoke(key.name)


@contextlib.asynccontextmanager
async def _serving(workspace: Workspace, settings: Configuration) -> AsyncIterator[int]:
    gateway = Gateway(trace_store(workspace), settings)
    try:
        yield await gateway.listen("127.0.0.1", 0)
    finally:
        await gateway.close()


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
