"""A gateway in a thread of its own, before scripted models."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from overnight.models.gateway.background import Background
from overnight.models.gateway.gateway import Gateway
from overnight.models.gateway.keys import Keys
from overnight.models.settings import GatewaySettings, ModelSettings, PriceSettings, ProviderSettings, ReleaseSettings
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.testing.models import ScriptedModels
from overnight.trace.span import Span
from overnight.trace.storage import TraceStore


class RunningGateway:
    """The gateway, serving on a port of the system's choice.

    Unless other settings are given there are the releases `author` (OpenAI), `claude` (Anthropic) and `local`
    (OpenAI-compatible), each for a dollar a million tokens and answered by `models`.

    Attributes:
        store: of the traces.
        settings: in force; another object put here is taken up with the next request.
        url: to which `/v1` is added for OpenAI's clients.
        keys: of the gateway.
    """

    def __init__(self, folder: Path, models: ScriptedModels, settings: ModelSettings | None = None) -> None:
        self.store = TraceStore(Database(folder / "overnight.db"), Blobs(folder / "bodies"))
        self.keys = Keys(self.store.database)
        self.settings = settings or scripted_settings(models)
        self.url = ""
        self._background = Background("gateway", self._serving)

    def __enter__(self) -> Self:
        self.url = self._background.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let running calls end, and stop; a second time does nothing."""
        self._background.stop()

    def current(self) -> ModelSettings:
        """The settings in force, for the gateway."""
        return self.settings

    def key(self, name: str = "me", **how: Any) -> str:
        """A new key; `how` as in `Keys.make`."""
        return self.keys.make(name, **how)[1]

    def set(self, **gateway: Any) -> None:
        """Change fields of `[gateway]`."""
        self.settings = replace(self.settings, gateway=replace(self.settings.gateway, **gateway))

    def change(self, release: str, **fields: Any) -> None:
        """Change fields of `[models.NAME]`."""
        models = {**self.settings.models, release: replace(self.settings.models[release], **fields)}
        self.settings = replace(self.settings, models=models)

    def spans(self) -> list[Span]:
        """All spans, in the order of writing."""
        return self.store.since(0, 1_000_000)

    def calls(self) -> list[dict[str, Any]]:
        """All settled attempts, in the order of writing."""
        return [dict(row) for row in self.store.database.rows("SELECT * FROM model_calls ORDER BY rowid")]

    @property
    def spent_usd(self) -> float:
        """What they cost together."""
        return float(sum(call["cost_nano"] for call in self.calls())) / 1e9

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[str]:
        gateway = Gateway(self.store, self)
        try:
            yield f"http://127.0.0.1:{await gateway.listen('127.0.0.1', 0)}"
        finally:
            await gateway.close()


def scripted_settings(models: ScriptedModels) -> ModelSettings:
    """Settings by which every release is answered by `models`."""
    url, price = f"{models.url}/v1", PriceSettings(1.0, 1.0)
    return ModelSettings(
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
