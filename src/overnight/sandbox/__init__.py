"""Isolation of processes: `open_sandbox` gives the best this machine has, `probe` says what that is and why.

Nothing is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overnight.sandbox.command import Command, Finished, Killed, Limits, Mount, Sandbox, SandboxName
    from overnight.sandbox.doctor import Check, Report, probe
    from overnight.sandbox.opening import open_sandbox

_HOMES = {
    **dict.fromkeys(("Command", "Finished", "Killed", "Limits", "Mount", "Sandbox", "SandboxName"), "command"),
    **dict.fromkeys(("Check", "Report", "probe"), "doctor"),
    "open_sandbox": "opening",
}

__all__ = [
    "Check",
    "Command",
    "Finished",
    "Killed",
    "Limits",
    "Mount",
    "Report",
    "Sandbox",
    "SandboxName",
    "open_sandbox",
    "probe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
