"""Secrets that only their surroundings give away: `password = …`, `Authorization: …`, `https://user:…@host`.

A name says that a secret follows; what follows decides. Passwords are masked if they could be typed by a person, keys
and tokens only if they look drawn at random: program text is full of `token = next(tokens)`.
"""

import math
import re
from collections.abc import Iterator
from typing import Final

from overnight.kernel.masking.kinds import Kind, Span

# Literals to look for in lower-case text, each with what must stand there; `str.find` is thirty times faster than one
# case-insensitive expression over all of them.
_PASSWORDS: Final = (
    ("pass", re.compile(r"pass(?:word|wd|wort|phrase|code|(?![a-z]))")),
    ("pwd", re.compile(r"pwd(?![a-z])")),
    *((word, re.compile(word)) for word in (
        "mot de passe", "contrasena", "kennwort", "senha", "wachtwoord", "parola", "haslo", "losenord", "salasana",
    )),
)  # fmt: skip
_KEYS: Final = (
    ("key", re.compile(r"key(?!board|word|frame|error)")),
    ("secret", re.compile(r"secret")),
    ("token", re.compile(r"token(?!iz)")),
    ("credential", re.compile(r"credentials?")),
    ("sess", re.compile(r"sess(?:ion[ _\-]?(?:id|key)|id)")),
    ("cookie", re.compile(r"cookie")),
    ("signature", re.compile(r"signature")),
    ("bearer", re.compile(r"bearer")),
    ("recovery", re.compile(r"recovery[ _\-]?(?:code|key)s?")),
)
_KEY_OF: Final = re.compile(
    r"(?:api|access|private|auth|encryption|signing|master|account|service|client|shared|license|licence|storage|admin|app|"
    r"subscription|deploy|webhook|hmac|aes|ssh|user|host|function|instrumentation|primary|secondary|root|x)[ _\-]?\Z"
)
# What stands between a name and its value: the rest of the name, a quote, an assignment or a copula, an opening quote.
_LINK: Final = re.compile(
    r"[\w.\-\]]{0,24}?\\?[\"']?[\])}]?\s{0,3}(?::=|=>|->|={1,2}|:|>|\s(?:is|was|are|ist|lautet|est|es)\s*:?)\s{0,3}"
    r"(?:(?:Bearer|Basic|Token|Digest)\s+)?(?P<quote>\\?[\"'`]|)",
    re.IGNORECASE,
)
_FLAG: Final = re.compile(r"(?:^|\s)--?[\w\-]*\Z")
_DIGIT: Final = re.compile(r"\d")
_OPTION: Final = re.compile(r"[\w\-]{0,16}\s+(?P<quote>[\"']?)")
_IN_QUOTES: Final = {q: re.compile(rf"(?:(?!\\?{q}|\r|\n).){{3,512}}") for q in "\"'`"}
_BARE: Final = re.compile(r"[^\s\"'`<>,;&)}\]]{3,512}")
# "correct horse battery staple", or the twelve to twenty-four words of a wallet.
_PHRASE: Final = re.compile(
    r"(?:(?:pass|seed|recovery|secret|backup)[ _\-]?(?:phrase|words)|mnemonic)[\"']?\s?(?::|=|\sis:?)\s?[\"']?"
    r"(?P<value>[a-z]{3,10}(?:[ \-][a-z]{3,10}){3,23})(?=[\s\"'.,;]|\Z)",
    re.IGNORECASE,
)
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token|bearer|basic|token)\s+(?P<value>[A-Za-z0-9_\-.=+/~]{16,2048})")
_USERINFO: Final = re.compile(r"://(?P<user>[^\s/:@\"'<>?#]{0,256}):(?P<value>[^\s/@\"'<>]{1,256})@(?=[\w\[])")
_LOGIN: Final = re.compile(
    r"(?:curl\b[^\n|;]{0,200}?\s(?:-u|--user)[ =]?|sshpass\s+-p\s*)"
    r"[\"']?(?:[^\s:\"']{1,64}:)?(?P<value>[^\s\"']{3,128})"
)
_SQL: Final = re.compile(
    r"(?:IDENTIFIED|identified|PASSWORD|password)\s+(?:(?:BY|by|PASSWORD|password)\s+){0,2}'(?P<value>[^'\n]{3,128})'"
)
_NETRC: Final = re.compile(r"login\s+\S{1,128}\s+password\s+(?P<value>\S{3,128})")
_AWS_SECRET: Final = re.compile(r"[A-Za-z0-9+/]{40,}")
_RANDOM: Final = re.compile(r"(?<![\w+/.\-])(?=[^\s]*\d)[A-Za-z0-9+/_\-.~]{20,256}={0,2}(?![\w+/])")

