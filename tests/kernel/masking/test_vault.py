import secrets

import pytest

from overnight.core.errors import Refused
from overnight.kernel.masking import Masker, Owner, Sink, Vault

EMAIL = "alice@example.com"


def test_a_session_that_resumes_knows_its_placeholders(masker: Masker, owner: Owner, everything: Sink) -> None:
    key = secrets.token_bytes(32)
    masked = masker.mask(f"to {EMAIL}")
    resumed = Masker(Vault.open(masker.vault.seal(key), key, owner))
    assert resumed.unmask(masked.text, everything).text == f"to {EMAIL}"
    assert resumed.mask(f"to {EMAIL}").text == masked.text


def test_a_sealed_vault_shows_nothing(masker: Masker) -> None:
    masker.mask(f"to {EMAIL}")
    sealed = masker.vault.seal(secrets.token_bytes(32))
    assert b"alice" not in sealed
    assert b"MASKED" not in sealed


@pytest.mark.parametrize(
    "other",
    [Owner("rival", "researcher", "ses_1"), Owner("acme", "writer", "ses_1"), Owner("acme", "researcher", "ses_2")],
)
def test_a_sealed_vault_opens_for_its_owner_only(masker: Masker, other: Owner) -> None:
    key = secrets.token_bytes(32)
    masker.mask(EMAIL)
    with pytest.raises(Refused):
        Vault.open(masker.vault.seal(key), key, other)


def test_another_key_or_a_changed_byte_opens_nothing(masker: Masker, owner: Owner) -> None:
    key = secrets.token_bytes(32)
    masker.mask(EMAIL)
    sealed = masker.vault.seal(key)
    with pytest.raises(Refused):
        Vault.open(sealed, secrets.token_bytes(32), owner)
    for place in range(len(sealed)):
        with pytest.raises(Refused):
            Vault.open(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :], key, owner)
    with pytest.raises(Refused):
        Vault.open(b"", key, owner)
