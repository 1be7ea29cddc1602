"""E-mail addresses and telephone numbers."""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Final

from overnight.kernel.masking.kinds import Span

_LOCAL: Final = re.compile(r"(?:[\w.+%&'*/=?^{|}~!#$\-]{1,64}|\"[^\"\s@]{1,62}\")\Z")
_DOMAIN: Final = re.compile(
    r"((?:\w(?:[\w\-]{0,61}\w)?\.){1,8})(xn--[a-z0-9\-]{2,59}|[^\W\d_]{2,24})(?![\w])", re.IGNORECASE
)
_LITERAL: Final = re.compile(r"\[(?:\d{1,3}\.){3}\d{1,3}\]")
# "alice [at] example (dot) com", "alice at example dot com".
_SPELT: Final = re.compile(
    r"(?<![\w.+\-])([\w.+\-]{1,64})(?:\s?[\[({<]\s?(?:at|@)\s?[\])}>]\s?|\s(?:at|AT)\s)"
    r"([\w\-]{1,63}(?:(?:\s?[\[({<]\s?(?:dot|\.)\s?[\])}>]\s?|\s(?:dot|DOT)\s|\.)[\w\-]{1,63}){1,6})",
    re.IGNORECASE,
)
_SPELT_MARK: Final = re.compile(r"[\[({<]\s?(?:at|@|dot)\s?[\])}>]|\sdot\s", re.IGNORECASE)
_BRACKETED: Final = re.compile(r"\s?[\[({<]\s?(at|@|dot|\.)\s?[\])}>]\s?|\s(at|dot)\s", re.IGNORECASE)

# ITU-T E.164 country codes, 2023.
_CODES: Final = re.compile(
    r"1|7|2(?:0|7|1[123568]|[2346]\d|5[0-8]|9[01789])|3(?:[0123469]|5\d|7[0-8]|8[0-35-79])|4(?:[013-9]|2[013])|5(?:[1-8]|0\d|9\d)|"
    r"6(?:[0-6]|7[02-9]|8[0-35-9]|9[0-2])|8(?:[1246]|0[08]|5[02356]|7[0-9]|8[0-68])|9(?:[0-58]|6[0-8]|7[0-79]|9[2-68])"
)
_INTERNATIONAL: Final = re.compile(
    r"(?<![\w+])(\+|00(?=[1-9]))[ ]?((?:\(?\d\)?[ ./\-]{0,2}(?:\(0\)[ ]?)?){7,17}\d)(?![\d])"
)
_NORTH_AMERICAN: Final = re.compile(
    r"(?<![\w.+\-/])(?:1[ .\-])?(?:\([2-9]\d{2}\)[ .\-]?|[2-9]\d{2}([.\-]))[2-9]\d{2}[ .\-]\d{4}(?![\w\-]|\.\d)(?:\s?(?:x|ext\.?)\s?\d{1,5})?"
)
_NATIONAL: Final = re.compile(r"(?<![\w.])\(?\d(?:[ ./\-()]{0,2}\d){5,14}(?!\w)")
_PHONE_WORD: Final = re.compile(
    r"\b(?:tele?phone?|tel|phone|mobile?|cell(?:phone)?|fax|call|dial|sms|whatsapp|signal|hotline|text(?: me)?|reach (?:me|us)|"
    r"handy|mobil|rufnummer|telefon\w*|anruf\w*|portable|telefono|telefoon|movil|celular|telemovel|telefone|"
    r"cellulare|telefonnummer|gsm|nummer|komorka|numer)s?\b",
    re.IGNORECASE,
)


