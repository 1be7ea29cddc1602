"""Numbers as people write them, read and written exactly; an expression language with nothing but arithmetic."""

import math
import re
from fractions import Fraction
from typing import Final

NUMBER: Final = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_NUMBER = re.compile(NUMBER)
_LARGEST_BITS: Final = 4096
"""Results beyond this many bits are left alone, and never computed."""
_LONGEST_DIGITS: Final = 300
_ROUNDING: Final = Fraction(1, 10**9)
"""A difference that is this much smaller than its terms may be nothing but the rounding of a root (2⁻⁵³ each)."""
_TOKEN = re.compile(rf"\s*(?:({NUMBER}(?:e[+-]?\d{{1,2}})?)|(\*\*|[-+*/^()!%×÷·−√])|([a-z]+))", re.IGNORECASE)
_FUNCTIONS = ("sqrt", "abs", "round", "floor", "ceil")
_OPERATORS = {"×": "*", "·": "*", "÷": "/", "−": "-", "^": "**", "plus": "+", "minus": "-", "times": "*", "over": "/"}


class NotArithmetic(Exception):
    """The text is not an expression, or not one that can be computed here."""


def number(text: str) -> Fraction:
    """`1,234.5` as an exact number.

    Raises:
        NotArithmetic: it is not one, or it could be two: `1,5`.
    """
    if len(text) > _LONGEST_DIGITS or _NUMBER.fullmatch(text) is None:
        raise NotArithmetic(f"{text!r} is not a number")
    return Fraction(text.replace(",", ""))


def shown(value: Fraction, places: int | None = None) -> str:
    """A number for people: exact where it ends within 12 decimals, else rounded and marked with `≈`.

    Args:
        value: the number.
        places: round to so many decimals, as for money.
    """
    if places is not None:
        exact = (value * 10**places).denominator == 1
        return f"{'' if exact else '≈ '}{float(round(value, places)):,.{places}f}"
    if value.denominator == 1:
        return f"{value.numerator:,}"
    scaled = value * 10**12
    if scaled.denominator == 1:
        whole, part = divmod(abs(scaled.numerator), 10**12)
        return f"{'-' if value < 0 else ''}{whole:,}.{part:012d}".rstrip("0")
    return f"≈ {float(value):,.6f}" if 1e-3 < abs(value) < 10**12 else f"≈ {float(value):.6g}"


