"""Which placeholder stands for which value, for one owner."""

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from overnight.core.errors import Refused
from overnight.kernel.masking.kinds import KINDS, Kind

_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_STEM: Final = 10
_TAIL: Final = 2
PLACEHOLDER: Final = re.compile(rf"MASKED_[A-Z_]{{3,12}}_[{_ALPHABET}]{{{_STEM + _TAIL}}}")
"""What a placeholder looks like: letters, digits and underscores, so that JSON, URLs, Markdown, shells and models leave
it whole; of fixed length after the kind, so that text behind it can't be taken for a part of it."""
LONGEST: Final = len("MASKED__") + max(map(len, KINDS)) + _STEM + _TAIL


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose values a vault holds; all three must match before any is given out."""

    tenant: str
    principal: str
    session: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One masked value: its kind, what it is without disguise, and the characters that were replaced."""

    kind: Kind
    value: str
    text: str


class Vault:
    """Placeholders of one owner. Not thread-safe: a session is one stretch of work.

    A value keeps its placeholder for the whole session. Spellings of one value (a card with and without blanks) share
    all but the last two characters, so that a model sees that they are the same while each comes back as it was.
    """

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._entries: dict[str, Entry] = {}
        self._known: dict[tuple[Kind, str], str] = {}
        self._stems: dict[tuple[Kind, str], str] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def placeholder(self, kind: Kind, value: str, text: str, context: str) -> str:
        """The placeholder for `text`, minted if new, and then certain not to occur in `context`."""
        known = self._known.get((kind, text))
        if known is not None:
            return known
        while True:
            stem = self._stems.get((kind, value)) or _random(_STEM)
            minted = f"MASKED_{kind.upper()}_{stem}{_random(_TAIL)}"
            if minted not in self._entries and minted not in context:
                break
            if sum(each.startswith(minted[:-_TAIL]) for each in self._entries) > len(_ALPHABET):
                self._stems.pop((kind, value), None)
        self._stems[kind, value] = stem
        self._entries[minted] = Entry(kind, value, text)
        self._known[kind, text] = minted
        return minted

    def adopt(self, other: "Vault") -> None:
        """Take in what `other`, of the same owner, minted; what is known here stays as it is."""
        assert other.owner == self.owner, "values of one owner never reach another's vault"
        for placeholder, entry in other._entries.items():
            self._adopt(placeholder, entry)

    def entry(self, placeholder: str) -> Entry | None:
        """What `placeholder` stands for; None if it is none of this vault's."""
        return self._entries.get(placeholder)

    def within(self, text: str) -> Iterator[tuple[int, int]]:
        """Where this vault's placeholders stand in `text`."""
        if self._entries and "MASKED_" in text:
            for match in PLACEHOLDER.finditer(text):
                if match[0] in self._entries:
                    yield match.span()

    def seal(self, key: bytes) -> bytes:
        """The vault as bytes for the database, encrypted and bound to its owner.

        Args:
            key: 32 random bytes that lie outside the workspace (see `docs/masking.md`).
        """
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        content = json.dumps([[name, e.kind, e.value, e.text] for name, e in self._entries.items()]).encode()
        nonce = secrets.token_bytes(12)
        return nonce + AESGCM(key).encrypt(nonce, content, _bound_to(self.owner))

    @classmethod
    def open(cls, sealed: bytes, key: bytes, owner: Owner) -> "Vault":
        """The vault that was sealed for `owner` with `key`.

        Raises:
            Refused: it was sealed for someone else, with another key, or was changed.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            content = AESGCM(key).decrypt(sealed[:12], sealed[12:], _bound_to(owner))
        except (InvalidTag, ValueError) as problem:
            raise Refused(
                f"the masked values of session {owner.session!r} cannot be opened",
                reason="vault_not_yours",
                hint="they belong to another session, principal or tenant, the key changed, or the record was damaged",
            ) from problem
        vault = cls(owner)
        for name, kind, value, text in json.loads(content):
            vault._adopt(name, Entry(kind, value, text))
        return vault

    def _adopt(self, placeholder: str, entry: Entry) -> None:
        self._entries.setdefault(placeholder, entry)
        self._known.setdefault((entry.kind, entry.text), placeholder)
        self._stems.setdefault((entry.kind, entry.value), placeholder[-_STEM - _TAIL : -_TAIL])


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _bound_to(owner: Owner) -> bytes:
    return json.dumps(["overnight vault 1", owner.tenant, owner.principal, owner.session]).encode()
