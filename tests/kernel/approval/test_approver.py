import json
import sys
from pathlib import Path

import pytest

from overnight.core.errors import IsolationMissing, Missing, Refused, StoreError, UsageError
from overnight.kernel.approval.approver import AGENT_VARIABLE, Approver
from overnight.kernel.keys import SigningKey, signed_by
from overnight.sandbox import Command, Limits, Mount, SandboxName, open_sandbox


def test_nobody_approves_before_a_person_made_a_credential(config: Path) -> None:
    assert Approver().known() == {}
    with pytest.raises(Missing, match="there is no approver"):
        Approver().credential()


def test_a_credential_lies_privately_outside_the_workspace_and_signs(config: Path) -> None:
    made = Approver().create("ada")
    path = config / "approvers" / "ada.json"
    assert path.stat().st_mode & 0o777 == 0o600
    opened = Approver().credential()
    known = Approver().known()[opened.id]
    assert (opened.id, opened.name) == (made.id, "ada")
    assert signed_by(known.public, b"yes", opened.key.sign(b"yes"))
    assert not signed_by(known.public, b"no", opened.key.sign(b"yes"))
    assert opened.key.secret.hex() not in repr(opened) + repr(opened.key)


def test_a_sealed_credential_opens_with_its_passphrase_only(config: Path) -> None:
    made = Approver().create("ada", "correct horse battery")
    text = (config / "approvers" / "ada.json").read_text()
    assert made.key.secret.hex() not in text
    assert Approver().credential("correct horse battery").id == made.id
    with pytest.raises(Refused, match="passphrase is wrong"):
        Approver().credential("correct horse batter")
    with pytest.raises(Refused, match="needs its passphrase"):
        Approver().credential()


def test_a_second_approver_is_enrolled_by_the_first(config: Path) -> None:
    first = Approver().create("ada")
    with pytest.raises(Refused, match="must be enrolled"):
        Approver().create("bob")
    second = Approver().create("bob", by=first)
    third = Approver().create("cyd", by=second)
    assert set(Approver().known()) == {first.id, second.id, third.id}
    with pytest.raises(UsageError, match="several approvers: ada, bob, cyd"):
        Approver().credential()
    assert Approver().credential(name="bob").id == second.id


def test_a_planted_approver_counts_for_nothing(config: Path, tmp_path: Path) -> None:
    Approver().create("ada")
    elsewhere = Approver(tmp_path / "elsewhere")
    stranger = elsewhere.create("eve")
    elsewhere.create("mallory", by=stranger)
    for name in ("eve", "mallory"):
        planted = config / "approvers" / f"{name}.json"
        planted.write_bytes((tmp_path / "elsewhere" / "approvers" / f"{name}.json").read_bytes())
        planted.chmod(0o600)
        with pytest.raises(StoreError, match="enrolled by nobody"):
            Approver().known()
        planted.unlink()


def test_an_agents_process_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Approver().create("ada")
    monkeypatch.setenv(AGENT_VARIABLE, "researcher")
    with pytest.raises(Refused, match="agent's process"):
        Approver().credential()
    with pytest.raises(Refused, match="agent's process"):
        Approver().create("bob")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_credential_open_to_others_is_refused(config: Path, mode: int) -> None:
    Approver().create("ada")
    (config / "approvers" / "ada.json").chmod(mode)
    with pytest.raises(StoreError, match="open to other users"):
        Approver().credential()


def test_a_link_is_not_a_credential(config: Path, tmp_path: Path) -> None:
    Approver().create("ada")
    path = config / "approvers" / "ada.json"
    path.rename(tmp_path / "moved.json")
    path.symlink_to(tmp_path / "moved.json")
    with pytest.raises(StoreError, match="cannot read"):
        Approver().credential()


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "zz"},
        {"secret": "00" * 32},
        {"public": "00"},
        {"name": "eve"},
        {"sealed": "scrypt:1:1:1:00:00:00"},
        {"format": 1, "public": 3},
    ],
)
def test_a_damaged_credential_is_an_error(config: Path, change: dict[str, object]) -> None:
    Approver().create("ada")
    path = config / "approvers" / "ada.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StoreError):
        Approver().credential()


@pytest.mark.parametrize(
    "sealed",
    ["", "scrypt:x:8:1:00:00:00", "argon:2:8:1:00:00:00", "scrypt:1073741824:8:1:00:00:00", "scrypt:3:8:1:00:00:00"],
)
def test_a_damaged_seal_is_an_error(config: Path, sealed: str) -> None:
    Approver().create("ada", "correct horse battery")
    path = config / "approvers" / "ada.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sealed": sealed}))
    with pytest.raises(StoreError, match="damaged"):
        Approver().credential("correct horse battery")


@pytest.mark.parametrize(("name", "passphrase"), [("Ada", None), ("../x", None), ("", None), ("ada", "short")])
def test_names_and_passphrases_that_will_not_do(config: Path, name: str, passphrase: str | None) -> None:
    with pytest.raises(UsageError):
        Approver().create(name, passphrase)


def test_a_name_is_taken_once(config: Path) -> None:
    ada = Approver().create("ada")
    with pytest.raises(UsageError, match="already"):
        Approver().create("ada", by=ada)


READ = """
import os, sys
for name in ("approvers/ada.json", "journal.key", "grants.key"):
    try:
        print(open(os.path.join(sys.argv[1], name)).read())
    except OSError as problem:
        print(type(problem).__name__)
try:
    print(os.listdir(sys.argv[1]))
except OSError as problem:
    print(type(problem).__name__)
"""


@pytest.mark.parametrize("name", ["bwrap", "landlock", "none"])
def test_an_agent_in_a_sandbox_cannot_read_the_keys(config: Path, tmp_path: Path, name: SandboxName) -> None:
    try:
        sandbox = open_sandbox(name)
    except IsolationMissing as missing:
        pytest.skip(str(missing))
    secrets = [Approver().create("ada").key.secret.hex()]
    secrets += [SigningKey.open(config, each).secret.hex() for each in ("journal", "grants")]
    work = tmp_path / "workspace"
    work.mkdir()
    command = Command(
        (sys.executable, "-c", READ, str(config)),
        str(work),
        {"PATH": "/usr/bin:/bin"},
        (Mount(work, str(work), writable=True),),
        Limits(wall_s=30),
    )
    said = sandbox.run(command).stdout.decode()
    if name == "none":
        assert all(secret in said for secret in secrets), "the control: without a sandbox it can"
    else:
        assert not any(secret in said for secret in secrets)
        assert "ada.json" not in said and said.count("Error") == 4
