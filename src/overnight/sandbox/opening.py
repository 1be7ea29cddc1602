"""Which sandbox this machine can have, and opening it."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from overnight.core.errors import IsolationMissing, UsageError
from overnight.sandbox.bare import Bare, sweep_tmp
from overnight.sandbox.bwrap import INSTALL_HINT, Bwrap
from overnight.sandbox.cgroup import Hierarchy, find_hierarchy, sweep
from overnight.sandbox.command import Command, Limits, Sandbox
from overnight.sandbox.landlock import Landlock
from overnight.sandbox.watch import ensure_warden

SandboxChoice = Literal["auto", "bwrap", "landlock", "none"]

_KINDS: dict[str, Callable[[Hierarchy | None], Sandbox]] = {"bwrap": Bwrap, "landlock": Landlock, "none": Bare}


def open_sandbox(name: SandboxChoice = "auto") -> Sandbox:
    """The sandbox called `name`; `auto` is bwrap, else landlock, and never none.

    What is returned has run a command already. What commands of a killed harness left behind is ended and removed.

    Raises:
        IsolationMissing: this machine cannot have it; the hint is the command that changes that.
        UsageError: there is no sandbox of that name.
    """
    if name != "auto" and name not in _KINDS:
        raise UsageError(f"no sandbox is called {name!r}", hint="auto, bwrap, landlock or none")
    hierarchy = find_hierarchy()
    if hierarchy is not None:
        sweep(hierarchy)
        ensure_warden(hierarchy)
    sweep_tmp()
    if name != "auto":
        return tried(name, hierarchy)
    problems = []
    for kind in ("bwrap", "bwrap", "landlock"):  # twice: a machine that is short of something may recover
        try:
            return tried(kind, hierarchy)
        except IsolationMissing as problem:
            problems.append(problem)
    raise IsolationMissing(
        "; ".join(dict.fromkeys(problem.message for problem in problems)),
        hint=f"{problems[0].hint or INSTALL_HINT}; or --sandbox none, which runs without isolation",
    )


def tried(name: str, hierarchy: Hierarchy | None) -> Sandbox:
    """The sandbox called `name`, after it ran a program that does nothing.

    Raises:
        IsolationMissing: it could not.
    """
    sandbox = _KINDS[name](hierarchy)
    if name == "none":
        return sandbox
    try:
        finished = sandbox.run(Command(("/bin/true",), "/usr", {}, (), Limits(wall_s=10)))
    except IsolationMissing as problem:
        raise IsolationMissing(problem.message, hint=_mend(problem.message) or problem.hint) from problem
    if not finished.ok:
        raise IsolationMissing(f"{name}: {finished.describe()}: {finished.stderr.decode(errors='replace').strip()}")
    return sandbox


@functools.cache
def _mend(message: str) -> str:
    """The command that lets bubblewrap make namespaces, where the system forbids it."""
    for setting, wanted in (
        ("kernel/apparmor_restrict_unprivileged_userns", "0"),
        ("kernel/unprivileged_userns_clone", "1"),
    ):
        path = Path("/proc/sys", setting)
        if path.exists() and path.read_text().strip() != wanted:
            return f"as root: sysctl -w {setting.replace('/', '.')}={wanted}"
    if Path("/proc/sys/user/max_user_namespaces").read_text().strip() == "0":
        return "as root: sysctl -w user.max_user_namespaces=10000"
    if "Unknown option" in message:
        return "bubblewrap 0.8 or newer is needed: bwrap --version"
    if "Operation not permitted" in message or "denied" in message:
        return "this container forbids namespaces: start it with --security-opt seccomp=unconfined, or use landlock"
    return ""
