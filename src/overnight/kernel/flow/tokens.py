"""What a person typed, cut into whole tokens, so that a value is traced to all of one and never to a part of one.

"June 13" is a date and holds no id "13"; "13:00" is a time; `bill-2023.txt` is one name. An id that is only digits
counts when the text says what it is: "file 13", "id 13", "#13".
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

TokenKind = Literal["url", "email", "account", "date", "time", "amount", "number", "name", "word"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_RANGE = rf"(?:\s*(?:-|–|to|until|and|through)\s*(?:the\s+)?{_DAY})?"

_TOKEN = re.compile(
    rf"""
      (?P<url>(?:https?://|www\.)[^\s<>"'`\\^{{}}|]+)
    | (?P<email>[\w.+-]+@\w[\w-]*(?:\.\w[\w-]*)+)
    | (?P<account>(?-i:\b[A-Z]{{2}}\d{{2}}(?:\ ?[A-Z0-9]{{4}}){{2,7}}(?:\ ?[A-Z0-9]{{1,3}})?)(?!\w))
    | (?P<iso>\d{{4}}-\d{{1,2}}-\d{{1,2}}(?![\w-]))
    | (?P<month_first>\b{_MONTH}\s+(?:the\s+)?{_DAY}(?![\w:]){_RANGE}(?:\s*,?\s*(?:of\s+)?\d{{4}}(?!\d))?)
    | (?P<day_first>\b{_DAY}{_RANGE}\s+(?:of\s+)?{_MONTH}(?:\s*,?\s*\d{{4}}(?!\d))?)
    | (?P<slashed>\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b)
    | (?P<time>\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s?[ap]\.?m\b)?|\b\d{{1,2}}\s?[ap]m\b)
    | (?P<amount>[$€£¥]\s?\d[\d,]*(?:\.\d+)?|\b\d[\d,]*(?:\.\d+)?\s?(?:[$€£¥%]|(?:usd|eur|gbp|chf|dollars?|euros?)\b))
    | (?P<name>\.?\w+(?:[./_@+~:-]+\w+)+/?|(?:\.{{0,2}}/)+\w[\w./-]*)
    | (?P<number>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?![\w,])|\d+\b)
    | (?P<word>\w+(?:['’]\w+)?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Endings by which mail and chat programs turn a bare name into a link; two-letter ones are countries, except those that
# people know as endings of files.
_LINKED = frozenset(
    {"com", "net", "org", "edu", "gov", "info", "biz", "app", "dev", "site", "online", "shop", "store", "xyz", "top"}
    | {"club", "live", "link", "page", "cloud", "tech", "icu", "vip"}
)
_FILE_ENDINGS = frozenset({"md", "py", "sh", "rs", "js", "ts", "pl", "rb", "cc", "gz", "db", "so", "go", "am", "pm"})
_BARE_HOST = re.compile(r"(?:[a-z0-9-]+\.)+([a-z]{2,})(?:[/:].*)?", re.IGNORECASE)
_ACCOUNT = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){10,30}\b")
# Every link, address and account number has one of these; most messages have none, and need not be cut into tokens.
_MAY_LINK = re.compile(r"@|://|www\.|\w\.[a-z]{2}|(?-i:[A-Z]{2}\d\d ?[A-Z0-9])", re.IGNORECASE)
_SPELT_DOT = re.compile(
    rf"\s*(?:[\[({{]\s*(?:dot|\.)\s*[\])}}]|\bdot(?=\s+(?:{'|'.join(sorted(_LINKED))})\b))\s*", re.IGNORECASE
)
_LINKING = re.compile(r"[@.:%&\[({0-9]")
_TWO_DIGITS = re.compile(r"\d\d")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
# "www.example.org.They said": a sentence that begins without a space after an address.
_GLUED = re.compile(r"(?<=[a-z0-9]\.[a-z]{2})\.[A-Z][a-z]+$|(?<=[a-z0-9]\.[a-z]{3})\.[A-Z][a-z]+$")
_DIGITS = re.compile(r"\d+")
_NUMBER_WORDS = {"a": 1.0, "an": 1.0, "one": 1.0, "half an": 0.5, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0}
_COUNTED = "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
_SPAN = re.compile(
    rf"\b(\d{{1,3}}(?:\.5)?|{_COUNTED})[\s-]{{1,2}}(hours?|hrs?|min(?:ute)?s?)\b",
    re.IGNORECASE,
)
_PLAIN_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.]\d+)?")


@dataclass(frozen=True, slots=True)
class Token:
    """One whole token of a text and where it stands."""

    kind: TokenKind
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Day:
    """A calendar day as it was written; `year` is None where the text leaves it out."""

    month: int
    day: int
    year: int | None


def tokens_of(text: str) -> list[Token]:
    """The tokens of `text` in order; separators and punctuation are not tokens."""
    return list(each_token(text))