def evaluate(text: str) -> Fraction:
    """The value of an arithmetic expression.

    `+ - * / ^ ** ! ( )`, `sqrt abs round floor ceil`, `mod`, and `n%` as n hundredths.

    Raises:
        NotArithmetic: it is anything else, divides by zero, or its result is too long.
    """
    if len(text) > 500:
        raise NotArithmetic("too long")
    parser = _Parser(_tokens(text))
    value = parser.sum()
    parser.end()
    return value


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotArithmetic(f"{text[at : at + 8]!r} is not arithmetic")
        token = (match[1] or match[2] or match[3]).lower()
        # "1,5" and "1.2.3" would otherwise be read as a number and what follows it.
        if match[1] and match.end() < len(text) and text[match.end()] in ",.":
            raise NotArithmetic("a number that can be read in two ways")
        tokens.append(_OPERATORS.get(token, token))
        at = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._rough = False
        """Whether a root was rounded on the way: what a rounding error would show in is then left alone."""

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise NotArithmetic("something is left over")

    def sum(self) -> Fraction:
        value, percent = self._product(), self._tokens[self._at - 1] == "%"
        while self._peek() in ("+", "-"):
            adds = self._next() == "+"
            right = self._product()
            # "80 + 15%" is 92 to most people, and 80.15 to some calculators.
            if percent or self._tokens[self._at - 1] == "%":
                raise NotArithmetic("a percentage in a sum can be read in two ways")
            largest = max(abs(value), abs(right))
            value = value + right if adds else value - right
            if self._rough and 0 < abs(value) < largest * _ROUNDING:
                raise NotArithmetic("nothing but rounding is left")
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while self._peek() in ("*", "/", "mod"):
            operator, right = self._next(), self._signed()
            if operator == "*":
                value = _bounded(value * right)
                continue
            if right == 0:
                raise NotArithmetic("a division by zero")
            if operator == "mod" and self._rough:
                raise NotArithmetic("a remainder of what was rounded")
            value = value / right if operator == "/" else value % right
        return value

    def _signed(self) -> Fraction:
        if self._peek() in ("-", "+"):
            return -self._signed() if self._next() == "-" else self._signed()
        return self._power()

    def _power(self) -> Fraction:
        base = self._postfix()
        if self._peek() == "**":
            self._next()
            return self._raised(base, self._signed())
        return base

    def _raised(self, base: Fraction, exponent: Fraction) -> Fraction:
        value, exact = _power(base, exponent)
        self._rough = self._rough or not exact
        return value

    def _postfix(self) -> Fraction:
        value = self._atom()
        while self._peek() in ("!", "%"):
            if self._next() == "%":
                after = self._peek()
                # "7 % 3" may mean the remainder.
                if after and (after[0].isdigit() or after == "("):
                    raise NotArithmetic("% between two numbers can be read in two ways")
                value /= 100
            elif value.denominator == 1 and 0 <= value <= 500:
                value = Fraction(math.factorial(value.numerator))
            else:
                raise NotArithmetic("no factorial")
        return value

    def _atom(self) -> Fraction:
        token = self._next()
        if token == "(":
            return self._bracketed()
        if token in _FUNCTIONS or token == "√":
            if self._peek() == "(":
                self._next()
                return self._function(token, self._bracketed())
            return self._function(token, self._atom())
        if token and token[0].isdigit():
            mantissa, _, exponent = token.partition("e")
            return number(mantissa) * Fraction(10) ** int(exponent or 0)
        raise NotArithmetic(f"{token!r} is not a number")

    def _bracketed(self) -> Fraction:
        self._depth += 1
        if self._depth > 50:
            raise NotArithmetic("too deep")
        value = self.sum()
        if self._next() != ")":
            raise NotArithmetic("a bracket is missing")
        self._depth -= 1
        return value

    def _function(self, name: str, value: Fraction) -> Fraction:
        if name in ("sqrt", "√"):
            return self._raised(value, Fraction(1, 2))
        if name == "abs":
            return abs(value)
        if self._rough:
            raise NotArithmetic("rounding what was rounded")
        if name == "floor":
            return Fraction(math.floor(value))
        if name == "ceil":
            return Fraction(math.ceil(value))
        return Fraction(math.floor(value + Fraction(1, 2)))

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _power(base: Fraction, exponent: Fraction) -> tuple[Fraction, bool]:
    """The power, and whether it is exact."""
    if base == 0 and exponent <= 0:
        raise NotArithmetic("zero to that power has no value")
    if exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits > _LARGEST_BITS:
            raise NotArithmetic("the result is too long")
        return base**exponent.numerator, True
    if base < 0:
        raise NotArithmetic("a root of a negative number")
    upper, lower = (_root(side, exponent.denominator) for side in (base.numerator, base.denominator))
    if upper is not None and lower is not None:
        return _power(Fraction(upper, lower), Fraction(exponent.numerator))
    try:
        return Fraction(float(base) ** float(exponent)), False
    except (OverflowError, ValueError) as problem:
        raise NotArithmetic("the result is too long") from problem


def _root(of: int, degree: int) -> int | None:
    """The whole root, if there is one."""
    if degree == 2:
        root = math.isqrt(of)
    elif degree > 64 or of.bit_length() > 1000:
        return None
    else:
        root = round(of ** (1 / degree))
    return root if root**degree == of else None


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LARGEST_BITS:
        raise NotArithmetic("the result is too long")
    return value
