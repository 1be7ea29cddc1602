import pytest

from overnight.kernel.masking import Masker


@pytest.mark.parametrize(
    "address",
    [
        "alice@example.com",
        "a.b-c+news@mail.example.co.uk",
        "ALICE@EXAMPLE.COM",
        "alice@münchen.example",
        "пётр@почта.рф",
        "alice@[192.0.2.1]",
        "alice @ example.com",
        "alice [at] example [dot] com",
        "alice(at)example.com",
        "alice at example dot com",
        "moc.elpmaxe@ecila",
        "mailto:alice@example.com",
    ],
)
def test_addresses_in_every_guise(address: str, masker: Masker) -> None:
    masked = masker.mask(f"write to {address} today")
    assert [finding.kind for finding in masked.findings] == ["email"]
    assert masked.text.startswith("write to ")
    assert masked.text.endswith(" today")
    assert "alice" not in masked.text.lower()


@pytest.mark.parametrize(
    "number",
    [
        "+49 30 901820",
        "+49 (0)30 901820",
        "+1 (415) 555-2671",
        "+14155552671",
        "+442079460958",
        "0044 20 7946 0958",
        "(415) 555-2671",
        "415-555-2671",
        "415.555.2671 x12",
        "+33 1 23 45 67 89",
        "+91 98765 43210",
    ],
)
def test_telephone_numbers_that_show_what_they_are(number: str, masker: Masker) -> None:
    masked = masker.mask(f"it was {number} again")
    assert [finding.kind for finding in masked.findings] == ["phone"]
    assert masked.text.startswith("it was MASKED_PHONE_")
    assert masked.text.endswith(" again")


@pytest.mark.parametrize(
    "text",
    [
        "Tel. 030 901820",
        "phone: 07700 900123",
        "Handynummer 0171 2345678",
        "call 020 7946 0958",
        "téléphone: 01 23 45 67 89",
    ],
)
def test_national_numbers_beside_a_word_for_telephone(text: str, masker: Masker) -> None:
    assert [finding.kind for finding in masker.mask(text).findings] == ["phone"]
    digits = "".join(char for char in text if char.isdigit() or char == " ").strip()
    assert masker.mask(f"order {digits} of 12").findings == ()


@pytest.mark.parametrize(
    "text",
    ["h * 69069 + 907133923", "Decimal('+35236450.6')", "2024-11-30 10:30:00", "1,234,567,890", "call 2024-11-30"],
)
def test_other_numbers_stay(text: str, masker: Masker) -> None:
    assert masker.mask(text).text == text
