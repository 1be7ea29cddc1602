"""National numbers with letters in them, and IBANs: found from their digits outwards, proven by their check."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from overnight.kernel.masking.checksums import mod97, month_day, weighted
from overnight.kernel.masking.kinds import Span

# Check digits with the two letters of a country before them; begins with the digit, which most text has few of.
_CHECK_DIGITS: Final = re.compile(r"\d(?:(?<=[A-Za-z]{2}\d)|(?<=[A-Za-z]{2}[\s.\-]\d))[\s.\-]?\d")
_DIGITS: Final = re.compile(r"\d\d+")
_LEFT: Final = re.compile(r"[A-Za-z]{0,16}[ .\-]{0,2}$")
_SEPARATORS: Final = re.compile(r"[\s.\-/:_]")

# SWIFT IBAN registry, release 98: length per country.
_LENGTHS: Final = (
    "15:NO 16:BE 18:DK,FI,FK,FO,GL,NL,SD 19:MK,SI 20:AT,BA,EE,KZ,LT,LU,XK,MN 21:CH,HR,LI,LV "
    "22:BG,BH,CR,DE,GB,GE,IE,ME,RS,VA 23:AE,GI,IL,IQ,OM,SO,TL 24:AD,CZ,ES,MD,PK,RO,SA,SE,SK,TN,VG 25:LY,PT,ST "
    "26:IS,TR 27:BI,DJ,FR,GR,IT,MC,MR,SM 28:AL,AZ,BY,CY,DO,GT,HN,HU,LB,NI,PL,SV 29:BR,EG,PS,QA,UA 30:JO,KW,MU,YE "
    "31:MT,SC 32:LC 33:RU"
)
IBAN_LENGTHS: Final[dict[str, int]] = {
    country: int(entry[:2]) for entry in _LENGTHS.split() for country in entry[3:].split(",")
}
_IBAN: Final = re.compile(r"[A-Za-z]{2}[\s.\-]?\d[\s.\-]?\d(?:[\s.\-/:_]{0,2}[A-Za-z0-9]){11,30}")

_DNI: Final = "TRWAGMYFPDXBNJZSQVHLCKE"
# Agenzia delle Entrate: values at odd places, 0-9 then A-Z; a digit counts as the letter at its place.
_CF_VALUES: Final = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_CF_ODD: Final = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _CF_VALUES, strict=True)) | dict(
    zip("0123456789", _CF_VALUES, strict=False)
)


def ibans(text: str, first: int = 0, last: int | None = None) -> Iterator[Span]:
    """IBANs by country, length and ISO 7064 mod 97-10, in groups of any kind, with check digits in `first:last`."""
    for digits in _CHECK_DIGITS.finditer(text, first, len(text) if last is None else last):
        start = digits.start() - (2 if text[digits.start() - 1].isalpha() else 3)
        country = text[start : start + 2].upper()
        length = IBAN_LENGTHS.get(country)
        if length is None or (start and text[start - 1].isalnum()):
            continue
        match = _IBAN.match(text, start)
        if match is None:
            continue
        end, left = match.start(), length
        while end < match.end() and left:
            left -= text[end].isalnum()
            end += 1
        if left or (end < len(text) and text[end].isalnum() and text[end].isascii()):
            continue
        value = _SEPARATORS.sub("", text[match.start() : end]).upper()
        if mod97(value[4:] + value[:4]) == 1:
            yield Span(match.start(), end, "iban", f"iban-{country.lower()}", value)


def _nino(v: str) -> bool:
    return v[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def _dni(v: str) -> bool:
    number = v[:-1].translate({ord("X"): "0", ord("Y"): "1", ord("Z"): "2"})
    return _DNI[int(number) % 23] == v[-1]


def _codice_fiscale(v: str) -> bool:
    total = 0
    for place, char in enumerate(v[:15]):
        total += _CF_ODD[char] if place % 2 == 0 else int(char) if char.isdigit() else ord(char) - 65
    return chr(65 + total % 26) == v[15]


def _hetu(v: str) -> bool:
    return month_day(v[2:4] + v[:2]) and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(v[:6] + v[-4:-1]) % 31] == v[-1]


def _pps(v: str) -> bool:
    total = weighted(v[:7], (8, 7, 6, 5, 4, 3, 2)) + (9 * (ord(v[8]) - 64) if len(v) > 8 and v[8] != "W" else 0)
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == v[7]


def _rvnr(v: str) -> bool:
    spelt = f"{v[:8]}{ord(v[8]) - 64:02d}{v[9:11]}"
    products = (int(c) * w for c, w in zip(spelt, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True))
    return sum(p // 10 + p % 10 for p in products) % 10 == int(v[11]) and 1 <= int(v[4:6]) <= 12


def _curp(v: str) -> bool:
    alphabet = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(alphabet.index(c) * (18 - i) for i, c in enumerate(v[:17]))
    return month_day(v[6:10]) and (10 - total % 10) % 10 == int(v[17])


def _china(v: str) -> bool:
    total = weighted(v[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    return month_day(v[10:14]) and v[6:8] in ("18", "19", "20") and "10X98765432"[total % 11] == v[17]


def _nric(v: str) -> bool:
    total = weighted(v[1:8], (2, 7, 6, 5, 4, 3, 2)) + {"T": 4, "G": 4, "M": 3}.get(v[0], 0)
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "F": "XWUTRQPNMLK", "G": "XWUTRQPNMLK", "M": "KLJNPQRTUWX"}[v[0]]
    return letters[total % 11 if v[0] != "M" else 10 - total % 11] == v[8]


# Name, pattern of a whole number, check. Letters are matched in either case where a check proves it.
_LETTERED: Final[tuple[tuple[str, str, Callable[[str], bool]], ...]] = (
    ("uk_nino", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?:[ \-]?\d\d){3}[ \-]?[A-D]", _nino),
    ("es_dni", r"(?:\d{8}|\d{2}\.\d{3}\.\d{3}|[XYZ][ \-]?\d{7})[ \-]?[A-Z]", _dni),
    ("fi_hetu", r"\d{6}[\-+A-FU-Y]\d{3}[0-9A-Y]", _hetu),
    ("ie_pps", r"\d{7}[A-W][A-IW]?", _pps),
    ("de_rvnr", r"\d\d ?\d{6} ?[A-Z] ?\d{3}", _rvnr),
    ("cn_id", r"\d{17}[\dX]", _china),
    ("sg_nric", r"[STFGM]\d{7}[A-Z]", _nric),
    ("fr_nir_corse", r"[123478] ?\d\d ?\d\d ?2[AB] ?\d{3} ?\d{3} ?\d\d", lambda v: _corsica(v)),
)
_ANY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?<!\d\.)(?:"
    + "|".join(f"(?P<{name}>{pattern})" for name, pattern, _ in _LETTERED)
    + r")(?![A-Za-z0-9])"
)
_BIRTH: Final = re.compile(
    r"[A-Z]{4}(?<![A-Za-z0-9]....)(?:"
    r"[A-Z]{2}[\dLMNP-V]{2}[A-EHLMPRST][\dLMNP-V]{2}[A-Z][\dLMNP-V]{3}[A-Z]|\d{6}[HMX][A-Z]{5}[A-Z0-9]\d)(?![A-Za-z0-9])"
)
_CHECKS: Final = {name: check for name, _, check in _LETTERED}


def _corsica(v: str) -> bool:
    number = int(v[:13].replace("2A", "19").replace("2B", "18"))
    return 97 - number % 97 == int(v[13:])


def lettered_ids(text: str, first: int, last: int) -> Iterator[Span]:
    """National numbers with upper-case letters, from the digits in `first:last` and the letters before them."""
    done = 0
    for digits in _DIGITS.finditer(text, first, last):
        if digits.start() < done:
            continue
        left = _LEFT.search(text, max(0, digits.start() - 18), digits.start())
        # The first digit of a French number stands by itself.
        for start in sorted({digits.start(), left.start() if left else digits.start(), max(0, digits.start() - 2)}):
            match = _ANY.match(text, start)
            if match is None or match.lastgroup is None:
                continue
            value = re.sub(r"[ .\-]" if match.lastgroup != "fi_hetu" else " ", "", match[0])
            if _CHECKS[match.lastgroup](value):
                done = match.end()
                yield Span(match.start(), done, "national_id", match.lastgroup.replace("_", "-"), value)
                break


def birth_codes(text: str, long_words: str) -> Iterator[Span]:
    """The codes of Italy and Mexico, made of a name and a date of birth; six letters begin the one, four the other."""
    if _BIRTH.search(long_words) is None:
        return
    for match in _BIRTH.finditer(text):
        value = match[0]
        if len(value) == 16 and _codice_fiscale(value):
            yield Span(match.start(), match.end(), "national_id", "it-cf", value)
        elif len(value) == 18 and _curp(value):
            yield Span(match.start(), match.end(), "national_id", "mx-curp", value)
