"""What in a message can lead its reader to somebody: links, addresses, accounts, numbers, handles, codes.

Whoever reads a message acts on what it says, so that a number to ring or a code to read out reaches as far as a link.
Numbers are found by the masker's finders, in the text as it is read: look-alike digits folded, spelt-out ones put back.
"""

import re
from collections.abc import Iterator
from typing import Literal

from overnight.kernel.flow.tokens import links_in
from overnight.kernel.masking.contact import emails, phones
from overnight.kernel.masking.fold import fold_text
from overnight.kernel.masking.letter_ids import ibans
from overnight.kernel.masking.numbers import card, runs, windows

ContactKind = Literal["url", "recipient", "account", "number", "handle", "code"]
"""`number`: of a telephone or a card; `code`: the reader is asked for, or told of, a code that lets somebody in."""

_SPELT = "zero|oh|one|two|three|four|five|six|seven|eight|nine"
_DIGITS = {word: digit for digit, word in zip("00123456789", _SPELT.split("|"), strict=True)}
_SPELT_RUN = re.compile(rf"\b(?:{_SPELT})(?:[\s,.-]{{1,2}}(?:{_SPELT})\b){{5,}}", re.IGNORECASE)
_SIX_DIGITS = re.compile(r"\d(?:[^\w]{0,3}\d){5}")
_SEPARATED = re.compile(r"[ \t\n.,:/_()-]*")
# What is a call for the finder of numbers that need one: "tel" is in its own list, "ring" is in too many names.
_RING = re.compile(r"\b(?:ring|line|hotline|helpdesk|extension|telegram|signal|viber|number)\b", re.IGNORECASE)
# A number with its trunk prefix, in groups: "044 555 01 99", "(030) 901820". Dates and hours begin otherwise.
_TRUNK = re.compile(r"(?<![\w.,:/+-])\(?0[1-9]\d{0,4}\)?(?:[ ./-]\d{2,8}){1,5}(?![\w:]|[.,-]\d)")
_DAY = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})")
_HANDLE = re.compile(r"(?<![\w.@/+-])@(?:[^\W\d]|_)[\w.]*\w")
_EVERYBODY = frozenset({"@here", "@channel", "@everyone", "@all"})
_CODE = re.compile(
    r"\b(?:one[\s-]?time[\s-]?(?:code|pass(?:word|code)|pin|token)s?|otps?|(?:verification|security|recovery|backup|log-?in|"
    r"access|confirmation|authenticat(?:ion|or)|2fa|mfa|sms|tan)[\s-]?(?:code|number|token)s?|seed[\s-]phrases?|"
    r"recovery[\s-]phrases?)\b",
    re.IGNORECASE,
)


# What a text must have for a contact to be in it: a sign or digit, the core of `_CODE`, or six spelt-out digits.
_SIGN = re.compile(r"[@.:%&\[({0-9]")
_CORES = ("dot", "code", "pass", "pin", "token", "otp", "number", "phrase")
_SPELT_WORDS = tuple(_SPELT.split("|"))
_FEWEST = 6


def is_plain(text: str) -> bool:
    """Whether a glance tells that nothing is in it, as of most messages, for a tenth of what `contacts_in` costs."""
    if not text.isascii() or _SIGN.search(text) is not None:
        return False
    lower = text.lower()
    for core in _CORES:
        if core in lower:
            return False
    spelt = 0
    for word in _SPELT_WORDS:
        if word in lower:  # a third of what counting costs, and most messages spell none or few
            spelt += lower.count(word)
    return spelt < _FEWEST


def contacts_in(text: str) -> Iterator[tuple[ContactKind, str]]:
    """What a reader of `text` may turn to, as it stands there once disguises that an eye undoes are undone."""
    yield from links_in(text)
    if "@" in text:
        for handle in _HANDLE.finditer(text):
            if handle.group().lower() not in _EVERYBODY:
                yield "handle", handle.group()
    for code in _CODE.finditer(text):
        yield "code", code.group()
    if " dot " in text.lower() or "[" in text or "(" in text:
        for span in emails(text, text.lower()):
            yield "recipient", span.value
    plain = text if text.isascii() else fold_text(text)
    plain = _SPELT_RUN.sub(_as_digits, plain)
    if _SIX_DIGITS.search(plain):
        yield from _numbers(plain)


def says(text: str, number: str) -> bool:
    """Whether a text that somebody vouches for says all of a number, in whatever groups."""
    digits = re.sub(r"\D", "", number)
    pattern = _SEPARATED.pattern.join(digits)
    return re.search(rf"(?<!\d){pattern}(?!\d)", text) is not None


def _numbers(text: str) -> Iterator[tuple[ContactKind, str]]:
    for span in list(ibans(text)):
        yield "account", span.value
        text = text[: span.start] + "x" * (span.end - span.start) + text[span.end :]  # its digits are no number too
    # The finder of telephone numbers looks for a word before the number; these are ours.
    told = _RING.sub("phone", text)
    for source in {text, told}:
        for groups in runs(source):
            for span in phones(source, groups):
                yield "number", source[span.start : span.end]
    for match in _TRUNK.finditer(text):
        if sum(map(str.isdigit, match.group())) >= 7 and not _DAY.match(match.group()):
            yield "number", match.group()
    for groups in runs(text):
        for window in windows(text, groups, ()):
            found = card(text, window)
            if found is not None:
                yield "number", text[found.start : found.end]


def _as_digits(match: re.Match[str]) -> str:
    return "".join(_DIGITS[word.lower()] for word in re.findall(r"\w+", match.group()))
