"""Tier 0 answers what it fully understands, rightly, and leaves the rest alone."""

import ast
import datetime
import math
import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.models.rules.numbers import NotArithmetic, evaluate, number, shown
from overnight.models.rules.rules import Answered, NoFacts, Situation, answer

NOW = datetime.datetime(2026, 11, 30, 14, 40)
SITUATION = Situation(NOW, NoFacts())


def ask(prompt: str) -> str | None:
    found = answer(prompt, SITUATION)
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("2 + 2", "4"),
        ("What is 12 * (3 + 4)?", "84"),
        ("what's 18% of 4,250?", "765"),
        ("15 percent of $80", "$12.00"),
        ("what is 5!", "120"),
        ("1/3", "≈ 0.333333"),
        ("square root of 2", "≈ 1.414214"),
        ("cube root of 27", "3"),
        ("average of 1, 2 and 6", "3"),
        ("median of 5, 1, 9", "5"),
        ("percentage change from 200 to 150", "-25 %"),
        ("what percentage of 80 is 20?", "25 %"),
        ("remainder of 17 divided by 5", "2"),
        ("255 in hex", "0xFF"),
        ("0b101 in decimal", "5"),
        ("3 km in m", "3,000 m"),
        ("how many feet are in a mile?", "5,280 feet"),
        ("-40 fahrenheit in celsius", "-40 °C"),
        ("6 ft 2 in to cm", "187.96 cm"),
        ("100 miles per hour in km/h", "160.9344 km/h"),
        ("1 GiB in MB", "1,073.741824 MB"),
        ("how many days until 24 December 2026", "24 days"),
        ("days between 2026-01-01 and 2026-03-01", None),
        ("how many days between 2024-02-28 and 2024-03-01", "2 days"),
        ("what day of the week was July 20, 1969?", "Sunday"),
        ("how old is someone born on 1 December 2000", "25 years"),
        ("what date is 10 days from today", "Thursday, 2026-12-10"),
        ("1 month after 31 January 2026", "Saturday, 2026-02-28"),
        ("what time is it 90 minutes before 00:30", "23:00 (the day before)"),
        ("how long is it from 22:15 to 06:00", "7 h 45 min"),
        ("what is today's date?", "Monday, 2026-11-30"),
        ('how many words are in "one two three"?', "3"),
        ('reverse "abc"', "cba"),
        ('convert "Hello World" to snake case', "hello_world"),
        ('is "2026-02-30" a valid date?', "no: day is out of range for month"),
        ('is "GB82 WEST 1234 5698 7654 32" a valid IBAN?', "yes"),
        ('find all urls in "see https://a.example/x, and http://b.example."', "https://a.example/x\nhttp://b.example"),
        ("Could you please tell me how do I start a run?", "overnight run ARENA"),
    ],
)
def test_answers(prompt: str, text: str | None) -> None:
    assert ask(prompt) == text


@pytest.mark.parametrize(
    "prompt",
    [
        "7 % 3",
        "1,5 + 2",
        "6/2(1+2)",
        "3 + 4!",
        "9**9**9**9",
        "1/0",
        "555-1234",
        "2026-11-30",
        "100 mb in gb",
        "5 cups in ml",
        "3 kg in metres",
        "what is the capital of France?",
        "What is 18% of 4,250, and should I pay it?",
        "how many days until Easter",
        "what day of the week was 31 February 2020",
        "how many days until 03/04/2026",
        "convert this to JSON",
        "what is the best so far?",
        "",
        "?",
    ],
)
def test_leaves_alone_what_it_does_not_fully_understand(prompt: str) -> None:
    assert ask(prompt) is None


def test_says_what_it_assumed_and_is_less_sure_then() -> None:
    found = answer("3 gallons in litres", SITUATION)
    assert found is not None and found.confidence < 1 and "US gallons" in found.reason


class Facts:
    def fact(self, topic: str) -> str | None:
        return f"about {topic}"


@pytest.mark.parametrize(
    ("prompt", "topic"),
    [
        ("what is the best so far?", "best"),
        ("What's the best metric so far in the current run?", "best"),
        ("which run is still going?", "running"),
        ("status of the last run", "status"),
        ("list the arenas", "arenas"),
        ("How many experiments did last night's run keep?", None),
        ("how many experiments did the last run keep", None),
        ("how many experiments were kept in the last run", "counts"),
    ],
)
def test_facts_of_the_workspace(prompt: str, topic: str | None) -> None:
    found = answer(prompt, Situation(NOW, Facts()))
    if topic is not None:
        assert found == Answered(f"about {topic}", f"fact:{topic}", "from this workspace's record")


@given(st.text(max_size=200))
def test_no_prompt_breaks_a_rule(prompt: str) -> None:
    ask(prompt)


