"""Every validated format, plain and under every disguise: generated, so that no real secret stands in this file."""

import base64
import re
import string
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from overnight.kernel.masking import Kind, Masker, Owner, Sink, Vault
from overnight.kernel.masking.letter_ids import IBAN_LENGTHS

OWNER = Owner("acme", "researcher", "ses_1")
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def text_of(alphabet: str, size: int) -> st.SearchStrategy[str]:
    # Any long token drawn at random holds a digit, a capital and a small letter; these make sure.
    return st.text(alphabet, min_size=size - 3, max_size=size - 3).map(
        lambda t: t + ("7Qx" if alphabet == ALNUM else "7a1")
    )


def luhn_digit(digits: str) -> str:
    total = sum(int(d) if i % 2 else sum(divmod(2 * int(d), 10)) for i, d in enumerate(reversed(digits)))
    return str(-total % 10)


def grouped(digits: str, separator: str) -> str:
    sizes = {15: (4, 6, 5), 14: (4, 6, 4)}.get(len(digits), (4, 4, 4, 4, 4))
    groups, at = [], 0
    for size in sizes:
        groups.append(digits[at : at + size])
        at += size
    return separator.join(filter(None, groups))


@st.composite
def cards(draw: st.DrawFn) -> str:
    prefix, length = draw(
        st.sampled_from(
            [
                ("4", 16),
                ("4", 13),
                ("4", 19),
                ("51", 16),
                ("2221", 16),
                ("2720", 16),
                ("37", 15),
                ("36", 14),
                ("6011", 16),
            ]
        )
    )
    body = prefix + draw(st.text(string.digits, min_size=length - len(prefix) - 1, max_size=length - len(prefix) - 1))
    return grouped(body + luhn_digit(body), draw(st.sampled_from(["", " ", "-"])))


@st.composite
def ibans(draw: st.DrawFn) -> str:
    country = draw(st.sampled_from(sorted(IBAN_LENGTHS)))
    size = IBAN_LENGTHS[country] - 4
    account = draw(st.text(string.digits, min_size=size, max_size=size))
    number = int("".join(str(int(char, 36)) for char in account + country + "00"))
    plain = f"{country}{98 - number % 97:02d}{account}"
    return draw(st.sampled_from([plain, " ".join(plain[i : i + 4] for i in range(0, len(plain), 4)), plain.lower()]))


KEYS: dict[str, st.SearchStrategy[str]] = {
    "aws": text_of(string.ascii_uppercase, 13).map(lambda t: "AKIA" + t[:-3] + "QRSTUV"),
    "github": text_of(ALNUM, 36).map("ghp_".__add__),
    "github-fine-grained": st.tuples(text_of(ALNUM, 22), text_of(ALNUM, 59)).map(lambda t: "github_pat_" + "_".join(t)),
    "gitlab": text_of(ALNUM, 20).map("glpat-".__add__),
    "slack": text_of(ALNUM, 24).map(lambda t: f"xoxb-{10**11}-{10**11 + 7}-{t}"),
    "stripe": text_of(ALNUM, 24).map("sk_live_".__add__),
    "openai": text_of(ALNUM, 48).map("sk-proj-".__add__),
    "anthropic": text_of(ALNUM, 95).map("sk-ant-api03-".__add__),
    "google-api": text_of(ALNUM, 35).map("AIza".__add__),
    "npm": text_of(ALNUM, 36).map("npm_".__add__),
    "pypi": text_of(ALNUM, 70).map("pypi-AgEIcHlwaS5vcmc".__add__),
    "digitalocean": text_of(HEX, 64).map("dop_v1_".__add__),
}
VALUES: dict[Kind, st.SearchStrategy[str]] = {
    "card": cards(),
    "iban": ibans(),
    "key": st.one_of(*KEYS.values()),
    "email": st.tuples(text_of(ALNUM, 8), st.sampled_from(["example.com", "mail.example.co.uk"])).map("@".join),
}