# Values that say what belongs there instead of being it.
_STAND_IN: Final = re.compile(
    r"[*•x.X_\-]+|\$[\w{(].*|%[\w({].*|\{+.*|<.*|\[.*|your[ _\-].*|"
    r"(?:my|the|an?|new|old)[ _\-]?(?:password|secret|token|key|passphrase)|"
    r"example|changeme|required|optional|none|null|nil|true|false|undefined|string|str|bytes|int|text|hidden|prompt|"
    r"redacted|masked|masked_[a-z_]+_\w+|empty|env|self|os\.\w.*|process\.env.*|getpass.*|input.*|password|passwd|pwd|secret|"
    r"token|key|username|user|login|invalid|incorrect|wrong|field|type|value|wrd|pass|hash|auth|default|basic|plain|bool",
    re.IGNORECASE,
)
# Program text rather than a value: calls, attributes, subscripts, plain identifiers.
_CODE: Final = re.compile(
    r"[A-Za-z_][\w.\->]*[(\[{].*|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|[A-Za-z]+(?:_[A-Za-z]+)+|\W+|\d{1,3}"
)


def contextual(text: str, lower: str, *, random: bool = True) -> Iterator[Span]:
    """Every secret that its surroundings name.

    Args:
        text: to search.
        lower: the same in lower case, character by character.
        random: whether something that looks drawn at random may be in it.
    """
    if "://" in text and "@" in text:
        for match in _USERINFO.finditer(text):
            if _STAND_IN.fullmatch(match["value"]) is None or match["value"].lower() in ("password", "secret", "pass"):
                yield _span(match, "password", "url")
    for kinds, secret in ((_PASSWORDS, True), (_KEYS if random else (), False)):
        for literal, form in kinds:
            at = lower.find(literal)
            while at >= 0:
                name = form.match(lower, at)
                if name and (literal != "key" or _KEY_OF.search(lower, max(0, at - 20), at)):
                    yield from _named(text, name, secret)
                at = lower.find(literal, at + 1)
    if "phrase" in lower or "mnemonic" in lower:
        yield from _values(_PHRASE, text, "phrase")
    if "curl" in lower or "sshpass" in lower:
        yield from _values(_LOGIN, text, "command-line")
    password = "password" in lower
    if (password and "password '" in lower) or "identified" in lower:
        yield from _values(_SQL, text, "sql")
    if password and "login" in lower:
        yield from _values(_NETRC, text, "netrc")
    if not random:
        return
    if any(scheme in lower for scheme in ("bearer ", "basic ", "authorization")):
        for match in _SCHEME.finditer(text):
            if random_looking(match["value"]):
                yield _span(match, "key", "header")
    if "AKIA" in text or "ASIA" in text or "aws_" in lower or "aws " in lower:
        for match in _AWS_SECRET.finditer(text):
            near = text[max(0, match.start() - 200) : match.end() + 200]
            if len(match[0]) == 40 and random_looking(match[0]) and re.search(r"AKIA|ASIA|\baws", near, re.IGNORECASE):
                yield Span(match.start(), match.end(), "key", "aws-secret", match[0])


def _values(pattern: re.Pattern[str], text: str, rule: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        if _STAND_IN.fullmatch(match["value"]) is None:
            yield _span(match, "password", rule)


def _named(text: str, name: re.Match[str], secret: bool) -> Iterator[Span]:
    link = _LINK.match(text, name.end())
    option = link is None and text[name.end() : name.end() + 1] == " "
    if option and _FLAG.search(text, max(0, name.start() - 20), name.start()):
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
    elif not secret:
        # "the recovery key for the vault, 9f8a…", on the same line.
        end = text.find("\n", name.end(), name.end() + 64)
        window = text[name.end() : end if end >= 0 else name.end() + 64]
        near = _RANDOM.search(window) if _DIGIT.search(window) else None
        if near is None:
            return
        full = _RANDOM.match(text, name.end() + near.start())
        if full and random_looking(full[0]):
            yield Span(full.start(), full.end(), "key", "near", full[0])


def _typed(value: str, quoted: bool, text: str, end: int) -> bool:
    """Whether a person could have typed `value` as a password here."""
    if _STAND_IN.fullmatch(value) or len(value) < 4:
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
