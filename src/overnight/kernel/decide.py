"""The decision itself: pure, without side effects, from what is known about a call to one `Decision`.

The order is: name and arguments, matrix, labels, confidentiality, combinations, plan. Each step can only make the
verdict stricter (deny > ask > allow); the strictest decides, and every objection is among the reasons. Anything that
goes wrong on the way is a denial.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from overnight.core.errors import UsageError
from overnight.core.escape import visible
from overnight.kernel.canonical import Json, content_hash
from overnight.kernel.decision import Decision, Reason, Verdict
from overnight.kernel.flow.label import Label, Origin, highest
from overnight.kernel.flow.objections import aimed, named, objections, strays
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.ledger.burst import Bursts
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.masking.hiding import HidingPolicy
from overnight.kernel.masking.veil import Lifted, Veil
from overnight.kernel.paths import PathRoot
from overnight.kernel.rollback.compensation import UndoRule
from overnight.kernel.rules.combination import START, Combination, State, fresh, stops
from overnight.kernel.rules.matrix import Matrix, Ruling
from overnight.kernel.rules.plan import Plan
from overnight.kernel.rules.settings import AskIrreversible
from overnight.kernel.session import Principal
from overnight.kernel.tool.arguments import BadArguments, resolved
from overnight.kernel.tool.catalogue import Catalogue, UnknownTool
from overnight.kernel.tool.spec import ToolSpec

_NOTHING: frozenset[str] = frozenset()
_SEVERITY: dict[Verdict, int] = {"allow": 0, "narrow": 1, "ask": 2, "deny": 3}


@dataclass(frozen=True)
class Policy:
    """All rules in force. A change makes a new object with a new hash.

    Attributes:
        matrix: who may do what.
        combinations: rules over history.
        plan_words: words of a request by which the built-in planner plans a tool; empty plans nothing.
        tools: tools that the rules' files declare.
        destructive_quorum: destructive calls that ask need two different approvers.
        hiding: what models and records do not see of results and arguments.
        bursts: what the breaker takes for machine speed.
        limits: of calls, bytes, tokens and money, besides those of the program.
        ask_irreversible: which calls that no rollback can undo always ask first: those that destroy, or all that have
            an effect.
        undo: how calls of tools are made up for, by tool.
    """

    matrix: Matrix
    combinations: tuple[Combination, ...] = ()
    plan_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tools: tuple[ToolSpec, ...] = ()
    destructive_quorum: bool = False
    hiding: HidingPolicy = field(default_factory=HidingPolicy)
    bursts: Bursts = field(default_factory=Bursts)
    limits: tuple[Limit, ...] = ()
    undo: Mapping[str, UndoRule] = field(default_factory=dict)
    ask_irreversible: AskIrreversible = "destructive"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything that decides."""
        words: Json = {tool: list(listed) for tool, listed in self.plan_words.items()}
        return content_hash(
            [
                self.matrix.hash,
                [repr(rule) for rule in self.combinations],
                words,
                sorted([spec.id, spec.version] for spec in self.tools),
                self.destructive_quorum,
                self.ask_irreversible,
                repr(self.hiding),
                repr(self.bursts),
                repr(self.limits),
                repr(self.undo),
            ]
        )


@dataclass(slots=True)
class History:
    """What a decision may know about the past of a session: kept by `Sessions`, one per session tree.

    Attributes:
        root: id of the outermost session.
        provenance: where values came from.
        states: of the combinations, by their key.
        veil: un-masks what models propose; None takes placeholders for text.
    """

    root: str
    provenance: Provenance
    states: dict[str, State] = field(default_factory=dict)
    veil: Veil | None = None


