"""Floor 2: the gate. Every action of an agent is decided in code before it happens, and journaled.

    from overnight.kernel import Gate
    outcome = gate.call(session, tool, arguments, reason="…")

The names below are loaded when they are first used, so that importing one module of the kernel costs only that one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overnight.kernel.decide import Policy
    from overnight.kernel.decision import Decision, Outcome, Reason
    from overnight.kernel.gate import Gate
    from overnight.kernel.opening import open_gate
    from overnight.kernel.parts import Parts, open_parts
    from overnight.kernel.rules.matrix import Layer, Matrix, Role, Rule
    from overnight.kernel.session import Principal, Session
    from overnight.kernel.tool.code import ToolCode
    from overnight.kernel.tool.spec import Argument, ResultField, ToolSpec

_HOMES = {
    "Argument": "tool.spec",
    "Decision": "decision",
    "Gate": "gate",
    "Layer": "rules.matrix",
    "Matrix": "rules.matrix",
    "Outcome": "decision",
    "Parts": "parts",
    "Policy": "decide",
    "Principal": "session",
    "Reason": "decision",
    "ResultField": "tool.spec",
    "Role": "rules.matrix",
    "Rule": "rules.matrix",
    "Session": "session",
    "ToolCode": "tool.code",
    "ToolSpec": "tool.spec",
    "open_gate": "opening",
    "open_parts": "parts",
}

__all__ = [
    "Argument",
    "Decision",
    "Gate",
    "Layer",
    "Matrix",
    "Outcome",
    "Parts",
    "Policy",
    "Principal",
    "Reason",
    "ResultField",
    "Role",
    "Rule",
    "Session",
    "ToolCode",
    "ToolSpec",
    "open_gate",
    "open_parts",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"overnight.kernel.{_HOMES[name]}"), name)