def full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "zero-width": "\u200b".join,
    "bidi": lambda t: "\u202e" + "\u2066".join(t) + "\u202c",
    "soft hyphens": "\u00ad".join,
    "variation selectors": "\ufe0f".join,
    "full-width": full_width,
    "accents": lambda t: "".join(char + "\u0331" if char.isalnum() else char for char in t),
    "arabic digits": lambda t: t.translate({ord("0") + i: 0x660 + i for i in range(10)}),
    "cyrillic": lambda t: t.translate(str.maketrans("AEOPCTBHKMXaeopcxs", "АЕОРСТВНКМХаеорсхѕ")),
    "base64": lambda t: base64.b64encode(t.encode()).decode(),
    "base64url": lambda t: base64.urlsafe_b64encode(t.encode()).decode().rstrip("="),
    "base64 of utf-16": lambda t: base64.b64encode(t.encode("utf-16-le")).decode(),
    "base64 of full-width": lambda t: base64.b64encode(full_width(t).encode()).decode(),
    "base64 inside": lambda t: base64.b64encode(b"xy " + t.encode() + b" z").decode(),
    "hex": lambda t: t.encode().hex(),
    "spaced hex": lambda t: t.encode().hex(" "),
    "\\x": lambda t: "".join(f"\\x{byte:02x}" for byte in t.encode()),
    "character codes": lambda t: ", ".join(str(byte) for byte in t.encode()),
    "percent": lambda t: "".join(f"%{byte:02x}" for byte in t.encode()),
    "decimal entities": lambda t: "".join(f"&#{ord(char)};" for char in t),
    "hexadecimal entities": lambda t: "".join(f"&#x{ord(char):x};" for char in t),
    "\\u": lambda t: "".join(f"\\u{ord(char):04x}" for char in t),
    "quoted-printable": lambda t: "".join(f"={byte:02X}" for byte in t.encode()),
    "tags": lambda t: "".join(chr(0xE0000 + ord(char)) for char in t),
    "three layers": lambda t: base64.b64encode(base64.b64encode(t.encode().hex().encode())).decode(),
}
BY_FORM: dict[str, Callable[[str], str]] = {
    "backwards": lambda t: t[::-1],
    "wrapped": lambda t: t[: len(t) // 2] + "\n    " + t[len(t) // 2 :],
    "concatenated": lambda t: f'"{t[: len(t) // 2]}" + "{t[len(t) // 2 :]}"',
}


def hidden(text: str, shown: str) -> bool:
    """Whether nothing of `shown` as long as a third of it is left in `text`."""
    size = max(6, len(shown) // 3)
    return not any(shown[i : i + size] in text for i in range(len(shown) - size + 1))


def check(shown: str, kind: Kind) -> None:
    text = f"Please keep this: {shown} , it is not for others."
    masker = Masker(Vault(OWNER))
    masked = masker.mask(text)
    assert hidden(masked.text, shown), masked.text
    # By chance, an encoded text looks like a key as well.
    assert {kind, "key"} & {finding.kind for finding in masked.findings}
    assert masked.text.startswith("Please keep this: ")
    assert masked.text.endswith(" , it is not for others.")
    assert masker.unmask(masked.text, Sink(OWNER, "secret")).text == text
    assert masker.mask(masked.text).text == masked.text


@pytest.mark.parametrize("disguise", DISGUISES)
@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_no_disguise_hides_a_valid_value(disguise: str, case: tuple[Kind, str]) -> None:
    kind, value = case
    check(DISGUISES[disguise](value), kind)


@pytest.mark.parametrize("name", KEYS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_issuers_keys_are_masked(name: str, data: st.DataObject) -> None:
    check(data.draw(KEYS[name]), "key")


@pytest.mark.parametrize("how", BY_FORM)
@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(KEYS)).flatmap(KEYS.__getitem__))
def test_a_key_taken_apart_is_put_together(how: str, key: str) -> None:
    masked = Masker(Vault(OWNER)).mask(f"Please keep this: {BY_FORM[how](key)} , it is not for others.")
    assert key[len(key) // 2 :] not in masked.text
    assert key[::-1] not in masked.text
    assert [finding.kind for finding in masked.findings] == ["key"]


@settings(max_examples=25, deadline=None)
@given(st.one_of(cards(), ibans().filter(str.isupper)))
def test_cards_and_ibans_backwards(value: str) -> None:
    assert Masker(Vault(OWNER)).mask(f"as in a mirror: {value[::-1]} .").findings


@settings(max_examples=40, deadline=None)
@given(cards(), st.integers(1, 9))
def test_a_wrong_check_digit_is_no_card(card: str, step: int) -> None:
    # In groups, the first of them may be a shorter card.
    plain = re.sub(r"\D", "", card)
    wrong = plain[:-1] + str((int(plain[-1]) + step) % 10)
    backwards = wrong[::-1]
    assume(luhn_digit(backwards[:-1]) != backwards[-1])
    assert not [f for f in Masker(Vault(OWNER)).mask(f"see {wrong} there").findings if f.kind == "card"]


@settings(max_examples=40, deadline=None)
@given(ibans(), st.integers(1, 9))
def test_a_wrong_check_sum_is_no_iban(iban: str, step: int) -> None:
    wrong = iban[:-1] + str((int(iban[-1]) + step) % 10)
    assert not [f for f in Masker(Vault(OWNER)).mask(f"see {wrong} there").findings if f.kind == "iban"]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_any_text_comes_back(text: str) -> None:
    masker = Masker(Vault(OWNER))
    masked = masker.mask(text)
    assert masker.unmask(masked.text, Sink(OWNER, "secret")).text == text
    assert masker.mask(masked.text).text == masked.text


@pytest.mark.parametrize(
    "text",
    [
        "The meeting of June 13 2024 is at 10:30, see version 1.2.3.4 and commit 3f786850e387550fdab836ed7e6dc881de23001b.",
        "def test(self, token: str, password: str | None = None) -> None: self.token = token or next(tokens)",
        "for i in range(1000000000000000): total += 1234567890123",
        "UUID 123e4567-e89b-12d3-a456-426614174000, 1700000000000 ms, 0x7fffffffffffffff, 3.141592653589793",
        "git@github.com:owner/repository.git and @decorator; a@b, x @ y",
        "password: required. The password is checked by the server; reset your password here: <password>",
        "Monday Morning in San Francisco: Machine Learning at Stanford University, Will Power, Grace Period",
        'os.environ["API_KEY"], ${SECRET_TOKEN}, token=****, secret = get_secret("name"), key = keys[0]',
    ],
)
def test_plain_text_stays_as_it_is(text: str, masker: Masker) -> None:
    assert masker.mask(text).text == text


def test_an_encoded_blob_is_masked_whole_and_its_surroundings_are_not(masker: Masker) -> None:
    blob = base64.b64encode(b"the card is 4111 1111 1111 1111, use it well").decode()
    masked = masker.mask(f"before {blob} after")
    (finding,) = masked.findings
    assert masked.text == f"before {finding.placeholder} after"
    assert (finding.start, finding.end) == (7, 7 + len(blob))


def test_a_fourth_layer_is_where_the_promise_ends(masker: Masker) -> None:
    shown = "AKIA" + "QRSTUV7ABCDEFGH2"
    for _ in range(3):
        shown = base64.b64encode(shown.encode()).decode()
    assert masker.mask(shown).findings
    assert not masker.mask(base64.b64encode(shown.encode()).decode()).findings


def test_the_more_harmful_kind_names_what_overlaps(masker: Masker) -> None:
    masked = masker.mask("postgres://admin:s3cr3t@db.example.com/main")
    assert [finding.kind for finding in masked.findings] == ["password"]
    assert "s3cr3t" not in masked.text
