"""The router: which tier and model a request goes to, from the prompt and from what this machine has to spare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from overnight.models.release import Release, Releases
from overnight.models.routing.settings import RouterSettings
from overnight.models.routing.tiers import TIER_NAMES, Label, Tier
from overnight.models.rules import rules
from overnight.models.rules.rules import Answered, Situation


@dataclass(frozen=True)
class Classification:
    """What a prompt asks for.

    Attributes:
        label: the kind of request; None where it is not clear.
        confidence: calibrated probability of the likeliest label, also where it was not clear enough.
        scores: probability of every label, the likeliest first.
    """

    label: Label | None
    confidence: float
    scores: Sequence[tuple[Label, float]]


class Classifier(Protocol):
    """Tier 1 as a router needs it. Thread-safe; never raises, whatever the prompt."""

    def classify(self, prompt: str) -> Classification:
        """What `prompt` asks for."""


class Offered(Protocol):
    """Says whether a model can be had at this moment."""

    def why_not(self, release: Release) -> str:
        """Why it is not to be offered, as a sentence; "" if it is."""


@dataclass(frozen=True)
class Candidate:
    """What a request could go to.

    Attributes:
        name: of the model's release, or `rules`.
        tier: its tier.
        score: from 0 to 1: the rule's confidence, or how close the tier is to the lowest that will do.
        why_not: why it was passed over; empty for what was chosen, and for what is tried after it.
    """

    name: str
    tier: Tier
    score: float
    why_not: str = ""

    def encoded(self) -> dict[str, Any]:
        """As JSON."""
        return {"name": self.name, "tier": self.tier, "score": round(self.score, 4), "why_not": self.why_not or None}


@dataclass(frozen=True)
class Need:
    """What the caller insists on, whatever the prompt looks like.

    Attributes:
        tier: the lowest tier; 0 leaves it to the router.
        model: the release, instead of a choice.
    """

    tier: int = 0
    model: str = ""


@dataclass(frozen=True)
class Route:
    """A decision.

    Attributes:
        tier: of what was chosen; None where nothing that would do can be had.
        model: the release; "" at tier 0.
        label: what the prompt asks for; None where it is not clear, or was not looked at.
        confidence: of the rule, or of the label.
        reason: why, as a sentence.
        candidates: all that was looked at, the lowest tier first.
        answer: of tier 0.
        ladder: releases to ask, in order, each of a tier at least as high as the one before.
    """

    tier: Tier | None
    model: str
    label: Label | None
    confidence: float
    reason: str
    candidates: tuple[Candidate, ...]
    answer: Answered | None = None
    ladder: tuple[str, ...] = ()

    def encoded(self) -> dict[str, Any]:
        """As `overnight model route --json` prints it."""
        return {
            "tier": self.tier,
            "model": self.model or None,
            "label": self.label,
            "confidence": round(self.confidence, 4),
            "reason": self.reason,
            "answered": self.answer is not None,
            "answer": self.answer.text if self.answer else None,
            "ladder": list(self.ladder),
            "candidates": [item.encoded() for item in self.candidates],
        }


class Router:
    """Decides by configuration, prompt and machine; asks nobody. Thread-safe."""

    def __init__(self, settings: RouterSettings, releases: Releases, classifier: Classifier, offered: Offered) -> None:
        self._settings = settings
        self._releases = releases
        self._classifier = classifier
        self._offered = offered

    def route(self, prompt: str, situation: Situation, need: Need = Need()) -> Route:  # immutable
        """Where `prompt` goes.

        Raises:
            NotFound: `need` names a model that is not configured.
        """
        if need.model:
            return self._named(need.model)
        found = rules.answer(prompt, situation) if need.tier == 0 else None
        candidates = [self._rules(found, need)]
        if found is not None and found.confidence >= self._settings.rules:
            reason = f"rule {found.rule}: {found.reason}"
            return Route(0, "", None, found.confidence, reason, tuple(candidates), found)
        kind = self._classifier.classify(prompt)
        lowest = self._settings.lowest_for(kind.label)
        wanted: Tier = lowest if lowest >= need.tier else 2 if need.tier == 2 else 3
        ranked = self._ranked(kind.label, wanted)
        candidates += ranked
        ladder = tuple(item.name for item in ranked if not item.why_not)
        told = f"it asks for {kind.label} ({kind.confidence:.0%})" if kind.label else "what it asks for is not clear"
        told += f", which starts at tier {wanted} ({TIER_NAMES[wanted]})"
        if wanted > lowest:
            told += ", as was asked for"
        if not ladder:
            return Route(
                None, "", kind.label, kind.confidence, f"{told}, and {_none_of(ranked, wanted)}", tuple(candidates)
            )
        chosen = next(item for item in ranked if not item.why_not)
        if chosen.tier > wanted:
            told += f"; the lowest that can be had is {chosen.tier}"
        return Route(chosen.tier, chosen.name, kind.label, kind.confidence, told, tuple(candidates), ladder=ladder)

    def offers(self) -> list[Candidate]:
        """Every configured model, the lowest tier first, with why it cannot be had at this moment."""
        ordered = sorted(self._releases.all.values(), key=lambda release: _tier(release))
        return [Candidate(item.name, _tier(item), 1.0, self._offered.why_not(item)) for item in ordered]

    def _named(self, name: str) -> Route:
        release = self._releases.get(name)
        candidate = Candidate(name, _tier(release), 1.0)
        return Route(candidate.tier, name, None, 1.0, f"{name} was asked for by name", (candidate,), ladder=(name,))

    def _rules(self, found: Answered | None, need: Need) -> Candidate:
        if need.tier > 0:
            return Candidate("rules", 0, 0.0, f"at least tier {need.tier} was asked for")
        if found is None:
            return Candidate("rules", 0, 0.0, "no rule understands the whole prompt")
        if found.confidence < self._settings.rules:
            return Candidate("rules", 0, found.confidence, f"below {self._settings.rules:g}: {found.reason}")
        return Candidate("rules", 0, found.confidence)

    def _ranked(self, label: Label | None, wanted: Tier) -> list[Candidate]:
        preferred = self._settings.prefer.get(label, "") if label else ""
        # Sorting is stable: within a tier the settings' own order holds.
        ordered = sorted(self._releases.all.values(), key=lambda item: (_tier(item), item.name != preferred))
        candidates = []
        for release in ordered:
            tier = _tier(release)
            if tier < wanted:
                below = f"tier {tier} is below {wanted}"
                candidates.append(Candidate(release.name, tier, 0.0, below))
            else:
                score = 1 / (1 + tier - wanted)
                candidates.append(Candidate(release.name, tier, score, self._offered.why_not(release)))
        return candidates


def _none_of(ranked: Sequence[Candidate], wanted: Tier) -> str:
    """Why nothing of a tier can be had, with what would change that."""
    if not ranked:
        return "no model is configured: add [providers.NAME] and [models.NAME] to overnight.toml"
    high = [item for item in ranked if item.tier >= wanted]
    if not high:
        return "no model of it can be had: all that are configured are of a lower one"
    return f"no model of it can be had ({'; '.join(f'{item.name}: {item.why_not}' for item in high[:3])})"


def _tier(release: Release) -> Tier:
    tier = release.settings.tier
    return 1 if tier == 1 else 2 if tier == 2 else 3
