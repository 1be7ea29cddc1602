import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.kernel.flow.contacts import contacts_in, is_plain

WORDS = st.sampled_from(
    [
        "the",
        "One",
        "two",
        "THREE",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "zero",
        "oh",
        "-",
        ",",
        "time",
        "one-time",
        "pass",
        "passcode",
        "pin",
        "Token",
        "otp",
        "OTPs",
        "security",
        "login",
        "log-in",
        "sms",
        "tan",
        "code",
        "number",
        "seed",
        "recovery",
        "phrases",
        "phrase",
        "dot",
        "com",
        "example",
        "ring",
        "phone",
        "iban",
        "ſms",
        "K",
        "@ada",
        "a.b",
        "044",
        "555",
        "01",
        "99",
        "DE89",
        "www",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS, max_size=12), st.sampled_from([" ", "  ", "-", "\n", ""]))
def test_what_is_plain_at_one_look_holds_no_contact(words: list[str], between: str) -> None:
    text = between.join(words)
    if is_plain(text):
        assert list(contacts_in(text)) == [], text


@pytest.mark.parametrize(
    "text",
    [
        "one-time code",
        "your OTP",
        "a seed phrase",
        "tan number",
        "oh one two three four five",
        "example dot com",
        "see a.example",
        "one\ntime passcode",
        "SMS TOKEN",
        "2fa code",
        "one time pin",
    ],
)
def test_what_may_hold_a_contact_is_not_plain(text: str) -> None:
    assert not is_plain(text)


def test_most_messages_are_plain() -> None:
    assert is_plain("The report of June is ready, and the others follow soon; two or three are late!")
