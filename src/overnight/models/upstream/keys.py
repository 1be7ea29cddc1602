"""Keys of providers: from the environment, else kept in the user's own configuration folder; never in a workspace.

A key that is kept belongs to the place it was given for, `https://api.openai.com`: settings by which requests of the
same provider go elsewhere do not get it.
"""

import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from overnight.core.errors import NotFound, StoreError, UsageError
from overnight.kernel.keys import config_folder, create_private, private_folder, read_private
from overnight.models.settings import ProviderSettings

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SEEN_S: Final = 1.0
"""How long a running gateway goes by a kept key before it looks again."""


@dataclass(frozen=True)
class KeptKey:
    """A key that is kept.

    Attributes:
        provider: `[providers.NAME]`.
        place: scheme and host that it is sent to.
        key: the secret; in no representation.
    """

    provider: str
    place: str
    key: str

    def __repr__(self) -> str:
        return f"KeptKey({self.provider}, {self.place})"


def place_of(url: str) -> str:
    """Scheme, host and port of a URL, which a key is bound to.

    Raises:
        UsageError: it has none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not a URL", hint='write it like "https://api.openai.com/v1"')
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def place_for(provider: ProviderSettings) -> str:
    """Where a provider's key is sent."""
    return place_of(provider.base_url) if provider.base_url else f"any-llm:{provider.via}"


def keep(provider: str, place: str, key: str) -> Path:
    """Keep a key for the provider at `place`, instead of what was kept; the file it is in.

    Raises:
        UsageError: the name or the key is not usable.
        StoreError: it cannot be written.
    """
    key = key.strip()
    if not key or not key.isprintable() or not key.isascii() or " " in key:
        raise UsageError("that is no key: it has to be one word of plain characters", hint="paste it again")
    path = _path(provider)
    private_folder(path.parent.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(6)}")
    create_private(draft, json.dumps({"place": place, "key": key}).encode() + b"\n")
    draft.replace(path)
    return path


def kept(provider: str) -> KeptKey | None:
    """The key kept for a provider.

    Raises:
        StoreError: it cannot be read, is damaged, or is open to others.
    """
    if _NAME.fullmatch(provider) is None:
        return None
    path = _path(provider)
    if not path.exists():
        return None
    try:
        found = json.loads(read_private(path))
        return KeptKey(provider, str(found["place"]), str(found["key"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise StoreError(f"{path} is not a key", hint=f"run `overnight model key set {provider}`") from problem


def all_kept() -> list[KeptKey]:
    """Every key that is kept, by name."""
    names = sorted(path.stem for path in _folder().glob("*.json"))
    return [key for name in names if (key := kept(name)) is not None]


def forget(provider: str) -> None:
    """Keep the key of a provider no longer.

    Raises:
        NotFound: none is kept.
    """
    try:
        _path(provider).unlink()
    except FileNotFoundError:
        raise NotFound(f"no key is kept for {provider!r}", hint="`overnight model key list` names them") from None


def key_for(provider_name: str, provider: ProviderSettings) -> tuple[str, str]:
    """The key that requests to a provider carry, and where it is from: `$NAME` or a file.

    Raises:
        LookupError: the provider needs one, and there is none; the message says what to do.
    """
    variable = provider.api_key_env
    if variable and (key := os.environ.get(variable)):
        return key, f"${variable}"
    other = ""
    try:
        found = kept(provider_name)
    except StoreError as problem:
        raise LookupError(f"the key of provider {provider_name!r}: {problem.message}; {problem.hint}") from problem
    if found is not None:
        if found.place == place_for(provider):
            return found.key, str(_path(provider_name))
        other = f", and the one that is kept is for {found.place}"
    if not variable:
        return "", ""
    raise LookupError(
        f"${variable} is not set{other}; set it, or run `overnight model key set {provider_name}` to keep the key"
    )


class ProviderKeys:
    """Keys as a running gateway uses them: what is kept is looked at once a second. For one thread."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], tuple[float, str, str]] = {}

    def get(self, provider_name: str, provider: ProviderSettings) -> str:
        """The key; "" if none is needed.

        Raises:
            LookupError: there is none.
        """
        variable = provider.api_key_env
        if variable and (key := os.environ.get(variable)):
            return key
        name, now_s = (provider_name, provider.base_url, variable), time.monotonic()
        seen = self._seen.get(name)
        if seen is None or seen[0] < now_s:
            key, missing = "", ""
            try:
                key, _ = key_for(provider_name, provider)
            except LookupError as problem:
                missing = str(problem)
            seen = self._seen[name] = (now_s + _SEEN_S, key, missing)
        if seen[2]:
            raise LookupError(seen[2])
        return seen[1]


def _folder() -> Path:
    return config_folder() / "providers"


def _path(provider: str) -> Path:
    if _NAME.fullmatch(provider) is None:
        raise UsageError(f"{provider!r} cannot name a key", hint="use letters, digits, '-', '.' and '_'")
    return _folder() / f"{provider}.json"
