"""Streams: wherever the pieces are cut, nothing passes that masking the whole would have kept."""

import base64
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.core.errors import Refused
from overnight.kernel.masking import Masker, MaskStream, Owner, Sink, UnmaskStream, Vault
from overnight.kernel.masking.stream import HOLD, HOLD_MOST, STEP

OWNER = Owner("acme", "researcher", "ses_1")
KEY = "ghp_" + "7QxAbCdEfGhIjKlMnOpQrStUvWxYz0123456"
PEM = "-----BEGIN PRIVATE KEY-----\n" + "\n".join("MIIE7Qx+/" * 7 for _ in range(20)) + "\n-----END PRIVATE KEY-----"
SECRETS = (
    "4111 1111 1111 1111",
    "alice@example.com",
    "DE89 3704 0044 0532 0130 00",
    KEY,
    "\u200b".join("bob@example.org"),
    base64.b64encode(b"call +49 30 901820 today").decode(),
    "password = hunter2hunter2",
    PEM,
)
FILLER = "The quick brown fox jumps over the lazy dog, again and again, as it did last year.\n"


def story(seed: int) -> str:
    rng = random.Random(seed)
    parts = []
    for secret in rng.sample(SECRETS, len(SECRETS)):
        parts += [
            FILLER * rng.randrange(0, 12),
            FILLER[: rng.randrange(0, 60)] + " ",
            secret,
            rng.choice([" ", "\n", ", then "]),
        ]
    return "".join(parts) + FILLER * rng.randrange(0, 8)


def streamed(masker: Masker, text: str, cuts: list[int]) -> tuple[str, MaskStream]:
    stream = MaskStream(masker)
    places = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    out = [stream.feed(text[a:b]) for a, b in zip(places, places[1:], strict=False)]
    return "".join(out) + stream.finish(), stream


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 20_000), max_size=40))
def test_a_stream_is_masked_like_the_whole(seed: int, cuts: list[int]) -> None:
    text = story(seed)
    masker = Masker(Vault(OWNER))
    whole = masker.mask(text)
    out, stream = streamed(masker, text, cuts)
    assert out == whole.text
    assert tuple(stream.findings) == whole.findings
    assert masker.unmask(out, Sink(OWNER, "secret")).text == text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 511, 512, 513, 1024, 5000])
def test_pieces_of_any_size(size: int) -> None:
    text = story(1)
    masker = Masker(Vault(OWNER))
    out, _ = streamed(masker, text, list(range(0, len(text), size)))
    assert out == masker.mask(text).text


def test_each_secret_at_each_place_of_a_border(masker: Masker) -> None:
    for secret in SECRETS:
        masked = masker.mask(f" {secret} ").text
        for before in range(HOLD + STEP - 6, HOLD + STEP + 6):
            text = ("word " * 300)[:before] + f" {secret} " + FILLER * 3
            out, _ = streamed(masker, text, [before + len(secret) // 2])
            assert masked.strip() in out, (secret, before)


def test_little_is_held_back(masker: Masker) -> None:
    stream = MaskStream(masker)
    given_out = sum(len(stream.feed(FILLER)) for _ in range(100))
    assert 100 * len(FILLER) - given_out <= HOLD + STEP + 2 * len(FILLER)


def test_a_run_without_end_is_let_go_in_time(masker: Masker, everything: Sink) -> None:
    text = "x7" * (2 * HOLD_MOST) + " " + KEY + " " + "y8" * HOLD_MOST
    stream = MaskStream(masker)
    held, out = 0, []
    for start in range(0, len(text), 4096):
        out.append(stream.feed(text[start : start + 4096]))
        held = max(held, start + 4096 - sum(map(len, out)))
    out.append(stream.finish())
    assert held <= 2 * HOLD_MOST + 8192
    assert KEY not in "".join(out)
    assert masker.unmask("".join(out), everything).text == text


def test_a_private_key_that_never_ends_shows_nothing_of_itself(masker: Masker) -> None:
    line = "MIIE7Qx+/" * 7 + "\n"
    text = "-----BEGIN PRIVATE KEY-----\n" + line * (3 * HOLD_MOST // len(line))
    out, _ = streamed(masker, text, list(range(0, len(text), 4096)))
    assert "MIIE7Qx" not in out


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1_000), st.lists(st.integers(0, 20_000), max_size=60))
def test_placeholders_cut_in_two_are_un_masked(seed: int, cuts: list[int]) -> None:
    text = story(seed)
    masker = Masker(Vault(OWNER))
    masked = masker.mask(text).text
    stream = UnmaskStream(masker, Sink(OWNER, "secret"))
    places = [0, *sorted({cut % (len(masked) + 1) for cut in cuts}), len(masked)]
    out = [stream.feed(masked[a:b]) for a, b in zip(places, places[1:], strict=False)]
    assert "".join(out) + stream.finish() == text


def test_an_un_masking_stream_holds_back_only_what_could_be_a_placeholder(masker: Masker, everything: Sink) -> None:
    stream = UnmaskStream(masker, everything)
    assert stream.feed("Hello ") == "Hello "
    assert stream.feed("MASK") == ""
    assert stream.feed(" of Zorro") == "MASK of Zorro"
    assert stream.finish() == ""


def test_a_stream_for_someone_else_is_refused_before_its_first_piece(masker: Masker) -> None:
    with pytest.raises(Refused):
        UnmaskStream(masker, Sink(Owner("rival", "x", "y"), "secret"))
