import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Label, Origin
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Layer, Matrix, Role, Rule
from overnight.kernel.session import Principal
from overnight.kernel.tool.spec import Argument, ToolSpec

READ = ToolSpec("files.read", "read", (Argument("path", kind="path", required=False),))
WRITE = ToolSpec("files.write", "write", (Argument("path", kind="path"),))
DOCS = {"path": Constraint(under=("docs/",))}


def verdict(
    layers: list[Layer], agent: str = "a", spec: ToolSpec = READ, tenant: str = "default", **arguments: Json
) -> str:
    given: Mapping[str, Json] = arguments or {"path": "docs/x"}
    return Matrix(layers).rule(Principal(agent, tenant), spec, given, {}).verdict


def layer(*rules: Rule, **more: str) -> Layer:
    return Layer(rules, **more)  # type: ignore[arg-type]


ALLOW = Rule("allow", tools=("files.*",))


def test_what_nothing_allows_is_denied() -> None:
    assert verdict([]) == "deny"
    assert verdict([layer(Rule("allow", agents=("b",), tools=("*",)))]) == "deny"


def test_deny_goes_before_ask_goes_before_allow_whatever_the_order() -> None:
    ask, deny = Rule("ask", tools=("files.read",)), Rule("deny", tools=("files.*",), arguments=DOCS)
    for rules in ((ALLOW, ask, deny), (deny, ask, ALLOW), (ask, ALLOW, deny)):
        assert verdict([layer(*rules)]) == "deny"
        assert verdict([layer(*rules)], path="src/x") == "ask"


def test_a_restriction_is_not_skipped_because_there_is_nothing_to_read() -> None:
    rules = layer(ALLOW, Rule("deny", tools=("files.read",), arguments={"path": Constraint(under=("secrets/",))}))
    matrix = Matrix([rules])
    assert matrix.rule(Principal("a"), READ, {}, {}).verdict == "deny"
    assert matrix.rule(Principal("a"), READ, {"path": 7}, {}).verdict == "deny"
    assert matrix.rule(Principal("a"), READ, {"path": "docs/x"}, {}).verdict == "allow"


def test_an_allowance_is_not_given_when_there_is_nothing_to_read() -> None:
    assert (
        Matrix([layer(Rule("allow", tools=("*",), arguments=DOCS))]).rule(Principal("a"), READ, {}, {}).verdict
        == "deny"
    )


def test_inner_layers_only_narrow() -> None:
    root = layer(Rule("allow", tools=("files.read",), arguments=DOCS))
    wide = layer(Rule("allow", tools=("*",)), folder="docs")
    narrow = layer(
        Rule("allow", tools=("files.read",), arguments={"path": Constraint(under=("docs/public",))}), folder="docs"
    )
    assert verdict([root, wide], path="docs/x") == "allow"
    assert verdict([root, wide], spec=WRITE, path="docs/x") == "deny"
    assert verdict([root, narrow], path="docs/x") == "deny"
    assert verdict([root, narrow], path="docs/public/x") == "allow"
    assert verdict([layer(ALLOW), layer(Rule("deny", tools=("*",)), folder="src")], path="docs/x") == "allow"
    assert verdict([layer(ALLOW), layer(Rule("deny", tools=("*",)), folder="src")], path="src/x") == "deny"


def test_deleting_a_folder_is_deleting_what_is_below_it() -> None:
    delete = ToolSpec("files.delete", "destructive", (Argument("path", kind="path"),), reversible=True)
    allow = Rule("allow", tools=("*",), arguments={"path": Constraint(under=("docs",), not_under=("docs/keep/x",))})
    deny = Rule("deny", tools=("*",), arguments={"path": Constraint(under=("docs/law",))})
    assert verdict([layer(allow)], spec=delete, path="docs/old") == "allow"
    for path in ("docs", "docs/keep", "docs/keep/x/y"):
        assert verdict([layer(allow)], spec=delete, path=path) == "deny"
    assert verdict([layer(allow)], spec=READ, path="docs/keep") == "allow"
    assert verdict([layer(ALLOW, deny)], spec=delete, path="docs") == "deny"
    assert verdict([layer(ALLOW, deny)], spec=delete, path=".") == "deny"
    assert verdict([layer(ALLOW, deny)], spec=delete, path="src") == "allow"
    nested = layer(Rule("deny", tools=("*",)), folder="docs/law")
    assert verdict([layer(ALLOW), nested], spec=delete, path="docs") == "deny"
    assert verdict([layer(ALLOW), nested], spec=READ, path="docs") == "allow"


def test_an_agents_own_file_narrows_it_and_its_sub_agents() -> None:
    layers = [layer(Rule("allow", agents=("*",), tools=("*",))), layer(Rule("ask", tools=("files.*",)), agent="a")]
    assert verdict(layers, "a") == "ask"
    assert verdict(layers, "a/b") == "ask"
    assert verdict(layers, "c") == "allow"


def test_sub_agents_inherit_denials_and_need_their_own_allowance() -> None:
    rules = layer(
        Rule("allow", agents=("a", "a/*"), tools=("files.*",)), Rule("deny", agents=("a",), tools=("files.write",))
    )
    assert verdict([rules], "a/b", WRITE) == "deny"
    assert verdict([rules], "a/b", READ) == "allow"
    assert verdict([layer(Rule("allow", agents=("a",), tools=("*",)))], "a/b") == "deny"
    assert verdict([layer(Rule("allow", agents=("a/*",), tools=("*",)))], "a/b") == "deny"


