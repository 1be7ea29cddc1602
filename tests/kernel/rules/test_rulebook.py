import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.core.errors import SettingsError
from overnight.kernel.rules.checks import check_known
from overnight.kernel.rules.rulebook import Rulebook, parse
from overnight.kernel.tool.catalogue import Catalogue
from overnight.kernel.tool.spec import Argument, ToolSpec


def rules(block: str) -> Rulebook:
    return parse(f"# Rules\n\nText.\n\n```permissions\n{block}\n```\n", "AGENTS.md")


def test_the_example_of_the_documentation() -> None:
    book = rules(
        """[[rule]]
agents = ["researcher", "researcher/*"]
tools = ["files.read", "github.*"]
arguments.path = { under = ["docs/", "src/"], not_under = [".env", "secrets/"] }
narrow = { arguments.limit = 100 }
decision = "allow"
"""
    )
    (rule,) = book.layer.rules
    assert rule.where == "AGENTS.md:6"
    assert rule.arguments["path"].under == ("docs/", "src/")
    assert rule.narrow == {"limit": 100}


TWICE = '[[combination]]\nname = "x"\nafter = [{ content = ["web"] }]\nthen = { effects = ["egress"] }'


@pytest.mark.parametrize(
    ("block", "line", "words"),
    [
        ('[[rule]]\ntools = ["a.b"]\ndecison = "allow"', 8, "decison"),
        ('[[rule]]\ntools = ["a.b"]\n\ndecision = "alow"', 9, "alow"),
        ('[[rule]]\ntools = ["a.b"]\ndecision = "allow"\narguments.path = { undr = ["x"] }', 9, "undr"),
        ('[[rule]]\ndecision = "allow"', 6, "names no tools"),
        ('[[rule]]\ntools = ["a.b"\ndecision = "allow"', 8, "not valid TOML"),
        ('[[rule]]\ntools = ["a.*.c"]\ndecision = "allow"', 6, "can never match"),
        ('[[rule]]\ntools = ["a.b"]\nagents = ["Researcher"]\ndecision = "allow"', 6, "can never match"),
        ('[[rule]]\ntools = ["a.b"]\nagents = []\ndecision = "allow"', 6, "can never match"),
        ('[[rule]]\ntools = ["a.b"]\narguments.n = { min = 5, max = 3 }\ndecision = "allow"', 6, "can never match"),
        (
            '[[rule]]\ntools = ["a.b"]\narguments.p = { under = ["x/y"], not_under = ["x"] }\ndecision = "allow"',
            6,
            "can never match",
        ),
        ('[[rule]]\ntools = ["a.*"]\ndecision = "deny"\n[[rule]]\ntools = ["a.b"]\ndecision = "allow"', 9, "deny at"),
        ('[[rule]]\ntools = ["a.b"]\nroles = ["reder"]\ndecision = "allow"', 6, "no role"),
        ('[[rules]]\ntools = ["a.b"]\ndecision = "allow"', 6, "unknown table"),
        ('[[rule]]\ntools = ["a.b"]\nnarrow = { arguments.n = 3 }\ndecision = "ask"', 6, "only an allow"),
        ('[[rule]]\ntools = ["a.b"]\narguments.p = { under = ["../x"] }\ndecision = "allow"', 8, "not a folder"),
        ('[[rule]]\ntools = ["a.b"]\narguments.p = { domain = ["http://x"] }\ndecision = "allow"', 8, "not a domain"),
        ('[[combination]]\nname = "x"\nthen = { effects = ["egress"] }', 6, "either"),
        ('[[combination]]\nname = "x"\nafter = [{ content = ["web"] }]\nthen = { efects = ["egress"] }', 9, "efects"),
        ('[[role]]\nname = "r"\nagents = ["a"]\nrights.files = ["reed"]', 9, "not an effect"),
        (f"{TWICE}\n{TWICE}", 10, "called 'x' already"),
        ("a = " + "[" * 5000 + "]" * 5000, 6, "nested too deeply"),
    ],
)
def test_a_mistake_is_an_error_with_its_line(block: str, line: int, words: str) -> None:
    with pytest.raises(SettingsError) as problem:
        rules(block)
    assert f"AGENTS.md:{line}" in problem.value.message
    assert words in str(problem.value)


def test_a_misspelt_word_gets_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="did you mean 'decision'"):
        rules('[[rule]]\ntools = ["a.b"]\ndecison = "allow"')


def test_blocks_that_would_be_dropped_silently_are_errors() -> None:
    with pytest.raises(SettingsError, match="not closed"):
        parse("```permissions\n[[rule]]\n", "AGENTS.md")
    for fence in (
        "```Permissions",
        "``` permission",
        "```toml permissions",
        "~~~{.permissions}",
        "```permissions.toml",
    ):
        with pytest.raises(SettingsError, match="not a permissions block"):
            parse(f"{fence}\n[[rule]]\n{fence[:3]}\n", "AGENTS.md")


def test_a_block_inside_another_fence_is_an_example() -> None:
    book = parse("````md\n```permissions\n[[rule]]\n```\n````\n", "AGENTS.md")
    assert book.layer.rules == ()


def test_nested_files_declare_no_roles() -> None:
    text = '```permissions\n[[role]]\nname = "r"\nagents = ["a"]\nrights.files = ["read"]\n```\n'
    with pytest.raises(SettingsError, match="nested"):
        parse(text, "sub/AGENTS.md", folder="sub")


def test_nested_files_plan_nothing() -> None:
    with pytest.raises(SettingsError, match="nested"):
        parse('```permissions\n[plan]\n"mail.delete" = ["the"]\n```\n', "sub/AGENTS.md", folder="sub")


def test_rules_about_tools_and_arguments_that_do_not_exist() -> None:
    catalogue = Catalogue()
    catalogue.add(ToolSpec("files.read", "read", (Argument("path", kind="path"),)))
    for block, words in (
        ('tools = ["files.reed"]', "no tool 'files.reed'"),
        ('tools = ["fils.*"]', "no server 'fils'"),
        ('tools = ["files.read"]\narguments.pth = { under = ["x"] }', "no argument"),
    ):
        book = rules(f'[[rule]]\n{block}\ndecision = "allow"')
        with pytest.raises(SettingsError, match=words):
            check_known(book.layer.rules, catalogue)
    later = rules('[[rule]]\ntools = ["github.*"]\ndecision = "allow"')
    check_known(later.layer.rules, catalogue, frozenset({"github"}))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="[]rule=\"'{}.\n abc#`", max_size=120))
def test_no_text_crashes_the_parser(block: str) -> None:
    try:
        rules(block)
    except SettingsError as problem:
        assert problem.message.startswith("AGENTS.md:")
