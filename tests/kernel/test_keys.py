from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from overnight.core.errors import Missing, SettingsError, StoreError
from overnight.kernel.keys import (
    SigningKey,
    config_folder,
    create_private,
    outside,
    private_folder,
    read_private,
    signed_by,
)


def test_the_configuration_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OVERNIGHT_CONFIG_DIR", "/somewhere")
    assert config_folder() == Path("/somewhere")
    monkeypatch.delenv("OVERNIGHT_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    assert config_folder() == Path("/xdg/overnight")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_folder() == tmp_path / ".config" / "overnight"


def test_a_folder_inside_the_workspace_is_refused_also_through_a_link(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "keys").mkdir(parents=True)
    (tmp_path / "link").symlink_to(workspace / "keys")
    assert outside(tmp_path / "config", workspace) == tmp_path / "config"
    for folder in (workspace, workspace / "keys", tmp_path / "link", workspace / "not there yet"):
        with pytest.raises(SettingsError, match="inside the workspace"):
            outside(folder, workspace)


def test_a_private_file_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "a.key"
    assert create_private(path, b"one") is True
    assert create_private(path, b"two") is False
    assert read_private(path) == b"one"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [entry.name for entry in path.parent.iterdir()] == ["a.key"]


def test_many_that_open_a_key_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda _: SigningKey.open(tmp_path / "keys", "a"), range(32)))
    assert len({key.secret for key in keys}) == 1


@pytest.mark.parametrize("content", ["", "zz", "00", "00" * 33])
def test_a_damaged_key_is_an_error_never_a_new_key(tmp_path: Path, content: str) -> None:
    SigningKey.open(tmp_path / "keys", "a")
    (tmp_path / "keys" / "a.key").write_text(content)
    with pytest.raises(StoreError, match="is not a key"):
        SigningKey.open(tmp_path / "keys", "a")


def test_what_others_can_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing):
        read_private(tmp_path / "nothing")
    folder = private_folder(tmp_path / "keys")
    folder.chmod(0o750)
    with pytest.raises(StoreError, match="open to other users"):
        private_folder(folder)
    with pytest.raises(StoreError, match="open to other users"):
        SigningKey.open(folder, "a")


def test_a_signature_is_for_one_message_and_one_key() -> None:
    key, other = SigningKey(bytes(32)), SigningKey(bytes(range(32)))
    signature = key.sign(b"message")
    assert signed_by(key.public, b"message", signature)
    assert not signed_by(key.public, b"other", signature)
    assert not signed_by(other.public, b"message", signature)
    assert not signed_by(b"short", b"message", signature)
    assert not signed_by(key.public, b"message", b"short")
    assert repr(key) == f"SigningKey({key.id})" and key.secret.hex() not in repr(key)
