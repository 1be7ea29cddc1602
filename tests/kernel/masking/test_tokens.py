"""Specimens of formats that the generated tests leave out, put together here so that no scanner takes them for real."""

import pytest

from overnight.kernel.masking import Masker

BODY = "7QxAbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl"
HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"

SPECIMENS = {
    "aws": "ASIA" + "QRSTUV7ABCDEFGH2",
    "slack-webhook": "https://hooks.slack.com/" + "services/T00000000/B00000000/" + BODY[:24],
    "discord-webhook": "https://discord.com/api/" + "webhooks/123456789012345678/" + BODY[:60],
    "telegram": "123456789" + ":AA" + BODY[:33],
    "stripe": "rk_test_" + BODY[:24],
    "azure-storage": "AccountName=a;AccountKey=" + BODY[:86] + "==",
    "azure-ad": BODY[1:4] + "8Q~" + BODY[:34],
    "azure-sas": "https://a.example/c?sv=1&sig=" + BODY[:43] + "%3D",
    "google-oauth": "ya29." + BODY[:40],
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + BODY[:43],
    "huggingface": "hf_" + BODY[:34],
    "groq": "gsk_" + BODY[:52],
    "sendgrid": f"SG.{BODY[:22]}.{BODY[:43]}",
    "mailgun": "key-" + HEX[:32],
    "mailchimp": HEX[:32] + "-us12",
    "twilio": "SK" + HEX[:32],
    "shopify": "shpat_" + HEX[:32],
    "square": "sq0csp-" + BODY[:43],
    "linear": "lin_api_" + BODY[:40],
    "notion": "ntn_" + BODY[:46],
    "atlassian": "ATATT3" + BODY + BODY,
    "docker": "dckr_pat_" + BODY[:27],
    "vault": "hvs." + BODY[:40],
    "terraform": BODY[:14] + ".atlasv1." + BODY,
    "grafana": "glsa_" + BODY[:32] + "_" + HEX[:8],
    "newrelic": "NRAK-" + BODY[:27].upper(),
    "sentry": "sntrys_" + BODY,
    "postman": f"PMAK-{HEX[:24]}-{HEX[:34]}",
    "supabase": "sbp_" + HEX[:40],
    "rubygems": "rubygems_" + HEX[:48],
    "alibaba": "LTAI" + BODY[:20],
    "age": "AGE-SECRET-KEY-1" + BODY[:58].upper(),
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_is_masked(name: str, masker: Masker) -> None:
    masked = masker.mask(f"here: {SPECIMENS[name]} , thanks")
    assert [finding.rule for finding in masked.findings] == [name]
    assert masked.text.endswith(" , thanks")
    assert BODY[4:14] not in masked.text
    assert HEX[4:14] not in masked.text


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "])
def test_private_keys_with_and_without_an_end(kind: str, masker: Masker) -> None:
    begin, end = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
    body = "\n".join(BODY[i : i + 64] for i in range(20))
    for text in (f"{begin}\n{body}\n{end}", f"{begin}\n{body}", f"{begin}\n{body}\n{end}".replace("\n", "\\n")):
        masked = masker.mask(f'{{"private_key": "{text}", "x": 1}}')
        assert [finding.kind for finding in masked.findings] == ["private_key"]
        assert BODY[4:14] not in masked.text


@pytest.mark.parametrize(
    "text",
    [
        "task-based-development-of-long-names and risk-free-operations-in-2024",
        '"integrity": "sha512-' + BODY[:86] + '=="',
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "AKIA is how they begin; ghp_ too; sk-learn is a library",
    ],
)
def test_look_alikes_stay(text: str, masker: Masker) -> None:
    assert masker.mask(text).text == text
