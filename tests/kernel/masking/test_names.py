import pytest

from overnight.kernel.masking import Masker


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Yesterday Alice Johnson wrote", "Alice Johnson"),
        ("by Ludwig van Beethoven in C", "Ludwig van Beethoven"),
        ("signed by José M. García-López.", "José M. García-López"),
        ("ANNA WEBER signed", "ANNA WEBER"),
        ("Weber, Anna (2024)", "Weber, Anna"),
        ("ask Dr. Xyzzy about", "Xyzzy"),
        ("Frau von Quux kommt", "von Quux"),
        ("Dear Alice,", "Alice"),
        ("my name is Priya and", "Priya"),
        ("last_name: Xyzzy\n", "Xyzzy"),
        ('"full name": "Foo Barbaz"', "Foo Barbaz"),
        ("Thanks,\nMateo\n", "Mateo"),
        ("with Kenji Watanabe, and", "Kenji Watanabe"),
        ("with Ｋｅｎｊｉ Ｗａｔａｎａｂｅ, and", "Ｋｅｎｊｉ Ｗａｔａｎａｂｅ"),
    ],
)
def test_names_beside_a_second_sign(text: str, name: str, masker: Masker) -> None:
    masked = masker.mask(text)
    assert [finding.kind for finding in masked.findings] == ["name"]
    finding = masked.findings[0]
    assert text[finding.start : finding.end] == name


@pytest.mark.parametrize(
    "text",
    [
        "Will Power be enough? Mark Down the date. Grace Period ends in May.",
        "Jordan River, Austin Texas, Virginia Tech, San Jose, Paris Agreement",
        "class FrankSmith: JackSmith = Alice",
        "New York Times and Wall Street Journal",
        "The Thomas algorithm solves it; so does Newton.",
    ],
)
def test_one_sign_is_not_enough(text: str, masker: Masker) -> None:
    assert masker.mask(text).text == text
