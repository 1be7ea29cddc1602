"""Tier 0: conversions between units, exact by definition where there is one."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from overnight.models.rules.numbers import NUMBER, NotArithmetic, number, shown
from overnight.models.rules.rules import Answered, Situation

_F = Fraction

# Kind → names → size in the kind's base unit. Names that differ in case are told apart by it (Mb, MB).
_UNITS: Final[Mapping[str, Mapping[str, Fraction]]] = {
    "length": {
        "m metre metres meter meters": _F(1),
        "km kilometre kilometres kilometer kilometers": _F(1000),
        "cm centimetre centimetres centimeter centimeters": _F(1, 100),
        "mm millimetre millimetres millimeter millimeters": _F(1, 1000),
        "µm micrometre micrometres micrometer micrometers microns": _F(1, 10**6),
        "nm nanometre nanometres nanometer nanometers": _F(1, 10**9),
        "inch inches": _F("0.0254"),
        "ft foot feet": _F("0.3048"),
        "yd yard yards": _F("0.9144"),
        "mi mile miles": _F("1609.344"),
        "nautical_mile nautical_miles nmi": _F(1852),
    },
    "mass": {
        "kg kilo kilos kilogram kilograms": _F(1),
        "g gram grams": _F(1, 1000),
        "mg milligram milligrams": _F(1, 10**6),
        "t tonne tonnes": _F(1000),
        "lb lbs pound pounds": _F("0.45359237"),
        "oz ounce ounces": _F("0.028349523125"),
        "stone": _F("6.35029318"),
    },
    "volume": {
        "l litre litres liter liters": _F(1),
        "ml millilitre millilitres milliliter milliliters": _F(1, 1000),
        "cl centilitre centilitres": _F(1, 100),
        "us_gallon us_gallons": _F("3.785411784"),
        "uk_gallon uk_gallons imperial_gallon imperial_gallons": _F("4.54609"),
        "cubic_metre cubic_metres cubic_meter cubic_meters m3 m³": _F(1000),
    },
    "time": {
        "s sec secs second seconds": _F(1),
        "ms millisecond milliseconds": _F(1, 1000),
        "min mins minute minutes": _F(60),
        "h hr hrs hour hours": _F(3600),
        "d day days": _F(86400),
        "week weeks": _F(604800),
        "fortnight": _F(1209600),
        "leap_year": _F(366 * 86400),
        "common_year": _F(365 * 86400),
    },
    "speed": {
        "m/s mps": _F(1),
        "km/h kmh kph": _F(1000, 3600),
        "mph": _F("0.44704"),
        "knot knots kn": _F(1852, 3600),
    },
    "data": {
        "bit bits": _F(1),
        "B byte bytes": _F(8),
        **{f"{p}b {p}bit {p}bits": _F(1000**n) for n, p in enumerate("kMGTP", 1)},
        **{f"{p}B {p}byte {p}bytes": _F(8 * 1000**n) for n, p in enumerate("kMGTP", 1)},
        "KB kilobyte kilobytes": _F(8000),
        "megabyte megabytes": _F(8 * 1000**2),
        "gigabyte gigabytes": _F(8 * 1000**3),
        "terabyte terabytes": _F(8 * 1000**4),
        **{f"{p}iB": _F(8 * 1024**n) for n, p in enumerate("KMGTP", 1)},
    },
    "area": {
        "m2 m² sqm square_metre square_metres square_meter square_meters": _F(1),
        "km2 km² square_kilometre square_kilometres square_kilometers": _F(10**6),
        "ha hectare hectares": _F(10**4),
        "acre acres": _F("4046.8564224"),
        "sqft square_foot square_feet": _F("0.09290304"),
    },
    "energy": {"J joule joules": _F(1), "kJ": _F(1000), "Wh": _F(3600), "kWh": _F(3600000), "kcal": _F(4184)},
    "angle": {"degree degrees": _F(1), "arcminute arcminutes": _F(1, 60)},
}
_ASSUMED: Final[Mapping[str, tuple[str, str]]] = {
    "gallon": ("us_gallon", "US gallons"),
    "gallons": ("us_gallon", "US gallons"),
    "year": ("common_year", "a year of 365 days"),
    "years": ("common_year", "years of 365 days"),
    "in": ("inch", "in as inches"),
}
_KNOWN: Final = {
    name: (kind, size) for kind, units in _UNITS.items() for names, size in units.items() for name in names.split()
}
_FOLDED: Final = {name.lower(): known for name, known in _KNOWN.items()}
_FOLDABLE: Final = frozenset(("km", "cm", "kg", "ft", "lb", "oz", "yd", "l", "h", "hr", "ha", "kn"))
"""Short names that mean the same in capitals; `M`, `Mm`, `NM`, `MS` and their like do not."""
_TEMPERATURES: Final = {
    **dict.fromkeys(("c", "°c", "celsius", "centigrade"), "C"),
    **dict.fromkeys(("f", "°f", "fahrenheit"), "F"),
    **dict.fromkeys(("k", "kelvin"), "K"),
}
_SPEEDS = re.compile(r"\b(kilometers?|kilometres?|miles?|meters?|metres?) per (hour|second)\b", re.I)
_SPELT = {"kilometer hour": "km/h", "mile hour": "mph", "meter second": "m/s"}
_NAME = r"[A-Za-zµ°][A-Za-z0-9µ°/²³_]*"
_QUANTITY = rf"(?P<n>-?{NUMBER}|an?) ?(?P<from>{_NAME})(?:,? (?:and )?(?P<n2>{NUMBER}) ?(?P<from2>{_NAME}))?"
_TO = re.compile(
    rf"(?:convert |express |(?:what(?:'s| is)|how much is) )?{_QUANTITY} (?:in|to|into|as|in terms of) (?P<to>{_NAME})",
    re.I,
)
_HOW_MANY = re.compile(
    rf"how (?:many|much) (?P<to>{_NAME}) (?:are|is|make up|fit in|go into|does|do)? ?(?:there )?"
    r"(?:in |is |are |equals? )?"
    rf"{_QUANTITY}(?: have| equal)?",
    re.I,
)
_JOINED = re.compile(r"\b(square|cubic|nautical|us|uk|imperial|leap|common) (?=[a-z])", re.I)


def units(prompt: str, situation: Situation) -> Answered | None:
    """Answer a conversion; None if the prompt is anything else, or a unit can be read in two ways."""
    text = _SPEEDS.sub(_speed, _JOINED.sub(lambda found: f"{found[1].lower()}_", prompt))
    text = re.sub(r"\bdegrees? (?=[cfk]\b|celsius|fahrenheit|kelvin)", "", text, flags=re.I)
    match = _TO.fullmatch(text) or _HOW_MANY.fullmatch(text)
    if match is None:
        return None
    try:
        return _temperature(match) or _converted(match)
    except NotArithmetic:
        return None


def _speed(found: re.Match[str]) -> str:
    metre = found[1].lower().rstrip("s").replace("metre", "meter")
    return _SPELT.get(f"{metre} {found[2].lower()}", found[0])


def _amount(text: str) -> Fraction:
    if text.lower() in ("a", "an"):
        return Fraction(1)
    return -number(text[1:]) if text.startswith("-") else number(text)


def _temperature(match: re.Match[str]) -> Answered | None:
    source, target = _TEMPERATURES.get(match["from"].lower()), _TEMPERATURES.get(match["to"].lower())
    if source is None or target is None or match["from2"]:
        return None
    value = _amount(match["n"])
    kelvin = value + {"C": _F("273.15"), "K": _F(0), "F": _F("459.67")}[source]
    kelvin = kelvin * _F(5, 9) if source == "F" else kelvin
    if kelvin < 0:
        return None
    told = kelvin * _F(9, 5) - _F("459.67") if target == "F" else kelvin - (_F("273.15") if target == "C" else 0)
    unit = "K" if target == "K" else f"°{target}"
    return Answered(f"{shown(told)} {unit}", "temperature", f"{match['n']} {match['from']} in {unit}")


def _converted(match: re.Match[str]) -> Answered | None:
    assumed: list[str] = []
    source, target = _unit(match["from"], assumed), _unit(match["to"], assumed)
    if source is None or target is None or source[0] != target[0]:
        return None
    total = _amount(match["n"]) * source[1]
    if match["from2"]:
        second = _unit(match["from2"], assumed)
        # "5 ft 11 in": the second is the smaller one, or it is something else.
        if second is None or second[0] != source[0] or second[1] >= source[1]:
            return None
        total += number(match["n2"]) * second[1]
    value = total / target[1]
    reason = f"{match['from']} to {match['to']}, both of {source[0]}".replace("_", " ")
    if assumed:
        reason += f"; taken as {', '.join(dict.fromkeys(assumed))}"
    return Answered(f"{shown(value)} {match['to'].replace('_', ' ')}", "units", reason, 0.8 if assumed else 1.0)


def _unit(name: str, assumed: list[str]) -> tuple[str, Fraction] | None:
    # Whoever writes "kb" hardly ever means bits.
    if name in _KNOWN and name != "kb":
        return _KNOWN[name]
    if name.lower() in _ASSUMED:
        meant, told = _ASSUMED[name.lower()]
        if name.lower() != "in":
            assumed.append(told)
        return _KNOWN[meant]
    known = _FOLDED.get(name.lower())
    # "mb" may be bits or bytes.
    short = len(name) < 3 and name.lower() not in _FOLDABLE
    return None if known is None or short or (known[0] == "data" and len(name) < 4) else known