def each_token(text: str) -> Iterator[Token]:
    """As `tokens_of`, one after the other: who finds early what they look for need not cut all of a text."""
    for match in _TOKEN.finditer(text):
        group = match.lastgroup or "word"
        raw = match.group()
        if group == "url":
            raw = _GLUED.sub("", raw.rstrip(".,;:!?)]"))
        kind: TokenKind = "word"
        if group in ("iso", "month_first", "day_first", "slashed"):
            kind = "date"
        elif group in ("url", "email", "account", "time", "amount", "number", "name"):
            kind = group  # type: ignore[assignment]  # the tuple above lists members of TokenKind
        if kind == "name" and _PLAIN_NUMBER.fullmatch(raw):
            kind = "number"
        yield Token(kind, raw, match.start(), match.start() + len(raw))


def first_token(text: str) -> str:
    """The text of the first token, or nothing: what is cheap to look up before all of a text is cut."""
    match = _TOKEN.search(text)
    if match is None:
        return ""
    return tokens_of(match.group())[0].text if match.lastgroup == "url" else match.group()


def days_of(token: Token) -> list[Day]:
    """The days a date token names: one, or the two ends of "January 11th to 15th, 2025"."""
    text = token.text.lower()
    numbers = [int(digits) for digits in _DIGITS.findall(text)]
    if re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}", text):
        return [Day(numbers[1], numbers[2], numbers[0])]
    name = re.search(_MONTH, text)
    if name is None:
        # 03/04/2025 is April or March depending on where one lives: either is what the person may have meant.
        return [Day(numbers[1], numbers[0], numbers[2]), Day(numbers[0], numbers[1], numbers[2])]
    month = _MONTHS.index(name.group()[:3]) + 1
    year = next((number for number in numbers if number > 31), None)
    return [Day(month, number, year) for number in numbers if number <= 31]


def _as_read(text: str) -> str:
    """A message as its reader's program or eye takes it: compatibility forms, invisible characters, percent and HTML
    escapes and spelt-out dots undone."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).replace("\u3002", ".")
    if "%" in text:
        text = unquote(text)
    if "&" in text:
        text = html.unescape(text)
    if " . " in text:
        text = text.replace(" . ", ".")
    if "dot" in text.lower() or "[" in text or "(" in text or "{" in text:
        text = _SPELT_DOT.sub(".", text)
    return text


def links_in(text: str) -> list[tuple[Literal["url", "recipient", "account"], str]]:
    """Everything in a message that a reader may follow: links, also bare host names, mail addresses, account numbers.

    The text is taken as its reader would: disguises that a program or an eye undoes are undone first.
    """
    if _LINKING.search(text) is None and text.isascii() and "dot" not in text.lower():
        return []  # one look at all characters: no sign, no digit and no spelt-out dot of which a link is made
    text = _as_read(text)
    # Two looks: at single characters, which is almost free, then at what stands around them.
    if not ("@" in text or "." in text or "://" in text or _TWO_DIGITS.search(text)) or not _MAY_LINK.search(text):
        return []
    found: list[tuple[Literal["url", "recipient", "account"], str]] = [
        ("account", match.group()) for match in _ACCOUNT.finditer(text)
    ]
    for token in tokens_of(text):
        if token.kind == "url":
            found.append(("url", token.text))
        elif token.kind == "email":
            found.append(("recipient", token.text))
        elif token.kind == "name":
            # `//host/path` takes the scheme of the page it stands on.
            bare = token.text.lstrip("/") if token.text.startswith("//") else token.text
            host = _BARE_HOST.fullmatch(bare)
            ending = host.group(1).lower() if host else ""
            if ending in _LINKED or (len(ending) == 2 and ending not in _FILE_ENDINGS) or "://" in token.text:
                found.append(("url", bare))
    return found


def minutes_of(token: Token) -> int:
    """The minute of the day that a time token names."""
    numbers = [int(digits) for digits in _DIGITS.findall(token.text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    half = re.search(r"([ap])\.?m", token.text, re.IGNORECASE)
    if half is not None:
        hour = hour % 12 + (12 if half.group(1).lower() == "p" else 0)
    return hour * 60 + minute


def spans_in(text: str) -> set[int]:
    """The lengths of time that a text names, in minutes: "1-hour", "for one hour", "half an hour", "90 minutes"."""
    found = set()
    for number, unit in _SPAN.findall(text):
        count = _NUMBER_WORDS.get(number.lower())
        if count is None:
            count = float(number)
        found.add(round(count * (60 if unit.lower().startswith("h") else 1)))
    return found


def number_of(text: str) -> float | None:
    """The number in an amount or number token: `$1,200.50` is 1200.5."""
    match = _PLAIN_NUMBER.search(text)
    return float(match.group().replace(",", "")) if match else None
