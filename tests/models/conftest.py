"""A gateway in a thread, before scripted models: both real servers on this machine."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from overnight.kernel.limits import Limit
from overnight.models.gateway import Gateway
from overnight.models.gateway_keys import Keys
from overnight.models.settings import (
    GatewaySettings,
    ModelSettings,
    PriceSettings,
    ProviderSettings,
    ReleaseSettings,
    TenantSettings,
)
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.testing import ScriptedModels
from overnight.trace.span import Span
from overnight.trace.storage import TraceStore


@dataclass
class Running:
    """A gateway that runs."""

    store: TraceStore
    settings: ModelSettings
    url: str = ""
    keys: Keys = field(init=False)
    stop: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.keys = Keys(self.store.database)

    def current(self) -> ModelSettings:
        return self.settings

    def key(self, name: str = "me", **how: Any) -> str:
        return self.keys.make(name, **how)[1]

    def set(self, **gateway: Any) -> None:
        """Change `[gateway]` while it runs."""
        self.settings = replace(self.settings, gateway=replace(self.settings.gateway, **gateway))

    def releases(self, **releases: ReleaseSettings) -> None:
        """Change `[models]` while it runs."""
        self.settings = replace(self.settings, models={**self.settings.models, **releases})

    def spans(self) -> list[Span]:
        return self.store.since(0, 100_000)

    def calls(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self.store.database.rows("SELECT * FROM model_calls ORDER BY rowid")]

    def spent(self) -> float:
        return sum(call["cost_nano"] for call in self.calls()) / 1e9


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    with ScriptedModels() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> TraceStore:
    return TraceStore(Database(tmp_path / "workspace" / "overnight.db"), Blobs(tmp_path / "workspace" / "bodies"))


@pytest.fixture
def gateway(models: ScriptedModels, store: TraceStore) -> Iterator[Running]:
    """Releases `author` (OpenAI), `claude` (Anthropic) and `local` (compatible), a dollar a million tokens each way."""
    url = f"{models.url}/v1"
    price = PriceSettings(1.0, 1.0)
    settings = ModelSettings(
        providers={
            "openai": ProviderSettings("openai", url),
            "anthropic": ProviderSettings("anthropic", url),
            "box": ProviderSettings("openai-compatible", url),
        },
        models={
            "author": ReleaseSettings("openai", "gpt-x", price=price, max_tokens=1000),
            "claude": ReleaseSettings("anthropic", "claude-x", price=price, max_tokens=1000),
            "local": ReleaseSettings("box", "llama-x", price=price, max_tokens=1000),
        },
        gateway=GatewaySettings(),
    )
    running = Running(store, settings)
    thread = _Thread(running)
    thread.start()
    thread.ready.wait()
    running.stop = thread.end
    yield running
    thread.end()


class _Thread(threading.Thread):
    def __init__(self, running: Running) -> None:
        super().__init__(daemon=True)
        self._running = running
        self.ready = threading.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        gateway = Gateway(self._running.store, self._running)
        self._running.url = f"http://127.0.0.1:{await gateway.listen('127.0.0.1', 0)}"
        self.ready.set()
        await self._stopping.wait()
        await gateway.close()

    def end(self) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self.join()


def usd(amount: float) -> tuple[Limit, ...]:
    return (Limit("usd", amount),)


__all__ = ["Limit", "Running", "TenantSettings", "usd"]
