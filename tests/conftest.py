"""Fixtures for all tests: a configuration folder of their own, and a git that knows nobody."""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples every time, and no clock: a run fails for what was changed, not for what it drew or for what else
# the machine did. `pytest --hypothesis-profile=explore` draws new ones, ten times as many where a test names no number.
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("same"), derandomize=False, max_examples=1000)
settings.load_profile("same")

# A shell starts what it leaves in the background without Ctrl-C, and every process below inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("OVERNIGHT_CONFIG_DIR", str(folder / "overnight"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for name in [name for name in os.environ if name.startswith("OVERNIGHT_") and name != "OVERNIGHT_CONFIG_DIR"]:
        monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files below a folder of the test's own, and give it."""

    def into(files: Mapping[str, str]) -> Path:
        folder = tmp_path / "arena"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return folder

    return into
