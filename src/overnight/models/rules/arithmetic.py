"""Tier 0: sums. Expressions, percentages, averages, bases; no word problems."""

import re
from fractions import Fraction

from overnight.models.rules.numbers import NUMBER, NotArithmetic, evaluate, number, shown
from overnight.models.rules.rules import Answered, Situation

_LEAD = re.compile(
    r"^(?:what(?:'s| is| are)|how much (?:is|are)|compute|calculate|evaluate|work out|solve)\s+"
    r"(?:the (?:value|result) of\s+)?",
    re.IGNORECASE,
)
_SIGN = r"(?P<sign>[$€£])?"
_PERCENT_OF = re.compile(
    rf"(?P<rate>{NUMBER}) ?(?:%|percent|per cent) of {_SIGN} ?(?P<whole>{NUMBER})"
    r"(?: ?(?P<unit>euros?|dollars?|usd|eur|pounds))?",
    re.I,
)
_SHARE = re.compile(
    rf"(?:what|which) (?:percent(?:age)?|share) (?:of )?(?P<whole>{NUMBER}) is (?P<part>{NUMBER})", re.I
)
_SHARE_TURNED = re.compile(rf"(?P<part>{NUMBER}) (?:as|is what) (?:a )?percent(?:age)? of (?P<whole>{NUMBER})", re.I)
_CHANGE = re.compile(
    rf"(?:the )?(?:percent(?:age)?|relative|%) (?:change|difference|increase|decrease|growth)"
    rf" from {_SIGN}(?P<old>{NUMBER}) to [$€£]?(?P<new>{NUMBER})",
    re.I,
)
_MANY = re.compile(
    r"(?:the )?(?P<what>sum|total|average|mean|median|product|max(?:imum)?|min(?:imum)?|largest|smallest)"
    r"(?: (?:of|up))?:? (?P<list>[-\d., ]+(?:(?:,? and|,? plus) -?[\d.,]+)?)",
    re.I,
)
_ADD_UP = re.compile(r"(?:sum up|add(?: up| together)?) (?P<list>[-\d., ]+(?:,? and -?[\d.,]+)?)", re.I)
_DIVIDE = re.compile(rf"divide ({NUMBER}) by ({NUMBER})", re.I)
_MULTIPLY = re.compile(rf"multiply ({NUMBER}) (?:by|with) ({NUMBER})", re.I)
_SUBTRACT = re.compile(rf"subtract ({NUMBER}) from ({NUMBER})", re.I)
_REMAINDER = re.compile(
    rf"(?:the )?remainder (?:of|when|if) ({NUMBER}) (?:is )?(?:divided|\/) ?(?:by )?({NUMBER})", re.I
)
_ROOT = re.compile(rf"(?:the )?(?P<kind>square|cube) root of (?P<of>{NUMBER})", re.I)
_RAISED = re.compile(
    rf"({NUMBER}) (?:(?:raised )?to the (?:power (?:of )?)?({NUMBER})(?:st|nd|rd|th)?(?: power)?)", re.I
)
_SQUARED = re.compile(rf"({NUMBER}) (squared|cubed)", re.I)
_WORDS = {"half": Fraction(1, 2), "a half": Fraction(1, 2), "a third": Fraction(1, 3), "two thirds": Fraction(2, 3)}
_WORDS |= {"a quarter": Fraction(1, 4), "three quarters": Fraction(3, 4), "a fifth": Fraction(1, 5)}
_FRACTION = re.compile(rf"(?P<part>{'|'.join(_WORDS)})(?: of)? (?P<whole>{NUMBER})", re.I)
_BASES = {"decimal": 10, "binary": 2, "hex": 16, "hexadecimal": 16, "octal": 8}
_BASE = re.compile(
    r"(?:convert |write )?(?P<digits>0x[0-9a-f]+|0b[01]+|0o[0-7]+|\d+) (?:in|to|into|as)(?: an?)? "
    rf"(?P<base>{'|'.join(_BASES)})"
    r"(?: number)?",
    re.I,
)
_LONGEST_LIST = 200


def arithmetic(prompt: str, situation: Situation) -> Answered | None:
    """Answer a sum; None if the prompt is more, or less, than one."""
    asked = re.sub(r"\s*=$", "", _LEAD.sub("", prompt)).strip()
    try:
        return _percentages(asked) or _lists(asked) or _phrases(asked) or _bases(asked) or _expression(asked)
    except NotArithmetic:
        return None


def _expression(text: str) -> Answered | None:
    # A lone number, or a date such as 2026-11-30, is not a sum.
    if re.fullmatch(r"[-\d.,\s]*", text) and not re.search(r"\d\s+[-]\s+\d", text):
        return None
    # "3 + 4!" may be a factorial, or joy.
    if not re.search(r"\d", text) or re.fullmatch(r".*[-+*/^].*!", text):
        return None
    return Answered(shown(evaluate(text)), "arithmetic", f"computed {text}")