def _top_level() -> frozenset[str]:
    text = (resources.files("overnight.kernel") / "data" / "top_level_domains.txt").read_text("utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


_TOP_LEVEL: Final = _top_level()


def emails(text: str) -> Iterator[Span]:
    """Addresses, written plainly, back to front, or with the signs spelt out."""
    at = text.find("@")
    while at >= 0:
        span = _email(text, at) or _backward_email(text, at)
        if span:
            yield span
        at = text.find("@", at + 1)
    if _SPELT_MARK.search(text):
        for match in _SPELT.finditer(text):
            value = _BRACKETED.sub(lambda m: "@" if (m[1] or m[2]).lower() in ("at", "@") else ".", match[0]).lower()
            if value.count("@") == 1 and value.rsplit(".", 1)[-1] in _TOP_LEVEL:
                yield Span(match.start(), match.end(), "email", "spelt-out", value)


def _email(text: str, at: int) -> Span | None:
    before, after = at, at + 1
    while before and text[before - 1] == " " and at - before < 1:
        before -= 1
    while after < len(text) and text[after] == " " and after - at < 2:
        after += 1
    for local_end, domain_start in ((at, at + 1), (before, after)):
        local = _LOCAL.search(text, max(0, local_end - 64), local_end)
        if local is None:
            continue
        domain = _DOMAIN.match(text, domain_start) or _LITERAL.match(text, domain_start)
        if domain is None:
            continue
        top = domain[2].lower() if domain.re is _DOMAIN else ""
        if top and top.isascii() and top not in _TOP_LEVEL and not top.startswith("xn--"):
            continue
        spaced = local_end != at or domain_start != at + 1
        name = local[0].lstrip(".'/=?&!#*{|}~^$%").rstrip(".")
        if not name or (spaced and not re.fullmatch(r"[\w.+\-]{2,}", name)):
            continue
        # git@host:path names a service and a repository, nobody.
        if name == "git" and text[domain.end() : domain.end() + 1] in (":", "/"):
            return None
        start = local_end - len(local[0]) + local[0].index(name)
        return Span(start, domain.end(), "email", "address", f"{name}@{domain[0]}".lower())
    return None


_BACK_TOP: Final = re.compile(r"([a-z]{2,24})((?:\.[\w\-]{1,63}){1,8})\Z", re.IGNORECASE)
_BACK_LOCAL: Final = re.compile(r"[\w.+\-]{1,64}")


def _backward_email(text: str, at: int) -> Span | None:
    domain = _BACK_TOP.search(text, max(0, at - 128), at)
    if domain is None or (domain.start() and text[domain.start() - 1].isalnum()):
        return None
    local = _BACK_LOCAL.match(text, at + 1)
    if local is None or domain[1][::-1].lower() not in _TOP_LEVEL:
        return None
    return Span(domain.start(), local.end(), "email", "backwards", text[domain.start() : local.end()][::-1].lower())


def phones(text: str) -> Iterator[Span]:
    """Numbers in international form, in the North American form, and in any national form beside a word for telephone."""
    if "+" in text or "00" in text:
        for match in _INTERNATIONAL.finditer(text):
            digits = re.sub(r"\D", "", match[2].replace("(0)", ""))
            if not 8 <= len(digits) <= 15 or _CODES.match(digits) is None:
                continue
            # 00 begins many numbers that are none of telephones; groups tell, or a word does.
            if match[1] == "+" or (digits != match[2] and " " in match[2]) or _worded(text, match.start()):
                yield Span(match.start(), match.end(), "phone", "international", f"+{digits}")
    for match in _NORTH_AMERICAN.finditer(text):
        yield Span(match.start(), match.end(), "phone", "north-american", "+1" + re.sub(r"\D", "", match[0])[-10:])
    for word in _PHONE_WORD.finditer(text):
        near = _NATIONAL.search(text, word.end(), min(len(text), word.end() + 48))
        if near and "\n\n" not in text[word.end() : near.start()]:
            digits = re.sub(r"\D", "", near[0])
            # Seven digits or more, or six in groups; fewer are extensions and counts.
            if 7 <= len(digits) <= 15 and re.fullmatch(r"\d{4}-\d\d-\d\d.*", near[0]) is None:
                yield Span(near.start(), near.end(), "phone", "national", digits)


def _worded(text: str, at: int) -> bool:
    return _PHONE_WORD.search(text, max(0, at - 40), at) is not None
