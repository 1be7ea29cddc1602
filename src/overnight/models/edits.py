"""Search/replace edits as models write them, applied surgically or refused with a reason the model can act on.

    path/of/the/file.py
    <<<<<<< SEARCH
    lines as they stand in the file
    =======
    lines that come in their place
    >>>>>>> REPLACE

An empty SEARCH part makes a new file. The lines have to occur exactly once; where they do not occur at all, trailing
blanks and the depth of indentation may differ, as long as one place alone fits.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FORMAT: Final = """\
path/of/the/file.py
<<<<<<< SEARCH
lines exactly as they stand in the file, enough of them to occur only once
=======
lines that come in their place
>>>>>>> REPLACE"""

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")
OUT_OF_BOUNDS: Final = re.compile(r"is not (?:editable|a path inside the folder)$")
"""Refusals of what an author may not touch, as opposed to what it got wrong."""
_DECORATION = "`*# \t:"
MOST_EDITS: Final = 64


@dataclass(frozen=True)
class Edit:
    """One block. `path` is as the model wrote it; `search` and `replace` end with a newline unless empty."""

    path: str
    search: str
    replace: str


@dataclass(frozen=True)
class Applied:
    """What edits make of files.

    Attributes:
        files: path → new content, of what changed.
        notes: where an edit was not taken literally.
        refused: why nothing is to be changed, one sentence for each edit; empty if all could be applied.
    """

    files: Mapping[str, bytes]
    notes: tuple[str, ...]
    refused: tuple[str, ...]


class Unreadable(Exception):
    """The blocks of an answer cannot be told apart; the message is for the model."""


def parse(answer: str) -> list[Edit]:
    """The edit blocks of an answer, in order; none if it has none.

    Raises:
        Unreadable: a block is not complete, or has no path.
    """
    lines = answer.replace("\r\n", "\n").split("\n")
    edits: list[Edit] = []
    at, path = 0, ""
    while at < len(lines):
        if _SEARCH.fullmatch(lines[at]):
            # Blocks that follow one another may leave the path out.
            path = _path_above(lines, at) or path
            if not path:
                raise Unreadable(f"edit {len(edits) + 1} has no path in the line above its SEARCH")
            middle = _next(lines, at + 1, _MIDDLE, f"edit {len(edits) + 1} of {path!r} has no =======")
            end = _next(lines, middle + 1, _REPLACE, f"edit {len(edits) + 1} of {path!r} has no >>>>>>> REPLACE")
            edits.append(Edit(path, _joined(lines[at + 1 : middle]), _joined(lines[middle + 1 : end])))
            if len(edits) > MOST_EDITS:
                raise Unreadable(f"more than {MOST_EDITS} edits; make fewer")
            at = end
        at += 1
    return edits


def apply(edits: Sequence[Edit], files: Mapping[str, bytes], editable: Callable[[str], bool]) -> Applied:
    """What `edits`, one after the other, make of `files`; all of them or none.

    Args:
        edits: in the order in which they are applied.
        files: content by path, of every file that may be edited.
        editable: whether a path may be written.
    """
    contents: dict[str, str] = {}
    crlf: set[str] = set()
    notes: list[str] = []
    refused: list[str] = []
    for number, edit in enumerate(edits, start=1):
        where = f"edit {number} ({edit.path})"
        if not _is_inside(edit.path):
            refused.append(f"{where}: {edit.path!r} is not a path inside the folder")
        elif not editable(edit.path):
            refused.append(f"{where}: {edit.path!r} is not editable")
        elif edit.path not in contents and edit.path not in files:
            if edit.search:
                refused.append(f"{where}: there is no such file; leave SEARCH empty to make it")
            else:
                contents[edit.path] = edit.replace
        else:
            if edit.path not in contents:
                try:
                    text = files[edit.path].decode("utf-8")
                except UnicodeDecodeError:
                    refused.append(f"{where}: the file is not text")
                    continue
                if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
                    crlf.add(edit.path)
                    text = text.replace("\r\n", "\n")
                contents[edit.path] = text
            found, note = _replaced(contents[edit.path], edit)
            if found is None:
                refused.append(f"{where}: {note}")
                continue
            contents[edit.path] = found
            if note:
                notes.append(f"{where}: {note}")
    if refused:
        return Applied({}, (), tuple(refused))
    made = {
        path: (text.replace("\n", "\r\n") if path in crlf else text).encode("utf-8", "surrogatepass")
        for path, text in contents.items()
    }
    return Applied({path: new for path, new in made.items() if files.get(path) != new}, tuple(notes), ())


def _replaced(text: str, edit: Edit) -> tuple[str | None, str]:
    """The text with one edit made and a note about how; or None and why not."""
    if not edit.search.strip():
        return None, "SEARCH is empty, but the file exists; name the lines to replace"
    padded = text if text.endswith("\n") else text + "\n"
    starts = [at for at in _occurrences(padded, edit.search) if at == 0 or padded[at - 1] == "\n"]
    if len(starts) == 1:
        at = starts[0]
        made = padded[:at] + edit.replace + padded[at + len(edit.search) :]
        # A file without a last newline keeps being one, unless its end was rewritten.
        if padded is not text and at + len(edit.search) < len(padded):
            made = made[:-1]
        return made, ""
    if starts:
        return None, f"its SEARCH lines occur {len(starts)} times; add lines around them until they occur once"
    return _loosely_replaced(padded, edit)


def _loosely_replaced(text: str, edit: Edit) -> tuple[str | None, str]:
    lines, wanted = text.split("\n")[:-1], edit.search.split("\n")[:-1]
    while wanted and not wanted[0].strip():
        wanted = wanted[1:]
    while wanted and not wanted[-1].strip():
        wanted = wanted[:-1]
    bare = [line.strip() for line in wanted]
    fits = []
    for start in range(len(lines) - len(wanted) + 1):
        window = lines[start : start + len(wanted)]
        if [line.strip() for line in window] == bare and (shift := _shift(wanted, window)) is not None:
            fits.append((start, shift))
    if not fits:
        return None, f"its SEARCH lines do not occur in the file; the first is {wanted[0].strip()[:80]!r}"
    if len(fits) > 1:
        return None, f"its SEARCH lines occur {len(fits)} times but for their blanks; copy them exactly"
    start, (add, remove) = fits[0]
    new = []
    for line in edit.replace.split("\n")[:-1]:
        if not line.strip():
            new.append(line)
        elif remove and not line.startswith(remove):
            return None, "its lines are indented deeper than the file's, and its REPLACE lines cannot follow"
        else:
            new.append(add + line[len(remove) :])
    made = [*lines[:start], *new, *lines[start + len(wanted) :]]
    return "\n".join(made) + "\n", "matched but for blanks" + (", indented as the file is" if add or remove else "")


def _shift(wanted: Sequence[str], window: Sequence[str]) -> tuple[str, str] | None:
    """What has to be added before each wanted line, and taken away, for the file's indentation; None if it varies."""
    found: tuple[str, str] | None = None
    for line, real in zip(wanted, window, strict=True):
        if not real.strip():
            continue
        mine, theirs = line[: len(line) - len(line.lstrip())], real[: len(real) - len(real.lstrip())]
        if theirs.endswith(mine):
            shift = (theirs[: len(theirs) - len(mine)], "")
        elif mine.endswith(theirs):
            shift = ("", mine[: len(mine) - len(theirs)])
        else:
            return None
        if found is not None and shift != found:
            return None
        found = shift
    return found


def _occurrences(text: str, part: str) -> list[int]:
    found, at = [], text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _next(lines: Sequence[str], start: int, wanted: re.Pattern[str], problem: str) -> int:
    for at in range(start, len(lines)):
        if wanted.fullmatch(lines[at]):
            return at
        if _SEARCH.fullmatch(lines[at]):
            break
    raise Unreadable(problem)


def _path_above(lines: Sequence[str], at: int) -> str:
    """The path in the line above, past the opening of a code fence; "" if there is none."""
    for line in reversed(lines[max(0, at - 3) : at]):
        bare = line.strip().strip(_DECORATION).strip()
        if _REPLACE.fullmatch(line):
            return ""
        if not bare or line.strip().startswith("```"):
            continue
        bare = re.sub(r"^(?:file(?:name)?|path)\s*:\s*", "", bare, flags=re.IGNORECASE)
        return bare if " " not in bare and len(bare) < 400 else ""
    return ""


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return not (path.startswith("/") or ".." in parts or "." in parts or "" in parts or "\\" in path or "\0" in path)
