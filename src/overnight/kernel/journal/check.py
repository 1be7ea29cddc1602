"""A workspace's journal from outside: checked against every anchor there is, and searched by id."""

from collections.abc import Sequence
from pathlib import Path

from overnight.core.errors import Missing, NotFound, UsageError
from overnight.kernel.journal.anchor import anchors_in_git, parse_anchor
from overnight.kernel.journal.entry import LAST_PLACE, Entry
from overnight.kernel.journal.head import Head
from overnight.kernel.journal.read import JournalReader
from overnight.kernel.journal.verify import Verification, verify
from overnight.kernel.keys import SigningKey, config_folder
from overnight.store.database import Database
from overnight.store.git.repository import Repository


def check(database: Database, anchors: Sequence[Path], repository: Path | None) -> Verification:
    """Check the journal in `database` against the head in the configuration folder and these anchors.

    Args:
        database: where it lies; it need not be possible to open the journal.
        anchors: files made by `write_anchor`.
        repository: also the anchors in the repository that encloses this folder.

    Raises:
        Missing: the key of the journal is not on this machine.
        UsageError: a file holds no anchor.
        StoreError: something cannot be read.
    """
    folder = config_folder()
    if not (folder / "journal.key").exists():
        raise Missing(
            f"the journal's key is not in {folder}",
            hint="check on the machine that keeps it, or check an export: `audit verify --export FILE`",
        )
    heads: list[Head] = []
    for path in anchors:
        try:
            heads += parse_anchor(path.read_text("ascii"), str(path))
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(
                f"cannot read the anchor {path}: {problem}", hint="name a file of `audit anchor`"
            ) from None
    if repository is not None:
        newest = JournalReader(database).head()
        with Repository.open(repository, create=False) as opened:
            heads += anchors_in_git(opened, newest.journal)
    return verify(database, SigningKey.open(folder, "journal").public, folder, heads)


def entries_about(database: Database, name: str) -> list[Entry]:
    """The entries about an action or question, or the one entry with that number.

    Raises:
        NotFound: there are none.
    """
    reader = JournalReader(database)
    if name.isascii() and name.isdigit():
        if len(name) > len(str(LAST_PLACE)):
            raise NotFound(f"the journal has no entry {name[:40]}", hint="list them with `overnight audit log`")
        return [reader.entry(min(int(name), LAST_PLACE))]
    found = reader.of_action(name)
    if not found:
        raise NotFound(f"the journal knows no {name!r}", hint="list it with `overnight audit log`")
    return found
