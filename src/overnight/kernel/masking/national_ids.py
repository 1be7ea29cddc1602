"""National identity, tax and social insurance numbers, each by its layout and its check digits."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from overnight.kernel.masking import checksums
from overnight.kernel.masking.checksums import mod11_10, month_day, weighted
from overnight.kernel.masking.fold import fold_text
from overnight.kernel.masking.kinds import Span
from overnight.kernel.masking.numbers import Window

Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Number:
    """A national number of digits only.

    Attributes:
        name: country and number, as reported.
        layouts: lengths of the groups of digits it is written in.
        check: its check digits.
        words: context that names it, lower case.
        bare: layouts that count without such a word; the others are shared by too many other numbers.
    """

    name: str
    layouts: tuple[tuple[int, ...], ...]
    check: Check
    words: tuple[str, ...]
    bare: tuple[tuple[int, ...], ...] = ()


def _ssn(d: str) -> bool:
    return d[:3] not in ("000", "666") and (d[0] != "9" or d[3] in "5678" or d[3:5] in ("90", "91", "92")) and (
        d[3:5] != "00" and d[5:] != "0000"
    )  # fmt: skip


def _steuer_id(d: str) -> bool:
    # One digit of the first ten occurs twice or three times, the others at most once (BZSt, since 2016).
    counts = sorted((d[:10].count(digit) for digit in set(d[:10])), reverse=True)
    return d[0] != "0" and counts[0] in (2, 3) and (len(counts) == 1 or counts[1] == 1) and mod11_10(d)


def _pesel(d: str) -> bool:
    month = int(d[2:4]) % 20
    return month_day(f"{month:02d}{d[4:6]}") and weighted(d, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _bsn(d: str) -> bool:
    return d != "000000000" and weighted(d, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _belgium(d: str) -> bool:
    number, check = int(d[:9]), int(d[9:])
    return month_day(d[2:6]) and check in (97 - number % 97, 97 - (2_000_000_000 + number) % 97)


def _nir(d: str) -> bool:
    month = int(d[3:5])
    return d[0] in "123478" and (1 <= month <= 12 or 20 <= month <= 42 or month >= 50) and (
        int(d[13:]) == 97 - int(d[:13]) % 97
    )  # fmt: skip


def _norway(d: str) -> bool:
    day = int(d[:2]) - (40 if d[0] in "4567" else 0)
    if not month_day(d[2:4] + f"{day:02d}"):
        return False
    return (
        weighted(d, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11 == 0
        and weighted(d, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0
    )


def _sweden(d: str) -> bool:
    d = d[-10:]
    day = int(d[4:6]) - (60 if int(d[4:6]) > 60 else 0)
    return month_day(f"{d[2:4]}{day:02d}") and checksums.luhn(d)


def _denmark(d: str) -> bool:
    return month_day(d[2:4] + d[:2])


def _austria(d: str) -> bool:
    check = weighted(d, (3, 7, 9, 0, 5, 8, 4, 2, 1, 6)) % 11
    return month_day(d[6:8] + d[4:6]) and check == int(d[3])


def _czech(d: str) -> bool:
    month = int(d[2:4]) % 50
    return month_day(f"{month - 20 if month > 20 else month:02d}{d[4:6]}") and (
        int(d) % 11 == 0 or (int(d[:9]) % 11 == 10 and d[9] == "0")
    )


def _romania(d: str) -> bool:
    check = weighted(d, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return d[0] != "0" and month_day(d[3:7]) and (1 if check == 10 else check) == int(d[12])


def _bulgaria(d: str) -> bool:
    month = int(d[2:4]) % 20
    return month_day(f"{month:02d}{d[4:6]}") and weighted(d, (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(d[9])


def _baltic(d: str) -> bool:
    check = weighted(d, (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if check == 10:
        check = weighted(d, (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return d[0] in "12345678" and month_day(d[3:7]) and check == int(d[10])


def _greece(d: str) -> bool:
    return month_day(d[2:4] + d[:2]) and checksums.luhn(d)


def _turkey(d: str) -> bool:
    odd, even = sum(int(c) for c in d[0:9:2]), sum(int(c) for c in d[1:8:2])
    return d[0] != "0" and (odd * 7 - even) % 10 == int(d[9]) and sum(int(c) for c in d[:10]) % 10 == int(d[10])


def _brazil(d: str) -> bool:
    if len(set(d)) == 1:
        return False
    first = weighted(d, range(10, 1, -1)) * 10 % 11 % 10
    return first == int(d[9]) and weighted(d, range(11, 1, -1)) * 10 % 11 % 10 == int(d[10])


def _nhs(d: str) -> bool:
    return (11 - weighted(d, range(10, 1, -1)) % 11) % 11 == int(d[9])


def _portugal(d: str) -> bool:
    return d[0] in "1235689" and (11 - weighted(d, range(9, 1, -1)) % 11) % 11 % 10 == int(d[8])


def _south_africa(d: str) -> bool:
    return month_day(d[2:6]) and d[10] in "012" and checksums.luhn(d)


def _korea(d: str) -> bool:
    return month_day(d[2:6]) and (11 - weighted(d, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10 == int(d[12])


def _japan(d: str) -> bool:
    rest = weighted(d, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return (0 if rest <= 1 else 11 - rest) == int(d[11])


def _australia(d: str) -> bool:
    return weighted(d, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def _hungary(d: str) -> bool:
    return weighted(d, (3, 7, 3, 7, 3, 7, 3, 7)) % 10 == int(d[8])


def _switzerland(d: str) -> bool:
    return d[:3] == "756" and checksums.ean13(d)


def _india(d: str) -> bool:
    return d[0] not in "01" and checksums.verhoeff(d)


_BE: Final = ((11,), (2, 2, 2, 3, 2), (6, 3, 2))
_FR: Final = ((15,), (1, 2, 2, 2, 3, 3, 2), (13, 2))
NUMBERS: Final[tuple[Number, ...]] = (
    Number("us-ssn", ((3, 2, 4), (9,)), _ssn, ("ssn", "social security", "itin"), ((3, 2, 4),)),
    Number("uk-nhs", ((3, 3, 4), (10,)), _nhs, ("nhs",)),
    Number("de-steuer-id", ((11,), (2, 3, 3, 3)), _steuer_id, ("steuer", "idnr", "tin"), ((11,), (2, 3, 3, 3))),
    Number("pl-pesel", ((11,),), _pesel, ("pesel",), ((11,),)),
    Number("nl-bsn", ((9,), (4, 2, 3), (3, 3, 3)), _bsn, ("bsn", "burgerservice", "sofi")),
    Number("be-rrn", _BE, _belgium, ("rijksregister", "national", "niss"), _BE),
    Number("fr-nir", _FR, _nir, ("nir", "sécu"), _FR),
    Number("ch-ahv", ((13,), (3, 4, 4, 2)), _switzerland, ("ahv", "avs"), ((13,), (3, 4, 4, 2))),
    Number("no-fnr", ((11,), (6, 5)), _norway, ("fødselsnummer", "fnr"), ((11,), (6, 5))),
    Number("se-pnr", ((6, 4), (8, 4), (10,), (12,)), _sweden, ("personnummer", "pnr"), ((6, 4), (8, 4))),
    Number("dk-cpr", ((6, 4), (10,)), _denmark, ("cpr", "personnummer")),
    Number("at-svnr", ((10,), (4, 6)), _austria, ("svnr", "sozialversicherung", "versicherungsnummer"), ((4, 6),)),
    Number("cz-rc", ((6, 4), (10,)), _czech, ("rodné", "rodne", "rč"), ((6, 4),)),
    Number("ro-cnp", ((13,),), _romania, ("cnp",), ((13,),)),
    Number("bg-egn", ((10,),), _bulgaria, ("egn",)),
    Number("baltic-id", ((11,),), _baltic, ("isikukood", "asmens"), ((11,),)),
    Number("gr-amka", ((11,),), _greece, ("amka", "αμκα"), ((11,),)),
    Number("hr-oib", ((11,),), mod11_10, ("oib",)),
    Number("tr-tckn", ((11,),), _turkey, ("kimlik", "tckn"), ((11,),)),
    Number("pt-nif", ((9,), (3, 3, 3)), _portugal, ("nif", "contribuinte")),
    Number("hu-taj", ((9,), (3, 3, 3)), _hungary, ("taj",)),
    Number("br-cpf", ((11,), (3, 3, 3, 2)), _brazil, ("cpf",), ((11,), (3, 3, 3, 2))),
    Number("ca-sin", ((9,), (3, 3, 3)), checksums.luhn, ("sin", "social insurance", "nas")),
    Number("za-id", ((13,), (6, 4, 3), (6, 4, 2, 1)), _south_africa, ("identity", "id number"), ((13,),)),
    Number("in-aadhaar", ((12,), (4, 4, 4)), _india, ("aadhaar", "uidai"), ((4, 4, 4),)),
    Number("kr-rrn", ((6, 7),), _korea, ("주민", "rrn"), ((6, 7),)),
    Number("jp-my-number", ((12,), (4, 4, 4)), _japan, ("my number", "マイナンバー", "個人番号")),
    Number("au-tfn", ((9,), (3, 3, 3)), _australia, ("tfn", "tax file")),
)  # fmt: skip

_WORDS: Final = {
    number.name: re.compile(rf"\b(?:{'|'.join(map(re.escape, map(fold_text, number.words)))})(?:\b|(?<=\w{{6}}))")
    for number in NUMBERS
}
BY_LAYOUT: Final[dict[tuple[int, ...], tuple[Number, ...]]] = {
    layout: tuple(number for number in NUMBERS if layout in number.layouts)
    for layout in {layout for number in NUMBERS for layout in number.layouts}
}


def national_number(text: str, window: Window) -> Span | None:
    """The window of digits of the folded `text` as a national number, if it is one."""
    around = ""
    for number in BY_LAYOUT.get(window.layout, ()):
        if not number.check(window.digits):
            continue
        if window.layout not in number.bare:
            around = around or text[max(0, window.start - 60) : window.end + 30].lower()
            if _WORDS[number.name].search(around) is None:
                continue
        return Span(window.start, window.end, "national_id", number.name, window.digits)
    return None
