"""Encodings taken off: a text in which every encoded stretch is replaced by what it says."""

import base64
import binascii
import html
import re
import string
from collections.abc import Iterator
from typing import Final

from overnight.kernel.masking.view import Edit, View

SHORTEST: Final = 11
"""No encoded stretch without blanks is shorter."""
# How much of its surroundings an encoded stretch keeps, for the context of what it says; and what stands for the rest,
# which no finder reads across.
_NEAR: Final = 96
_LEFT_OUT: Final = "\n\ufffc\n"

DEPTH: Final = 3
"""How many encodings on top of each other are taken off."""

# Nothing this package looks for is shorter than eight bytes; shorter runs are words.
_ALPHABET: Final = string.ascii_uppercase + string.ascii_lowercase + string.digits
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\-]{11,}(?:[ \t>]*\r?\n[ \t>]*[A-Za-z0-9+/_\-]{4,}){0,4096}={0,2}")
# Eight ASCII bytes in base64, at any alignment: each byte's highest bit is 0, which fixes one bit of three characters
# in four. One identifier in thirty passes by chance; without this test decoding them is half the time of searching
# program text. What is no ASCII is tried where letters and digits mix, as they do in no word.
_FIRST: Final = "[A-Za-f]"
_SECOND: Final = "[" + "".join(char for place, char in enumerate(_ALPHABET) if not place & 8) + "]"
_THIRD: Final = "[" + "".join(char for place, char in enumerate(_ALPHABET) if not place & 2) + "]"
_ASCII: Final = re.compile(f"(?:{_FIRST}{_SECOND}{_THIRD}.){{2}}{_FIRST}{_SECOND}{_THIRD}")
_MIXED: Final = re.compile(r"(?=[^a-zA-Z]{0,15}[a-zA-Z])(?=[^0-9]{0,15}[0-9]).{16}")
_WRAPPED: Final = re.compile(r"[ \t>]*\r?\n[ \t>]*")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){6,}(?:\r?\n(?:[0-9A-Fa-f]{2}){6,}){0,4096}")
_HEX_RUN: Final = re.compile(r"[0-9A-Fa-f]{12}")
# Bytes apart from each other; the first is an ASCII character's, which spares a try at every word with a to f.
_SPACED: Final = re.compile(r"[2-7][0-9A-Fa-f](?:(?:[ :,;\-]{1,2}|[ ,]{0,2}0[xX])[0-9A-Fa-f]{2}){5,}")
_HEX_PAIR: Final = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{2})")
_DECIMAL: Final = re.compile(r"\d(?<![\d.]\d)\d{1,2}(?:[,;] ?\d{2,3}| \d{2,3}){7,}(?![\d.])")
_PERCENT: Final = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_QUOTED: Final = re.compile(r"=[0-9A-F]{2}(?:=[0-9A-F]{2})*|=\r?\n")
# `x=42` is an assignment in most texts; these are seen in quoted-printable only.
_QUOTED_MARK: Final = re.compile(r"=(?:3D|20\r?\n|(?<=[^=\s]=)\r?\n(?=\w)|[0-9A-F]{2}=[0-9A-F]{2})")
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_ESCAPE: Final = re.compile(
    r"\\\\{0,3}(?:u\{([0-9A-Fa-f]{1,6})\}|[uU]([0-9A-Fa-f]{8}|[0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([0-3][0-7]{2}))"
)
_LINES: Final = {ord(char): " " for char in "\t\n\r"}
_READABLE: Final = re.compile(r"[\t\n\r\x20-\x7e]{6,}")


def decoded(view: View, long_words: str, decimal: bool = True, pairs: bool = True) -> View | None:
    """`view` with one layer of every encoding replaced by what it says; None if there is none to take off.

    What is far from anything encoded was searched before and is left out.

    Args:
        view: what to decode.
        long_words: the words of `view` of `SHORTEST` characters and more; base64 and hexadecimal hide in none shorter.
        decimal: whether there may be a list of decimal codes.
        pairs: whether there may be hexadecimal bytes apart from each other.
    """
    text = view.text
    found = list(_escapes(text))
    if _HEX_RUN.search(long_words):
        found += _hexadecimal(text)
    found += _separated(text, decimal, pairs)
    found += _base64(text, long_words)
    if not found:
        return None
    return view.edited(near(found, len(text)))


def near(found: list[Edit], length: int) -> list[Edit]:
    """`found` without overlaps, with edits between them that leave out what is far from all of them."""
    found.sort(key=lambda edit: (edit[0], -edit[1]))
    edits: list[Edit] = []
    end = 0
    for edit in found:
        if edit[0] < end:
            continue
        gap = (end + _NEAR if edits else 0, edit[0] - _NEAR)
        if gap[1] - gap[0] > 100:
            edits.append((*gap, _LEFT_OUT))
        edits.append(edit)
        end = edit[1]
    if length - end > _NEAR + 100:
        edits.append((end + _NEAR, length, _LEFT_OUT))
    return edits