PIECES = st.sampled_from(
    [
        "what",
        "is",
        "how",
        "many",
        "12",
        "3.5",
        "1,000",
        "%",
        "of",
        "km",
        "in",
        "to",
        "and",
        "(",
        ")",
        "+",
        "*",
        "^",
        "!",
        "days",
        "between",
        "2026-01-01",
        "May",
        "march",
        "07:30",
        '"',
        "'",
        "convert",
        "average",
        "sum",
        "extract",
        "emails",
        "from",
        ":",
        "a@b.example",
        "after",
        "is",
        "valid",
    ]
)


@given(st.lists(PIECES, max_size=25).map(" ".join))
def test_no_mixture_of_their_own_words_breaks_a_rule(prompt: str) -> None:
    ask(prompt)


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_expressions_have_the_value_that_exact_arithmetic_gives(text: str) -> None:
    try:
        wanted = exact(ast.parse(text.lstrip(), mode="eval").body)
    except ZeroDivisionError:
        with pytest.raises(NotArithmetic):
            evaluate(text)
        return
    assert evaluate(text) == wanted


def exact(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp):
        return -exact(node.operand)
    assert isinstance(node, ast.BinOp)
    known = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
    return Fraction(known[type(node.op)](exact(node.left), exact(node.right)))


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_numbers_are_shown_exactly_or_marked(value: Fraction) -> None:
    text = shown(value)
    if text.startswith("≈"):
        assert math.isclose(float(text[2:].replace(",", "")), value, rel_tol=1e-3, abs_tol=1e-6)
    else:
        assert Fraction(text.replace(",", "")) == value


@given(st.dates(datetime.date(1900, 1, 1)), st.integers(-20000, 20000))
def test_days_are_counted_by_the_calendar(day: datetime.date, shift: int) -> None:
    other = day + datetime.timedelta(shift) if (datetime.date.max - day).days > abs(shift) else day
    text = ask(f"how many days between {day.isoformat()} and {other.isoformat()}")
    assert text == f"{(other - day).days:,} days"


@given(st.floats(1e-3, 1e6), st.sampled_from([("km", "miles"), ("kg", "lb"), ("litres", "ml"), ("hours", "days")]))
def test_conversions_go_there_and_back(amount: float, units: tuple[str, str]) -> None:
    written = f"{amount:.6f}"
    there = ask(f"{written} {units[0]} in {units[1]}")
    assert there is not None
    value = there.removeprefix("≈ ").split()[0]
    if "e" in value:
        return
    back = ask(f"{value} {units[1]} in {units[0]}")
    assert back is not None
    assert math.isclose(
        float(back.removeprefix("≈ ").split()[0].replace(",", "")), number(written), rel_tol=2e-2, abs_tol=1e-5
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "80 + 15%",
        "100 - 10% - 10%",
        "sqrt(2) * sqrt(2) - 2",
        "floor(sqrt(2) * sqrt(2))",
        "sum of 100,200 and 300",
        "1010 in decimal",
        "1 kb in bytes",
        "10 NM in km",
        "1 mM in m",
        "what day was 14 October 1066",
        "how long is it from 9:00 to 5:00",
        "the flight leaves at 10:00 and takes 2 hours when does it arrive",
        'reverse "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"',
        'how many characters in "e\N{COMBINING ACUTE ACCENT}"',
        'how many vowels in "na\u00efve"',
        'how many words in "yes \N{EM DASH} no"',
        'slugify "Stra\u00dfe"',
        'convert "name=Tom" to json',
        'url-decode "a+b"',
        'is "1,000" a valid number',
        'is "30.11.2026" a valid date',
        'is "ftp://x.y" a valid url',
        'find links in "www.example.com"',
    ],
)
def test_what_can_be_read_in_two_ways_is_left_alone(prompt: str) -> None:
    assert ask(prompt) is None


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("15% * 80", "12"),
        ("floor(125^(1/3))", "5"),
        ("8^(2/3)", "4"),
        ("sum of 1,000, 2,000 and 3,000", "6,000"),
        ("0b1010 in decimal", "10"),
        ("1 kB in bytes", "1,000 bytes"),
        ("5 KM in m", "5,000 m"),
        ("how long is it from 22:00 to 02:00", "4 h 00 min"),
        ('convert "it\'s NASA" to title case', "It's NASA"),
        ('slugify "Caf\u00e9 Ol\u00e9!"', "cafe-ole"),
        ('convert "XMLHttpRequest" to snake case', "xml_http_request"),
        ('is "nan" a valid number', "no: it has no digits"),
        ('is "NaN" valid json', "no: NaN is no value of JSON"),
        ('is "o\'brien@x.com" a valid email', "yes"),
        ('is ".a@b.com" a valid email', "no: it is not name@host.domain"),
        ('is "http://[::1]/a." a valid url', "yes"),
        ('find links in "(see https://x.org/Foo_(bar))."', "https://x.org/Foo_(bar)"),
        ('find ip addresses in "999.1.1.1 and 10.0.0.1"', "10.0.0.1"),
    ],
)
def test_answers_that_were_wrong_once(prompt: str, text: str) -> None:
    assert ask(prompt) == text
