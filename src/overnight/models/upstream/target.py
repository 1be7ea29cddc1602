"""Where a provider is, and how long to wait for it."""

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds: to connect, to the first byte of the answer, and between its pieces."""

    connect_s: float = 10.0
    first_s: float = 600.0
    idle_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a host is: parsed once, used for every request."""

    tls: bool
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "Target":
        """The target of an http or https URL."""
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        return cls(tls, parts.hostname or "", parts.port or (443 if tls else 80), parts.path.rstrip("/"))