def test_roles_give_rights_per_family_and_tenant() -> None:
    role = Role("reader", ("a", "a/*"), ("acme",), {"files": ("read",)})
    layers = [Layer((), (role,))]
    assert verdict(layers, "a", READ, "acme") == "allow"
    assert verdict(layers, "a", WRITE, "acme") == "deny"
    assert verdict(layers, "a", READ, "other") == "deny"
    asks = Layer((Rule("ask", roles=("reader",), tools=("files.read",)),), (role,))
    assert verdict([asks], "a", READ, "acme") == "ask"


def test_of_several_allowances_the_one_that_bounds_is_taken() -> None:
    rules = layer(ALLOW, Rule("allow", tools=("files.read",), arguments=DOCS, where="bound"))
    found = Matrix([rules]).rule(Principal("a"), READ, {"path": "docs/x"}, {}, frozenset({"path"}))
    assert found.rule == "bound"
    assert found.bounded == {"path"}


def test_the_smallest_scope_wins() -> None:
    rules = layer(
        Rule("allow", tools=("*",), narrow={"limit": 100}), Rule("allow", tools=("files.*",), narrow={"limit": 10})
    )
    assert Matrix([rules]).rule(Principal("a"), READ, {"path": "x"}, {}).narrow == {"limit": 10}


def test_the_hash_is_of_what_decides() -> None:
    base = Matrix([layer(ALLOW)]).hash
    assert Matrix([layer(Rule("allow", tools=("files.*",), where="elsewhere"))]).hash == base
    assert Matrix([layer(Rule("ask", tools=("files.*",)))]).hash != base
    assert Matrix([layer(Rule("allow", tools=("files.*",), arguments=DOCS))]).hash != base


RULES = st.builds(
    Rule,
    decision=st.sampled_from(["allow", "ask", "deny"]),
    agents=st.sampled_from([("*",), ("a",), ("a/*",), ("a", "a/*"), ("a/b",)]),
    tools=st.sampled_from([("*",), ("files.*",), ("files.read",), ("files.write",)]),
    arguments=st.sampled_from([{}, DOCS, {"path": Constraint(under=("docs/a", "src"), not_under=(".env",))}]),
)
PATHS = st.sampled_from(["docs/x", "docs/a/.env", "src/y", "etc", ".env"])
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


@settings(max_examples=150, deadline=None)
@given(st.lists(RULES, max_size=6), st.lists(RULES, max_size=4), PATHS, st.sampled_from([READ, WRITE]), st.randoms())
def test_order_never_matters_and_more_layers_and_sub_agents_never_widen(
    outer: list[Rule], inner: list[Rule], path: str, spec: ToolSpec, random: object
) -> None:
    shuffled = list(outer)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    alone = verdict([layer(*outer)], spec=spec, path=path)
    assert verdict([layer(*shuffled)], spec=spec, path=path) == alone
    assert STRICTNESS[verdict([layer(*outer), layer(*inner)], spec=spec, path=path)] >= STRICTNESS[alone]
    assert STRICTNESS[verdict([layer(*outer)], "a/b", spec, path=path)] >= STRICTNESS[alone]


SEND = ToolSpec(
    "mail.send",
    "egress",
    (
        Argument("path", kind="path", required=False),
        Argument("to", kind="recipient", type="any", required=False),
    ),
)
CONDITIONS = st.dictionaries(
    st.sampled_from(["path", "path", "to"]),
    st.sampled_from(
        [
            Constraint(under=("docs/",)),
            Constraint(not_under=("docs/private", ".env")),
            Constraint(one_of=(1, "docs/a", "x@example.org")),
            Constraint(not_one_of=(True, "docs/b")),
            Constraint(domain=("example.org",)),
            Constraint(max=3),
            Constraint(label="system"),
            Constraint(carries="private"),
        ]
    ),
    max_size=2,
)
SENDING = st.builds(
    lambda verdict, conditions: Rule(verdict, tools=("mail.send",), arguments=conditions),
    st.sampled_from(["allow", "allow", "deny"]),
    CONDITIONS,
)
VALUES: list[Json] = [1, True, 1.0, "1", "docs/a", "docs/b", "x@example.org", "d" * 300, ["docs/a"], ["docs/a", 1]]
SUSPECTS = [frozenset[str](), frozenset({"path"}), frozenset({"to"}), frozenset({"path", "to"})]
LABELS: list[Label] = ["user", "system", "untrusted"]


@settings(max_examples=50, deadline=None)
@given(st.lists(SENDING, min_size=1, max_size=4), st.sampled_from(VALUES), st.randoms())
def test_what_was_ruled_before_never_changes_what_is_ruled(rules: list[Rule], to: Json, chosen: random.Random) -> None:
    calls = [(value, label, suspect) for value in VALUES for label in LABELS for suspect in SUSPECTS]
    chosen.shuffle(calls)
    used = Matrix([layer(*rules)])
    for value, label, suspect in calls:
        arguments = {"path": value, "to": to}
        origins = {name: Origin(label, "public", "here") for name in arguments}
        ruled = used.rule(Principal("a"), SEND, arguments, origins, suspect)
        assert ruled == Matrix([layer(*rules)]).rule(Principal("a"), SEND, arguments, origins, suspect)
