"""The approver's credential: a person's key, without which nothing is approved, trusted, rolled back or accepted.

It lies in the configuration folder, outside every workspace; no sandbox mounts it and no client of our servers gets it.
A decision counts only with its signature, so that writing to the workspace's database approves nothing. What it
can't stop alone: a program run by the same user *outside* a sandbox can read the file. A passphrase closes that gap for
reading (the key is then sealed with scrypt and ChaCha20-Poly1305, and only a person can open it).
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overnight.core.errors import Missing, Refused, StoreError, UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.keys import (
    SECRET_BYTES,
    SigningKey,
    config_folder,
    create_private,
    key_id,
    private_folder,
    read_private,
    signed_by,
)

AGENT_VARIABLE = "OVERNIGHT_AGENT"
"""Set in the environment of every process started for an agent. A courtesy that gives a clear message, not a boundary:
the boundary is that such processes cannot read the file."""

# 32 MiB and about a tenth of a second, what OWASP's password storage cheat sheet asks of scrypt at the least.
_SCRYPT = {"n": 1 << 15, "r": 8, "p": 3}
_SCRYPT_LIMITS = {"n": 1 << 20, "r": 16, "p": 16}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Credential:
    """Proof that a person acts. Held only as long as the command it was opened for."""

    name: str
    key: SigningKey

    def __repr__(self) -> str:
        return f"Credential({self.name})"

    @property
    def id(self) -> str:
        """Id of the key, as signatures name it."""
        return self.key.id


@dataclass(frozen=True, slots=True)
class KnownApprover:
    """The public half of a credential."""

    name: str
    public: bytes
    passphrase: bool


class Approver:
    """The credentials of one configuration folder (`approvers/<name>.json`)."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (config_folder() if folder is None else folder) / "approvers"

    def known(self) -> dict[str, KnownApprover]:
        """Everybody whose decisions count, by key id; empty before the first was made.

        The first is enrolled by nobody; each further one by one of the others, with a signature that is checked here.

        Raises:
            StoreError: a file is damaged, open to others, or was enrolled by nobody.
        """
        if not self.folder.is_dir():
            return {}
        waiting = [self._read(path.stem) for path in sorted(self.folder.glob("*.json"))]
        found: dict[str, KnownApprover] = {}
        while waiting:
            # One a round: of two that were enrolled by nobody, at most one is the first.
            file = next((file for file in waiting if self._enrolled(file, found)), None)
            if file is None:
                names = ", ".join(repr(file["name"]) for file in waiting)
                raise StoreError(
                    f"approvers enrolled by nobody known: {names}",
                    hint=f"remove the file from {self.folder} of whom you don't know",
                )
            public = bytes.fromhex(file["public"])
            found[key_id(public)] = KnownApprover(file["name"], public, "sealed" in file)
            waiting.remove(file)
        return found

    def create(self, name: str, passphrase: str | None = None, *, by: Credential | None = None) -> Credential:
        """A new credential, for a person who asked for it (`overnight init`, at a terminal).

        Args:
            name: lower-case, shown in the record beside what was approved.
            passphrase: asked for at every use; None leaves the key readable by this user's own programs.
            by: who enrols it; needed as soon as there is an approver.

        Raises:
            UsageError: the name is taken or not usable, or the passphrase is empty.
            Refused: there is an approver already and `by` is not one.
        """
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} cannot name an approver", hint="use lower-case letters, digits, '-', '.', '_'")
        if passphrase is not None and len(passphrase) < 8:
            raise UsageError("the passphrase is shorter than 8 characters", hint="choose a longer one")
        _refuse_agents()
        known = self.known()
        if known and (by is None or by.id not in known):
            raise Refused(
                f"there is an approver already; {name!r} must be enrolled by one",
                reason="approver_needed",
                hint="open an existing credential first",
            )
        key = SigningKey(secrets.token_bytes(SECRET_BYTES))
        file: dict[str, Json] = {"format": 1, "name": name, "public": key.public.hex()}
        if by is not None:
            file |= {"by": by.id, "enrolment": by.key.sign(_enrolment(name, key.public)).hex()}
        file |= {"secret": key.secret.hex()} if passphrase is None else {"sealed": _seal(key.secret, passphrase)}
        private_folder(self.folder.parent)  # first: made as a parent it would be open to others
        if not create_private(self.folder / f"{name}.json", json.dumps(file, indent=1).encode()):
            raise UsageError(f"there is an approver {name!r} already", hint="choose another name")
        return Credential(name, key)

    def credential(self, passphrase: str | None = None, *, name: str | None = None) -> Credential:
        """Open a credential. `name` may be left out where there is one only.

        Raises:
            Missing: there is none here: not made yet, or this is a sandbox.
            Refused: this is an agent's process, the passphrase is missing or wrong.
            StoreError: the file is damaged or open to others.
        """
        _refuse_agents()
        known = self.known()
        names = sorted(approver.name for approver in known.values())
        if not names or (name is not None and name not in names):
            raise Missing(
                f"there is no approver{'' if name is None else f' {name!r}'} in {self.folder}",
                hint="the first `overnight gate trust` or `overnight approve` at a terminal makes one",
            )
        if name is None and len(names) > 1:
            raise UsageError(f"there are several approvers: {', '.join(names)}", hint="say which with --as NAME")
        file = self._read(name or names[0])
        if "sealed" in file:
            if passphrase is None:
                raise Refused("the approver's credential needs its passphrase", reason="passphrase_needed")
            secret = _unseal(file["sealed"], passphrase)
        else:
            secret = bytes.fromhex(file["secret"])
        key = SigningKey(secret)
        if key.public.hex() != file["public"]:
            raise StoreError(f"the credential of {file['name']!r} is damaged", hint="restore it from a backup")
        return Credential(file["name"], key)

    def _read(self, name: str) -> Mapping[str, str]:
        path = self.folder / f"{name}.json"
        private_folder(self.folder)
        try:
            file = json.loads(read_private(path))
            valid = (
                isinstance(file, dict)
                and file.get("name") == name
                and all(type(file[key]) is str for key in file if key != "format")
                and len(bytes.fromhex(file["public"])) == SECRET_BYTES
                and ("secret" in file) != ("sealed" in file)
                and len(bytes.fromhex(file.get("secret", "00" * SECRET_BYTES))) == SECRET_BYTES
            )
        except (ValueError, KeyError):
            valid = False
        if not valid:
            raise StoreError(f"{path} is no approver's credential", hint="restore it from a backup")
        return cast(Mapping[str, str], file)

    @staticmethod
    def _enrolled(file: Mapping[str, str], known: Mapping[str, KnownApprover]) -> bool:
        if "by" not in file:
            return not known
        by = known.get(file["by"])
        try:
            signature = bytes.fromhex(file.get("enrolment", ""))
        except ValueError:
            return False
        message = _enrolment(file["name"], bytes.fromhex(file["public"]))
        return by is not None and signed_by(by.public, message, signature)


