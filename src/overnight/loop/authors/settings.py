"""How authors that run a program are set up."""

from dataclasses import dataclass, field

from overnight.core import schema
from overnight.core.clock import parse_duration_s


@dataclass(frozen=True)
class CommandSettings:
    """`[authors.NAME]` of overnight.toml.

    Attributes:
        command: run as it stands, without a shell where it needs none.
        timeout: for one proposal, seconds in the end; `10m` by default.
        hosts: `name` or `name:port` it may reach by HTTP(S); nothing else is reachable.
        network: the whole network instead; false by default.
        environment: names of our own environment variables it gets, such as an API key's.
        mounts: folders or files of this machine it sees, read-only, at their own paths.
        memory_bytes: for all its processes together.
    """

    command: str
    timeout: float = field(default=600.0, metadata=schema.parsed_by(parse_duration_s))
    hosts: tuple[str, ...] = ()
    network: bool = False
    environment: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    memory_bytes: int = 4 * 1024**3
