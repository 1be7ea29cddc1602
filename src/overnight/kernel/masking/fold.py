"""Unicode disguise taken off: look-alikes become the ASCII they pass for, what can't be seen disappears."""

import re
import unicodedata
from importlib import resources
from typing import Final

from overnight.kernel.masking.view import Edit, View

# What prints as nothing without being a format character or a mark.
_BLANKS: Final = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
# `str.translate` takes 90 ns a character once one of them is not ASCII, so it is used on those runs only.
_STRANGE: Final = re.compile(r"[^\t\n\r\x20-\x7e]+")
_PLAIN: Final = bytes((9, 10, 13, *range(0x20, 0x7F)))
_TAG: Final = re.compile("[\U000e0020-\U000e007e]+")
_SELECTOR: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")


def fold_char(char: str) -> str:
    """The ASCII that `char` passes for, nothing if it is invisible, or `char` itself.

    NFKD, then the look-alikes of `data/confusables.txt`; decimal digits of every script become 0–9, every space
    becomes a space. Accents are dropped, which is what makes `ú` of a name and `u̲` of a disguised key one thing.
    """
    category = unicodedata.category(char)
    if category == "Cc":
        return char if char in "\t\n\r" else "\n" if char in "\x0b\x0c\x1c\x1d\x1e\x85" else ""
    if category in ("Cf", "Mn", "Me") or char in _BLANKS:
        return ""
    if category in ("Zl", "Zp"):
        return "\n"
    if category == "Zs":
        return " "
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    known = _confusables().get(char)
    if known:
        return known
    plain = "".join(
        _confusables().get(part, part)
        for part in unicodedata.normalize("NFKD", char)
        if unicodedata.category(part) not in ("Mn", "Me", "Cf")
    )
    return plain if plain and plain.isascii() else char


class _Table(dict[int, str]):
    """`str.translate` table that fills itself; at most one entry per character of Unicode."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = fold_char(chr(code))
        return folded


_FOLDED: Final = _Table()
_CONFUSABLES: Final[dict[str, str]] = {}


def _confusables() -> dict[str, str]:
    if not _CONFUSABLES:
        text = (resources.files("overnight.kernel") / "data" / "confusables.txt").read_text("utf-8")
        for line in text.splitlines():
            target, _, alike = line.partition(" ")
            if len(target) == 1 and alike and (target != "#" or len(alike) == 1):
                _CONFUSABLES.update(dict.fromkeys(alike, target))
    return _CONFUSABLES


def fold_text(text: str) -> str:
    """`text` with every character folded; for comparing, where positions don't matter."""
    return _STRANGE.sub(lambda run: run[0].translate(_FOLDED), text)


def fold(view: View) -> View:
    """`view` with every character folded, each still knowing its place."""
    text = view.text
    if text.isascii() and not text.encode("ascii").translate(None, _PLAIN):
        return view
    odd = [char for char in set(text) if len(_FOLDED[ord(char)]) != 1]
    if not odd:
        return View(fold_text(text), view)
    # Only what changes the length needs an edit; the rest changes in place.
    lengths = re.compile("[" + "".join(map(re.escape, odd)) + "]")
    edits: list[Edit] = [(m.start(), m.end(), _FOLDED[ord(m[0])]) for m in lengths.finditer(text)]
    edited = view.edited(edits)
    return View(fold_text(edited.text), edited)


def smuggled(view: View) -> View | None:
    """What `view` says in characters nobody sees: Unicode tags spell ASCII, variation selectors spell bytes.

    Only the hidden text is left to read, so that hidden pieces far apart come together; None without any.
    """
    if view.text.isascii():
        return None
    spoken = [
        (run.start(), run.end(), "".join(chr(ord(c) - 0xE0000) for c in run[0])) for run in _TAG.finditer(view.text)
    ]
    if not spoken:
        spoken = [(run.start(), run.end(), _selected(run[0])) for run in _SELECTOR.finditer(view.text)]
    if not spoken:
        return None
    edits: list[Edit] = []
    done = 0
    for start, end, text in spoken:
        edits += [(done, start, "")] if done < start else []
        # One edit a character for tags, so that only what hides something is masked; a selector run is one blob.
        edits += (
            [(start + i, start + i + 1, c) for i, c in enumerate(text)]
            if end - start == len(text)
            else [(start, end, text)]
        )
        done = end
    edits += [(done, len(view.text), "")] if done < len(view.text) else []
    return view.edited(edits)


def _selected(run: str) -> str:
    codes = (ord(char) for char in run)
    return bytes(code - 0xFE00 if code < 0xE0000 else code - 0xE0100 + 16 for code in codes).decode("utf-8", "replace")