class Decider:
    """Decides calls. Thread-safe as long as one history is not used by two threads at a time."""

    def __init__(self, catalogue: Catalogue, paths: PathRoot, policy: Policy) -> None:
        self.catalogue = catalogue
        self.paths = paths
        self.policy = policy
        self._sending: dict[tuple[tuple[str, ...] | None, int], bool] = {}

    def decide(
        self,
        principal: Principal,
        history: History,
        tool: str,
        arguments: Mapping[str, Json],
        *,
        plan: Plan | None = None,
        simulate: Mapping[str, Label] | None = None,
    ) -> Decision:
        """Decide one call, without executing or recording anything.

        Args:
            principal: who asks, from the verified grant.
            history: of its session tree.
            tool: name as proposed.
            arguments: as proposed.
            plan: calls outside it are `ask`.
            simulate: labels to assume instead of tracing; for `gate check`, never for a call that runs.
        """
        spec: ToolSpec | None = None
        try:
            spec = self.catalogue.resolve(tool)
            # A copy: it is looked at more than once, and whoever proposed the call may change it meanwhile.
            return self._decide(principal, history, spec, dict(arguments), plan, simulate)
        except UnknownTool as problem:
            return self._refusal(principal, tool, spec, arguments, problem.code, _sentence(problem))
        except UsageError as problem:
            return self._refusal(principal, tool, spec, arguments, "bad_arguments", _sentence(problem))
        except Exception as problem:
            # Fail closed, whatever it was; the type is named, its text may be an attacker's.
            sentence = f"the decision failed ({type(problem).__name__}), so the call is refused"
            return self._refusal(principal, tool, spec, arguments, "decision_failed", sentence)

    def _decide(
        self,
        principal: Principal,
        history: History,
        spec: ToolSpec,
        arguments: Mapping[str, Json],
        plan: Plan | None,
        simulate: Mapping[str, Label] | None,
    ) -> Decision:
        lifted = None if history.veil is None else history.veil.lift(spec, arguments, history.provenance)
        if lifted is not None:
            arguments = lifted.arguments
        final = resolved(spec, arguments, self.paths)
        respelled = _respelled(spec, final, history.provenance) if spec.destinations else None
        if respelled is not None:
            final = final | respelled
        if spec.egress_with or spec.objects:
            spec = aimed(spec, final, history.provenance)
        origins = self._origins(spec, history.provenance, arguments, final)
        if simulate:
            for name, label in simulate.items():
                if name not in origins:
                    raise BadArguments(f"there is no argument {visible(name)!r} to label", hint="give it in --args")
                origins[name] = Origin(label, origins[name].confidentiality, "simulated")
        if lifted is not None:
            _raise_levels(origins, lifted)
        suspect = self._suspect(spec, history.provenance, final, origins, simulate or {})
        ruling = self.policy.matrix.rule(principal, spec, final, origins, frozenset(suspect) if suspect else _NOTHING)
        agent, policy = principal.agent, self.policy.hash
        if ruling.verdict == "deny":
            reasons = _ruled(ruling.verdict, ruling.rule, ruling.why, agent, spec.id)
            return Decision("deny", ruling.rule, reasons, spec.id, spec.version, agent, final, origins, policy)
        bounded = not suspect or ruling.bounded.issuperset(suspect)
        unbounded = () if bounded else [name for name in suspect if name not in ruling.bounded]
        simple = ruling.verdict == "allow" and not unbounded and not ruling.narrow and lifted is None
        if simple and respelled is None and self._plain(history, spec, plan, final, origins, ruling):
            reasons = _allowed(ruling.rule, ruling.why)
            return Decision("allow", ruling.rule, reasons, spec.id, spec.version, agent, final, origins, policy)
        found: list[tuple[Verdict, str, Reason]] = []
        if ruling.verdict != "allow":
            reason = _ruled(ruling.verdict, ruling.rule, ruling.why, agent, spec.id)[0]
            found.append((ruling.verdict, ruling.rule, reason))
        found += [("ask", ruling.rule, _suspicion(spec, name, suspect[name], origins)) for name in unbounded]
        if lifted is not None:
            found += [("ask", ruling.rule, _stranger(spec, name)) for name in sorted(lifted.strangers)]
        may_send = strays(spec, history.provenance) and self._may_send(plan)
        found += [
            (objection, ruling.rule, reason)
            for objection, reason in objections(spec, final, origins, ruling, history.provenance, may_send=may_send)
        ]
        if self.policy.combinations:
            found += self._combinations(principal, history, spec, final, origins)
        if self._must_ask(spec):
            sentence = f"what {spec.id} {'deletes' if spec.effect == 'destructive' else 'does'} cannot be undone"
            found.append(("ask", ruling.rule, Reason("irreversible", sentence)))
        if plan is not None and not plan.covers(spec):
            sentence = f"{spec.id} is not in the plan that was made from the request alone"
            found.append(("ask", "plan", Reason("outside_plan", sentence)))
        verdict: Verdict = "allow"
        rule = ruling.rule
        if found:
            found.sort(key=lambda item: -_SEVERITY[item[0]])
            verdict, rule = found[0][0], found[0][1]
        said_why = [item[2] for item in found]
        if ruling.narrow and verdict != "deny":
            narrowed, said = _narrowed(spec, final, ruling.narrow)
            if said:
                final = narrowed
                verdict = "narrow" if verdict == "allow" else verdict
                said_why.append(Reason("narrowed", said))
        if respelled is not None and verdict != "deny":
            verdict = "narrow" if verdict == "allow" else verdict
            said = f"{' and '.join(respelled)} of {spec.id} spelled as you or the system did, not as the agent did"
            said_why.append(Reason("respelled", said))
        reasons = tuple(said_why) or _allowed(ruling.rule, ruling.why)
        return Decision(verdict, rule, reasons, spec.id, spec.version, agent, final, origins, policy)

    def _plain(
        self,
        history: History,
        spec: ToolSpec,
        plan: Plan | None,
        final: Mapping[str, Json],
        origins: Mapping[str, Origin],
        ruling: Ruling,
    ) -> bool:
        """Whether nothing but the matrix and the origins can object: the common case, which pays for nothing more."""
        provenance = history.provenance
        return (
            plan is None
            and provenance.peak == "public"
            and not self.policy.combinations
            and (spec.effect == "read" or not self._must_ask(spec))
            and not spec.guarded
            and (spec.level == "public" or not strays(spec, provenance))
            and (
                spec.effect not in ("egress", "commit")
                or not provenance.told
                or not spec.messages
                or named(spec, final, origins, ruling)
            )
        )

    def _must_ask(self, spec: ToolSpec) -> bool:
        """Whether a call always asks first because nothing can undo it."""
        if spec.reversible or spec.effect == "read":
            return False
        return spec.effect == "destructive" or self.policy.ask_irreversible == "all"

    def _may_send(self, plan: Plan | None) -> bool:
        """Whether the rules, and the plan if there is one, let prose that is confidential out at all."""
        key = (None if plan is None else plan.tools, len(self.catalogue))
        known = self._sending.get(key)
        if known is None:
            planned = (spec for spec in self.catalogue.specs if plan is None or plan.covers(spec))
            known = self._sending[key] = any(self.policy.matrix.may_send(spec) for spec in planned)
        return known

    def _origins(
        self, spec: ToolSpec, provenance: Provenance, given: Mapping[str, Json], final: Mapping[str, Json]
    ) -> dict[str, Origin]:
        origins = {}
        known, trace = spec.by_name, provenance.trace
        for name, value in final.items():
            argument = known[name]
            origin = trace(argument, value)
            if origin.label == "untrusted" and argument.kind == "path" and given[name] != value:
                origin = trace(argument, given[name])
            origins[name] = origin
        return origins

    def _suspect(
        self,
        spec: ToolSpec,
        provenance: Provenance,
        final: Mapping[str, Json],
        origins: Mapping[str, Origin],
        simulate: Mapping[str, Label],
    ) -> dict[str, str]:
        """Critical arguments of the wrong origin, and in a message the link that nobody vouches for."""
        found = {}
        for argument, taken in spec.critical:
            name = argument.name
            if name not in final or origins[name].label in taken:
                continue
            if argument.kind == "message" and name not in simulate:
                link = provenance.strange_link(final[name])
                if link is not None:
                    found[name] = link
                continue
            found[name] = ""
        return found

    def _combinations(
        self,
        principal: Principal,
        history: History,
        spec: ToolSpec,
        arguments: Mapping[str, Json],
        origins: Mapping[str, Origin],
    ) -> list[tuple[Verdict, str, Reason]]:
        now_s = time.time()
        return [
            (
                rule.decision,
                rule.where,
                Reason("fragments" if rule.twin else "combination", f"{rule.name}: {spec.id} would complete it"),
            )
            for rule in self.policy.combinations
            if stops(
                rule,
                fresh(rule, history.states.get(rule.key(principal, history.root), START), now_s),
                spec,
                arguments,
                origins,
            )
        ]

    def _refusal(
        self,
        principal: Principal,
        tool: str,
        spec: ToolSpec | None,
        arguments: Mapping[str, Json],
        code: str,
        sentence: str,
    ) -> Decision:
        name, version = (spec.id, spec.version) if spec else (tool, "")
        reasons = (Reason(code, sentence),)
        return Decision(
            "deny", "default", reasons, name, version, principal.agent, dict(arguments), {}, self.policy.hash
        )


