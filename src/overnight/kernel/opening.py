"""A workspace's gate, opened with everything it stands on: the way in for scripts and servers of tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from overnight.kernel.approval.trust import Trust
from overnight.kernel.decide import Policy
from overnight.kernel.gate import Gate
from overnight.kernel.keys import SigningKey, config_folder, outside
from overnight.kernel.ledger.breaker import MACHINE_SPEED, Burst
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.parts import open_parts
from overnight.kernel.rules.policy_files import policy_in_force, settle
from overnight.kernel.tool.files import file_tools
from overnight.store.database import Database


class Place(Protocol):
    """A workspace: its folder and its database."""

    @property
    def folder(self) -> Path:
        """The folder."""

    @property
    def database(self) -> Database:
        """The database."""


class _Newer:
    """Says which rules are in force, once they are others than those that were read before."""

    def __init__(self, trust: Trust, copies: str) -> None:
        self._trust = trust
        self._copies = copies

    def __call__(self) -> Policy | None:
        copies = self._trust.copies()
        if copies == self._copies:
            return None
        policy = policy_in_force(self._trust)
        self._copies = copies
        return policy


def open_gate(
    place: Place,
    *,
    limits: Sequence[Limit] = (),
    burst: Burst | None = MACHINE_SPEED,
    bursts: Mapping[str, Burst | None] | None = None,
) -> Gate:
    """The gate of a workspace under its trusted rules. The server `files` is registered; close it when done.

    Rules that are trusted later are in force within a second, and end the sessions opened under others.

    Args:
        place: the workspace.
        limits: of calls, bytes, tokens and money.
        burst: machine speed, see `open_parts`.
        bursts: by tool family.

    Raises:
        SettingsError: the rules in force have a mistake, or the configuration folder lies inside the workspace.
        StoreError: something cannot be opened; nothing must run then.
    """
    parts = open_parts(place.folder, place.database, limits=limits, burst=burst, bursts=bursts)
    try:
        key = SigningKey.open(outside(config_folder(), place.folder), "trust")
        trust = Trust(place.folder, place.database, parts.journal, key)
        settle(trust, parts.inbox)
        copies = trust.copies()
        gate = Gate(place.folder, parts, policy_in_force(trust))
        for tool in file_tools(gate.paths):
            gate.register(tool)
        for spec in gate.policy.tools:
            gate.catalogue.add(spec)
        gate.follow(_Newer(trust, copies))
    except BaseException:
        parts.journal.close()
        raise
    return gate
