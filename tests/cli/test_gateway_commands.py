"""`overnight gateway`, `trace` and `usage`, as a person meets them."""

import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from overnight.testing import ScriptedModels, say

SETTINGS = """
[providers.openai]
kind = "openai"
base_url = "{url}/v1"
[models.author]
provider = "openai"
model = "{model}"
price = {{ input = 1, output = 1 }}
"""

PROVIDED = """
[providers.p]
kind = "openai"
base_url = "http://x/v1"
[models.a]
provider = "p"
model = "m"
"""


def overnight(*arguments: str, status: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "overnight", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@contextmanager
def serving(workspace: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "overnight", "gateway", "--port", "0", "--workspace", str(workspace), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    assert process.stderr is not None
    try:
        yield process, process.stderr.readline().strip().rpartition(" ")[2]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def ask(url: str, key: str, text: str) -> Any:
    body = {"model": "author", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.loads(answer.read())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_from_nothing_to_a_call_on_record(workspace: Path) -> None:
    at = ("--workspace", str(workspace))
    with ScriptedModels(say("good morning", input_tokens=100, output_tokens=20)) as models:
        (workspace / "overnight.toml").write_text(SETTINGS.format(url=models.url, model="gpt-x"))
        made = json.loads(overnight("gateway", "key", "new", "agent", "--budget", "1", "--json", *at))
        with serving(workspace) as (process, url):
            answer = ask(url, made["key"], "hello")
            assert answer["choices"][0]["message"]["content"] == "good morning"
            (workspace / "overnight.toml").write_text(SETTINGS.format(url=models.url, model="gpt-y"))
            ask(url, made["key"], "again")
            assert models.requests[1].body["model"] == "gpt-y"
            (workspace / "overnight.toml").write_text("[models.author]\nnonsense = 1\n")
            ask(url, made["key"], "and again")
            assert models.requests[2].body["model"] == "gpt-y", "a file that cannot be used changes nothing"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        (workspace / "overnight.toml").write_text("")
    traces = json.loads(overnight("trace", "list", "--json", *at))
    assert len(traces) == 3 and traces[-1]["name"] == "chat author" and traces[-1]["cost_usd"] == pytest.approx(0.00012)
    shown = overnight("trace", "show", traces[-1]["trace_id"][:12], *at)
    assert "user      │ hello" in shown and "assistant │ good morning" in shown and "$0.000120" in shown
    assert "hello" not in overnight("trace", "show", traces[-1]["trace_id"], "--brief", *at)
    (root,) = json.loads(overnight("trace", "show", traces[-1]["trace_id"], "--json", *at))["spans"]
    assert root["attributes"]["overnight.input"][0]["parts"][0]["content"] == "hello"
    assert root["children"][0]["attributes"]["gen_ai.usage.input_tokens"] == 100
    lines = [json.loads(line) for line in overnight("trace", "tail", "--once", "--json", *at).splitlines()]
    assert len(lines) == 6
    used = json.loads(overnight("usage", "--by", "key", "--json", *at))
    assert used["lines"][0]["name"] == "agent" and used["lines"][0]["calls"] == 3
    assert "openai/gpt-x" in overnight("usage", *at) and "together $" in overnight("usage", "--since", "1h", *at)


def test_long_texts_are_shown_to_their_end_where_asked_for(workspace: Path) -> None:
    at = ("--workspace", str(workspace))
    with ScriptedModels(say("answer " * 1000 + "last")) as models:
        (workspace / "overnight.toml").write_text(SETTINGS.format(url=models.url, model="gpt-x"))
        key = overnight("gateway", "key", "new", "agent", *at).strip()
        with serving(workspace) as (_, url):
            ask(url, key, "question " * 1000 + "end")
    (trace,) = json.loads(overnight("trace", "list", "--json", *at))
    cut, full = (overnight("trace", "show", trace["trace_id"], *more, *at) for more in ((), ("--full",)))
    assert "characters)" in cut and "question end" not in cut and "answer last" not in cut
    assert "characters)" not in full and "question end" in full and "answer last" in full


def test_a_night_never_passes_its_budget(workspace: Path) -> None:
    """Asked until it refuses, with answers as long as they may be."""
    at = ("--workspace", str(workspace))
    with ScriptedModels(otherwise=lambda _: say("x", output_tokens=8192)) as models:
        (workspace / "overnight.toml").write_text(SETTINGS.format(url=models.url, model="gpt-x"))
        key = overnight("gateway", "key", "new", "night", "--run", "nov30", "--budget", "0.03", *at).strip()
        with serving(workspace) as (_, url), pytest.raises(urllib.error.HTTPError) as refused:
            for _ in range(10):
                ask(url, key, "go on")
    with refused.value as answer:
        assert answer.code == 429 and json.loads(answer.read())["error"]["type"] == "insufficient_quota"
    used = json.loads(overnight("usage", "--by", "run", "--json", *at))
    assert used["lines"][0]["name"] == "nov30" and used["lines"][0]["calls"] == 3
    assert 0.024 < used["cost_usd"] <= 0.03


def test_keys_are_listed_and_revoked(workspace: Path) -> None:
    at = ("--workspace", str(workspace))
    (workspace / "overnight.toml").write_text("")
    key = overnight("gateway", "key", "new", "one", "--per-minute", "5", "--expires", "30d", *at).strip()
    assert key.startswith("ovn-")
    listed = overnight("gateway", "key", "list", *at)
    assert "one" in listed and "5 calls minute" in listed and key not in listed
    assert "already" in overnight("gateway", "key", "new", "one", *at, status=2)
    assert "cannot be called" in overnight("gateway", "key", "new", "No Name", *at, status=2)
    with ScriptedModels() as models:
        (workspace / "overnight.toml").write_text(SETTINGS.format(url=models.url, model="gpt-x"))
        overnight("ask", "Write a poem", *at)
    names = [item["name"] for item in json.loads(overnight("gateway", "key", "list", "--json", *at))]
    assert names == ["one"] and "own-" in overnight("gateway", "key", "list", "--all", *at)
    assert json.loads(overnight("gateway", "key", "revoke", "one", "--json", *at)) == {"name": "one", "revoked": True}
    assert json.loads(overnight("gateway", "key", "list", "--json", *at))[0]["revoked"] is True
    assert "no key" in overnight("gateway", "key", "revoke", "one", *at, status=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[models.a]\nprovider = "nobody"\nmodel = "x"\n', "nobody"),
        ('[providers.p]\nkind = "opanai"\nbase_url = "http://x/v1"\n', "openai"),
        ('[providers.p]\nkind = "openai"\nbase_url = "localhost"\n', "localhost"),
        (
            '[providers.p]\nkind = "openai"\nbase_url = "http://x/v1"\n[models.a]\nprovider = "p"\nmodel = "m"\nfallbacks = ["b"]\n',
            "'b'",
        ),
        ('[[gateway.limits]]\nunit = "euro"\namount = 1\n', "euro"),
        ("[gateway]\nunpriced = { input = -1, output = 1 }\n", "gateway: unpriced: a price of -1"),
        ("[gateway]\nport = 99999\n", "gateway: port = 99999"),
        ('[providers.p]\nkind = "openai"\nbase_url = "http://x:99999/v1"\n', "providers.p: base_url"),
        (f"{PROVIDED}tier = 7\n", "models.a: tier = 7"),
        (f"{PROVIDED}params = {{ n = 5 }}\n", "models.a: params.n"),
        (f'{PROVIDED}[router]\nprefer = {{ code = "aa" }}\n', "did you mean 'a'"),
        (f'{PROVIDED}[router]\nmemory = {{ b = "1 GB" }}\n', "there is no model 'b'"),
        (f"{PROVIDED}[router]\nunsure = 9\n", "router: unsure = 9"),
    ],
)
def test_settings_that_cannot_be_used_are_named(workspace: Path, text: str, says: str) -> None:
    (workspace / "overnight.toml").write_text(text)
    told = overnight("gateway", "--port", "0", "--workspace", str(workspace), status=2)
    assert says in told and "Traceback" not in told


def test_a_file_given_by_config_is_the_one_that_is_blamed(workspace: Path, tmp_path: Path) -> None:
    (workspace / "overnight.toml").write_text("")
    other = tmp_path / "other.toml"
    other.write_text("[gateway]\nprot = 1\n")
    told = overnight("gateway", "--config", str(other), "--workspace", str(workspace), status=2)
    assert str(other) in told and "overnight.toml" not in told


def test_tail_follows(workspace: Path) -> None:
    with ScriptedModels(say("first")) as models:
        (workspace / "overnight.toml").write_text(SETTINGS.format(url=models.url, model="gpt-x"))
        key = overnight("gateway", "key", "new", "one", "--workspace", str(workspace)).strip()
        follow = subprocess.Popen(
            [sys.executable, "-m", "overnight", "trace", "tail", "--json", "--workspace", str(workspace)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert follow.stdout is not None
        try:
            with serving(workspace) as (_, url):
                end = time.monotonic() + 300
                while not select.select([follow.stdout], [], [], 0.1)[0]:
                    assert time.monotonic() < end
                    ask(url, key, "hello")
                name = json.loads(follow.stdout.readline())["name"]
        finally:
            follow.kill()
            follow.wait()
            follow.stdout.close()
    assert name.startswith("chat ")