def _respelled(spec: ToolSpec, arguments: Mapping[str, Json], provenance: Provenance) -> dict[str, Json] | None:
    """The destinations that are not spelled as whoever vouches for them does, as they are; None if all are."""
    found: dict[str, Json] | None = None
    for argument in spec.destinations:
        value = arguments.get(argument.name)
        if value is None:
            continue
        vouched = provenance.spelling(argument, value)
        if vouched != (list(value) if isinstance(value, tuple) else value):
            found = {} if found is None else found
            found[argument.name] = vouched
    return found


@lru_cache(maxsize=1024)
def _allowed(rule: str, why: str) -> tuple[Reason, ...]:
    return (Reason("allowed", why or f"the rule at {rule} allows it"),)


def _raise_levels(origins: dict[str, Origin], lifted: Lifted) -> None:
    """An argument that held placeholders carries at least what they stand for."""
    for name, level in lifted.levels.items():
        if name in origins:
            origin = origins[name]
            source = f"{origin.source}; masked {lifted.kinds[name]}"
            origins[name] = Origin(origin.label, highest(origin.confidentiality, level), source)


def _stranger(spec: ToolSpec, name: str) -> Reason:
    sentence = f"{name} of {spec.id} holds a placeholder that was not made in this session, and stays as it is"
    return Reason("masked_elsewhere", sentence)


