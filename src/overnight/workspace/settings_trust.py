"""`overnight.toml` as it is in force: as it stands as long as nobody could trust it, then as the approver last did.

It says where requests and keys go, what runs as an author, and what may be spent; an agent that can write to the
workspace must not be able to change that by writing a file.
"""

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from overnight.core.errors import Refused
from overnight.kernel.keys import SigningKey, config_folder, outside
from overnight.store.database import Database
from overnight.workspace.settings import FILE


def needs_trust(folder: Path) -> bool:
    """Whether there is an approver, so that only trusted settings are in force.

    Raises:
        SettingsError: the configuration folder lies inside the workspace.
        StoreError: the approvers cannot be read.
    """
    config = outside(config_folder(), folder)
    if not (config / "approvers").is_dir():
        return False
    # Most people who have no approver need none of the kernel for a question.
    from overnight.kernel.approval.approver import Approver

    return bool(Approver(config).known())


def trusted_digest(database: Database) -> str:
    """Which copy is trusted, to see whether that has changed; "" if none is. Not checked, and cheap."""
    row = database.row("SELECT sha256, signature FROM trusted_files WHERE path = ?", (FILE,))
    return f"{row['sha256']} {row['signature']}" if row else ""


def text_in_force(folder: Path, database: Callable[[], Database]) -> tuple[str | None, str]:
    """What is in force, and a remark for the person if that is not the file.

    Args:
        folder: of the workspace.
        database: opens its database; called only where it is needed.

    Returns:
        The text, None for the file as it stands; and the remark, "" if there is nothing to say.

    Raises:
        Refused: the file was never trusted, and nobody is at the terminal to do so.
        StoreError: the trusted copy was changed in the database, or cannot be read.
    """
    if not needs_trust(folder):
        return None, ""
    from overnight.kernel.approval.trust import trusted

    present = (folder / FILE).exists()
    if not present and not (folder / ".overnight" / "overnight.db").is_file():
        return "", ""
    standing = (folder / FILE).read_bytes() if present else None
    copy = trusted(database(), SigningKey.open(config_folder(), "trust"), FILE)
    if copy is not None and copy == standing:
        return _text(copy), ""
    if copy is None and (standing is None or _says_nothing(standing)):
        return "", ""
    copy, said = _settled(folder, database())
    remark = f"{FILE} has changed since it was trusted; the trusted copy rules until `overnight gate trust`"
    return _text(copy), said or ("" if copy == standing else remark)


def _settled(folder: Path, database: Database) -> tuple[bytes, str]:
    """The trusted copy after what was approved in the inbox, or what is trusted by being used first at a terminal."""
    from overnight.kernel.approval.trust import Trust
    from overnight.kernel.parts import open_parts
    from overnight.kernel.rules.policy_files import settle

    parts = open_parts(folder, database)
    try:
        trust = Trust(folder, database, parts.journal, SigningKey.open(config_folder(), "trust"))
        settle(trust, parts.inbox)
        copy, said = trust.in_force(FILE), ""
        if copy is None and trust.current(FILE) is None:
            return b"", ""  # that it has gone was approved
        if copy is None:
            at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
            trust.trust_first([FILE], by_person_at_terminal=at_terminal)
            said, copy = f"trusted at its first use: {FILE}", trust.in_force(FILE)
        if copy is None:
            raise Refused(f"{FILE} is not trusted", reason="not_trusted", hint="run `overnight gate trust`")
        return copy, said
    finally:
        parts.journal.close()


def _says_nothing(content: bytes) -> bool:
    """Whether a file has no setting: comments and empty tables need nobody's trust."""
    try:
        return not any(tomllib.loads(_text(content)).values())
    except tomllib.TOMLDecodeError:
        return False


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")
