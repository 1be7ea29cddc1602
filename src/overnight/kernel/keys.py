"""Private keys, kept outside every workspace in the user's own configuration folder.

The folder is `$OVERNIGHT_CONFIG_DIR`, else `$XDG_CONFIG_HOME/overnight`, else `~/.config/overnight`; it is 0700, every
file in it 0600. No sandbox mounts it, and no client of our servers is given anything from it. A program that runs as
the same user *outside* a sandbox can read it: against that, only a passphrase on the approver's credential and an
anchor on another machine help (see docs/journal.md).
"""

import contextlib
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from overnight.core.errors import Missing, SettingsError, StoreError

SECRET_BYTES = 32


def config_folder() -> Path:
    """Where keys, the approver's credential and anchors lie; it need not exist yet."""
    chosen = os.environ.get("OVERNIGHT_CONFIG_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "overnight"


def outside(folder: Path, workspace: Path) -> Path:
    """`folder`, if it lies outside `workspace`.

    Raises:
        SettingsError: it lies inside, where agents can reach it.
    """
    inner, outer = Path(os.path.realpath(folder)), Path(os.path.realpath(workspace))
    if inner.is_relative_to(outer):
        raise SettingsError(
            f"the configuration folder {folder} lies inside the workspace {workspace}, where agents can read its keys",
            hint="set OVERNIGHT_CONFIG_DIR to a folder outside the workspace",
        )
    return folder


def private_folder(folder: Path) -> Path:
    """Create `folder` as 0700 if need be and check that nobody else can reach into it.

    Raises:
        StoreError: it cannot be made, belongs to somebody else, or is open to others.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as problem:
        raise StoreError(f"cannot use {folder}: {problem.strerror}", hint="set OVERNIGHT_CONFIG_DIR") from problem
    _check_private(folder, found, "700")
    return folder


def read_private(path: Path) -> bytes:
    """The content of a private file.

    Raises:
        Missing: there is none.
        StoreError: it cannot be read, is a symbolic link, belongs to somebody else, or is open to others.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Missing(f"there is no {path}", hint="restore it from a backup") from None
    except OSError as problem:
        raise StoreError(f"cannot read {path}: {problem.strerror}", hint="check its owner and mode") from problem
    with os.fdopen(descriptor, "rb") as file:
        _check_private(path, os.fstat(descriptor), "600")
        return file.read()


def create_private(path: Path, content: bytes) -> bool:
    """Write a private file that does not exist yet, whole or not at all; False if it exists already.

    Raises:
        StoreError: it cannot be written.
    """
    private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        # A hard link fails when the name is taken; a rename would replace another process's key.
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as problem:
        raise StoreError(f"cannot write {path}: {problem.strerror}", hint="check the folder's owner") from problem
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
    return True


def secret_key(folder: Path, name: str) -> bytes:
    """The 32 random bytes kept as `<name>.key` in `folder`, made at their first use.

    Raises:
        StoreError: they cannot be read or made, are damaged, or are open to others.
    """
    path = folder / f"{name}.key"
    if not path.exists():
        create_private(path, secrets.token_bytes(SECRET_BYTES).hex().encode() + b"\n")
    private_folder(folder)
    try:
        secret = bytes.fromhex(read_private(path).decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise StoreError(f"{path} is not a key", hint="restore it from a backup")
    return secret


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 key pair. `secret` are its 32 private bytes; they are never shown."""

    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"

    @classmethod
    def open(cls, folder: Path, name: str) -> "SigningKey":
        """The key kept as `<name>.key` in `folder`, made at its first use.

        Raises:
            StoreError: it cannot be read or made, is damaged, or is open to others.
        """
        return cls(secret_key(folder, name))

    @cached_property
    def _pair(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> bytes:
        """The 32 public bytes."""
        return self._pair.public_key().public_bytes_raw()

    @cached_property
    def id(self) -> str:
        """What records call the key; see `key_id`."""
        return key_id(self.public)

    def sign(self, message: bytes) -> bytes:
        """A signature of 64 bytes."""
        return self._pair.sign(message)


def key_id(public: bytes) -> str:
    """The name of a public key: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:16]


def signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of `public` signed `message`; False for anything malformed."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _check_private(path: Path, found: os.stat_result, mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise StoreError(f"{path} belongs to user {found.st_uid}, not to you", hint="set OVERNIGHT_CONFIG_DIR")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreError(f"{path} is open to other users", hint=f"chmod {mode} {path}")
