"""Tier 0: dates and times of day, by the Gregorian calendar; a date that can be read in two ways is left alone."""

import calendar
import datetime
import re
from typing import Final

from overnight.models.rules.rules import Answered, Situation

_MONTHS: Final = [name.lower() for name in calendar.month_name[1:]]
_MONTH = rf"(?:{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)}|sept)\.?"
_DATE = (
    rf"(?:\d{{4}}-\d{{2}}-\d{{2}}|\d{{1,2}}\.\d{{1,2}}\.\d{{4}}|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? \d{{4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|today|tomorrow|yesterday|now)"
)
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d"
_SPAN_PART = r"\d+(?:\.\d+)? ?(?:hours?|hrs?|h|minutes?|mins?|min|m)"
_SPAN = rf"(?:{_SPAN_PART}(?:,? (?:and )?{_SPAN_PART})?|half an hour|an hour)"

_BETWEEN = re.compile(
    rf"(?:how many|(?:the )?number of) (?P<unit>days|weeks) (?:are there |lie |is it )?(?:between|from) (?P<a>{_DATE})"
    rf" (?:and|to|until|till) (?P<b>{_DATE})",
    re.I,
)
_UNTIL = re.compile(
    rf"how many (?P<unit>days|weeks) (?:are (?:there|left)|is it|left)? ?(?:until|till|to|before) (?P<b>{_DATE})", re.I
)
_SINCE = re.compile(rf"how many (?P<unit>days|weeks) (?:have passed |is it )?since (?P<a>{_DATE})", re.I)
_WEEKDAY = re.compile(
    rf"(?:what|which) (?:day of the week|weekday|day) (?:is|was|will be|does) (?P<a>{_DATE})(?: fall on)?", re.I
)
_AGE = re.compile(
    rf"how old is (?:someone|somebody|a person|a child) (?:who (?:was|is) )?born (?:on )?(?P<a>{_DATE})"
    r"(?: today| now)?",
    re.I,
)
_SHIFTED = re.compile(
    r"(?:what(?:'s| is) the date |what date is (?:it )?|which date is |the date )?"
    r"(?P<n>\d{1,5}) (?P<unit>days?|weeks?|months?|years?)"
    rf" (?P<way>after|before|from|ago)(?: (?P<a>{_DATE}))?",
    re.I,
)
_TODAY = re.compile(
    r"(?:what(?:'s| is) )?(?:the date(?: (?:is it )?today)?|today's date)|what (?:date|day) is (?:it )?today", re.I
)
_NOW = re.compile(r"what time is it(?: now)?|what(?:'s| is) the time(?: now)?|the current time", re.I)
_THEN = re.compile(
    rf"(?:what time is (?:it )?|when is )?(?P<span>{_SPAN}) (?P<way>after|before|from|past) (?P<at>{_CLOCK})", re.I
)
_JOURNEY = re.compile(
    rf"[\w' ]{{0,40}}?(?:leaves|departs|starts|begins) at (?P<at>{_CLOCK})"
    rf" and (?:takes|lasts|runs for) (?P<span>{_SPAN})[.,;]?"
    r" (?:when|at what time) (?:does|will) (?:it|she|he|they) (?:arrive|end|finish|be over)",
    re.I,
)
_FLIES = re.compile(r"\b(?:flights?|planes?|fl(?:y|ies|ying)|never|not)\b", re.I)
_CLOCKS = re.compile(
    r"how (?:long|much time|many (?P<unit>hours|minutes)) (?:is it |passes |are there |lies )?"
    rf"(?:between|from) (?P<a>{_CLOCK}) (?:and|to|until|till) (?P<b>{_CLOCK})",
    re.I,
)


_GREGORIAN: Final = datetime.date(1582, 10, 15)
"""Its first day; what is written of earlier ones is of the Julian calendar."""


def dates(prompt: str, situation: Situation) -> Answered | None:
    """Answer a question about dates or times of day; None if it is any other."""
    today = situation.now.date()
    try:
        return _spans(prompt, today) or _days(prompt, situation) or _clock(prompt)
    except (ValueError, OverflowError):
        return None


def _date(text: str, today: datetime.date) -> datetime.date:
    """Raises ValueError if there is no such day."""
    text = text.lower().rstrip(".")
    shift = {"today": 0, "now": 0, "tomorrow": 1, "yesterday": -1}.get(text)
    if shift is not None:
        return today + datetime.timedelta(shift)
    day = _written(text)
    if day < _GREGORIAN:
        raise ValueError("another calendar was in use")
    return day


def _written(text: str) -> datetime.date:
    if re.match(r"\d{4}-", text):
        return datetime.date.fromisoformat(text)
    if match := re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", text):
        # With dots the day comes first everywhere that writes dates so.
        return datetime.date(int(match[3]), int(match[2]), int(match[1]))
    month = next(n for n, name in enumerate(_MONTHS, start=1) if re.search(rf"\b{name[:3]}", text))
    day, year = re.findall(r"\d+", text)
    return datetime.date(int(year), month, int(day))


