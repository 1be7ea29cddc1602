"""Check digits of the world's numbers; each takes digits (or characters) without separators."""

from collections.abc import Sequence
from typing import Final

_LUHN_DOUBLE: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
# Verhoeff (1969): multiplication in the dihedral group D5, and the position permutations.
_D5: Final = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_VERHOEFF: Final = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1 annex B."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        total += _LUHN_DOUBLE[int(digit)] if place & 1 else int(digit)
    return total % 10 == 0


def verhoeff(digits: str) -> bool:
    """J. Verhoeff, Error Detecting Decimal Codes (1969); used by Aadhaar."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_D5[check][int(_VERHOEFF[place % 8][int(digit)])])
    return check == 0


def mod97(text: str) -> int:
    """`text` read as ISO 7064 does (A is 10 … Z is 35), modulo 97."""
    return int("".join(str(int(char, 36)) for char in text)) % 97


def mod11_10(digits: str) -> bool:
    """ISO 7064 hybrid MOD 11,10; used by the German tax id and the Croatian OIB."""
    product = 10
    for digit in digits[:-1]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def weighted(digits: str, weights: Sequence[int]) -> int:
    """Sum of digit times weight over as many as there are weights."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def ean13(digits: str) -> bool:
    """GS1 check digit of 13 digits."""
    return weighted(digits, (1, 3) * 6 + (1,)) % 10 == 0


def month_day(digits: str) -> bool:
    """Whether four digits can be a month and a day of it."""
    return 1 <= int(digits[:2]) <= 12 and 1 <= int(digits[2:]) <= 31
