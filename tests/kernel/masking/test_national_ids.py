"""Documented specimens of national numbers: what issuers and encyclopaedias print as examples, nobody's."""

import pytest

from overnight.kernel.masking import Masker

SPECIMENS = {
    "us-ssn": "078-05-1120",
    "de-steuer-id": "86 095 742 719",
    "pl-pesel": "44051401359",
    "be-rrn": "85.07.30-033.28",
    "fr-nir": "2 55 08 14 168 025 38",
    "fr-nir-corse": "1 85 05 2A 006 084 35",
    "ch-ahv": "756.9217.0769.85",
    "no-fnr": "15108695088",
    "se-pnr": "811228-9874",
    "ro-cnp": "1630615123457",
    "gr-amka": "01013099997",
    "tr-tckn": "10000000146",
    "br-cpf": "390.533.447-05",
    "in-aadhaar": "2341 2341 2346",
    "uk-nino": "AB 12 34 56 C",
    "es-dni": "12345678Z",
    "it-cf": "RSSMRA85T10A562S",
    "fi-hetu": "131052-308T",
    "ie-pps": "1234567T",
    "de-rvnr": "15 070649 C 103",
    "mx-curp": "BOXW310820HNERXN09",
    "cn-id": "11010519491231002X",
    "sg-nric": "S1234567D",
}
WORDED = {
    "nl-bsn": ("BSN", "111222333"),
    "uk-nhs": ("NHS number", "943 476 5919"),
    "dk-cpr": ("CPR", "211062-5629"),
    "at-svnr": ("SVNR", "1237010180"),
    "bg-egn": ("EGN", "7523169263"),
    "hr-oib": ("OIB", "33392005961"),
    "pt-nif": ("NIF", "501964843"),
    "ca-sin": ("SIN", "123 456 782"),
    "jp-my-number": ("My Number", "123456789018"),
    "au-tfn": ("TFN", "123 456 782"),
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_a_specimen_is_masked(name: str, masker: Masker) -> None:
    masked = masker.mask(f"on file: {SPECIMENS[name]}, thank you")
    assert [finding.rule for finding in masked.findings] == [name]
    assert masked.text.startswith("on file: MASKED_NATIONAL_ID_")
    assert masked.text.endswith(", thank you")


@pytest.mark.parametrize("name", WORDED)
def test_a_number_that_others_look_like_needs_its_name_nearby(name: str, masker: Masker) -> None:
    word, number = WORDED[name]
    assert [finding.kind for finding in masker.mask(f"{word}: {number}").findings] == ["national_id"]
    assert not [f for f in masker.mask(f"total: {number}").findings if f.rule == name]


@pytest.mark.parametrize("name", sorted(set(SPECIMENS) - {"us-ssn"}))
def test_another_last_character_is_no_number(name: str, masker: Masker) -> None:
    specimen = SPECIMENS[name]
    others = "0123456789" if specimen[-1].isdigit() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    found = [
        other
        for other in others
        if any(f.rule == name for f in masker.mask(f"on file: {specimen[:-1]}{other}, thank you").findings)
    ]
    # A wrong character may by chance make another valid number in a few of the schemes.
    assert specimen[-1] in found
    assert len(found) <= (4 if name == "uk-nino" else 1)


@pytest.mark.parametrize("number", ["000-12-3456", "666-12-3456", "123-00-4567", "123-45-0000"])
def test_numbers_that_were_never_issued(number: str, masker: Masker) -> None:
    assert masker.mask(f"see {number}").findings == ()