def _enrolment(name: str, public: bytes) -> bytes:
    return f"overnight approver 1\n{name}\n{public.hex()}\n".encode()


def _refuse_agents() -> None:
    if os.environ.get(AGENT_VARIABLE):
        raise Refused(
            "an agent's process cannot use the approver's credential",
            reason="agent_process",
            hint="a person approves, in a terminal of their own",
        )


def _seal(secret: bytes, passphrase: str) -> str:
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    key = _derive(passphrase, salt, **_SCRYPT)
    numbers = ":".join(str(_SCRYPT[name]) for name in ("n", "r", "p"))
    return f"scrypt:{numbers}:{salt.hex()}:{nonce.hex()}:{ChaCha20Poly1305(key).encrypt(nonce, secret, None).hex()}"


def _unseal(sealed: str, passphrase: str) -> bytes:
    try:
        method, n, r, p, salt, nonce, body = sealed.split(":")
        costs = {"n": int(n), "r": int(r), "p": int(p)}
        if method != "scrypt" or any(costs[name] > limit for name, limit in _SCRYPT_LIMITS.items()):
            raise ValueError(method)
        key = _derive(passphrase, bytes.fromhex(salt), **costs)
        return ChaCha20Poly1305(key).decrypt(bytes.fromhex(nonce), bytes.fromhex(body), None)
    except InvalidTag:
        raise Refused("the passphrase is wrong", reason="wrong_passphrase", hint="try again") from None
    except ValueError:
        raise StoreError("the approver's credential is damaged", hint="restore it from a backup") from None


def _derive(passphrase: str, salt: bytes, *, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=SECRET_BYTES)
