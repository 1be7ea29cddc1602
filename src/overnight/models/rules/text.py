"""Tier 0: what patterns can do with a quoted text: find addresses in it, check its format, count and turn it."""

import datetime
import ipaddress
import json
import re
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from overnight.models.rules.rules import Answered, Situation

_EMAIL = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_URL = r"https?://[^\s<>\"')\]]*[^\s<>\"')\].,;:!?]"
_FOUND: Final[Mapping[str, str]] = {
    "email": _EMAIL,
    "url": _URL,
    "hashtag": r"(?<!\w)#\w+",
    "mention": r"(?<![\w.])@\w+",
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "ip": r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])",
}
_NAMES: Final = {
    "email": "e-?mails?(?: address(?:es)?)?",
    "url": "(?:urls?|links|web addresses)",
    "hashtag": "hash ?tags?",
    "mention": "mentions",
    "uuid": "uuids?",
    "ip": "ip(?:v4)? addresses",
}
_QUOTED = r"(?:\"(?P<a>[^\"]*)\"|“(?P<b>[^”]*)”|'(?P<c>[^']*)')"
_FIND_VERB = r"(?:please )?(?:extract|find|list|get|pull(?: out)?|grab|return|give me|collect)"
_WHERE = r"(?: (?:from|in|of|out of))?(?: (?:this|the|following|text|sentence|string|message|below|paragraph|tweet))*"
_FIND = {
    kind: re.compile(
        rf"{_FIND_VERB}(?: me)?(?: all| every| any)?(?: (?:of )?the)? {name}"
        rf"(?: (?:out|contained|that appear|mentioned))?{_WHERE}"
        rf"\s*[:\n]?\s*(?:{_QUOTED}|(?<=[:\n])\s*(?P<d>.+))\s*[.?]?",
        re.IGNORECASE | re.DOTALL,
    )
    for kind, name in _NAMES.items()
}
_COUNT = re.compile(
    r"(?:how many|count the|number of) (?P<what>words|characters|letters|lines|sentences|vowels)"
    rf"(?: (?:are there|does|are|has))?{_WHERE}"
    rf"\s*:?\s*{_QUOTED}(?: have| contain)?\s*[?.]?",
    re.IGNORECASE | re.DOTALL,
)
_TURN = re.compile(
    r"(?:please )?(?:(?:convert|change|put|turn|write|make)(?: the)?(?: (?:text|string|word|sentence))? "
    rf"{_QUOTED} (?:(?:in|to|into|as|all) )?"
    r"(?P<how>upper ?case|lower ?case|title ?case|snake[ _]case|kebab[ -]case|base64|json)"
    r"|(?P<verb>uppercase|lowercase|reverse|slugify|url-?encode|url-?decode|base64-?encode)"
    r"(?: the)?(?: (?:text|string|word))?:? "
    + _QUOTED.replace("?P<a>", "?P<e>").replace("?P<b>", "?P<f>").replace("?P<c>", "?P<g>")
    + r")\s*[.?]?",
    re.IGNORECASE | re.DOTALL,
)
_IS = re.compile(
    rf"is {_QUOTED} (?:an? )?(?:valid|well-?formed|correct) "
    r"(?P<what>e-?mail(?: address)?|url|ip(?:v[46])?(?: address)?|(?:iso )?date|json|uuid|number|integer|iban)\s*[?.]?",
    re.IGNORECASE | re.DOTALL,
)


def text(prompt: str, situation: Situation) -> Answered | None:
    """Answer a question of patterns about a text that the prompt quotes; None if it is any other."""
    for kind, pattern in _FIND.items():
        if match := pattern.fullmatch(prompt):
            found = list(dict.fromkeys(re.findall(_FOUND[kind], _quoted(match))))
            told = "\n".join(found) or f"there is none: no {kind} in the text"
            return Answered(told, "find", f"every {kind} by its pattern, each once", 0.95 if found else 0.8)
    if match := _COUNT.fullmatch(prompt):
        return _counted(match["what"].lower(), _quoted(match))
    if match := _TURN.fullmatch(prompt):
        how = re.sub(r"[ _-]", "", (match["how"] or match["verb"]).lower())
        return Answered(_TURNS[how](_quoted(match)), "turn", f"the text as {how}")
    if match := _IS.fullmatch(prompt):
        what = re.sub(r"-| address|iso ", "", match["what"].lower())
        problem = _CHECKS[what](_quoted(match))
        return Answered(f"no: {problem}" if problem else "yes", "format", f"checked against the format of {what}", 0.95)
    return None


def _quoted(match: re.Match[str]) -> str:
    found = next((value for name, value in match.groupdict().items() if name in "abcdefg" and value is not None), "")
    return str(found)


def _counted(what: str, given: str) -> Answered:
    match what:
        case "words":
            count = len(given.split())
        case "characters":
            count = len(given)
        case "letters":
            count = sum(char.isalpha() for char in given)
        case "vowels":
            count = sum(char in "aeiou" for char in given.lower())
        case "lines":
            count = len(given.splitlines())
        case _:
            count = len(re.findall(r"[^.!?]+(?:[.!?]+|$)", given.strip()))
    return Answered(str(count), "count", f"{what} counted", 0.8 if what == "sentences" else 1.0)


def _slug(given: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", given.lower()).strip("-")


def _base64(given: str) -> str:
    import base64

    return base64.b64encode(given.encode()).decode()


_TURNS: Final[Mapping[str, Callable[[str], str]]] = {
    "uppercase": str.upper,
    "lowercase": str.lower,
    "titlecase": str.title,
    "snakecase": lambda given: _slug(given).replace("-", "_"),
    "kebabcase": _slug,
    "slugify": _slug,
    "reverse": lambda given: given[::-1],
    "base64": _base64,
    "base64encode": _base64,
    "json": lambda given: json.dumps(given, ensure_ascii=False),
    "urlencode": lambda given: urllib.parse.quote(given, safe=""),
    "urldecode": urllib.parse.unquote,
}


def _email(given: str) -> str:
    return "" if re.fullmatch(_EMAIL, given) and ".." not in given else "it is not name@host.domain"


def _url(given: str) -> str:
    return "" if re.fullmatch(_URL, given) and urllib.parse.urlsplit(given).hostname else "it is not http(s)://host…"


def _ip(kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address] | None) -> Callable[[str], str]:
    def check(given: str) -> str:
        try:
            (kind or ipaddress.ip_address)(given)
        except ValueError as problem:
            return str(problem)
        return ""

    return check


def _raises(read: Callable[[str], object]) -> Callable[[str], str]:
    def check(given: str) -> str:
        try:
            read(given)
        except (ValueError, RecursionError) as problem:
            return str(problem)
        return ""

    return check


def _iban(given: str) -> str:
    compact = re.sub(r"\s", "", given).upper()
    if re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", compact) is None:
        return "it is not two letters, two digits and 11 to 30 more"
    # ISO 13616: moved around and read as a number, it leaves 1 modulo 97.
    number = int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4]))
    return "" if number % 97 == 1 else "its check digits don't fit"


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "email": _email,
    "url": _url,
    "ip": _ip(None),
    "ipv4": _ip(ipaddress.IPv4Address),
    "ipv6": _ip(ipaddress.IPv6Address),
    "date": _raises(datetime.date.fromisoformat),
    "json": _raises(json.loads),
    "uuid": _raises(uuid.UUID),
    "number": _raises(float),
    "integer": _raises(int),
    "iban": _iban,
}
