"""The escape suite of benchmarks/, a slice of it always and all of it where slow tests run."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from overnight.sandbox import Sandbox

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    escape: ModuleType = importlib.import_module("escape")
finally:
    sys.path.remove(str(BENCHMARKS))

ALL = {each.name: each for each in escape.ATTEMPTS}
LIMITS = {each.name: each for each in escape.LIMIT_ATTEMPTS}
SLICE = [
    "read a file outside",
    "read through the harness's open files",
    "write a read-only mount",
    "setuid copy",
    "keyring: add",
    "io_uring",
    "new user namespace",
    "mount, at no place",
    "read a command line",
    "kill a process",
    "limit a process",
    "TCP to loopback",
    "UDP to loopback",
    "abstract UNIX socket",
    "UNIX socket in the writable mount",
    "POSIX shared memory",
]


@pytest.fixture(scope="module", autouse=True)
def _an_escape_would_be_noticed(isolating: Sandbox) -> Iterator[None]:
    for ahead in (False, True):
        assert escape.attempt(isolating, escape.Attempt("control", "escaped()"), ahead)
    yield


@pytest.mark.parametrize("ahead", [False, True], ids=["", "ahead"])
@pytest.mark.parametrize("name", SLICE)
def test_slice(isolating: Sandbox, name: str, ahead: bool) -> None:
    assert not escape.attempt(isolating, ALL[name], ahead)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALL if name not in SLICE])
def test_everything_else(isolating: Sandbox, name: str) -> None:
    assert not escape.attempt(isolating, ALL[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_limits(sandbox: Sandbox, name: str) -> None:
    assert LIMITS[name].holds(sandbox) is None
