"""Models within a workspace: its router, its facts, and a gateway of our own process for our own calls."""

import asyncio
import contextlib
import datetime
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from overnight.core.errors import NotFound, OvernightError
from overnight.kernel.limits import Limit
from overnight.loop import inspect
from overnight.loop.findings import number
from overnight.loop.summary import summarise
from overnight.models.ask_client import GatewayClient, Models
from overnight.models.classify import embedded
from overnight.models.gateway import Configuration, Gateway
from overnight.models.gateway_keys import Keys
from overnight.models.local import local
from overnight.models.release import Releases
from overnight.models.resources import Monitor
from overnight.models.router import Classification, Router
from overnight.models.router_settings import RouterSettings
from overnight.models.rules import Situation
from overnight.models.settings import ModelSettings
from overnight.store.blobs import Blobs
from overnight.trace.tracer import Tracer
from overnight.workspace.gateway import WatchedSettings, trace_store
from overnight.workspace.settings import FILE
from overnight.workspace.workspace import Workspace

_KEY_LIFE_S: Final = 7 * 86400.0


class _Lazy:
    """The classifier of the settings, loaded when a prompt is classified: many need no tier 1."""

    def __init__(self, settings: RouterSettings) -> None:
        self._kind = settings.classifier

    def classify(self, prompt: str) -> Classification:
        return local().classify(prompt) if self._kind == "local" else embedded().classify(prompt)


def model_settings(workspace: Workspace) -> ModelSettings:
    """What a workspace says of models."""
    found = workspace.resolved.settings
    return ModelSettings(found.providers, found.models, found.gateway)


def router(workspace: Workspace) -> Router:
    """The router of a workspace, for this moment.

    Raises:
        SettingsError: the settings name what is not there.
    """
    settings: RouterSettings = workspace.resolved.settings.router
    monitor = Monitor(settings, workspace.database)
    return Router(settings, Releases(model_settings(workspace)), _Lazy(settings), monitor)


def situation(workspace: Workspace) -> Situation:
    """What tier 0 may know."""
    return Situation(datetime.datetime.now(), WorkspaceFacts(workspace))


def tracer(workspace: Workspace) -> Tracer:
    """Writes to the workspace's traces; close it."""
    return Tracer(workspace.database, Blobs(workspace.state / "bodies"))


@contextlib.contextmanager
def models(workspace: Workspace, agent: str, run: str = "", budget_usd: float | None = None) -> Iterator[Models]:
    """Whoever answers our own calls: a gateway within this process, on a port of its own that takes one key only.

    Args:
        workspace: whose settings, budgets and record apply.
        agent: who is charged.
        run: run of the loop that is charged.
        budget_usd: the most that all calls of that run may ever cost, earlier stretches included.
    """
    limits = () if budget_usd is None else (Limit("usd", budget_usd, "total", only=(("run", run),)),)
    keys = Keys(workspace.database)
    key, secret = keys.make(f"own-{secrets.token_hex(8)}", agent=agent, run=run, expires_in_s=_KEY_LIFE_S)
    try:
        with _Served(workspace, _Limited(WatchedSettings(workspace.folder), limits)) as port:
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
            import dataclasses

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


class WorkspaceFacts:
    """What the record says of a workspace's newest run, arenas, models and money; see `models.rules.Facts`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def fact(self, topic: str) -> str | None:
        """A sentence on the topic; None where nothing is on record."""
        tell: Mapping[str, Callable[[], str | None]] = {
            "best": self._best,
            "champion": self._champion,
            "counts": self._counts,
            "running": self._running,
            "status": self._status,
            "arenas": self._arenas,
            "models": self._models,
            "spend": self._spend,
            "settings": self._settings,
            "findings": self._findings,
        }
        try:
            return tell[topic]()
        except NotFound as nothing:
            return nothing.message
        except OvernightError:
            return None

    def _newest(self) -> Mapping[str, object]:
        record = self._workspace.record
        info = record.run()
        return {**summarise(info, record.experiments(info.run)), "state": inspect.state(info)}

    def _best(self) -> str | None:
        run = self._newest()
        if run["best"] is None:
            return None
        best, base = run["best"], run["baseline"]
        assert isinstance(best, float | int) and (base is None or isinstance(base, float | int))
        return f"{run['metric']} {number(best)} ({run['direction']}; baseline {number(base)}), run {run['run']}"

    def _champion(self) -> str | None:
        run = self._newest()
        if run["best_n"] is None:
            return None
        item = self._workspace.record.experiment(str(run["run"]), int(str(run["best_n"])))
        return f"experiment {item.n} of run {run['run']}, {run['metric']} {number(item.metric)}: {item.hypothesis}"

    def _counts(self) -> str | None:
        run = self._newest()
        told = ", ".join(f"{run[name]} {name}" for name in ("kept", "discarded", "crashed", "timeouts", "rejected"))
        return f"{run['experiments']} experiments in run {run['run']}: {told}"

    def _running(self) -> str | None:
        alive = [info.run for info in self._workspace.record.runs() if inspect.state(info) == "running"]
        return ", ".join(alive) if alive else "no run is going"

    def _status(self) -> str | None:
        run = self._newest()
        return f"run {run['run']} on {run['arena']}: {run['state']}, {self._counts()}"

    def _arenas(self) -> str | None:
        folder = self._workspace.folder
        found = sorted(str(path.parent.relative_to(folder)) for path in folder.glob("arenas/*/program.md"))
        return ", ".join(found) if found else "there is no arena in arenas/ yet"

    def _models(self) -> str | None:
        found = model_settings(self._workspace).models
        named = ", ".join(f"{name} ({item.provider}: {item.model})" for name, item in found.items())
        return named or f"none yet: add [models.NAME] to {FILE}"

    def _spend(self) -> str | None:
        row = self._workspace.database.row("SELECT COUNT(*) AS n, SUM(cost_nano) AS c FROM model_calls")
        return None if row is None else f"{(row['c'] or 0) / 1e9:.4f} USD for {row['n']} model calls"

    def _settings(self) -> str | None:
        path: Path = self._workspace.folder / FILE
        return str(path) if path.is_file() else f"there is none; {path} would be it"

    def _findings(self) -> str | None:
        found = self._workspace.record.findings()[:5]
        if not found:
            return "nothing was learnt yet"
        return "\n".join(f"- {item.text}" for _, item in found)