def _spans(prompt: str, today: datetime.date) -> Answered | None:
    if match := _BETWEEN.fullmatch(prompt):
        start, end = _date(match["a"], today), _date(match["b"], today)
    elif match := _UNTIL.fullmatch(prompt):
        start, end = today, _date(match["b"], today)
    elif match := _SINCE.fullmatch(prompt):
        start, end = _date(match["a"], today), today
    else:
        return None
    days = (end - start).days
    reason = f"from {start.isoformat()} to {end.isoformat()}, the last day counted and the first not"
    if match["unit"].lower() == "weeks":
        weeks, rest = divmod(abs(days), 7)
        told = f"{weeks} weeks" + (f" and {rest} days" if rest else "")
        return Answered(f"-({told})" if days < 0 else told, "dates", reason)
    return Answered(f"{days:,} days", "dates", reason)


def _days(prompt: str, situation: Situation) -> Answered | None:
    today = situation.now.date()
    if match := _WEEKDAY.fullmatch(prompt):
        day = _date(match["a"], today)
        return Answered(f"{day:%A}", "dates", f"the weekday of {day.isoformat()}")
    if match := _AGE.fullmatch(prompt):
        born = _date(match["a"], today)
        years = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
        if years < 0:
            return None
        return Answered(f"{years} years", "dates", f"from {born.isoformat()} to today, {today.isoformat()}")
    if (match := _SHIFTED.fullmatch(prompt)) and (match["way"].lower() == "ago") == (match["a"] is None):
        return _shifted(match, today)
    if _TODAY.fullmatch(prompt):
        return Answered(f"{today:%A}, {today.isoformat()}", "dates", "this machine's clock")
    if _NOW.fullmatch(prompt):
        return Answered(f"{situation.now:%H:%M}", "dates", "this machine's clock")
    return None


def _shifted(match: re.Match[str], today: datetime.date) -> Answered:
    start = _date(match["a"], today) if match["a"] else today
    count = int(match["n"]) * (-1 if match["way"].lower() in ("before", "ago") else 1)
    unit = match["unit"].lower().rstrip("s")
    reason = f"{match['n']} {match['unit']} {match['way']} {start.isoformat()}"
    if unit in ("day", "week"):
        day = start + datetime.timedelta(count * (7 if unit == "week" else 1))
        return Answered(f"{day:%A}, {day.isoformat()}", "dates", reason)
    months = start.year * 12 + start.month - 1 + count * (12 if unit == "year" else 1)
    last = (datetime.date(months // 12, months % 12 + 1, 28) + datetime.timedelta(4)).replace(day=1)
    length = (last - datetime.timedelta(1)).day
    day = datetime.date(months // 12, months % 12 + 1, min(start.day, length))
    clipped = day.day != start.day
    if clipped:
        reason += "; that month is shorter, so its last day"
    return Answered(f"{day:%A}, {day.isoformat()}", "dates", reason, 0.8 if clipped else 1.0)


def _clock(prompt: str) -> Answered | None:
    if match := _THEN.fullmatch(prompt) or _JOURNEY.fullmatch(prompt):
        # A flight arrives by another clock.
        if _FLIES.search(prompt):
            return None
        start, span = _minutes(match["at"]), _span_minutes(match["span"])
        if span is None:
            return None
        back = "way" in match.re.groupindex and match["way"].lower() == "before"
        days, minute = divmod(start - span if back else start + span, 1440)
        when = (
            f" ({'the next day' if days == 1 else 'the day before' if days == -1 else f'{days:+d} days'})"
            if days
            else ""
        )
        return Answered(f"{minute // 60:02d}:{minute % 60:02d}{when}", "times", f"{match['span']} and {match['at']}")
    if match := _CLOCKS.fullmatch(prompt):
        start, end = _minutes(match["a"]), _minutes(match["b"])
        past = end <= start
        # "9:00 to 5:00" are eight hours to whoever counts to twelve.
        if past and (start < 13 * 60 or start == end):
            return None
        length = end - start + (1440 if past else 0)
        reason = f"{match['a']} to {match['b']}" + (" of the next day" if past else "")
        unit = (match["unit"] or "").lower()
        if unit == "minutes":
            told = f"{length} minutes"
        else:
            told = f"{length // 60} h {length % 60:02d} min"
        return Answered(told, "times", reason, 0.8 if past else 1.0)
    return None


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def _span_minutes(text: str) -> int | None:
    text = text.lower()
    if text in ("half an hour", "an hour"):
        return 30 if text.startswith("half") else 60
    total = 0.0
    for amount, unit in re.findall(r"(\d+(?:\.\d+)?) ?([a-z]+)", text):
        total += float(amount) * (60 if unit.startswith("h") else 1)
    return int(total) if total == int(total) else None
