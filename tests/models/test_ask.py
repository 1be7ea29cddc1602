"""Answering at the lowest tier that can, through the real gateway, against a scripted server."""

import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import UsageError
from overnight.models.ask.ask import Reply, ask
from overnight.models.ask.check import Check, violation
from overnight.models.ask.client import GatewayClient, ModelFailed, Models, Wanted, Words
from overnight.models.queue.shared import waiting
from overnight.models.release import Releases
from overnight.models.routing.router import Need
from overnight.testing.models import ScriptedModels
from overnight.testing.script import Scripted, fail, say
from overnight.trace.storage import TraceStore
from overnight.workspace import models
from overnight.workspace.gateway import trace_store
from overnight.workspace.workspace import Workspace

SETTINGS = """
[providers.scripted]
kind = "openai-compatible"
base_url = "{url}/v1"
free = true

[models.big]
provider = "scripted"
model = "big-1"
tier = 3
attempts = 1

[models.worker]
provider = "scripted"
model = "worker-1"
tier = 2
attempts = 1

[router]
most_load = 1000.0
"""
SUMMARY = "Summarize the article below in one sentence: the mill burnt down."
Ask = Callable[..., Reply]


@pytest.fixture
def server() -> Iterator[ScriptedModels]:
    with ScriptedModels() as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path, server: ScriptedModels) -> Iterator[Workspace]:
    (tmp_path / "overnight.toml").write_text(SETTINGS.format(url=server.url))
    opened = Workspace.at(tmp_path)
    yield opened
    opened.database.close()


@pytest.fixture
def asking(workspace: Workspace) -> Ask:
    def run(prompt: str, check: Check | None = None, need: Need | None = None, budget: float | None = None) -> Reply:
        route = models.router(workspace).route(prompt, models.situation(workspace), need or Need())
        tracer = models.tracer(workspace)
        try:
            return ask(
                prompt,
                route,
                Releases(models.model_settings(workspace)),
                workspace.resolved.settings.router,
                tracer,
                lambda: models.models(workspace, "ask", "ask-1", budget),
                check or Check(),
            )
        finally:
            tracer.close()

    return run


def sure(text: str, logprob: float) -> Scripted:
    """An answer with the probabilities of its tokens, as llama.cpp and vLLM report them."""
    body = {
        "id": "x",
        "object": "chat.completion",
        "model": "worker-1",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
                "logprobs": {"content": [{"token": "a", "logprob": logprob}, {"token": "b", "logprob": logprob}]},
            }
        ],
        "usage": {"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22},
    }
    return say("", raw=json.dumps(body).encode())


def asked(server: ScriptedModels) -> list[str]:
    return [request.body["model"] for request in server.requests]


def test_rules_answer_without_any_model(asking: Ask, server: ScriptedModels) -> None:
    reply = asking("3 km in m")
    assert (reply.text, reply.tier, reply.model) == ("3,000 m", 0, "") and not server.requests


def test_the_lowest_tier_that_will_do_is_asked(asking: Ask, server: ScriptedModels) -> None:
    server.script(say("A mill burnt down."))
    reply = asking(SUMMARY)
    assert (reply.text, reply.tier, reply.model) == ("A mill burnt down.", 2, "worker")
    assert asked(server) == ["worker-1"]


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (fail(500), "scripted failure"),
        (say(""), "empty"),
        (say("A mill", finish="length"), "cut at its longest"),
        (sure("A mill, perhaps.", -2.0), "not sure of its words"),
    ],
)
def test_what_will_not_do_goes_one_up_and_is_on_record(
    asking: Ask, server: ScriptedModels, first: Scripted, why: str
) -> None:
    server.script(first, say("The mill burnt down."))
    reply = asking(SUMMARY)
    assert (reply.text, reply.tier, reply.model) == ("The mill burnt down.", 3, "big")
    assert asked(server) == ["worker-1", "big-1"]
    assert why in reply.attempts[0].why_not and reply.attempts[1].why_not == ""
    assert "worker would not do" in reply.reason


def test_a_server_that_read_only_a_part_goes_one_up(asking: Ask, server: ScriptedModels) -> None:
    server.script(say("A mill.", input_tokens=10), say("The mill burnt down."))
    reply = asking(SUMMARY + " It stood by the river, and many people worked in it." * 50)
    assert reply.model == "big" and "it cut the context" in reply.attempts[0].why_not


