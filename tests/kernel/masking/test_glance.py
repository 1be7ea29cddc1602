"""A quick look may say yes for nothing, but never no where there is something to find."""

from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.kernel.masking import contact, context, decode, join, numbers
from overnight.kernel.masking.glance import Glance
from overnight.kernel.masking.names import Gazetteer
from overnight.kernel.masking.view import View

PIECES = [
    "A",
    "K",
    "I",
    " ",
    "-",
    ".",
    "_",
    "|",
    "~",
    "*",
    ":",
    ";",
    "=",
    "/",
    "\\",
    "\n",
    "\t",
    "0",
    "1",
    "42",
    "7f",
    "0x41",
    "0x6b",
    "41 ",
    "65",
    "",
    "072;",
    "pass",
    "password",
    "Passwort:",
    "key",
    "api_key = ",
    "secret:",
    "bearer ",
    "authorization",
    "login x password y",
    "identified by 'abcd'",
    "4111",
    "1111 ",
    "+49",
    "tel ",
    "name",
    "Name: ",
    "name is ",
    "I am ",
    "I'm ",
    "Anna",
    "Weber",
    "Mr ",
    "Dear ",
    "(at)",
    "[at]",
    " dot ",
    "@",
    "com",
    "'",
    '"',
    "`",
    "é",
    "٣",
    "𝟜",
    "aB3dE5gH7jK9mN1pQ2",
]
TEXTS = st.lists(st.sampled_from([*PIECES, ",", " , "]), max_size=40).map("".join)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_a_look_says_no_only_where_nothing_is(text: str) -> None:
    look = Glance(text)
    assert look.words == [word for word in text.split() if len(word) >= decode.SHORTEST]
    assert look.digits(6) or not list(numbers.runs(text))
    assert look.digits(12) or not numbers.LONG_RUN.search(text)
    assert look.spelt or join.spelt(View(text)) is None
    quick = decode.decoded(View(text), look.long_words, look.digits(16), look.hexadecimal(12))
    assert quick == decode.decoded(View(text), look.long_words, True, True)
    assert list(context.contextual(text, look.lower, random=look.random)) == list(
        context.contextual(text, look.lower, random=True)
    )
    assert look.concatenated or join.concatenated(View(text)) is None
    assert list(contact.emails(text, look.lower, signs=look.signs)) == list(contact.emails(text, look.lower))
    names = Gazetteer(["Zora Quill"])
    assert list(names.names(text, capitals=look.capitals)) == list(names.names(text, capitals=True))