def _suspicion(spec: ToolSpec, name: str, link: str, origins: Mapping[str, Origin]) -> Reason:
    if link:
        sentence = f"{name} of {spec.id} links to {visible(link, limit=100)}, which nobody vouches for"
        return Reason("untrusted_link", sentence)
    wanted = "you typed" if spec.by_name[name].needs == "user" else "you typed or the system asserts"
    origin = origins[name]
    sentence = f"{name} of {spec.id} needs a value that {wanted}; this one is {origin.label} ({origin.source})"
    return Reason("untrusted_argument", sentence)


@lru_cache(maxsize=1024)
def _ruled(verdict: Verdict, rule: str, why: str, agent: str, tool: str) -> tuple[Reason, ...]:
    if rule == "default":
        return (Reason("no_rule", f"no rule lets {agent} call {tool} with these arguments"),)
    code = "rule_ask" if verdict == "ask" else "rule_deny"
    return (Reason(code, why or f"the rule at {rule} says {verdict}"),)


def _narrowed(spec: ToolSpec, arguments: Mapping[str, Json], limits: Mapping[str, Json]) -> tuple[dict[str, Json], str]:
    """Arguments cut to the limits, and a sentence on what was cut; empty if nothing was."""
    done = dict(arguments)
    said = []
    for name, limit in limits.items():
        if name not in spec.by_name:
            continue
        value = done.get(name)
        smaller = _smaller(value, limit)
        if smaller != value or name not in done:
            done[name] = smaller
            said.append(f"{name} is {smaller!r}" + (f" instead of {value!r}" if name in arguments else ""))
    return done, "; ".join(said)


def _smaller(value: Json, limit: Json) -> Json:
    numbers = (int, float)
    if isinstance(limit, numbers) and isinstance(value, numbers) and not isinstance(limit, bool):
        return min(value, limit)
    if isinstance(limit, Sequence) and isinstance(value, Sequence) and not isinstance(limit, str):
        return [item for item in value if item in limit] if not isinstance(value, str) else limit
    return limit


def _sentence(problem: UsageError) -> str:
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message
