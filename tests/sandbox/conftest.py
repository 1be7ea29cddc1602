"""Real sandboxes for the tests of this folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import IsolationMissing
from overnight.sandbox import Command, Limits, Mount, Sandbox, open_sandbox

Make = Callable[..., Command]


def _open(name: Any) -> Sandbox:
    try:
        return open_sandbox(name)
    except IsolationMissing as missing:
        pytest.skip(f"{name}: {missing}")


@pytest.fixture(scope="session")
def bwrap() -> Sandbox:
    return _open("bwrap")


@pytest.fixture(scope="session")
def landlock() -> Sandbox:
    return _open("landlock")


@pytest.fixture(params=["bwrap", "landlock", "none"], scope="session")
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Every implementation."""
    return _open(request.param)


@pytest.fixture(params=["bwrap", "landlock"], scope="session")
def isolating(request: pytest.FixtureRequest) -> Sandbox:
    """Every implementation that isolates."""
    return _open(request.param)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes commands with a writable folder, `tmp_path/work`, as their current one."""
    work = tmp_path / "work"
    work.mkdir()

    def command(*argv: str, **given: Any) -> Command:
        names = Limits.__dataclass_fields__
        limits = {"wall_s": 120.0, **{name: given.pop(name) for name in list(given) if name in names}}
        given.setdefault("env", {"PATH": "/usr/bin:/bin"})
        given.setdefault("cwd", str(work))
        given.setdefault("mounts", (Mount(work, str(work), writable=True),))
        return Command(argv, limits=Limits(**limits), **given)

    return command