def _escapes(text: str) -> Iterator[Edit]:
    if "%" in text:
        for match in _PERCENT.finditer(text):
            yield from _octets(match.start(), match[0], 3)
    if "&" in text:
        for match in _ENTITY.finditer(text):
            said = html.unescape(match[0])
            if said != match[0]:
                yield match.start(), match.end(), said
    if "\\" in text:
        for match in _ESCAPE.finditer(text):
            code = int(match[1] or match[2] or match[3], 16) if not match[4] else int(match[4], 8)
            if code < 0x110000:
                yield match.start(), match.end(), chr(code)
    if "=" in text and _QUOTED_MARK.search(text):
        for match in _QUOTED.finditer(text):
            yield from (
                _octets(match.start(), match[0], 3) if match[0][1] not in "\r\n" else [(match.start(), match.end(), "")]
            )


def _octets(start: int, run: str, width: int) -> Iterator[Edit]:
    # UTF-8 sequences become one character each; anything else is Latin-1, so that no byte is lost.
    octets = bytes(int(run[i + 1 : i + 3], 16) for i in range(0, len(run), width))
    at = 0
    while at < len(octets):
        lead = octets[at]
        size = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        try:
            said = octets[at : at + size].decode("utf-8")
        except UnicodeDecodeError:
            size, said = 1, chr(lead)
        yield start + at * width, start + (at + size) * width, said
        at += size


def _likely(run: str) -> bool:
    return _MIXED.match(run) is not None or (not run.islower() and _ASCII.search(run) is not None)


def _base64(text: str, long_words: str) -> Iterator[Edit]:
    if not any(_likely(run) for run in _BASE64.findall(long_words)):
        return
    for match in _BASE64.finditer(text):
        said = _readable(match[0])
        if said is not None:
            yield match.start(), match.end(), said


def _readable(run: str) -> str | None:
    """What a run of base64 says, or None if that is not text."""
    run = (_WRAPPED.sub("", run) if "\n" in run else run).rstrip("=")
    if not _likely(run):
        return None
    run = run.replace("-", "+").replace("_", "/")
    # It may begin with a part of its surroundings (`token-`, `/files/`): each alignment is tried.
    best: str | None = None
    for skip in range(4):
        part = run[skip:]
        part = part[: len(part) - (len(part) % 4 == 1)]
        try:
            octets = base64.b64decode(part + "=" * (-len(part) % 4))
        except (binascii.Error, ValueError):
            continue
        said = _text(octets)
        # By chance, a few characters of any bytes are readable.
        if said is None or (len(said) < 24 and len(said.encode("utf-8", "replace")) * 2 < len(octets)):
            continue
        if best is None or len(said) > len(best):
            best = said
            if len(said) >= len(octets) - 3:
                break
    return best


def _text(octets: bytes) -> str | None:
    """The text that `octets` are, or the readable stretches of it; None if there are none."""
    if len(octets) >= 8 and octets[1::2].count(0) * 3 > len(octets):
        octets = octets[: len(octets) // 2 * 2]
        return octets.decode("utf-16-le", "replace")
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        text = octets.decode("latin-1")
        parts = _READABLE.findall(text)
        return "\n".join(parts) if parts else None
    controls = sum(char < " " and char not in "\t\n\r\x1b" for char in text) if not text.isprintable() else 0
    if controls * 8 > len(text):
        parts = _READABLE.findall(text)
        return "\n".join(parts) if parts else None
    return text


def _hexadecimal(text: str) -> Iterator[Edit]:
    for match in _HEX.finditer(text):
        pairs = "".join(match[0].split())
        # The first digit may belong to what stands before, as in `x41…` cut from `\\x41`.
        said = _whole(bytes.fromhex(pairs)) or _whole(bytes.fromhex(pairs[1:-1]))
        if said is not None:
            yield match.start(), match.end(), said


def _separated(text: str, decimal: bool, pairs: bool) -> Iterator[Edit]:
    for match in _SPACED.finditer(text) if pairs else ():
        # Two digits are a hexadecimal byte and a decimal one; both readings are given.
        readings = _whole(bytes(int(pair, 16) for pair in _HEX_PAIR.findall(match[0]))), _decimal(match[0])
        said = "\n".join(filter(None, readings))
        if said:
            yield match.start(), match.end(), said
    for match in _DECIMAL.finditer(text) if decimal else ():
        said = _decimal(match[0])
        if said:
            yield match.start(), match.end(), said


def _decimal(run: str) -> str:
    codes = [int(code) for code in re.findall(r"\d+", run)]
    return "".join(map(chr, codes)) if all(32 <= code < 127 for code in codes) else ""


def _whole(octets: bytes) -> str | None:
    said = _text(octets)
    if said is None or len(said) * 3 < len(octets) or not said.translate(_LINES).isprintable():
        return None
    return said
