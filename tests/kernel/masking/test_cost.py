"""The work grows with the text and no faster, whatever the text is made of."""

import time
from collections.abc import Callable

import pytest

from overnight.kernel.masking import Masker, MaskStream, Owner, Vault

SEEDS = {
    "letters": "a",
    "digits": "1",
    "digits with blanks": "4 ",
    "digits with dots": "12.",
    "hex pairs": "4a ",
    "code points": "65, ",
    "base64": "QUtJ",
    "base64 lines": "QUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJ\n",
    "percent": "%41",
    "entities": "&#65;",
    "backslashes": "\\",
    "escapes": "\\u0041",
    "quoted-printable": "=41",
    "at signs": "@",
    "addresses without end": "a.b@c.",
    "letters and at": "a at b dot ",
    "begin of keys": "-----BEGIN PRIVATE KEY-----",
    "begin of web tokens": "eyJ",
    "begin of tokens": "sk-",
    "underscored tokens": "_sk-",
    "putty": "PuTTY-User-Key-File-2: ",
    "passwords": "password",
    "password is": "password=",
    "key names": "api_key ",
    "quotes": "\"'",
    "concatenation": '"a" + ',
    "capitals": "Anna ",
    "initials": "Anna A. ",
    "plus": "+1",
    "countries": "DE89",
    "zero-width": "\u200b",
    "full-width": "Ａ",
    "marks": "a\u0331",
    "newlines": "\n",
    "urls": "://a:",
    "curl": "curl -u ",
    "phone words": "phone 12345 ",
    "tags": "\U000e0041",
    "reversed": "AIKA",
}


def seconds(text: str) -> float:
    masker = Masker(Vault(Owner("a", "b", "c")))
    begun = time.process_time()
    masker.mask(text)
    return time.process_time() - begun


def growth(small: Callable[[], float], large: Callable[[], float]) -> float:
    """How many times longer the large one takes, of the fastest of each: what disturbs a measurement makes it longer.

    Below a millisecond the clock decides.
    """
    shorter, longer = min(small() for _ in range(3)), large()
    for _ in range(8):
        if longer / max(shorter, 0.001) < 10:
            break
        shorter, longer = min(shorter, small()), min(longer, large())
    return longer / max(shorter, 0.001)


@pytest.mark.parametrize("seed", SEEDS)
def test_four_times_the_text_is_not_sixteen_times_the_work(seed: str) -> None:
    unit = SEEDS[seed]
    small, large = unit * (3_000 // len(unit)), unit * (12_000 // len(unit))
    # Four if linear, sixteen if quadratic.
    assert growth(lambda: seconds(small), lambda: seconds(large)) < 10


def test_a_stream_of_single_characters_is_linear() -> None:
    def stream(length: int) -> float:
        text = "word and word, again and again. " * (length // 32)
        masked = MaskStream(Masker(Vault(Owner("a", "b", "c"))))
        begun = time.process_time()
        for char in text:
            masked.feed(char)
        masked.finish()
        return time.process_time() - begun

    assert growth(lambda: stream(8_000), lambda: stream(32_000)) < 10
