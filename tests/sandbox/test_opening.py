import subprocess
import sys

import pytest

from overnight.core.errors import IsolationMissing, UsageError
from overnight.sandbox import Sandbox, open_sandbox, probe


def test_auto_is_the_best_and_never_none(bwrap: Sandbox) -> None:
    assert bwrap.name == "bwrap"
    assert open_sandbox().name == "bwrap"
    assert (bwrap.remaps, open_sandbox("none").remaps) == (True, False)


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="docker"):
        open_sandbox("docker")  # type: ignore[arg-type]


def test_without_bubblewrap_auto_is_landlock(landlock: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overnight.sandbox.bwrap.find_bwrap", lambda: None)
    with pytest.raises(IsolationMissing) as missing:
        open_sandbox("bwrap")
    assert missing.value.exit_code == 4
    assert "apt-get install bubblewrap" in missing.value.hint
    assert open_sandbox().name == "landlock"


def test_without_anything_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overnight.sandbox.bwrap.find_bwrap", lambda: None)
    monkeypatch.setattr("overnight.sandbox.landlock.landlock_abi", lambda: 0)
    with pytest.raises(IsolationMissing) as missing:
        open_sandbox()
    assert "--sandbox none" in missing.value.hint
    assert open_sandbox("none").name == "none"


def test_the_doctor_agrees_with_what_is_opened(bwrap: Sandbox) -> None:
    report = probe()
    assert report.sandbox == open_sandbox().name
    checks = {check.name: check for check in report.checks}
    assert {"filter", "bwrap", "landlock", "cgroup", "python"} == checks.keys()
    assert report.grade == ("A" if checks["cgroup"].ok else "B")
    assert all(check.ok or check.fix or check.name == "python" for check in report.checks)


def test_the_package_imports_nothing_before_it_is_asked() -> None:
    code = (
        "import sys, overnight.sandbox; print([name for name in sys.modules if name.startswith('overnight.sandbox.')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
