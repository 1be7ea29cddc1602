import os
import socket
from pathlib import Path

import pytest

from overnight.core.errors import UsageError
from overnight.sandbox.special import SpecialFiles, find_special


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "plain").touch()
    (tmp_path / "a" / "link").symlink_to("b/sock")
    monkeypatch.chdir(tmp_path / "a" / "b")  # the path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
    os.mkfifo("pipe")
    return tmp_path


def test_sockets_and_pipes_are_found(folder: Path) -> None:
    assert sorted(find_special(str(folder))) == ["a/b/pipe", "a/b/sock"]
    assert find_special(str(folder / "a" / "b" / "sock")) == (".",)
    assert find_special(str(folder / "a" / "plain")) == ()
    assert find_special(str(folder / "missing")) == ()


def test_only_what_cannot_change_is_remembered(folder: Path) -> None:
    special = SpecialFiles()
    assert len(special.within(folder, writable=False)) == len(special.within(folder, writable=True)) == 2
    os.mkfifo(folder / "another")
    assert len(special.within(folder, writable=True)) == 3
    assert len(special.within(folder, writable=False)) == 2


def test_too_many_are_refused(tmp_path: Path) -> None:
    for number in range(70):
        os.mkfifo(tmp_path / str(number))
    with pytest.raises(UsageError, match="64"):
        find_special(str(tmp_path))
