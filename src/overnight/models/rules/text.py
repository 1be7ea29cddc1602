"""Tier 0: what patterns can do with a quoted text: find addresses in it, check its format, count and turn it."""

import datetime
import ipaddress
import json
import re
import unicodedata
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from overnight.models.rules.rules import Answered, Situation

_EMAIL = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_URL = r"https?://(?:[^\s<>\"'()\]]|\([^\s<>\"'()\]]*\))*(?:[^\s<>\"'()\].,;:!?]|\([^\s<>\"'()\]]*\))"
_ADDRESS = re.compile(
    r"(?![^@]{65})[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+",
    re.ASCII,
)
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
    r"(?P<how>upper ?case|lower ?case|title ?case|snake[ _]case|kebab[ -]case|base64)"
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
            given = _quoted(match)
            found = list(dict.fromkeys(re.findall(_FOUND[kind], given)))
            if kind == "ip":
                found = [address for address in found if not _CHECKS["ipv4"](address)]
            # "www.example.com" may be meant too.
            if kind == "url" and not found and re.search(r"\w\.\w", given):
                return None
            told = "\n".join(found) or f"there is none: no {kind} in the text"
            return Answered(told, "find", f"every {kind} by its pattern, each once", 0.95 if found else 0.8)
    if match := _COUNT.fullmatch(prompt):
        return None if _joins(_quoted(match)) else _counted(match["what"].lower(), _quoted(match))
    if match := _TURN.fullmatch(prompt):
        how = re.sub(r"[ _-]", "", (match["how"] or match["verb"]).lower())
        turned = None if _joins(_quoted(match)) else _TURNS[how](_quoted(match))
        return None if turned is None else Answered(turned, "turn", f"the text as {how}")
    if match := _IS.fullmatch(prompt):
        what = re.sub(r"-| address|iso ", "", match["what"].lower())
        problem = _CHECKS[what](_quoted(match))
        if problem is None:
            return None
        return Answered(f"no: {problem}" if problem else "yes", "format", f"checked against the format of {what}", 0.95)
    return None


def _quoted(match: re.Match[str]) -> str:
    found = next((value for name, value in match.groupdict().items() if name in "abcdefg" and value is not None), "")
    return str(found)


def _joins(given: str) -> bool:
    """Whether several code points are one character to people, as in emoji and letters with loose accents."""
    return any(unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf", "Cs", "Sk") for char in given)


def _counted(what: str, given: str) -> Answered | None:
    match what:
        case "words":
            # Whether a lone dash is a word is for whoever asks.
            if not all(any(char.isalnum() for char in word) for word in given.split()):
                return None
            count = len(given.split())
        case "characters":
            count = len(given)
        case "letters":
            count = sum(char.isalpha() for char in given)
        case "vowels":
            # Letters with accents, and y, are vowels to some.
            if not given.isascii() or "y" in given.lower():
                return None
            count = sum(char in "aeiou" for char in given.lower())
        case "lines":
            count = len(given.splitlines())
        case _:
            count = len(re.findall(r"[^.!?]+(?:[.!?]+|$)", given.strip()))
    return Answered(str(count), "count", f"{what} counted", 0.8 if what == "sentences" else 1.0)


def _slug(given: str) -> str | None:
    plain = unicodedata.normalize("NFKD", given).encode("ascii", "ignore").decode()
    # "ß" and "ø" have several spellings in ASCII, and other scripts have none.
    if sum(map(str.isalnum, plain)) != sum(map(str.isalnum, given)):
        return None
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def _words_joined(by: str) -> Callable[[str], str | None]:
    def join(given: str) -> str | None:
        if " " not in given:
            given = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", given)
        slug = _slug(given)
        return None if slug is None else slug.replace("-", by)

    return join


def _title(given: str) -> str:
    """Every word with a capital, those of one's own kept: "it's NASA" is "It's NASA"."""
    given = given.lower() if given.isupper() else given
    return re.sub(r"(?<![\w'’])[^\W\d_]", lambda found: found[0].upper(), given)


def _url_decode(given: str) -> str | None:
    # In forms a plus is a blank, elsewhere it is a plus.
    return None if "+" in given else urllib.parse.unquote(given)


def _base64(given: str) -> str:
    import base64

    return base64.b64encode(given.encode()).decode()


_TURNS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "uppercase": str.upper,
    "lowercase": str.lower,
    "titlecase": _title,
    "snakecase": _words_joined("_"),
    "kebabcase": _words_joined("-"),
    "slugify": _slug,
    "reverse": lambda given: given[::-1],
    "base64": _base64,
    "base64encode": _base64,
    "urlencode": lambda given: urllib.parse.quote(given, safe=""),
    "urldecode": _url_decode,
}


def _email(given: str) -> str | None:
    if not given.isascii() or '"' in given:
        return None
    return "" if _ADDRESS.fullmatch(given) else "it is not name@host.domain"


def _url(given: str) -> str | None:
    try:
        parts = urllib.parse.urlsplit(given)
        fine = bool(parts.hostname) and (parts.port is None or parts.port >= 0) and not re.search(r"[\s<>\"]", given)
    except ValueError as problem:
        return str(problem)
    if parts.scheme in ("http", "https"):
        return "" if fine else "it is not http(s)://host…"
    # Another scheme, or a host without one, may be meant.
    return "it has no scheme and no host" if re.fullmatch(r"[\w ]*", given) else None


def _date(given: str) -> str | None:
    # Of any other way to write a date a person may say that it is one.
    return _raises(datetime.date.fromisoformat)(given) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", given) else None


def _number(given: str) -> str | None:
    if re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", given, re.ASCII):
        return ""
    # "1,000", "1_000", "½" and "٣" are numbers to some.
    return None if any(char.isnumeric() for char in given) else "it has no digits"


def _integer(given: str) -> str | None:
    if re.fullmatch(r"[+-]?\d+", given, re.ASCII):
        return ""
    if re.fullmatch(r"[+-]?\d+\.\d*[1-9]\d*", given, re.ASCII):
        return "it has a fraction"
    return None if any(char.isnumeric() for char in given) else "it has no digits"


def _json(given: str) -> str | None:
    return _raises(lambda text: json.loads(text, parse_constant=_no_constant))(given)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no value of JSON")


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


_CHECKS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "email": _email,
    "url": _url,
    "ip": _ip(None),
    "ipv4": _ip(ipaddress.IPv4Address),
    "ipv6": _ip(ipaddress.IPv6Address),
    "date": _date,
    "json": _json,
    "uuid": _raises(uuid.UUID),
    "number": _number,
    "integer": _integer,
    "iban": _iban,
}
