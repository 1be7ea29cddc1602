import pytest

from overnight.core.errors import UsageError
from overnight.kernel.rules.plan import Plan, WordPlanner
from overnight.kernel.session import Principal
from overnight.kernel.sessions import Sessions
from overnight.kernel.tool.spec import ToolSpec
from overnight.store.database import Database

SPECS = (ToolSpec("mail.read", "read"), ToolSpec("mail.send", "egress"), ToolSpec("mail.delete", "destructive"))
PLANNER = WordPlanner({"mail.send": ("send", "reply"), "mail.delete": ("delete", "remove")})


@pytest.mark.parametrize(
    ("request_", "planned"),
    [
        ("what is new?", {"mail.read"}),
        ("Reply to Bob, please", {"mail.read", "mail.send"}),
        ("I am sending nothing, but removed two", {"mail.read", "mail.send", "mail.delete"}),
        ("see undeleted", {"mail.read"}),
        ("DELETE it", {"mail.read", "mail.delete"}),
    ],
)
def test_words_of_the_request_plan_a_tool(request_: str, planned: set[str]) -> None:
    assert set(PLANNER.plan(request_, SPECS)) == planned


def test_a_plan_covers_patterns() -> None:
    assert Plan(("mail.*",)).covers(SPECS[1])
    assert not Plan(("files.*", "mail.read")).covers(SPECS[1])
    assert not Plan(()).covers(SPECS[0])


def test_a_sub_agents_plan_is_part_of_its_parents(database: Database) -> None:
    sessions = Sessions(database)
    parent = sessions.open(Principal("a"), "", "", plan=Plan(("mail.read",)))
    assert sessions.plan(sessions.child(parent, "b", "")) == Plan(("mail.read",))
    with pytest.raises(UsageError, match="beyond"):
        sessions.child(parent, "c", "", plan=Plan(("mail.send",)))
    again = Sessions(database)  # and it is not forgotten
    assert again.plan(again.load(parent.id)) == Plan(("mail.read",))
    database.close()
