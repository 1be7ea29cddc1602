import pytest

from overnight.core.errors import UsageError
from overnight.kernel.tool.catalogue import Catalogue, UnknownTool
from overnight.kernel.tool.spec import Argument, ResultField, ToolSpec


def filled() -> Catalogue:
    catalogue = Catalogue()
    catalogue.add(ToolSpec("files.read", "read", aliases=("read_text",)))
    return catalogue


def test_an_alias_and_a_full_width_name_are_the_tool() -> None:
    assert filled().resolve("read_text").id == "files.read"
    assert filled().resolve("ｆｉｌｅｓ.ｒｅａｄ").id == "files.read"


@pytest.mark.parametrize("name", ["fіles.read", "files.reаd", "fi\u200bles.read", "filеs.read"])
def test_a_name_that_only_looks_alike_is_not_the_tool_and_the_message_says_which_it_imitates(name: str) -> None:
    with pytest.raises(UnknownTool) as problem:
        filled().resolve(name)
    assert problem.value.code == "lookalike_tool"
    assert "files.read" in problem.value.hint
    assert name not in problem.value.message  # spelt out, so that a person sees the difference


@pytest.mark.parametrize("name", ["Files.read", "files.reed", "files", "/usr/bin/files.read", "files.read "])
def test_other_names_are_unknown(name: str) -> None:
    with pytest.raises(UnknownTool) as problem:
        filled().resolve(name)
    assert problem.value.code == "unknown_tool"


@pytest.mark.parametrize("other", ["files.READ", "files.read_", "filesread.x"])
def test_names_that_collide_once_sanitised_are_refused_together(other: str) -> None:
    catalogue = filled()
    clash = ToolSpec(other, "read") if other != "filesread.x" else ToolSpec("x.y", "read", aliases=("files-read",))
    with pytest.raises(UsageError, match="cannot be told from"):
        catalogue.add(clash)


def test_slash_and_underscore_collide() -> None:
    catalogue = Catalogue()
    catalogue.add(ToolSpec("demo.a", "read", aliases=("demo/read",)))
    with pytest.raises(UsageError, match="cannot be told from"):
        catalogue.add(ToolSpec("other.b", "read", aliases=("demo_read",)))


def test_a_tool_never_speaks_for_the_person() -> None:
    with pytest.raises(UsageError, match="cannot be 'user'"):
        ToolSpec("mail.read", "read", fields=(ResultField("body", "user"),))


def test_the_version_changes_with_whatever_a_decision_depends_on() -> None:
    base = ToolSpec("mail.send", "egress", (Argument("to", kind="recipient"),))
    changed = [
        ToolSpec("mail.send", "write", (Argument("to", kind="recipient"),)),
        ToolSpec("mail.send", "egress", (Argument("to"),)),
        ToolSpec("mail.send", "egress", (Argument("to", kind="recipient"),), implementation="2"),
        ToolSpec("mail.send", "egress", (Argument("to", kind="recipient", carries="private"),)),
    ]
    assert len({base.version, *(spec.version for spec in changed)}) == 5
    assert ToolSpec("mail.send", "egress", base.arguments, description="other words").version == base.version
