"""The text: Python's own standard library, split by file. Read-only; train.py and the scorer both read it.

Nothing is downloaded and nothing needs preparing by hand: every Python brings these files. `python prepare.py` says how
much there is. The split is by file, so that no line of a held-out file was trained on unless two files share it.
"""

import hashlib
import sysconfig
from pathlib import Path

PACKAGES = (".", "asyncio", "concurrent/futures", "email", "html", "http", "importlib", "json", "logging",
            "multiprocessing", "unittest", "urllib", "xml/dom", "xml/etree", "xml/sax", "xmlrpc")  # fmt: skip
HELD_OUT_SHARE = 0.25


def files(split: str) -> list[Path]:
    """The files of "train" or "heldout", in a fixed order.

    A file is held out by the hash of its name, whichever Python version it belongs to.
    """
    library = Path(sysconfig.get_path("stdlib"))
    found = sorted(path for package in PACKAGES for path in (library / package).glob("*.py") if path.is_file())
    return [path for path in found if (_fraction(path.relative_to(library)) < HELD_OUT_SHARE) == (split == "heldout")]


def text(split: str) -> bytes:
    """All files of a split, one after the other, each ended by a zero byte."""
    return b"".join(path.read_bytes() + b"\0" for path in files(split))


def _fraction(name: Path) -> float:
    return int.from_bytes(hashlib.sha256(name.as_posix().encode()).digest()[:4], "big") / 2**32


if __name__ == "__main__":
    for split in ("train", "heldout"):
        print(f"{split}: {len(files(split))} files, {len(text(split)):,} bytes")
