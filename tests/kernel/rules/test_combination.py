from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from overnight.kernel.canonical import Json
from overnight.kernel.rules.combination import START, Combination, Count, State, Step, advanced, fresh, stops
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.session import Principal
from overnight.kernel.tool.spec import Argument, ToolSpec

WEB = ToolSpec("web.read", "read", content=frozenset({"web"}))
CRM = ToolSpec("crm.read", "read", content=frozenset({"crm"}))
SEND = ToolSpec("mail.send", "egress", (Argument("to", kind="recipient", required=False),))
WRITE = ToolSpec("files.write", "write")
ALL = (WEB, CRM, SEND, WRITE)


def play(rule: Combination, calls: Sequence[ToolSpec], state: State = START, at_s: float = 1.0) -> State:
    for spec in calls:
        state = advanced(rule, state, spec, {}, {}, at_s)
    return state


def stopped(rule: Combination, state: State, spec: ToolSpec, **arguments: Json) -> bool:
    return stops(rule, state, spec, arguments, {})


WEB_THEN_EGRESS = Combination("n", Step(effects=("egress",)), (Step(content=("web",)),))


def test_after_the_web_nothing_leaves() -> None:
    assert not stopped(WEB_THEN_EGRESS, START, SEND)
    assert not stopped(WEB_THEN_EGRESS, play(WEB_THEN_EGRESS, [CRM, WRITE]), SEND)
    assert stopped(WEB_THEN_EGRESS, play(WEB_THEN_EGRESS, [CRM, WEB, WRITE]), SEND)
    assert not stopped(WEB_THEN_EGRESS, play(WEB_THEN_EGRESS, [WEB]), WRITE)


def test_steps_count_in_their_order() -> None:
    rule = Combination("n", Step(effects=("egress",)), (Step(content=("crm",)), Step(content=("web",))))
    assert not stopped(rule, play(rule, [WEB, CRM]), SEND)
    assert stopped(rule, play(rule, [CRM, WRITE, WEB]), SEND)


def test_a_condition_that_cannot_be_read_counts_as_met() -> None:
    outside = Step(tools=("mail.send",), arguments={"to": Constraint(not_domain=("acme.example",))})
    rule = Combination("n", outside, (Step(content=("crm",)),))
    state = play(rule, [CRM])
    assert stopped(rule, state, SEND, to="x@other.example")
    assert not stopped(rule, state, SEND, to="x@acme.example")
    assert stopped(rule, state, SEND)
    assert stopped(rule, state, SEND, to=["x@acme.example", "y@other.example"])


def test_too_many_over_several_systems() -> None:
    rule = Combination("n", Step(effects=("write", "egress")), count=Count(Step(effects=("write", "egress")), 2, 2))
    assert not stopped(rule, play(rule, [WRITE, WRITE, WRITE]), WRITE)
    assert stopped(rule, play(rule, [WRITE, WRITE]), SEND)
    assert not stopped(rule, play(rule, [WRITE, WEB]), SEND)


def test_it_forgets_after_its_time_and_not_when_the_clock_goes_back() -> None:
    rule = Combination("n", Step(effects=("egress",)), (Step(content=("web",)),), within_s=60)
    state = play(rule, [WEB], at_s=1000.0)
    assert fresh(rule, state, 1059.0).step == 1
    assert fresh(rule, state, 1061.0) == START
    assert fresh(rule, state, 5.0).step == 1
    assert fresh(Combination("n", rule.then, rule.after, within_s=0), state, 1e12).step == 1


def test_the_scope_says_whose_history_counts() -> None:
    agent, session, tenant = (
        Combination("n", Step(), scope=scope).key(Principal("a/b", "t"), "root")
        for scope in ("agent", "session", "tenant")
    )
    assert Combination("n", Step()).key(Principal("a", "t"), "other") == agent
    assert Combination("n", Step()).key(Principal("b", "t"), "other") != agent
    assert Combination("n", Step(), scope="session").key(Principal("x"), "root") == session
    assert Combination("n", Step(), scope="tenant").key(Principal("c", "t"), "other") == tenant


@given(st.lists(st.sampled_from(ALL), max_size=12), st.lists(st.sampled_from(ALL), max_size=4))
def test_more_history_never_lifts_a_stop(calls: list[ToolSpec], more: list[ToolSpec]) -> None:
    rules: list[Combination] = [
        WEB_THEN_EGRESS,
        Combination("n", Step(effects=("write",)), (Step(content=("crm",)), Step(effects=("egress",)))),
        Combination("n", Step(effects=("write",)), count=Count(Step(effects=("write",)), 1)),
    ]
    arguments: Mapping[str, Json] = {}
    for rule in rules:
        state = play(rule, calls)
        for spec in ALL:
            if stops(rule, state, spec, arguments, {}):
                assert stops(rule, play(rule, more, state), spec, arguments, {})