def test_a_sure_answer_is_taken(asking: Ask, server: ScriptedModels) -> None:
    server.script(sure("The mill burnt down.", -0.05))
    reply = asking(SUMMARY)
    assert reply.model == "worker" and reply.attempts[0].confidence == pytest.approx(0.951, abs=0.001)


def test_an_unsure_answer_is_still_one_where_nothing_above_gives_any(asking: Ask, server: ScriptedModels) -> None:
    server.script(sure("A mill, perhaps.", -2.0), fail(500))
    reply = asking(SUMMARY)
    assert (reply.text, reply.tier) == ("A mill, perhaps.", 2) and len(reply.attempts) == 2


def test_never_downwards(asking: Ask, server: ScriptedModels) -> None:
    server.script(fail(500))
    reply = asking("Write a Python function that merges two lists")
    assert reply.text is None and asked(server) == ["big-1"] and "scripted failure" in reply.reason


def test_an_answer_that_fails_its_schema_goes_up(asking: Ask, server: ScriptedModels) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    server.script(say('{"n": "many"}'), say('```json\n{"n": 3}\n```'))
    reply = asking(SUMMARY, Check(schema=schema))
    assert reply.model == "big" and "not of type integer" in reply.attempts[0].why_not
    # The server is asked to constrain its output, and is not believed.
    assert server.requests[0].body["response_format"]["json_schema"]["schema"] == schema


def test_a_rules_answer_is_checked_too(asking: Ask, server: ScriptedModels) -> None:
    server.script(say("three"))
    reply = asking("1 + 2", Check(pattern="[a-z]+"))
    assert reply.text is None and not server.requests and "does not match" in reply.reason


def test_everything_is_in_the_trace(asking: Ask, server: ScriptedModels, workspace: Workspace) -> None:
    server.script(fail(500), say("The mill burnt down."))
    reply = asking(SUMMARY)
    store: TraceStore = trace_store(workspace)
    spans = {span.name: span for span in store.spans(reply.trace_id)}
    root = spans["ask"]
    assert root.parent is None and root.attributes["overnight.tier"] == 3
    assert any("rules (tier 0" in item for item in root.attributes["overnight.candidates"])  # type: ignore[union-attr]  # a list
    assert "it asks for summarise" in str(root.attributes["overnight.rule"])
    assert [event[2]["model"] for event in root.events] == ["worker", "big"]
    assert {"chat worker", "chat worker-1", "chat big", "chat big-1"} <= spans.keys()
    assert spans["chat worker"].parent == root.place.span_id


def test_a_budget_of_nothing_asks_nobody(asking: Ask, server: ScriptedModels, workspace: Workspace) -> None:
    path = workspace.folder / "overnight.toml"
    path.write_text(
        path.read_text()
        .replace("free = true", "")
        .replace("attempts = 1", "attempts = 1\nprice = { input = 1, output = 1 }")
    )
    reply = asking(SUMMARY, budget=0.0)
    assert reply.text is None and not server.requests


def test_a_stopped_client_ends_its_call(workspace: Workspace, server: ScriptedModels) -> None:
    server.script(say("late", pause_s=60))
    with models.models(workspace, "ask") as client:
        failures: list[ModelFailed] = []

        def call() -> None:
            try:
                client.complete(Wanted("worker", [Words("user", "hi")]))
            except ModelFailed as problem:
                failures.append(problem)

        thread = threading.Thread(target=call)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        client.stop()
        thread.join(20)
        assert not thread.is_alive() and "stopped" in failures[0].message


def test_a_call_has_a_time_limit(workspace: Workspace, server: ScriptedModels) -> None:
    server.script(say("late", pause_s=60))
    with models.models(workspace, "ask") as client, pytest.raises(ModelFailed, match=r"no answer within 0\.3 s"):
        client.complete(Wanted("worker", [Words("user", "hi")], timeout_s=0.3))


def test_our_own_key_is_gone_afterwards(workspace: Workspace, server: ScriptedModels) -> None:
    with models.models(workspace, "ask") as client:
        client.complete(Wanted("worker", [Words("user", "hi")]))
    row = workspace.database.row("SELECT COUNT(*) AS n FROM gateway_keys WHERE revoked_at IS NULL")
    assert row is not None and row["n"] == 0


def command(workspace: Workspace, *arguments: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "overnight", *arguments, "--workspace", str(workspace.folder), "--json"],
        capture_output=True,
        text=True,
    )
    return done.returncode, json.loads(done.stdout)


