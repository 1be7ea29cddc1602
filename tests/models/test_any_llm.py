"""Providers by way of any-llm-sdk: behind the same seam as all others, and an exact command where it is missing.

The SDK cannot stand beside the Anthropic SDK that the other tests take as a client (it wants an older one), so what needs
it runs where it is installed: `pip install 'overnight[any-llm]'` into an environment of its own, then this file alone.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import SettingsError
from overnight.kernel.ledger.limits import Limit
from overnight.models.ask.client import GatewayClient, ModelFailed, Wanted, Words
from overnight.models.settings import GatewaySettings, ModelSettings, PriceSettings, ProviderSettings, ReleaseSettings
from overnight.testing import RunningGateway, ScriptedModels, call_tool, fail, say

installed = pytest.mark.skipif(find_spec("any_llm") is None, reason="needs any-llm-sdk")
# The SDK and its own dependencies may warn; that is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


def settings(models: ScriptedModels) -> ModelSettings:
    """Its `deepseek`, which speaks OpenAI's format and can be pointed anywhere."""
    return ModelSettings(
        providers={"deep": ProviderSettings("any-llm", f"{models.url}/v1", via="deepseek", api_key_env="DEEP_KEY")},
        models={"author": ReleaseSettings("deep", "deep-1", price=PriceSettings(1.0, 1.0), max_tokens=50)},
        gateway=GatewaySettings(),
    )


@pytest.fixture
def deep(models: ScriptedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DEEP_KEY", "sk-deep")
    with RunningGateway(tmp_path / "work", models, settings(models)) as running:
        yield running


def client(gateway: RunningGateway, **how: Any) -> GatewayClient:
    return GatewayClient("127.0.0.1", int(gateway.url.rpartition(":")[2]), gateway.key(**how))


@installed
def test_an_answer_goes_through_it_and_is_charged(deep: RunningGateway, models: ScriptedModels) -> None:
    models.script(say("good morning", input_tokens=11, output_tokens=3))
    said = client(deep).complete(
        Wanted("author", [Words("system", "be kind"), Words("user", "hello")], temperature=0.5)
    )
    assert said.text == "good morning" and (said.input_tokens, said.output_tokens) == (11, 3)
    (sent,) = models.requests
    assert sent.headers["authorization"] == "Bearer sk-deep" and sent.body["model"] == "deep-1"
    assert sent.body["temperature"] == 0.5 and sent.body["max_tokens"] == 50
    assert deep.spent_usd == pytest.approx(14e-6)


@installed
def test_streams_and_tools(deep: RunningGateway, models: ScriptedModels) -> None:
    import openai

    models.script(say("one two three", input_tokens=5, output_tokens=3), call_tool("weather", {"city": "Łódź"}))
    with openai.OpenAI(base_url=f"{deep.url}/v1", api_key=deep.key(), max_retries=0) as sdk:
        asked: Any = {"model": "author", "messages": [{"role": "user", "content": "count"}]}
        pieces = [
            chunk.choices[0].delta.content or ""
            for chunk in sdk.chat.completions.create(**asked, stream=True)
            if chunk.choices
        ]
        assert "".join(pieces) == "one two three" and len([piece for piece in pieces if piece]) == 3
        shape = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
        tool: Any = {"type": "function", "function": shape}
        message = sdk.chat.completions.create(**asked, tools=[tool]).choices[0].message
        assert message.tool_calls is not None
        assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Łódź"}
    assert len(deep.calls()) == 2 and deep.calls()[0]["output_tokens"] == 3


@installed
@pytest.mark.parametrize(("status", "tries"), [(503, 3), (429, 3), (400, 1), (401, 1)])
def test_failures_are_tried_again_by_the_gateway_alone(
    deep: RunningGateway, models: ScriptedModels, status: int, tries: int
) -> None:
    models.script(*[fail(status, "out of order")] * 3)
    with pytest.raises(ModelFailed, match="out of order"):
        client(deep).complete(Wanted("author", [Words("user", "hello")]))
    assert len(models.requests) == tries and deep.spent_usd == 0


@installed
def test_a_budget_holds(deep: RunningGateway, models: ScriptedModels) -> None:
    with pytest.raises(ModelFailed, match="usd"):
        client(deep, limits=[Limit("usd", 1e-5)]).complete(Wanted("author", [Words("user", "hello")]))
    assert not models.requests


@pytest.mark.skipif(find_spec("any_llm") is not None, reason="any-llm-sdk is there")
def test_a_missing_extra_is_said_with_the_command_that_brings_it(deep: RunningGateway, tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"pip install 'overnight\[any-llm\]'"):
        client(deep).complete(Wanted("author", [Words("user", "hello")]))
    assert deep.spent_usd == 0
    folder = tmp_path / "listed"
    folder.mkdir()
    (folder / "overnight.toml").write_text(
        '[providers.m]\nkind = "any-llm"\nvia = "mistral"\n[models.a]\nprovider = "m"\nmodel = "x"\n'
    )
    command = [sys.executable, "-m", "overnight", "model", "list", "--json", "--workspace", str(folder)]
    (row,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert not row["available"] and "pip install 'overnight[any-llm]'" in row["why_not"]


@pytest.mark.parametrize(
    "how", [{"kind": "any-llm"}, {"kind": "openai"}, {"kind": "openai", "base_url": "http://x/v1", "via": "mistral"}]
)
def test_what_is_missing_in_the_settings_is_said(how: Any) -> None:
    with pytest.raises(SettingsError, match="via"):
        ProviderSettings(**how)
