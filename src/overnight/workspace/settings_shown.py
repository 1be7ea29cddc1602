"""Every setting with its origin, fit to be shown: no secret among them, wherever somebody may have put one."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from overnight.kernel.masking.detect import detect
from overnight.kernel.masking.kinds import SECRETS
from overnight.kernel.masking.names import Gazetteer
from overnight.models.upstream.keys import key_for
from overnight.workspace.settings import Resolved

HIDDEN: Final = "(hidden)"
_SECRET_NAME: Final = re.compile(r"(^|[_-])(api_?)?(key|secret|password|token|authorization)$", re.IGNORECASE)


def shown(resolved: Resolved) -> dict[str, dict[str, Any]]:
    """Name → value and origin, by name; of every provider also whether it has its key."""
    values = {
        name: {"value": _safe(_value(resolved.settings, name), name), "origin": origin}
        for name, origin in resolved.origins.items()
    }
    for name, provider in resolved.settings.providers.items():
        try:
            key, where = key_for(name, provider)
            values[f"providers.{name}.key"] = {"value": HIDDEN if key else None, "origin": where or "none needed"}
        except LookupError as missing:
            values[f"providers.{name}.key"] = {"value": None, "origin": str(missing)}
    return dict(sorted(values.items()))


def _value(settings: Any, name: str) -> Any:
    """A setting by its dotted name, of which a part may itself have dots: `providers.a.b.kind`."""
    if not name:
        return settings
    if isinstance(settings, Mapping):
        key = max((key for key in settings if name == key or name.startswith(f"{key}.")), key=len)
        return _value(settings[key], name[len(key) + 1 :])
    first, _, rest = name.partition(".")
    return _value(getattr(settings, f"{first}_" if hasattr(settings, f"{first}_") else first), rest)


def _safe(value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return str(value) if type(value).__str__ is not object.__str__ else _safe(dataclasses.asdict(value), name)
    if isinstance(value, Mapping):
        hide = name.endswith(".headers")
        return {
            key: HIDDEN if hide or _SECRET_NAME.search(str(key)) else _safe(item, str(key))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_safe(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if name.endswith("_url"):
        parts = urlsplit(value)
        if "@" in parts.netloc:
            value = urlunsplit(parts._replace(netloc=f"{HIDDEN}@{parts.netloc.rpartition('@')[2]}"))
    for span in reversed(detect(value, SECRETS, Gazetteer())):
        value = value[: span.start] + HIDDEN + value[span.end :]
    return value