def test_the_commands(workspace: Workspace, server: ScriptedModels) -> None:
    code, found = command(workspace, "ask", "what is 6 * 7?")
    assert (code, found["answer"], found["tier"], found["route"]["answered"]) == (0, "42", 0, True) and found["trace"]
    code, found = command(workspace, "model", "route", SUMMARY)
    assert (code, found["tier"], found["model"], found["answered"]) == (0, 2, "worker", False)
    assert {"name", "tier", "score", "why_not"} == found["candidates"][0].keys() and found["confidence"] > 0.5
    code, found = command(workspace, "model", "list")
    assert [(item["name"], item["tier"], item["available"]) for item in found] == [
        ("worker", 2, True),
        ("big", 3, True),
    ]
    assert {"provider", "why_not"} <= found[0].keys()
    server.script(fail(500))
    code, found = command(workspace, "ask", "Write a Python function that merges two lists")
    assert code == 1 and found["answer"] is None and found["attempts"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_follows_the_schema_that_names_it(value: Any) -> None:
    assert violation(value, {"const": value}) == "" and violation(value, {"enum": [value]}) == ""
    assert Check({"const": value}).objection(json.dumps(value)) == ""


@given(JSON, st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"]))
def test_types_are_those_of_json(value: Any, kind: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    real = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "number": is_number,
        "integer": is_number and float(value).is_integer(),
        "boolean": isinstance(value, bool),
        "null": value is None,
    }
    assert (violation(value, {"type": kind}) == "") == real[kind]


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"required": ["a"]}, {}, "has no 'a'"),
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}, "the answer.a is 1"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2}, "the answer.b must not"),
        ({"items": {"enum": ["x"]}}, ["x", "y"], "the answer[1]"),
        ({"maxItems": 1}, [1, 2], "2 items"),
        ({"pattern": "^a"}, "ba", "does not match"),
        ({"minimum": 3}, 2, "out of range"),
        ({"maxLength": 2}, "abc", "3 characters"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "none of what it may be"),
    ],
)
def test_violations_say_what_and_where(schema: dict[str, Any], value: Any, why: str) -> None:
    assert why in violation(value, schema)


@pytest.mark.parametrize("schema", [{"oneOf": []}, {"items": {"not": {}}}, {"type": "text"}, {"pattern": "("}, 3])
def test_a_schema_that_could_not_be_checked_is_refused(schema: Any) -> None:
    with pytest.raises(UsageError):
        Check(schema)


@pytest.mark.parametrize("text", ["", "NaN", "[1", "Here you are: {}", "[" * 100_000])
def test_what_is_not_json_is_no_answer(text: str) -> None:
    assert Check({"type": "object"}).objection(text)


def test_a_prompt_that_a_model_cannot_take_whole_goes_to_one_that_can(
    workspace: Workspace, server: ScriptedModels, asking: Ask
) -> None:
    text = SETTINGS.replace('model = "worker-1"', 'model = "worker-1"\ncontext = 600\nmax_tokens = 300')
    (workspace.folder / "overnight.toml").write_text(text.format(url=server.url))
    assert asking(SUMMARY).model == "worker"
    reply = asking(f"{SUMMARY} {'The miller wept. ' * 80}")
    assert reply.model == "big" and asked(server) == ["worker-1", "big-1"]
    assert "it takes 600" in reply.attempts[0].why_not and "worker would not do" in reply.reason


SHARED = SETTINGS.replace("free = true", 'free = true\nslots = 1\nlongest = "{longest}"')


def share(workspace: Workspace, server: ScriptedModels, longest: str) -> None:
    (workspace.folder / "overnight.toml").write_text(SHARED.format(url=server.url, longest=longest))


