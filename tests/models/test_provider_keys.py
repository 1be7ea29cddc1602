"""Keys of providers: kept outside every workspace, sent to the place they are for, shown nowhere."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overnight.testing import ScriptedModels

KEY = "sk-proj-0123456789abcdefghijABCDEFGHIJ0123456789abcdefgh"
SETTINGS = """
[providers.box]
kind = "openai-compatible"
base_url = "{url}/v1"
free = true
{more}
[models.worker]
provider = "box"
model = "m"
"""


def overnight(folder: Path, *arguments: str, given: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "overnight", *arguments],
        capture_output=True,
        text=True,
        input=given,
        cwd=folder,
        env={**os.environ, **more},
        timeout=300,
    )


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    with ScriptedModels() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, models: ScriptedModels) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    write(place, models, 'api_key_env = "BOX_KEY"')
    return place


def write(folder: Path, models: ScriptedModels, more: str) -> None:
    (folder / "overnight.toml").write_text(SETTINGS.format(url=models.url, more=more))


def sent(models: ScriptedModels) -> str | None:
    return models.requests[-1].headers.get("authorization")


def configured() -> Path:
    return Path(os.environ["OVERNIGHT_CONFIG_DIR"])


def test_a_kept_key_is_sent_and_stands_in_no_workspace(folder: Path, models: ScriptedModels) -> None:
    missing = overnight(folder, "ask", "hello", "--model", "worker")
    assert missing.returncode == 1 and "overnight model key set box" in missing.stderr
    listed = json.loads(overnight(folder, "model", "list", "--json").stdout)
    assert not listed[0]["available"] and "$BOX_KEY is not set" in listed[0]["why_not"]

    done = overnight(folder, "model", "key", "set", "box", given=f"{KEY}\n")
    assert done.returncode == 0 and KEY not in done.stdout + done.stderr
    file = configured() / "providers" / "box.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert overnight(folder, "ask", "hello", "--model", "worker").returncode == 0
    assert sent(models) == f"Bearer {KEY}"
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    for command in (["config"], ["config", "--json"], ["model", "list"], ["model", "key", "list"], ["usage"]):
        shown = overnight(folder, *command)
        assert shown.returncode == 0 and KEY not in shown.stdout + shown.stderr

    # The environment goes first.
    overnight(folder, "ask", "hello", "--model", "worker", BOX_KEY="from-the-environment")
    assert sent(models) == "Bearer from-the-environment"

    assert json.loads(overnight(folder, "model", "key", "list", "--json").stdout) == [
        {"provider": "box", "for": models.url}
    ]
    assert overnight(folder, "model", "key", "rm", "box").returncode == 0 and not file.exists()
    assert overnight(folder, "model", "key", "rm", "box").returncode == 2


def test_a_key_goes_nowhere_but_where_it_is_for(folder: Path, models: ScriptedModels) -> None:
    overnight(folder, "model", "key", "set", "box", given=KEY)
    with ScriptedModels() as elsewhere:
        for more in ("", 'api_key_env = "BOX_KEY"'):
            write(folder, elsewhere, more)
            asked = overnight(folder, "ask", "hello", "--model", "worker")
            assert all("authorization" not in request.headers for request in elsewhere.requests)
            if more:
                assert asked.returncode == 1 and f"is for {models.url}" in asked.stderr


def test_a_provider_that_names_no_variable_uses_the_kept_key(folder: Path, models: ScriptedModels) -> None:
    write(folder, models, "")
    overnight(folder, "ask", "hello", "--model", "worker")
    assert sent(models) is None
    overnight(folder, "model", "key", "set", "box", given=KEY)
    overnight(folder, "ask", "hello", "--model", "worker")
    assert sent(models) == f"Bearer {KEY}"


def test_a_key_that_others_can_read_is_not_used(folder: Path, models: ScriptedModels) -> None:
    overnight(folder, "model", "key", "set", "box", given=KEY)
    (configured() / "providers" / "box.json").chmod(0o644)
    refused = overnight(folder, "ask", "hello", "--model", "worker")
    assert refused.returncode == 1 and "chmod 600" in refused.stderr and not models.requests


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        (["box"], "", "no key"),
        (["box"], "two words", "one word"),
        (["bix"], KEY, "'box'"),
        (["../x", "--for", "https://a.example"], KEY, "cannot name"),
        (["box", "--for", "nonsense"], KEY, "not a URL"),
    ],
)
def test_what_cannot_be_kept_is_said(folder: Path, arguments: list[str], given: str, says: str) -> None:
    refused = overnight(folder, "model", "key", "set", *arguments, given=given)
    assert refused.returncode == 2 and says in refused.stderr
    assert not list(configured().glob("providers/*"))


def test_config_shows_every_provider_and_model_with_its_origin_and_no_secret(folder: Path) -> None:
    (folder / "overnight.toml").write_text(
        f"""
[providers."a.b"]
kind = "openai"
base_url = "https://user:hunter2@api.example/v1"
headers = {{ x-team = "one", authorization = "Bearer {KEY}" }}
[models.author]
provider = "a.b"
model = "m"
params = {{ temperature = 0, api_key = "plain-secret" }}
[[gateway.limits]]
unit = "usd"
amount = 5
window = "day"
[gateway.tenants.acme]
masking = "record"
[authors.mine]
command = "python author.py --key {KEY}"
"""
    )
    done = overnight(folder, "config", "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    file = str(folder / "overnight.toml")
    assert found["models.author.model"] == {"value": "m", "origin": file}
    assert found["models.author.max_tokens"] == {"value": 8192, "origin": "default"}
    assert found["providers.a.b.kind"] == {"value": "openai", "origin": file}
    assert found["gateway.tenants.acme.masking"] == {"value": "record", "origin": file}
    assert found["gateway.tenants.acme.cache"]["origin"] == "default"
    assert found["gateway.limits"]["value"] == ["5 usd a day"]
    assert found["models.author.params"]["value"]["temperature"] == 0
    for text in (done.stdout, overnight(folder, "config").stdout):
        assert "api.example" in text
        for secret in (KEY, "hunter2", "plain-secret"):
            assert secret not in text


def test_a_key_in_the_place_of_a_variable_is_refused_and_not_repeated(folder: Path, models: ScriptedModels) -> None:
    write(folder, models, f'api_key_env = "{KEY}"')
    refused = overnight(folder, "config")
    assert refused.returncode == 2 and "never a key" in refused.stderr and KEY not in refused.stderr
