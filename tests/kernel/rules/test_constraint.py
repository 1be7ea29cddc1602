import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.kernel.rules.constraint import Constraint, check_domain


def test_under_is_anchored_and_whole_components() -> None:
    rule = Constraint(under=("docs/",), not_under=(".env", "docs/secret/"))
    assert rule.allows("docs/a.md", "path", "untrusted")
    assert rule.allows("docs", "path", "untrusted")
    for path in ("docs2/a.md", "src/docs/a", "/docs/a", "docs/.env", "docs/x/.ENV/y", "docs/secret/a", "docs/Secret/a"):
        assert not rule.allows(path, "path", "user"), path


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example@evil.example/",
        "https://evil.example\\@good.example/",
        "https://evil.example/good.example",
        "https://good.example.evil.example",
        "https://xn--gd-fkaa.example",
        "https://gооd.example/",
        "javascript:good.example",
        "ftp://good.example",
        "https:// good.example",
        "",
    ],
)
def test_a_url_is_of_a_domain_only_without_doubt(url: str) -> None:
    rule = Constraint(domain=("good.example",))
    assert not rule.allows(url, "url", "user")


def test_urls_and_addresses_of_a_domain() -> None:
    rule = Constraint(domain=("good.example",))
    for url in ("https://good.example/x?y", "http://a.good.example:80", "www.good.example/a", "HTTPS://GOOD.example."):
        assert rule.allows(url, "url", "user"), url
    assert rule.allows("a@sub.good.example", "recipient", "user")
    assert not rule.allows("a@good.example.evil.example", "recipient", "user")
    assert not rule.allows("good.example", "recipient", "user")
    assert not rule.allows("a@evil.example, b@good.example", "recipient", "user")


@pytest.mark.parametrize(
    "command",
    [
        "git status && rm -rf x", "git status; rm x", "git status | sh", "git $(rm x)", "git `rm x`", "git status > f",
        "git status\nrm x", "GIT_DIR=x git status", "/usr/bin/git status", "./git status", "env git", "'git' status",
    ],
)  # fmt: skip
def test_an_allowance_for_git_is_for_git_alone(command: str) -> None:
    assert not Constraint(program=("git",)).allows(command, "command", "user")


@pytest.mark.parametrize("command", ["rm -rf x", "/bin/rm x", "git status && rm -rf x", "r'm' x", ["/bin/rm", "x"], 7])
def test_a_prohibition_catches_every_way_of_writing_it(command: object) -> None:
    assert Constraint(program=("rm",)).catches(command, "command", "user")  # type: ignore[arg-type]


def test_commands_as_words_need_no_shell() -> None:
    assert Constraint(program=("git",)).allows(["git", "log", "--format=%H;x"], "command", "user")
    assert not Constraint(program=("git",)).allows(["sh", "-c", "git"], "command", "user")


def test_a_list_is_allowed_when_every_item_is_and_caught_when_one_is() -> None:
    rule = Constraint(domain=("good.example",))
    mixed = ["a@good.example", "b@evil.example"]
    assert not rule.allows(mixed, "recipient", "user")
    assert rule.catches(mixed, "recipient", "user")


@given(st.one_of(st.none(), st.booleans(), st.lists(st.none(), min_size=1), st.dictionaries(st.text(), st.text())))
def test_what_cannot_be_compared_is_neither_allowed_nor_let_past_a_prohibition(value: object) -> None:
    for rule in (Constraint(under=("docs",)), Constraint(max=5.0), Constraint(domain=("a.example",))):
        assert not rule.allows(value, "text", "user")  # type: ignore[arg-type]
        assert rule.catches(value, "text", "user")  # type: ignore[arg-type]


def test_numbers_and_labels() -> None:
    assert Constraint(max=250).allows(249.5, "amount", "untrusted")
    assert not Constraint(max=250).allows(True, "amount", "user")
    assert not Constraint(label="user").allows("x", "text", "system")
    assert Constraint(one_of=(1,)).allows(1, "id", "untrusted")
    assert not Constraint(one_of=(1,)).allows(True, "id", "untrusted")


@pytest.mark.parametrize(
    ("rule", "kind", "bounds"),
    [
        (Constraint(under=("docs",)), "path", True),
        (Constraint(not_under=("docs",)), "path", False),
        (Constraint(domain=("a.example",)), "recipient", True),
        (Constraint(not_domain=("a.example",)), "recipient", False),
        (Constraint(max=3), "amount", True),
        (Constraint(min=3), "amount", False),
        (Constraint(one_of=("a",)), "id", True),
        (Constraint(max_length=3), "id", False),
    ],
)
def test_only_what_limits_to_a_set_bounds(rule: Constraint, kind: str, bounds: bool) -> None:
    assert rule.bounds(kind) is bounds  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", ["https://a.example", "A.example", "*.example", "a.example/x", "ä.example", ""])
def test_a_domain_is_written_plainly(domain: str) -> None:
    with pytest.raises(UsageError):
        check_domain(domain)
