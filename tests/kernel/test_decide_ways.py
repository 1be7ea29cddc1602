"""Most calls are decided by a short way. The long way, taken as soon as there is a plan, must say the same."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.kernel.canonical import Json
from overnight.kernel.decide import Decider, History, Policy
from overnight.kernel.flow.label import Confidentiality
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.paths import PathRoot
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Layer, Matrix, Rule
from overnight.kernel.rules.plan import Plan
from overnight.kernel.session import Principal
from overnight.kernel.tool.catalogue import Catalogue
from overnight.kernel.tool.spec import Argument, Audience, Effect, ResultField, ToolSpec

EFFECTS: list[Effect] = ["read", "write", "egress", "egress", "egress", "commit", "destructive"]
LEVELS: list[Confidentiality] = ["public", "public", "public", "private"]
EVERYTHING = Plan(("*",))
LIST = ToolSpec(
    "people.list",
    "read",
    fields=(ResultField("*.mail", "system", "recipient"), ResultField("*.id", "system", "id", of="file")),
    audiences=(Audience("file", ("readers",)),),
)
REQUEST = "Write docs/a.md, tell ada@example.org and www.example.org/x that 'all is well', and look at file 7"
RESULT: Json = [{"mail": "bob@example.org", "id": 9, "readers": ["ada@example.org"]}]
ARGUMENTS = [
    Argument("path", kind="path", required=False),
    Argument("to", kind="recipient", required=False),
    Argument("more", kind="recipient", type="any", required=False),
    Argument("link", kind="url", required=False),
    Argument("body", kind="message", required=False),
    Argument("note", kind="text", required=False),
    Argument("title", kind="phrase", required=False),
    Argument("file", type="any", kind="id", of="file", into=True, required=False),
]
VALUES: dict[str, st.SearchStrategy[Json]] = {
    "path": st.sampled_from(["docs/a.md", "docs/b.md", "./docs//a.md", "private/x"]),
    "to": st.sampled_from(["ada@example.org", "ADA@example.org", "bob@example.org", "eve@example.net", ""]),
    "more": st.lists(st.sampled_from(["ada@example.org", "bob@example.org", "eve@example.net"]), max_size=2),
    "link": st.sampled_from(["www.example.org/x", "https://example.net/y"]),
    "body": st.sampled_from(
        ["", "all is well", "nobody said so", "see www.example.net/y", "nobody said this", "well " * 60]
    ),
    "note": st.sampled_from(["", "all is well", "nobody said this"]),
    "title": st.sampled_from(["all is well", "bob@example.org", "nobody said this"]),
    "file": st.sampled_from([7, 9, 11, "9"]),
}
RULES = st.lists(
    st.builds(
        lambda verdict, conditions: Rule(verdict, tools=("s.*",), arguments=conditions),
        st.sampled_from(["allow", "allow", "allow", "ask", "deny"]),
        st.dictionaries(
            st.sampled_from(["path", "to"]),
            st.sampled_from([Constraint(under=("docs/",)), Constraint(domain=("example.org",)), Constraint()]),
            max_size=2,
        ),
    ),
    max_size=3,
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> PathRoot:
    root: Path = tmp_path_factory.mktemp("root")
    (root / "docs").mkdir()
    return PathRoot(root)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_short_way_says_what_the_long_way_says(paths: PathRoot, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from([*ARGUMENTS[1:2], *ARGUMENTS[4:5], *ARGUMENTS]), max_size=4))
    chosen = list(dict.fromkeys(chosen))
    spec = ToolSpec(
        "s.tool",
        data.draw(st.sampled_from(EFFECTS)),
        tuple(chosen),
        confidentiality=data.draw(st.sampled_from(LEVELS)),
    )
    catalogue = Catalogue()
    for known in (spec, LIST):
        catalogue.add(known)
    provenance = Provenance(data.draw(st.sampled_from([REQUEST, ""])), data.draw(st.sampled_from(LEVELS)))
    if data.draw(st.booleans()):
        provenance.seen(LIST, RESULT, "entry 1")
    rules = [Rule("allow", tools=("s.*",)), *data.draw(RULES)] if data.draw(st.booleans()) else data.draw(RULES)
    decider = Decider(catalogue, paths, Policy(Matrix([Layer(tuple(rules))])))
    arguments = {a.name: data.draw(VALUES[a.name]) for a in chosen if data.draw(st.integers(0, 3))}
    history = History("root", provenance)
    short = decider.decide(Principal("a"), history, "s.tool", arguments)
    assert decider.decide(Principal("a"), history, "s.tool", arguments, plan=EVERYTHING) == short
    assert decider.decide(Principal("a"), history, "s.tool", arguments) == short
