import pytest

from overnight.core.errors import Refused
from overnight.kernel.masking import Masker, MaskingSettings, Owner, Sink, Vault

CARD, EMAIL = "4111 1111 1111 1111", "alice@example.com"
TEXT = f"Card {CARD}, mail {EMAIL}, password: hunter2hunter2"


def test_a_value_keeps_its_placeholder_within_a_session(masker: Masker) -> None:
    first, second = masker.mask(f"to {EMAIL}"), masker.mask(f"again {EMAIL}!")
    assert first.findings[0].placeholder == second.findings[0].placeholder


def test_sessions_share_no_placeholder(owner: Owner) -> None:
    placeholders = {Masker(Vault(owner)).mask(EMAIL).text for _ in range(50)}
    assert len(placeholders) == 50


def test_spellings_of_a_value_look_alike_and_come_back_apart(masker: Masker, everything: Sink) -> None:
    text = f"{CARD} or {CARD.replace(' ', '')} or {CARD.replace(' ', '-')}"
    masked = masker.mask(text)
    placeholders = [finding.placeholder for finding in masked.findings]
    assert len(set(placeholders)) == 3
    assert len({placeholder[:-2] for placeholder in placeholders}) == 1
    assert masker.unmask(masked.text, everything).text == text


def test_a_placeholder_is_never_one_that_stands_in_the_text(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter("abcdefghij" * 40)
    monkeypatch.setattr("overnight.kernel.masking.vault.secrets.choice", lambda _: next(drawn))
    taken = Masker(Vault(owner)).mask(EMAIL).text
    drawn = iter("abcdefghij" + "ab" + "cdefghij" * 40)
    masked = Masker(Vault(owner)).mask(f"{taken} {EMAIL}")
    assert masked.text.split()[0] == taken
    assert masked.text.split()[1] != taken


@pytest.mark.parametrize(
    ("confidentiality", "card", "password"),
    [("public", False, False), ("private", True, False), ("secret", True, True)],
)
def test_a_sink_gets_what_its_confidentiality_allows(
    masker: Masker, owner: Owner, confidentiality: str, card: bool, password: bool
) -> None:
    masked = masker.mask(TEXT)
    sink = Sink(owner, confidentiality)  # type: ignore[arg-type]  # parametrised text
    shown = masker.unmask(masked.text, sink)
    assert (CARD in shown.text) is card
    assert ("hunter2" in shown.text) is password
    assert len(shown.revealed) + len(shown.withheld) == 3


def test_a_sink_can_be_cleared_for_some_kinds_only(masker: Masker, owner: Owner) -> None:
    shown = masker.unmask(masker.mask(TEXT).text, Sink(owner, "secret", frozenset({"email"})))
    assert EMAIL in shown.text
    assert CARD not in shown.text


@pytest.mark.parametrize(
    "other",
    [Owner("rival", "researcher", "ses_1"), Owner("acme", "writer", "ses_1"), Owner("acme", "researcher", "ses_2")],
)
def test_nothing_is_un_masked_for_someone_else(masker: Masker, other: Owner) -> None:
    masked = masker.mask(TEXT)
    with pytest.raises(Refused) as refusal:
        masker.unmask(masked.text, Sink(other, "secret"))
    assert refusal.value.reason == "vault_not_yours"
    shown = Masker(Vault(other)).unmask(masked.text, Sink(other, "secret"))
    assert shown.text == masked.text
    assert shown.revealed == ()


def test_a_guessed_placeholder_yields_nothing(masker: Masker, everything: Sink) -> None:
    placeholder = masker.mask(EMAIL).text
    guess = placeholder[:-1] + ("a" if placeholder[-1] != "a" else "b")
    assert masker.unmask(guess, everything).text == guess


def test_masking_what_is_masked_changes_nothing(masker: Masker) -> None:
    once = masker.mask(f"{TEXT}\nauthorization: Bearer abcdef0123456789ABCDEF").text
    assert masker.mask(once).text == once
    assert masker.mask(f"password={masker.mask(TEXT).findings[0].placeholder}").findings == ()


def test_kinds_can_be_left_readable(owner: Owner) -> None:
    masker = Masker(Vault(owner), MaskingSettings(kinds=("card",)))
    masked = masker.mask(TEXT)
    assert EMAIL in masked.text
    assert CARD not in masked.text


def test_the_workspaces_own_names_are_masked_in_any_case(owner: Owner) -> None:
    masker = Masker(Vault(owner), MaskingSettings(names=("Zed Quux", "Projekt Blau", "Jürgen")))
    masked = masker.mask("ZED  QUUX wrote about projekt blau; zedquux and jürgen did not.")
    assert [finding.kind for finding in masked.findings] == ["name"] * 3
    assert "zedquux" in masked.text


def test_findings_carry_no_value(masker: Masker) -> None:
    shown = repr(masker.mask(TEXT).findings)
    assert not any(secret in shown for secret in (CARD, EMAIL, "hunter2", "4111"))


def test_a_masked_number_in_json_stays_json_text(masker: Masker, everything: Sink) -> None:
    text = '{"iban": "DE89370400440532013000", "to": "alice@example.com"}'
    masked = masker.mask(text)
    assert '"iban": "MASKED_IBAN_' in masked.text
    assert masker.unmask(masked.text, everything).text == text
