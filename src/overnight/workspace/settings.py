"""`overnight.toml`: read and checked once, before anything is spent. Precedence: flag, environment, file, default."""

import dataclasses
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from overnight.core import schema
from overnight.core.clock import parse_duration_s
from overnight.core.errors import SettingsError, UsageError
from overnight.loop.authors.settings import CommandSettings
from overnight.loop.place import Isolation
from overnight.models.routing.settings import RouterSettings
from overnight.models.settings import GatewaySettings, ProviderSettings, ReleaseSettings, TenantSettings

FILE = "overnight.toml"


def _duration(raw: Any) -> float | None:
    return None if raw is None else parse_duration_s(raw)


@dataclass(frozen=True)
class RunSettings:
    """`[run]`: what `overnight run` does where no flag says otherwise.

    Attributes:
        workers: evaluations at a time; 1 by default.
        experiments: stop after so many; no limit by default.
        for_: stop after so much wall clock, such as `8h`; seconds in the end; no limit by default.
        authors: who proposes changes; `search` by default.
    """

    workers: int = 1
    experiments: int | None = None
    for_: float | None = field(default=None, metadata=schema.parsed_by(_duration))
    authors: tuple[str, ...] = ("search",)


@dataclass(frozen=True)
class SandboxSettings:
    """`[sandbox]`.

    Attributes:
        isolation: `auto` takes bwrap, else landlock, and refuses if neither can be had; `none` has to be written out.
    """

    isolation: Isolation = "auto"


@dataclass(frozen=True)
class RetentionSettings:
    """`[retention]`: what `overnight gc` may remove.

    Attributes:
        runs: refs, blobs and checkouts of experiments that were not kept go once their run ended so long ago; seconds
            in the end; `90d` by default. The champion's branch and the database rows always stay.
        texts: what was said in model calls goes once the last call of its trace ended so long ago; seconds in the end;
            `90d` by default. Spans, tokens and costs always stay.
    """

    runs: float = field(default=90 * 86400.0, metadata=schema.parsed_by(parse_duration_s))
    texts: float = field(default=90 * 86400.0, metadata=schema.parsed_by(parse_duration_s))


@dataclass(frozen=True)
class Settings:
    """All of `overnight.toml`."""

    run: RunSettings = field(default_factory=RunSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    authors: Mapping[str, CommandSettings] = field(default_factory=dict)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    models: Mapping[str, ReleaseSettings] = field(default_factory=dict)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    router: RouterSettings = field(default_factory=RouterSettings)

    def __post_init__(self) -> None:
        named = [("prefer", name) for name in self.router.prefer.values()]
        for key, name in named + [("memory", name) for name in self.router.memory]:
            if name not in self.models:
                hint = schema.suggest(name, self.models) if self.models else "add [models.NAME]"
                raise SettingsError(f"router: {key}: there is no model {name!r}", hint=hint)


_NAMED: Final[Mapping[str, type[Any]]] = {
    "authors": CommandSettings,
    "providers": ProviderSettings,
    "models": ReleaseSettings,
    "gateway.tenants": TenantSettings,
}
"""Tables of tables: `[providers.NAME]`."""


@dataclass(frozen=True)
class Resolved:
    """Settings, and where each value came from.

    Attributes:
        settings: in force.
        origins: name → `default`, the file, or the environment variable.
        remark: for the person, where what is in force is not the file as it stands.
    """

    settings: Settings
    origins: Mapping[str, str]
    remark: str = ""


def load(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    text: str | None = None,
    source: Path | None = None,
) -> Resolved:
    """The settings of a workspace.

    `OVERNIGHT_RUN_WORKERS=2` in the environment overrides `[run] workers`, and so on for every scalar.

    Args:
        folder: the workspace.
        environment: instead of the process's own.
        text: instead of the file, where another copy of it is in force.
        source: what `text` was read from, if that is another file.

    Raises:
        SettingsError: not TOML, an unknown key, or a value of the wrong type; the message names it.
    """
    environment = os.environ if environment is None else environment
    path = source or folder / FILE
    try:
        raw = tomllib.loads(path.read_text("utf-8") if text is None else text)
    except FileNotFoundError:
        raw = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(f"{path}: {problem}", hint="the file has to be TOML") from problem
    except OSError as problem:
        raise SettingsError(f"cannot read {path}: {problem.strerror}") from problem
    data = {name: dict(value) if isinstance(value, dict) else value for name, value in raw.items()}
    origins: dict[str, str] = {}
    sections = {
        "run": RunSettings,
        "sandbox": SandboxSettings,
        "retention": RetentionSettings,
        "gateway": GatewaySettings,
        "router": RouterSettings,
    }
    for section, kind in sections.items():
        table = data.get(section, {})
        for item in dataclasses.fields(kind):
            key = item.name.rstrip("_")
            name = f"{section}.{key}"
            variable = f"OVERNIGHT_{section}_{key}".upper()
            origins[name] = str(path) if isinstance(table, dict) and key in table else "default"
            if variable in environment:
                data[section] = {**table, **data.get(section, {}), key: _from_text(environment[variable], variable)}
                origins[name] = f"${variable}"
    for section, kind in _NAMED.items():
        origins.update(_named_origins(raw, section, kind, str(path)))
    if any(name.startswith("gateway.tenants.") for name in origins):
        del origins["gateway.tenants"]
    try:
        return Resolved(schema.build(Settings, data, str(path)), origins)
    except SettingsError:
        raise
    except UsageError as problem:
        raise SettingsError(f"{path}: {problem.message}", hint=problem.hint) from problem


def _named_origins(raw: Mapping[str, Any], section: str, kind: type[Any], path: str) -> Iterator[tuple[str, str]]:
    """Of every field of `[section.NAME]`, for every name in the file."""
    tables: Any = raw
    for part in section.split("."):
        tables = tables.get(part, {}) if isinstance(tables, dict) else {}
    for name, table in tables.items() if isinstance(tables, dict) else ():
        for item in dataclasses.fields(kind):
            key = item.name.rstrip("_")
            yield f"{section}.{name}.{key}", path if isinstance(table, dict) and key in table else "default"


def _from_text(text: str, variable: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if any(char in text for char in '"\n'):
            raise SettingsError(f"${variable} is {text!r}", hint='write a TOML value, such as 2 or ["a"]') from None
        return text
