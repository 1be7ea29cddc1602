"""Denials that come from elsewhere than the rules, and how failures are put into words."""

from collections.abc import Mapping
from dataclasses import replace

from overnight.core.errors import OvernightError, UsageError
from overnight.core.escape import visible
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.decision import Decision, Reason


def refusal(agent: str, policy: str, tool: str, arguments: Mapping[str, Json], code: str, sentence: str) -> Decision:
    """A denial that did not get as far as the rules; whatever was proposed is put into a form that can be recorded."""
    given: Mapping[str, Json]
    try:
        given = dict(arguments)
        canonical_json(given)
    except (UsageError, TypeError, ValueError):
        given = {"not_json": visible(repr(arguments), limit=500)}
    name = visible(str(tool), limit=200)
    return Decision("deny", "gate", (Reason(code, sentence),), name, "", agent, given, {}, policy)


def denial(decision: Decision, code: str, sentence: str) -> Decision:
    """`decision` turned into a denial, with the new reason first."""
    return replace(decision, verdict="deny", reasons=(Reason(code, sentence), *decision.reasons))


def failure(problem: BaseException) -> str:
    """An exception in one line that is safe to show."""
    text = problem.message if isinstance(problem, OvernightError) else str(problem)
    return visible(f"{type(problem).__name__}: {text}", limit=1000)
