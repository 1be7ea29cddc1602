"""The parts a gate stands on, opened together for one workspace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overnight.kernel.approval.approver import Approver
from overnight.kernel.approval.inbox import Inbox
from overnight.kernel.grants.grant import Grants
from overnight.kernel.journal.journal import Journal
from overnight.kernel.keys import SigningKey, config_folder, outside, secret_key
from overnight.kernel.ledger.breaker import MACHINE_SPEED, Breaker, Burst
from overnight.kernel.ledger.ledger import Ledger
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.masking.vaults import Vaults
from overnight.store.blobs import Blobs
from overnight.store.database import Database


@dataclass(frozen=True)
class Parts:
    """What a gate stands on; all of one workspace. See `open_parts`."""

    database: Database
    journal: Journal
    blobs: Blobs
    inbox: Inbox
    grants: Grants
    ledger: Ledger
    breaker: Breaker
    vaults: Vaults


def open_parts(
    root: Path,
    database: Database,
    *,
    config: Path | None = None,
    limits: Sequence[Limit] = (),
    burst: Burst | None = MACHINE_SPEED,
    bursts: Mapping[str, Burst | None] | None = None,
) -> Parts:
    """Journal, inbox, grants, ledger, breaker and vaults of the workspace at `root`.

    Args:
        root: the workspace's folder.
        database: its database.
        config: where keys lie; None is the user's configuration folder.
        limits: of calls, bytes, tokens and money.
        burst: machine speed for tool families that `bursts` does not name; None watches none of them.
        bursts: by tool family; None never stops it.

    Raises:
        SettingsError: the configuration folder lies inside the workspace.
        StoreError: something cannot be opened; nothing must run then.
    """
    folder = outside(config_folder() if config is None else config, root)
    journal = Journal.open(database, folder)
    inbox = Inbox(database, Approver(folder), journal)
    return Parts(
        database,
        journal,
        Blobs(root / ".overnight" / "blobs"),
        inbox,
        Grants(database, SigningKey.open(folder, "grants")),
        Ledger(database, limits),
        Breaker(database, inbox, default=burst, families=bursts),
        Vaults(database, secret_key(folder, "vault")),
    )
