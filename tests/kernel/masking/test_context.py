import pytest

from overnight.kernel.masking import Masker

TYPED, DRAWN = "hunter2hunter2", "q7Rk2Lm9" + "Xz4Tb8Wn3Vc6"

MASKED = [
    "password = {typed}",
    'password: "{typed}"',
    '{{"user": "a", "password": "{typed}"}}',
    '{{\\"password\\": \\"{typed}\\"}}',
    "DB_PASSWORD={typed}",
    "export PGPASSWORD='{typed}'",
    "the password is {typed}",
    "Passwort: {typed}",
    "mot de passe : {typed}",
    "contraseña: {typed}",
    "<password>{typed}</password>",
    "mysql --password {typed} -h db",
    "mysql --password={typed} -h db",
    "curl -u admin:{typed} https://example.com",
    "postgres://admin:{typed}@db.example.com:5432/main",
    "redis://:{typed}@cache:6379",
    "CREATE USER a IDENTIFIED BY '{typed}'",
    "machine example.com login a password {typed}",
    "passphrase: correct horse battery staple",
    "Authorization: Bearer {drawn}",
    "authorization: Basic YWRtaW46aHVudGVyMmh1bnRlcjI=",
    "X-Api-Key: {drawn}",
    'api_key = "{drawn}"',
    "client_secret={drawn}&x=1",
    "access token: {drawn}",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY{drawn_tail}",
    "Set-Cookie: session_id={drawn}; Path=/",
    "the recovery key for the vault, {drawn}, is on paper",
]
LEFT = [
    "password = None",
    "password = getpass.getpass()",
    "password: str = field(default='')",
    "password = os.environ['DB_PASSWORD']",
    "password={{{{ secrets.DB }}}}",
    "PASSWORD=$DB_PASSWORD",
    "password: ********",
    'password: "<your password>"',
    "the password is checked twice",
    "passed: 12345678, passing = 99887766",
    "token = tokens.pop()",
    "for token in tokenize(text): key = token.lower()",
    "secret: a thing that nobody knows",
    "keyboard = layout-2024-10-azerty-extended",
    "token_count=1234567890",
    "key: some/long/path/to/a/file_v2_final.txt",
    "https://example.com:8080/a@b",
]


@pytest.mark.parametrize("form", MASKED)
def test_what_its_surroundings_name_is_masked(form: str, masker: Masker) -> None:
    text = form.format(typed=TYPED, drawn=DRAWN, drawn_tail=DRAWN[:10])
    masked = masker.mask(text)
    assert masked.findings, text
    assert not any(part in masked.text for part in (TYPED, DRAWN, "battery", "YWRtaW46", "wJalr")), masked.text
    assert {finding.kind for finding in masked.findings} <= {"password", "key"}


@pytest.mark.parametrize("form", LEFT)
def test_program_text_and_prose_about_secrets_stay(form: str, masker: Masker) -> None:
    text = form.format()
    assert masker.mask(text).text == text


def test_entropy_without_context_is_no_secret(masker: Masker) -> None:
    text = f"build {DRAWN} of 3f786850e387550fdab836ed7e6dc881de23001b"
    assert masker.mask(text).text == text


def test_a_password_takes_its_punctuation_along(masker: Masker) -> None:
    assert "!" not in masker.mask("password = s3cret!!").text
