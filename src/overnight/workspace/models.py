"""Models within a workspace: its router, its facts, and a gateway of our own process for our own calls."""

import datetime
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from overnight.core.errors import NotFound, OvernightError
from overnight.loop.record import inspect
from overnight.loop.record.findings import number
from overnight.loop.record.summary import summarise
from overnight.models.ask.client import Models
from overnight.models.local import local
from overnight.models.release import Releases
from overnight.models.routing.classify import embedded
from overnight.models.routing.resources import Monitor
from overnight.models.routing.router import Classification, Router
from overnight.models.routing.settings import RouterSettings
from overnight.models.rules.rules import Situation
from overnight.models.settings import ModelSettings
from overnight.store.blobs import Blobs
from overnight.trace.tracer import Tracer
from overnight.workspace.settings import FILE
from overnight.workspace.workspace import Workspace


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


def models(
    workspace: Workspace, agent: str, run: str = "", budget_usd: float | None = None
) -> AbstractContextManager[Models]:
    """Whoever answers our own calls; see `own_gateway.own_gateway`."""
    # Half a second of imports that tier 0 does without.
    from overnight.workspace.own_gateway import own_gateway

    return own_gateway(workspace, agent, run, budget_usd)


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
