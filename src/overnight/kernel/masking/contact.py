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
_SPELT_MARK: Final = re.compile(r"[\[({<] ?(?:at|@|dot) ?[\])}>]")
_BRACKETED: Final = re.compile(r"\s?[\[({<]\s?(at|@|dot|\.)\s?[\])}>]\s?|\s(at|dot)\s", re.IGNORECASE)

# ITU-T E.164 country codes, 2023.
_CODES: Final = re.compile(
    r"1|7|2(?:0|7|1[123568]|[2346]\d|5[0-8]|9[01789])|3(?:[0123469]|5\d|7[0-8]|8[0-35-79])|4(?:[013-9]|2[013])|5(?:[1-8]|0\d|9\d)|"
    r"6(?:[0-6]|7[02-9]|8[0-35-9]|9[0-2])|8(?:[1246]|0[08]|5[02356]|7[0-9]|8[0-68])|9(?:[0-58]|6[0-8]|7[0-79]|9[2-68])"
)
_INTERNATIONAL: Final = re.compile(r"(?:\+|00(?=[1-9]) ?)((?:\(?\d\)?[ ./\-]{0,2}(?:\(0\) ?)?){7,17}\d)(?!\d)")
_LEAD: Final = re.compile(r"\+[\d ()./\-]*")
_AREA: Final = re.compile(r"(?:\+?1[ .\-])?\([2-9]\d{2}\)[ .\-]?\Z|\+?1[ .\-]\Z|\(\Z")
_NORTH_AMERICAN: Final = re.compile(
    r"(?:\+?1[ .\-])?(?:\([2-9]\d{2}\)[ .\-]?|[2-9]\d{2}[.\-])[2-9]\d{2}[ .\-]\d{4}(?![\w\-]|\.\d)"
    r"(?: ?(?:x|ext\.?) ?\d{1,5})?"
)
_NATIONAL: Final = re.compile(r"\(?\d(?:[ ./\-()]{0,2}\d){5,14}(?!\w)")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d|\d\d[./]\d\d[./]\d{4}")
# Parts of the words for telephone in the languages around us; a quick look before the exact one.
_PHONE_PART_WORDS: Final = (
    "tel phone mobil cell fax call dial sms text whatsapp hotline handy ruf movil celular gsm nummer komork numer "
    "contact reach"
)
_PHONE_PARTS: Final = tuple(_PHONE_PART_WORDS.split())
_WORD: Final = re.compile(
    r"\b(?:(?:tele)?phones?|\w{0,12}phone(?:[ _]?number)?|"
    r"tel|telef\w{2,12}|mobil\w{0,9}|cell(?:ular\w?|phone)?|"
    r"fax\w{0,8}|call(?:ing)?|dial|sms|"
    r"text me|whatsapp|hotline|handy\w{0,8}|ruf\w{0,8}|anruf\w{0,4}|movil|telemovel|gsm|"
    r"\w{0,12}nummer|komork\w{1,4}|numero|numer|contact|reach (?:me|us|him|her|them))\b"
)


def _top_level() -> frozenset[str]:
    text = (resources.files("overnight.kernel") / "data" / "top_level_domains.txt").read_text("utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


_TOP_LEVEL: Final = _top_level()


def emails(text: str, lower: str, *, signs: bool = True) -> Iterator[Span]:
    """Addresses, written plainly, back to front, or with the signs spelt out.

    Args:
        text: to search.
        lower: the same in lower case.
        signs: whether signs may be spelt out in brackets.
    """
    for at in _positions(text, "@"):
        span = _email(text, at) or _backward_email(text, at)
        if span:
            yield span
    done = 0
    marks = [mark.start() for mark in _SPELT_MARK.finditer(lower)] if signs else []
    for at in (*marks, *_positions(lower, " dot ")):
        # Around the sign only: this expression over all of a text costs more than the rest of this module.
        match = _SPELT.search(text, max(done, at - 80), at + 160)
        if match is None:
            continue
        value = _BRACKETED.sub(lambda m: "@" if (m[1] or m[2]).lower() in ("at", "@") else ".", match[0]).lower()
        if value.count("@") == 1 and value.rsplit(".", 1)[-1] in _TOP_LEVEL:
            done = match.end()
            yield Span(match.start(), match.end(), "email", "spelt-out", value)


def _positions(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


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


def phones(text: str, groups: list[tuple[int, int]]) -> Iterator[Span]:
    """The telephone numbers in a run of `groups` of digits.

    International form counts by itself, so does the North American one with its separators; any other national form
    needs a word for telephone in the forty characters before the run, and is its first group or one of the next two.
    """
    done = 0
    for start, end in groups:
        if start < done:
            continue
        span = _international(text, start) or (_north_american(text, start) if end - start in (1, 3) else None)
        if span:
            done = span.end
            yield span
    if done == 0 and _worded(text, groups[0][0]):
        for start, _ in groups[:3]:
            first = start - 1 if start and text[start - 1] == "(" else start
            match = _NATIONAL.match(text, first)
            if match and 7 <= sum(map(str.isdigit, match[0])) <= 15 and not _DATE.match(match[0]):
                yield Span(first, match.end(), "phone", "national", re.sub(r"\D", "", match[0]))
                return


def _international(text: str, start: int) -> Span | None:
    # "+49 (0)30 901820" has its sign before the run that "30 901820" is.
    plus = text.rfind("+", max(0, start - 12), start)
    if plus >= 0:
        if _LEAD.fullmatch(text, plus, start) is None:
            return None
        first = plus
    elif text.startswith("00", start):
        first = start
    else:
        return None
    if first and (text[first - 1].isalnum() or text[first - 1] in "_+."):
        return None
    match = _INTERNATIONAL.match(text, first)
    if match is None:
        return None
    digits = re.sub(r"\D", "", match[1].replace("(0)", ""))
    # `+35236450.6` is a decimal.
    decimal = match[1][-2] == "." and "." not in match[1][:-2]
    grouped = match[0][0] == "+" or " " in match[1]
    if 8 <= len(digits) <= 15 and not decimal and _CODES.match(digits) and (grouped or _worded(text, first)):
        return Span(first, match.end(), "phone", "international", f"+{digits}")
    return None


def _north_american(text: str, start: int) -> Span | None:
    # The area code in brackets is a run of its own, or the end of one.
    area = _AREA.search(text, max(0, start - 10), start)
    first = area.start() if area else start
    if first and (text[first - 1].isalnum() or text[first - 1] in "_+./-"):
        return None
    match = _NORTH_AMERICAN.match(text, first)
    return (
        Span(first, match.end(), "phone", "north-american", "+1" + re.sub(r"\D", "", match[0])[-10:]) if match else None
    )


def _worded(text: str, at: int) -> bool:
    before = text[max(0, at - 40) : at].lower()
    return any(part in before for part in _PHONE_PARTS) and _WORD.search(before) is not None and "\n\n" not in before
