"""Secrets that only their surroundings give away: `password = …`, `Authorization: …`, `https://user:…@host`.

A name says that a secret follows; what follows decides. Passwords are masked if they could be typed by a person, keys
and tokens only if they look drawn at random: program text is full of `token = next(tokens)`.
"""

import math
import re
from collections.abc import Iterator
from typing import Final

from overnight.kernel.masking.kinds import Kind, Span

_PASSWORD: Final = (
    r"pass(?:word|wd|wort|phrase|code)|passwd|pwd|mot[ _]de[ _]passe|contrase[nñ]a|kennwort|senha|wachtwoord|parola|"
    r"haslo|losenord|salasana"
)
_KEY: Final = (
    r"secret|token|api[ _\-]?key|apikey|access[ _\-]?key|private[ _\-]?key|auth[ _\-]?key|encryption[ _\-]?key|signing[ _\-]?key|"
    r"master[ _\-]?key|account[ _\-]?key|service[ _\-]?key|client[ _\-]?key|shared[ _\-]?key|license[ _\-]?key|credentials?|"
    r"session[ _\-]?(?:id|key)|sessid|cookie|signature|bearer|x-amz-security-token|recovery[ _\-]?(?:code|key)"
)
_NAME: Final = re.compile(rf"(?P<password>{_PASSWORD})|(?P<key>{_KEY})", re.IGNORECASE)
# Any of these in lower-case text makes the slower search worth it.
_HINTS: Final = ("pass", "pwd", "kennwort", "contrase", "senha", "wachtwoord", "parola", "haslo", "losenord", "salasana",
                 "secret", "token", "key", "credential", "sess", "cookie", "signature", "bearer", "recovery")  # fmt: skip
# What stands between a name and its value: the rest of the name, a quote, an assignment or a copula, an opening quote.
_LINK: Final = re.compile(
    r"[\w.\-\]]{0,24}?\\?[\"']?[\])}]?\s{0,3}(?::=|=>|->|={1,2}|:|>|\s(?:is|was|are|ist|lautet|est|es)\s*:?)\s{0,3}"
    r"(?:(?:Bearer|Basic|Token|Digest)\s+)?(?P<quote>\\?[\"'`]|)",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(r"[\w\-]{0,16}\s+(?P<quote>[\"']?)")
_IN_QUOTES: Final = {q: re.compile(rf"(?:(?!\\?{q}|\r|\n).){{3,512}}") for q in "\"'`"}
_BARE: Final = re.compile(r"[^\s\"'`<>,;&)}\]]{3,512}")
_SCHEME: Final = re.compile(r"\b(?:Bearer|Basic|Token)\s+(?P<value>[A-Za-z0-9_\-.=+/~]{16,2048})")
_USERINFO: Final = re.compile(r"://(?P<user>[^\s/:@\"'<>?#]{0,256}):(?P<value>[^\s/@\"'<>]{1,256})@(?=[\w\[])")
_LOGIN: Final = re.compile(
    r"(?:\bcurl\b[^\n|;]{0,200}?\s(?:-u|--user)[ =]?|\bsshpass\s+-p\s*)[\"']?(?:[^\s:\"']{1,64}:)?(?P<value>[^\s\"']{3,128})"
)
_SQL: Final = re.compile(r"\b(?:IDENTIFIED\s+BY|PASSWORD)\s+(?:PASSWORD\s+)?'(?P<value>[^'\n]{3,128})'", re.IGNORECASE)
_NETRC: Final = re.compile(r"\blogin\s+\S{1,128}\s+password\s+(?P<value>\S{3,128})")
_AWS_SECRET: Final = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/=])")
_RANDOM: Final = re.compile(r"(?<![\w+/.\-])(?=[^\s]*\d)[A-Za-z0-9+/_\-.~]{20,256}={0,2}(?![\w+/])")

# Values that say what belongs there instead of being it.
_STAND_IN: Final = re.compile(
    r"[*•x.X_\-]+|\$[\w{(].*|%[\w({].*|\{+.*|<.*|\[.*|your[ _\-].*|(?:my|the|an?|new|old)[ _\-]?(?:password|secret|token|key|passphrase)|"
    r"example|changeme|required|optional|none|null|nil|true|false|undefined|string|str|bytes|int|text|hidden|prompt|"
    r"redacted|masked|masked_[a-z_]+_\w+|empty|env|self|os\.\w.*|process\.env.*|getpass.*|input.*|password|passwd|pwd|secret|"
    r"token|key|username|user|login|invalid|incorrect|wrong|field|type|value|wrd|pass|hash|auth|default|basic|plain|bool",
    re.IGNORECASE,
)
# Program text rather than a value: calls, attributes, subscripts, plain identifiers.
_CODE: Final = re.compile(
    r"[A-Za-z_][\w.\->]*[(\[{].*|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|[A-Za-z]+(?:_[A-Za-z]+)+|\W+|\d{1,3}"
)


