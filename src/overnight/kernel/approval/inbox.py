"""The inbox: the one queue of things that wait for a person.

An item names what it asks for by a hash, its *binding*; its id is made of all that is shown of it, and a vote is an
approver's signature over journal, id, binding and verdict. So a yes means exactly what was shown under that id, writing
to the database approves nothing, and it is good for one use.
Kinds are added by whoever needs them; the rules here are the same for all.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from overnight.core.errors import NotFound, Refused, UsageError
from overnight.kernel.approval.approver import Approver, Credential, KnownApprover
from overnight.kernel.approval.item import COLUMNS, Item, Kind, State, Vote, ballot, from_row, identity
from overnight.kernel.canonical import Json, canonical_json, content_hash
from overnight.kernel.journal.journal import Draft, Journal
from overnight.kernel.keys import signed_by
from overnight.store.database import Database

__all__ = ["Inbox", "Item", "Kind", "State", "Vote"]

POLL_S = 0.1
"""How often a waiting caller looks for a vote made by another process."""


class Inbox:
    """One workspace's inbox. Thread-safe; votes made by another process are seen."""

    def __init__(self, database: Database, approver: Approver, journal: Journal) -> None:
        self._database = database
        self._approver = approver
        self._journal = journal
        self._voted = threading.Condition()

    def add(
        self,
        kind: Kind,
        title: str,
        bound: Mapping[str, Json],
        *,
        context: Mapping[str, Json] | None = None,
        session: str = "",
        tenant: str = "",
        agent: str = "",
        needed: int = 1,
        expires_s: float | None = None,
    ) -> Item:
        """Ask for something. The same question of the same session that is still open is not asked twice.

        Args:
            kind: what is asked for.
            title: one line.
            bound: what a yes would be good for, complete: it is hashed, shown, and checked again at use.
            context: what else to show.
            session: of the asking agent.
            tenant: who pays.
            agent: who asks.
            needed: how many different approvers must say yes.
            expires_s: seconds until it counts as denied; None waits for ever.

        Returns:
            The new item, or the one with the same kind, binding and session that is neither used nor expired; it may
            have been approved or denied in the meantime.

        Raises:
            UsageError: `bound` or `context` is not JSON, or `needed` or `expires_s` is not positive.
            StoreError: it cannot be written.
        """
        if needed < 1 or (expires_s is not None and not expires_s > 0):
            raise UsageError(f"an item needs {needed} approvers within {expires_s}s", hint="both must be positive")
        binding = content_hash(bound)
        now = time.time()
        request = canonical_json({"bound": bound, "context": context or {}}).decode()
        item = Item(
            "", kind, binding, title, bound, context or {}, session, tenant, agent, needed, now,
            None if expires_s is None else now + expires_s, None,
        )  # fmt: skip
        item = replace(item, id=identity(item))
        with self._database.transaction():
            row = self._database.row(
                f"SELECT {COLUMNS} FROM inbox_items WHERE binding = ? AND kind = ? AND session = ? AND needed >= ?"
                " AND used_at IS NULL AND (expires_at IS NULL OR expires_at > ?) ORDER BY created_at DESC LIMIT 1",
                (binding, kind, session, needed, now),
            )
            if row is not None:
                return from_row(row)
            self._database.execute(
                f"INSERT INTO inbox_items ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    item.id, kind, binding, title, request, session, tenant, agent, needed, item.created_at,
                    item.expires_at,
                ),
            )  # fmt: skip
        self._note(item, {"asked": title, "kind": kind, "binding": binding, "needed": needed}, durable=False)
        return item

    def get(self, item_id: str) -> Item:
        """The item.

        Raises:
            NotFound: there is none with this id.
        """
        row = self._database.row(f"SELECT {COLUMNS} FROM inbox_items WHERE id = ?", (item_id,))
        if row is None:
            raise NotFound(f"nothing in the inbox is called {item_id!r}", hint="list it with `overnight inbox`")
        return from_row(row)

    def pending(self, *, kind: Kind | None = None, tenant: str | None = None) -> list[Item]:
        """What waits for a person, oldest first."""
        rows = self._database.rows(
            f"SELECT {COLUMNS} FROM inbox_items WHERE used_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
            " ORDER BY created_at, id",
            (time.time(),),
        )
        items = [from_row(row) for row in rows]
        return [
            item
            for item in items
            if kind in (None, item.kind) and tenant in (None, item.tenant) and self._state(item) == "pending"
        ]

    def unused(self, kind: Kind, agent: str, tenant: str) -> list[Item]:
        """What an agent asked, in any session, that is neither used up nor expired; oldest first."""
        rows = self._database.rows(
            f"SELECT {COLUMNS} FROM inbox_items WHERE kind = ? AND agent = ? AND tenant = ? AND used_at IS NULL"
            " AND (expires_at IS NULL OR expires_at > ?) ORDER BY created_at, id",
            (kind, agent, tenant, time.time()),
        )
        return [from_row(row) for row in rows]

    def state(self, item_id: str) -> State:
        """How it stands.

        Raises:
            NotFound: there is none with this id.
        """
        return self._state(self.get(item_id))

    def votes(self, item_id: str) -> list[Vote]:
        """The votes that count: signed, over this item and its binding, by an approver that is known here."""
        return self._votes(self.get(item_id), self._approver.known())

    def approve(self, item_id: str, credential: Credential, why: str = "") -> State:
        """Say yes to exactly what the item shows; the state after it (`pending` while more approvers are needed).

        Raises:
            NotFound: there is none with this id.
            Refused: it was decided or expired already, was changed since it was asked, the credential is unknown, or
                this approver voted already.
        """
        return self._vote(item_id, credential, "approve", why)

    def deny(self, item_id: str, credential: Credential, why: str = "") -> State:
        """Say no; one no is final.

        Raises:
            NotFound: there is none with this id.
            Refused: see `approve`.
        """
        return self._vote(item_id, credential, "deny", why)

    def wait(self, item_id: str, timeout_s: float) -> State:
        """Wait up to `timeout_s` seconds for a decision, and say how it stands then.

        Raises:
            NotFound: there is none with this id.
        """
        item = self.get(item_id)
        until = time.monotonic() + timeout_s
        while True:
            state = self._state(item)
            rest_s = until - time.monotonic()
            if state != "pending" or rest_s <= 0:
                return state
            with self._voted:
                self._voted.wait(min(rest_s, POLL_S))

    def use(self, item_id: str, bound: Mapping[str, Json]) -> Item:
        """Use up the yes of an item, immediately before doing what it allows.

        Args:
            item_id: the item.
            bound: what is about to be done, computed anew; it must be what was approved.

        Raises:
            Refused: it is not what was approved, or there is no unused, unexpired yes.
        """
        binding = content_hash(bound)
        with self._database.transaction():
            item = self.get(item_id)
            if binding != item.binding:
                raise Refused(
                    f"what would run is not what {item.id} asked for", reason="approval_mismatch", hint="ask again"
                )
            if identity(item) != item.id:
                raise Refused(f"{item.id} was changed after it was asked", reason="approval_tampered", hint="ask again")
            state = self._state(item)
            # The journal remembers a use even when somebody resets the column.
            used = any("used" in entry.body for entry in self._journal.of_action(item.id))
            if state != "approved" or used:
                state = "used" if used else state
                raise Refused(f"{item.id} is {state}", reason=f"approval_{state}", hint="ask again")
            self._database.execute("UPDATE inbox_items SET used_at = ? WHERE id = ?", (time.time(), item.id))
        self._note(item, {"used": True, "binding": binding}, durable=True)
        return item

    def _vote(self, item_id: str, credential: Credential, verdict: Literal["approve", "deny"], why: str) -> State:
        item = self.get(item_id)
        known = self._approver.known()
        if credential.id not in known:
            raise Refused(f"{credential.name!r} is no approver here", reason="unknown_approver")
        if verdict == "approve" and (content_hash(item.bound) != item.binding or identity(item) != item.id):
            raise Refused(f"{item.id} was changed after it was asked", reason="approval_tampered", hint="deny it")
        at = time.time()
        signature = credential.key.sign(ballot(self._journal.id, item, verdict, why, at))
        with self._database.transaction():
            state = self._state(item)
            if state != "pending":
                raise Refused(f"{item.id} is {state} already", reason=f"approval_{state}")
            if any(vote.approver == credential.id for vote in self._votes(item, known)):
                raise Refused(
                    f"{credential.name!r} said yes to {item.id} already; it needs {item.needed} different approvers",
                    reason="approval_quorum",
                )
            self._database.execute("DELETE FROM inbox_votes WHERE item = ? AND approver = ?", (item.id, credential.id))
            self._database.execute(
                "INSERT INTO inbox_votes (item, approver, verdict, why, at, signature) VALUES (?, ?, ?, ?, ?, ?)",
                (item.id, credential.id, verdict, why, at, signature.hex()),
            )
            state = self._state(item)
        self._note(
            item, {"vote": verdict, "approver": credential.id, "name": credential.name, "why": why,
                   "binding": item.binding, "signature": signature.hex()}, durable=True,
        )  # fmt: skip
        with self._voted:
            self._voted.notify_all()
        return state

    def _state(self, item: Item) -> State:
        row = self._database.row("SELECT used_at FROM inbox_items WHERE id = ?", (item.id,))
        if row is None or row["used_at"] is not None:
            return "used"
        votes = self._votes(item, self._approver.known())
        if any(vote.verdict == "deny" for vote in votes):
            return "denied"
        if item.expires_at is not None and time.time() >= item.expires_at:
            return "expired"
        # At least one, whatever somebody wrote into the row.
        return "approved" if len(votes) >= max(item.needed, 1) else "pending"

    def _votes(self, item: Item, known: Mapping[str, KnownApprover]) -> list[Vote]:
        found = []
        rows = self._database.rows("SELECT * FROM inbox_votes WHERE item = ? ORDER BY at", (item.id,))
        for row in rows:
            approver = known.get(row["approver"])
            if approver is None or row["verdict"] not in ("approve", "deny"):
                continue
            try:
                signature = bytes.fromhex(row["signature"])
            except ValueError:
                continue
            if signed_by(
                approver.public, ballot(self._journal.id, item, row["verdict"], row["why"], row["at"]), signature
            ):
                found.append(Vote(row["approver"], approver.name, row["verdict"], row["why"], row["at"]))
        return found

    def _note(self, item: Item, body: Mapping[str, Json], *, durable: bool) -> None:
        draft = Draft("approval", body, action=item.id, session=item.session, tenant=item.tenant, agent=item.agent)
        self._journal.append(draft, durable=durable)
