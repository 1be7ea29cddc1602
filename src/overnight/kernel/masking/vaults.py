"""What was masked, kept over restarts and for the approver: encrypted with a key that lies outside the workspace.

Each tree of sessions has a vault of its own, bound to the tenant, agent and session of its outermost session as the
kernel recorded them, so that it opens for nobody else. An approver's commands open it to say what a placeholder in a
question stands for; a process that takes a session up again goes on with the same placeholders.
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from overnight.core.errors import NotFound, Refused
from overnight.core.escape import visible
from overnight.kernel.approval.item import VALUES, Item
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.journal.entry import Entry as JournalEntry
from overnight.kernel.journal.entry import encode_body
from overnight.kernel.keys import config_folder, outside, secret_key
from overnight.kernel.masking import SECRETS, Owner, Vault
from overnight.kernel.masking.vault import Entry
from overnight.kernel.masking.veil import MARK, Veil
from overnight.kernel.session import Principal, Session
from overnight.store.database import Database

_SHOWN_OF_SECRET = 4


class Vaults:
    """The vaults of one workspace. Thread-safe; one tree's veil is guarded by the lock of its sessions."""

    def __init__(self, database: Database, key: bytes) -> None:
        """`key`: 32 bytes that lie outside the workspace."""
        self._database = database
        self._key = key
        self._veils: dict[str, Veil] = {}
        self._sessions: dict[str, tuple[tuple[str, Principal], Veil]] = {}
        self._saved: dict[str, int] = {}
        self._guard = threading.Lock()

    def veil(self, session: Session) -> Veil:
        """The veil of the tree that `session` belongs to; a session without id is outside of any.

        Raises:
            NotFound: there is no such session.
            Refused: the handle is not the session on record, or what was kept cannot be opened with this key.
        """
        with self._guard:
            known = self._sessions.get(session.id)
            if known is None or known[0] != (session.root, session.principal):
                known = self._sessions[session.id] = ((session.root, session.principal), self._tree(session))
            return known[1]

    def save(self, session: Session) -> None:
        """Keep what was masked since; to be called before anything that names a new placeholder leaves.

        Raises:
            StoreError: it cannot be kept.
        """
        veil = self.veil(session)
        owner = veil.vault.owner
        if len(veil.vault) == self._saved[owner.session]:
            return
        with self._database.transaction():
            stored = self._stored(owner)  # another process may work on the same tree
            if stored is not None:
                veil.vault.adopt(stored)
            self._database.execute(
                "INSERT INTO vaults (root, tenant, agent, sealed) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (root) DO UPDATE SET sealed = excluded.sealed",
                (owner.session, owner.tenant, owner.principal, veil.vault.seal(self._key)),
            )
        self._saved[owner.session] = len(veil.vault)

    def digest(self, value: Json) -> str:
        """A keyed hash of any value: it binds, and tells nothing to who has not the key."""
        return hmac.new(self._key, canonical_json(value), hashlib.sha256).hexdigest()

    def names(self, veil: Veil, *kept: Json) -> dict[str, Json]:
        """A keyed hash of each value behind the placeholders in `kept`: it binds a yes and tells nothing."""
        return {name: self._name(veil.vault.owner, entry) for name, entry in veil.entries(*kept).items()}

    def reveal(self, item: Item) -> dict[str, str]:
        """What the placeholders of a question stand for, as an approver may read it; secrets only by their look.

        Raises:
            Refused: it cannot be told, or is not what the question was asked about: nobody should say yes to it.
        """
        named = item.bound.get(VALUES)
        if not isinstance(named, Mapping) or not named:
            return {}
        veil = self.veil(self._session(item.session, item.agent, item.tenant))
        found = {}
        for placeholder, name in named.items():
            entry = veil.vault.entry(placeholder)
            if entry is None or not hmac.compare_digest(self._name(veil.vault.owner, entry), str(name)):
                raise NotFound(
                    f"what {placeholder} in {item.id} stands for is not on record here", hint="deny it, and ask again"
                )
            found[placeholder] = _told(entry)
        return found

    def revealed(self, entry: JournalEntry) -> JournalEntry:
        """A journal's entry with personal data in the place of placeholders; secrets stay hidden.

        Raises:
            Refused: what was kept of its session cannot be opened with this key.
        """
        if MARK not in entry.text:
            return entry
        veil = self.veil(self._session(entry.session, entry.agent, entry.tenant))
        return replace(entry, text=encode_body(veil.revealed(json.loads(entry.text), secrets=False)))

    def real(self, entry: JournalEntry, kept: Json) -> Json:
        """What a journal's entry keeps of a call, with the real values; for undoing it.

        Raises:
            Refused: what was kept of its session cannot be opened with this key.
        """
        return self.veil(self._session(entry.session, entry.agent, entry.tenant)).revealed(kept, secrets=True)

    def _name(self, owner: Owner, entry: Entry) -> str:
        message = canonical_json(
            ["overnight value 1", owner.tenant, owner.principal, owner.session, entry.kind, entry.text]
        )
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def _tree(self, session: Session) -> Veil:
        owner = self._owner(session)
        if owner.session not in self._veils:
            vault = self._stored(owner) or Vault(owner)
            self._veils[owner.session] = Veil(vault)
            self._saved[owner.session] = len(vault)
        return self._veils[owner.session]

    def _owner(self, session: Session) -> Owner:
        """Whose values they are: the outermost session's, as the kernel recorded it and not as the handle says."""
        if not session.id:
            return Owner("", "", "")
        row = self._database.row(
            "SELECT s.root, s.agent, s.tenant, r.agent AS owner FROM sessions s JOIN sessions r ON r.id = s.root"
            " WHERE s.id = ?",
            (session.id,),
        )
        if row is None:
            raise NotFound(f"there is no session {session.id!r}", hint="open it first")
        principal = session.principal
        if (row["root"], row["agent"], row["tenant"]) != (session.root, principal.agent, principal.tenant):
            raise Refused(
                f"{session.id} is not a session of {principal.agent} below {session.root}",
                reason="vault_not_yours",
                hint="use the session as it was opened",
            )
        return Owner(row["tenant"], row["owner"], row["root"])

    def _session(self, name: str, agent: str, tenant: str) -> Session:
        row = self._database.row("SELECT root FROM sessions WHERE id = ?", (name,))
        return Session(name, Principal(agent, tenant), row["root"] if row else "", None, "")

    def _stored(self, owner: Owner) -> Vault | None:
        row = self._database.row("SELECT sealed FROM vaults WHERE root = ?", (owner.session,))
        return None if row is None else Vault.open(bytes(row["sealed"]), self._key, owner)


def open_vaults(root: Path, database: Database) -> Vaults:
    """The vaults of the workspace at `root`, with the key of the configuration folder.

    Raises:
        SettingsError: that folder lies inside the workspace.
        StoreError: the key cannot be read or made.
    """
    return Vaults(database, secret_key(outside(config_folder(), root), "vault"))


def _told(entry: Entry) -> str:
    if entry.kind not in SECRETS:
        return visible(entry.text, limit=300)
    kind = entry.kind.replace("_", " ")
    end = f", ending in {visible(entry.text[-_SHOWN_OF_SECRET:])}" if len(entry.text) >= 6 * _SHOWN_OF_SECRET else ""
    return f"a {kind} of {len(entry.text)} characters{end}"
