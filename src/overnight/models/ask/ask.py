"""Answering a prompt at the lowest tier that can: asked upwards along a route's ladder, checked at every step."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from overnight.models.ask.check import Check
from overnight.models.ask.client import ModelFailed, Models, Said, Wanted, Words
from overnight.models.release import Releases
from overnight.models.routing.router import Route
from overnight.models.routing.settings import RouterSettings
from overnight.models.routing.tiers import Tier
from overnight.models.settings import ReleaseSettings
from overnight.models.usage import estimate_tokens
from overnight.trace import names
from overnight.trace.span import Span
from overnight.trace.tracer import Tracer

Open = Callable[[], AbstractContextManager[Models]]
"""Gives the gateway's client; called only where a model is needed."""


@dataclass(frozen=True)
class Attempt:
    """One step on the ladder.

    Attributes:
        model: the release, or `rules`.
        why_not: why its answer was not taken, as a sentence; empty for the one that was.
        seconds: wall clock.
        confidence: of the answer, where it is known.
    """

    model: str
    tier: Tier
    why_not: str
    seconds: float
    confidence: float | None = None

    def encoded(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "model": self.model,
            "tier": self.tier,
            "why_not": self.why_not or None,
            "seconds": round(self.seconds, 4),
            "confidence": None if self.confidence is None else round(self.confidence, 4),
        }


@dataclass(frozen=True)
class Reply:
    """What came of a prompt.

    Attributes:
        text: the answer; untrusted unless `tier` is 0; None where there is none.
        tier: that answered; None where none did.
        model: the release that answered; "" at tier 0.
        reason: why it was this one, or why there is no answer.
        attempts: every step, in order.
        trace_id: of all of it.
        said: by the model.
    """

    text: str | None
    tier: Tier | None
    model: str
    reason: str
    attempts: Sequence[Attempt]
    trace_id: str
    said: Said | None = None


def ask(
    prompt: str,
    route: Route,
    releases: Releases,
    settings: RouterSettings,
    tracer: Tracer,
    open_models: Open,
    check: Check = Check(),  # noqa: B008  # immutable
    system: str = "",
) -> Reply:
    """Answer `prompt` along `route`; everything that was considered, tried and passed over goes to the trace."""
    with tracer.span("ask") as span:
        span.attributes[names.CANDIDATES] = [_told(item.encoded()) for item in route.candidates]
        span.attributes[names.RULE] = route.reason
        attempts: list[Attempt] = []
        reply = _from_rules(route, check, attempts, span)
        if reply is None and route.ladder:
            with open_models() as models:
                reply = _from_models(prompt, route, releases, settings, models, check, system, attempts, span)
        if reply is None:
            reply = Reply(None, None, "", _why_none(route, attempts), attempts, span.place.trace_id)
            span.fail("no_answer", reply.reason)
        elif reply.tier is not None:
            span.attributes |= {names.TIER: reply.tier, names.REASON: reply.reason, names.RELEASE: reply.model or None}
        for attempt in attempts:
            why_not = {"why_not": attempt.why_not} if attempt.why_not else {}
            span.add("attempt", {"model": attempt.model, "tier": attempt.tier, **why_not})
    return reply


def _from_rules(route: Route, check: Check, attempts: list[Attempt], span: Span) -> Reply | None:
    if route.answer is None:
        return None
    objection = check.objection(route.answer.text)
    attempts.append(Attempt("rules", 0, objection, 0.0, route.answer.confidence))
    if objection:
        return None
    return Reply(route.answer.text, 0, "", route.reason, attempts, span.place.trace_id)


def _from_models(
    prompt: str,
    route: Route,
    releases: Releases,
    settings: RouterSettings,
    models: Models,
    check: Check,
    system: str,
    attempts: list[Attempt],
    span: Span,
) -> Reply | None:
    messages = [*([Words("system", system)] if system else []), Words("user", prompt)]
    best: Reply | None = None
    for place, name in enumerate(route.ladder):
        release = releases.get(name)
        tier: Tier = 1 if release.settings.tier == 1 else 2 if release.settings.tier == 2 else 3
        started = time.monotonic()
        if too_small := _too_small(messages, release.settings):
            attempts.append(Attempt(name, tier, too_small, 0.0))
            continue
        # Only servers of one's own report probabilities reliably; some providers refuse to be asked for them.
        sure = tier < 3 and settings.tokens > 0
        wanted = Wanted(name, messages, schema=check.schema, sure=sure, parent=span.place)
        try:
            said = models.complete(wanted)
        except ModelFailed as problem:
            attempts.append(Attempt(name, tier, problem.message, time.monotonic() - started))
            continue
        objection = check.objection(said.text) or _cut_short(said)
        reason = route.reason if not attempts else f"{attempts[-1].model} would not do: {attempts[-1].why_not}"
        if not objection and said.confidence is not None and said.confidence < settings.tokens:
            unsure = (
                f"it was not sure of its words ({said.confidence:.0%}, at least {settings.tokens:.0%} are asked for)"
            )
            attempts.append(Attempt(name, tier, unsure, time.monotonic() - started, said.confidence))
            if place + 1 == len(route.ladder):
                reason = f"{unsure}, and nothing above it can be asked"
            best = Reply(said.text, tier, said.release or name, reason, attempts, span.place.trace_id, said)
            continue
        attempts.append(Attempt(name, tier, objection, time.monotonic() - started, said.confidence))
        if not objection:
            return Reply(said.text, tier, said.release or name, reason, attempts, span.place.trace_id, said)
    # Above an unsure answer nothing better was had: it is what there is, and says so.
    return best


def _too_small(messages: Sequence[Words], settings: ReleaseSettings) -> str:
    """Why a prompt is not to be put to a model: its server would cut it, and answer all the same."""
    needed = sum(estimate_tokens(item.text) for item in messages) + settings.max_tokens
    if not settings.context or needed <= settings.context:
        return ""
    return f"prompt and answer may take {needed} tokens, it takes {settings.context}"


def _cut_short(said: Said) -> str:
    if said.finish == "length":
        return "the answer was cut at its longest"
    return said.warning


def _why_none(route: Route, attempts: Sequence[Attempt]) -> str:
    if not attempts:
        return route.reason
    return "; ".join(f"{attempt.model}: {attempt.why_not}" for attempt in attempts)


def _told(candidate: dict[str, Any]) -> str:
    return f"{candidate['name']} (tier {candidate['tier']}, {candidate['score']}): {candidate['why_not'] or 'would do'}"