def contextual(text: str) -> Iterator[Span]:
    """Every secret that its surroundings name."""
    if "://" in text and "@" in text:
        for match in _USERINFO.finditer(text):
            if _STAND_IN.fullmatch(match["value"]) is None or match["value"].lower() in ("password", "secret", "pass"):
                yield _span(match, "password", "url")
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS) and "curl" not in lower and "identified" not in lower:
        return
    for pattern, rule in ((_LOGIN, "command-line"), (_SQL, "sql"), (_NETRC, "netrc")):
        for match in pattern.finditer(text):
            if _STAND_IN.fullmatch(match["value"]) is None:
                yield _span(match, "password", rule)
    for match in _SCHEME.finditer(text):
        if random_looking(match["value"]):
            yield _span(match, "key", "header")
    if "AKIA" in text or "ASIA" in text or "aws" in lower:
        for match in _AWS_SECRET.finditer(text):
            if random_looking(match[0]) and re.search(
                r"AKIA|ASIA|aws", text[max(0, match.start() - 200) : match.end() + 200], re.I
            ):
                yield Span(match.start(), match.end(), "key", "aws-secret", match[0])
    for name in _NAME.finditer(text):
        yield from _named(text, name)


def _named(text: str, name: re.Match[str]) -> Iterator[Span]:
    secret = name.lastgroup == "password"
    link = _LINK.match(text, name.end())
    if (
        link is None
        and text[max(0, name.start() - 20) : name.start()].rsplit(None, 1)[-1:]
        and re.search(r"(?:^|\s)--?[\w\-]*$", text[max(0, name.start() - 20) : name.start()])
    ):
        link = _OPTION.match(text, name.end())
    if link is not None:
        quote = link["quote"]
        value = (_IN_QUOTES[quote[-1]] if quote else _BARE).match(text, link.end())
        if value is None:
            return
        start, said = value.start(), value[0]
        if not quote:
            said = said.rstrip(".:|")
            # `>` links XML; a bare value after it ends at the next `<`, which _BARE stops at.
        if secret and _typed(said, bool(quote), text, start + len(said)):
            yield Span(start, start + len(said), "password", "named", said)
        elif not secret and random_looking(said):
            yield Span(start, start + len(said), "key", "named", said)
    elif not secret or text[name.end() : name.end() + 1] in " ,(":
        # "the recovery key for the vault: 9f8a…", on the same line.
        end = text.find("\n", name.end())
        near = _RANDOM.search(text, name.end(), min(name.end() + 64, end if end >= 0 else len(text)))
        if near and random_looking(near[0]) and len(near[0]) < 128:
            full = _RANDOM.match(text, near.start())
            if full:
                yield Span(full.start(), full.end(), "key", "near", full[0])


def _typed(value: str, quoted: bool, text: str, end: int) -> bool:
    """Whether a person could have typed `value` as a password here."""
    if _STAND_IN.fullmatch(value) or len(value) < 3:
        return False
    if quoted:
        return " " not in value or any(char.isdigit() for char in value) or len(value.split()) in (4, 5, 6, 7)
    if _CODE.fullmatch(value):
        return False
    if value.isalpha():
        # A word is a password only where nothing follows it on its line: prose goes on, and types do too.
        rest = text[end : end + 2]
        return len(value) >= 6 and (not rest or rest[0] in "\r\n" or rest == ".\n")
    return True


def random_looking(value: str) -> bool:
    """Whether `value` looks drawn at random: long enough, of several classes, and of high entropy.

    Three bits a character over sixteen characters keep out identifiers, paths, versions and sentences; hexadecimal has
    at most four.
    """
    if len(value) < 16 or " " in value or _STAND_IN.fullmatch(value) or _CODE.fullmatch(value):
        return False
    digits = sum(char.isdigit() for char in value)
    letters = sum(char.isalpha() for char in value)
    if not letters or digits < 2 or digits + letters < len(value) * 0.7:
        return False
    counts: dict[str, int] = {}
    for char in value:
        counts[char] = counts.get(char, 0) + 1
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy >= 3.0


def _span(match: re.Match[str], kind: Kind, rule: str) -> Span:
    start, end = match.span("value")
    return Span(start, end, kind, rule, match["value"])
