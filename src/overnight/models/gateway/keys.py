"""Keys of the gateway: who a request is charged to. A key is shown once; the database has its hash."""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from overnight.core.errors import NotFound, UsageError
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.kernel.session import Principal
from overnight.store.database import Database

_KEY: Final = re.compile(r"ovn-([0-9a-f]{12})-([A-Za-z0-9_-]{43})")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
OWN: Final = "own-"
"""How the names of keys begin that our own calls make for themselves."""
REVOKED_WITHIN_S: Final = 1.0
"""How long a running gateway may still take a key that was revoked."""


@dataclass(frozen=True)
class Key:
    """A key without its secret.

    Attributes:
        id: 12 hex digits; the ledger's `key`.
        name: for people.
        tenant: who pays.
        agent: who is charged.
        run: run of the loop it belongs to, or empty.
        limits: its own, beside those of the configuration.
        expires_at: seconds since the epoch; None: never.
        revoked: whether it was.
    """

    id: str
    name: str
    tenant: str
    agent: str
    run: str
    limits: tuple[Limit, ...]
    expires_at: float | None
    revoked: bool

    def subject(self, release: str) -> Subject:
        """Whom the ledger charges for a call of a release."""
        return Subject(self.agent, self.tenant, tool=f"models.{release}", family="models", key=self.id, run=self.run)


class Keys:
    """All keys of a workspace. Thread-safe; several processes may have it open."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, Key, str]] = {}

    def make(
        self,
        name: str,
        *,
        agent: str = "outside",
        tenant: str = "default",
        run: str = "",
        limits: Sequence[Limit] = (),
        expires_in_s: float | None = None,
    ) -> tuple[Key, str]:
        """A new key, and the text that a client sends: it cannot be had again.

        Args:
            name: for people; unique.
            agent: who is charged.
            tenant: who pays.
            run: run of the loop it belongs to.
            limits: for this key alone, such as `Limit("usd", 5)`.
            expires_in_s: seconds from now; None: never.

        Raises:
            UsageError: a name is malformed or taken.
        """
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"a key cannot be called {name!r}", hint="use lower-case letters, digits, '-', '.' and '_'"
            )
        Principal(agent, tenant)
        key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = f"ovn-{key_id}-{secret}"
        own = [[limit.unit, limit.amount, limit.window] for limit in limits]
        now = time.time()
        with self._database.transaction():
            if self._database.row("SELECT 1 FROM gateway_keys WHERE name = ?", (name,)):
                raise UsageError(f"there is a key called {name!r} already", hint="revoke it, or choose another name")
            self._database.execute(
                "INSERT INTO gateway_keys (id, name, sha256, tenant, agent, run, limits, created_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    key_id,
                    name,
                    _hash(key),
                    tenant,
                    agent,
                    run,
                    json.dumps(own),
                    now,
                    None if expires_in_s is None else now + expires_in_s,
                ),
            )
        found = self._read(key_id)
        assert found is not None
        return found[0], key

    def check(self, presented: str) -> Key | None:
        """The key that was presented, if it is one and in force."""
        match = _KEY.fullmatch(presented)
        if match is None:
            return None
        now = time.monotonic()
        known = self._known.get(match[1])
        if known is None or known[0] < now:
            found = self._read(match[1])
            if found is None:
                return None
            if len(self._known) > 4096:
                self._known.clear()
            known = self._known[match[1]] = (now + REVOKED_WITHIN_S, *found)
        _, key, sha256 = known
        if not hmac.compare_digest(_hash(presented), sha256) or key.revoked:
            return None
        return None if key.expires_at is not None and key.expires_at <= time.time() else key

    def revoke(self, name: str) -> None:
        """Take a key out of force.

        Raises:
            NotFound: there is none of that name.
        """
        changed = self._database.execute(
            "UPDATE gateway_keys SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL", (time.time(), name)
        )
        if not changed.rowcount:
            raise NotFound(f"there is no key {name!r} in force", hint="`overnight gateway key list` names them")
        self._known.clear()

    def all(self) -> list[Key]:
        """Every key, oldest first."""
        rows = self._database.rows("SELECT id FROM gateway_keys ORDER BY created_at")
        return [found[0] for row in rows if (found := self._read(row["id"])) is not None]

    def _read(self, key_id: str) -> tuple[Key, str] | None:
        row = self._database.row("SELECT * FROM gateway_keys WHERE id = ?", (key_id,))
        if row is None:
            return None
        limits = tuple(
            Limit(unit, amount, window, only=(("key", key_id),)) for unit, amount, window in json.loads(row["limits"])
        )
        key = Key(
            key_id,
            row["name"],
            row["tenant"],
            row["agent"],
            row["run"],
            limits,
            row["expires_at"],
            row["revoked_at"] is not None,
        )
        return key, row["sha256"]


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