def _percentages(text: str) -> Answered | None:
    if match := _PERCENT_OF.fullmatch(text):
        value = number(match["rate"]) / 100 * number(match["whole"])
        sign, unit = match["sign"] or "", f" {match['unit']}" if match["unit"] else ""
        told = shown(value, 2 if sign or unit else None)
        return Answered(f"{sign}{told}{unit}", "percentage", f"{match['rate']} hundredths of {match['whole']}")
    if match := _SHARE.fullmatch(text) or _SHARE_TURNED.fullmatch(text):
        whole = number(match["whole"])
        if whole == 0:
            return None
        value = number(match["part"]) / whole * 100
        return Answered(f"{shown(value)} %", "percentage", f"{match['part']} divided by {match['whole']}")
    if match := _CHANGE.fullmatch(text):
        old, new = number(match["old"]), number(match["new"])
        if old == 0:
            return None
        value = (new - old) / old * 100
        told = f"{'+' if value > 0 else ''}{shown(value)} %"
        return Answered(told, "percentage", f"the difference divided by {match['old']}")
    return None


def _lists(text: str) -> Answered | None:
    match = _MANY.fullmatch(text)
    added = None if match else _ADD_UP.fullmatch(text)
    found = match or added
    if found is None:
        return None
    what = match["what"].lower() if match else "sum"
    parts = [part for part in re.split(r",\s+|\s+(?:and|plus)\s+|,?\s+", found["list"].strip()) if part != "and"]
    if not 2 <= len(parts) <= _LONGEST_LIST:
        return None
    # "100,200 and 300" may be three numbers: commas group digits only where every number has them, or none needs any.
    grouped = [part for part in parts if "," in part]
    large = any(len(part.partition(".")[0]) > 3 for part in parts if "," not in part)
    if 0 < len(grouped) < len(parts) and (large or ", " not in found["list"]):
        return None
    values = [-number(part[1:]) if part.startswith("-") else number(part) for part in parts]
    total = sum(values, Fraction(0))
    match what:
        case "sum" | "total":
            value = total
        case "average" | "mean":
            value = total / len(values)
        case "median":
            ordered, half = sorted(values), len(values) // 2
            value = ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
        case "product":
            value = evaluate("*".join(f"({part})" for part in parts))
        case "max" | "maximum" | "largest":
            value = max(values)
        case _:
            value = min(values)
    return Answered(shown(value), "list", f"the {what} of {len(values)} numbers")


def _phrases(text: str) -> Answered | None:
    for pattern, form in (
        (_DIVIDE, "{0}/{1}"),
        (_MULTIPLY, "{0}*{1}"),
        (_SUBTRACT, "{1}-{0}"),
        (_REMAINDER, "{0} mod {1}"),
        (_RAISED, "{0}^{1}"),
    ):
        if match := pattern.fullmatch(text):
            written = form.format(*match.groups())
            return Answered(shown(evaluate(written)), "arithmetic", f"computed {written}")
    if match := _ROOT.fullmatch(text):
        written = f"sqrt({match['of']})" if match["kind"].lower() == "square" else f"{match['of']}^(1/3)"
        value = evaluate(written)
        whole = round(value)
        if match["kind"].lower() == "cube" and Fraction(whole) ** 3 == number(match["of"]):
            value = Fraction(whole)
        return Answered(shown(value), "arithmetic", f"computed {written}")
    if match := _SQUARED.fullmatch(text):
        written = f"{match[1]}^{2 if match[2].lower() == 'squared' else 3}"
        return Answered(shown(evaluate(written)), "arithmetic", f"computed {written}")
    if match := _FRACTION.fullmatch(text):
        value = _WORDS[match["part"].lower()] * number(match["whole"])
        return Answered(shown(value), "arithmetic", f"{match['part']} of {match['whole']}")
    return None


def _bases(text: str) -> Answered | None:
    match = _BASE.fullmatch(text)
    if match is None or len(match["digits"]) > 300:
        return None
    digits, base = match["digits"].lower(), _BASES[match["base"].lower()]
    # "1010 in decimal" is asked by whoever has a number of another base.
    if base == 10 and digits[:2] not in ("0x", "0b", "0o"):
        return None
    value = int(digits, 0) if digits[:2] in ("0x", "0b", "0o") else int(digits)
    told = {10: f"{value:,}", 2: f"0b{value:b}", 16: f"0x{value:X}", 8: f"0o{value:o}"}[base]
    return Answered(told, "base", f"{match['digits']} in base {base}")
