"""Who acts, and in which stretch of work. Sessions form trees: a sub-agent's session is a child of its parent's."""

import re
from dataclasses import dataclass
from typing import Literal

from overnight.core.errors import UsageError

OnDenied = Literal["stop", "continue"]
"""`stop` ends the session at its first denial, the default for unattended work; `continue` lets the agent go on."""

_AGENT = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62})(?:/[a-z0-9][a-z0-9_-]{0,62}){0,7}")
_TENANT = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who an action is charged to. Taken from the verified grant, never from an argument or a header.

    Attributes:
        agent: its name after its parents': `researcher/scout` is a sub-agent of `researcher`.
        tenant: the team or customer that pays.
    """

    agent: str
    tenant: str = "default"

    def __post_init__(self) -> None:
        if _AGENT.fullmatch(self.agent) is None:
            raise UsageError(
                f"{self.agent!r} cannot name an agent",
                hint="use lower-case letters, digits, '-' and '_'; sub-agents after a slash: researcher/scout",
            )
        if _TENANT.fullmatch(self.tenant) is None:
            raise UsageError(f"{self.tenant!r} cannot name a tenant", hint="use lower-case letters, digits, '-._'")

    @property
    def parents(self) -> tuple[str, ...]:
        """The agents above it, outermost first."""
        parts = self.agent.split("/")
        return tuple("/".join(parts[:depth]) for depth in range(1, len(parts)))

    @property
    def lineage(self) -> tuple[str, ...]:
        """Itself and the agents above it, outermost first: each of them must hold a right for it to be held."""
        return (*self.parents, self.agent)

    def child(self, name: str) -> "Principal":
        """The principal of a sub-agent of this one."""
        return Principal(f"{self.agent}/{name}", self.tenant)


@dataclass(frozen=True, slots=True)
class Session:
    """One principal's stretch of work. A handle: what it has seen and done is kept by the gate under `id`.

    Attributes:
        id: unique, sorts by time.
        principal: who acts in it.
        root: id of the outermost session of its tree; its own when it has no parent.
        parent: id of the parent's session; None at the root.
        grant: the signed token that every call is verified against.
        attended: a person is there to answer; an `ask` may wait. Otherwise an `ask` is left pending at once.
        on_denied: what a denial does to the session.
    """

    id: str
    principal: Principal
    root: str
    parent: str | None
    grant: str
    attended: bool = False
    on_denied: OnDenied = "stop"