def test_a_question_is_answered_before_a_nights_waiting_calls(workspace: Workspace, server: ScriptedModels) -> None:
    share(workspace, server, "60s")
    joined = threading.Event()
    server.script(say("first", until=joined))
    with models.models(workspace, "author") as client:

        def call(text: str, patient: bool) -> None:
            client.complete(Wanted("worker", [Words("user", text)], patient=patient))

        threads = [threading.Thread(target=call, args=(f"night {n}", True)) for n in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: waiting(workspace.database, "scripted") == 3)
        question = threading.Thread(target=call, args=("question", False))
        question.start()
        until(lambda: waiting(workspace.database, "scripted") == 4)
        joined.set()
        for thread in (*threads, question):
            thread.join()
    order = [request.said.split()[0] for request in server.requests]
    assert order == ["night", "question", "night", "night", "night"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stuck_generation_is_ended_and_counted(workspace: Workspace, server: ScriptedModels, stream: bool) -> None:
    share(workspace, server, "1s")
    server.script(say("one two three", pause_s=0 if stream else 60, piece_pause_s=60 if stream else 0), say("next"))
    with models.models(workspace, "author") as client:
        assert isinstance(client, GatewayClient)
        if stream:
            body = {"model": "worker", "messages": [{"role": "user", "content": "hi"}], "stream": True}
            request = urllib.request.Request(
                f"http://127.0.0.1:{client.port}/v1/chat/completions",
                json.dumps(body).encode(),
                {"authorization": f"Bearer {client.key}", "content-type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=300) as answer:
                assert b"held the model for 1 s" in answer.read()
        else:
            with pytest.raises(ModelFailed, match="held the model for 1 s"):
                client.complete(Wanted("worker", [Words("user", "hi")]))
    share(workspace, server, "60s")  # what comes next may be slow
    with models.models(workspace, "author") as client:
        assert client.complete(Wanted("worker", [Words("user", "again")])).text == "next"
    rows = workspace.database.rows("SELECT outcome, span FROM model_calls ORDER BY at_us")
    assert [row["outcome"] for row in rows] == ["error", "ok"]
    spans = trace_store(workspace).since(0, 1000)
    (ended,) = [span for span in spans if span.place.span_id == rows[0]["span"]]
    assert "held the model for 1 s" in str(ended.attributes["overnight.reason"])


def run_ask(workspace: Workspace, text: str) -> "subprocess.Popen[str]":
    """A process of its own, with a gateway of its own."""
    command = [sys.executable, "-m", "overnight", "ask", text, "--model", "worker", "--json"]
    return subprocess.Popen([*command, "--workspace", str(workspace.folder)], stdout=subprocess.PIPE, text=True)


def answer_of(process: "subprocess.Popen[str]") -> Any:
    out, _ = process.communicate(timeout=300)
    return json.loads(out)["answer"]


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_processes_of_a_workspace_share_a_model_by_turns(workspace: Workspace, server: ScriptedModels) -> None:
    share(workspace, server, "60s")
    joined = threading.Event()
    server.script(say("first", until=joined))
    with models.models(workspace, "author") as client:
        night = [
            threading.Thread(
                target=lambda n=n: client.complete(Wanted("worker", [Words("user", f"night {n}")], patient=True))
            )
            for n in range(4)
        ]
        for thread in night:
            thread.start()
        until(lambda: waiting(workspace.database, "scripted") == 3)
        question = run_ask(workspace, "question")
        until(lambda: waiting(workspace.database, "scripted") == 4)
        assert len(server.requests) == 1, "nobody else is served meanwhile"
        joined.set()
        assert answer_of(question)
        for thread in night:
            thread.join()
    order = [request.said.split()[0] for request in server.requests]
    assert order == ["night", "question", "night", "night", "night"]


def test_a_process_that_was_killed_frees_the_model_at_once(workspace: Workspace, server: ScriptedModels) -> None:
    share(workspace, server, "600s")
    server.script(say("never", pause_s=600.0), say("second"))
    killed = run_ask(workspace, "holds it")
    until(lambda: len(server.requests) == 1)
    next_one = run_ask(workspace, "comes next")
    until(lambda: waiting(workspace.database, "scripted") == 1)
    killed.kill()
    killed.communicate()
    assert answer_of(next_one) == "second" and len(server.requests) == 2
    assert not workspace.database.rows("SELECT * FROM model_turns")


def test_a_model_for_which_many_wait_is_not_offered(workspace: Workspace, server: ScriptedModels) -> None:
    share(workspace, server, "60s")
    server.script(say("first", pause_s=600.0))
    with models.models(workspace, "author") as client:
        call = threading.Thread(target=lambda: complete(client))
        more = [threading.Thread(target=lambda: complete(client)) for _ in range(5)]
        for thread in (call, *more):
            thread.start()
        until(lambda: waiting(workspace.database, "scripted") == 5)
        command = [sys.executable, "-m", "overnight", "model", "list", "--json", "--workspace", str(workspace.folder)]
        listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        (worker,) = [row for row in listed if row["name"] == "worker"]
        assert not worker["available"] and "5 requests wait" in worker["why_not"]
        client.stop()
        for thread in (call, *more):
            thread.join()


def complete(client: Models) -> None:
    with contextlib.suppress(ModelFailed):
        client.complete(Wanted("worker", [Words("user", "hi")]))
