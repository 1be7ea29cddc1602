"""What leaves is masked, what comes back is not, what is kept is; and a conversation stays one."""

import json
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overnight.models.gateway.conversation import Conversation, Conversations
from overnight.models.gateway.keys import Key
from overnight.models.gateway.reveal import RevealedStream
from overnight.models.settings import TenantSettings
from overnight.models.wire import WIRES, WireName, sse
from overnight.models.wire.neutral import Message, Text
from overnight.testing import RunningGateway, ScriptedModels, say
from overnight.testing.models import Received
from overnight.testing.script import Scripted, call_tool
from overnight.trace import names
from overnight.trace.tree import render

MAIL = "jane.roe@corp-mail.com"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----"
KEY = Key("0" * 12, "me", "default", "outside", "", (), None, False)


def repeat(received: Received) -> Scripted:
    return say(f"you wrote {received.said} to me")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("release", ["author", "claude"])
def test_openai_s_clients_see_values_and_providers_do_not(
    gateway: RunningGateway, models: ScriptedModels, release: str, stream: bool
) -> None:
    models.otherwise = repeat
    said: Any = [{"role": "user", "content": f"write to {MAIL} please"}]
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key()) as client:
        if stream:
            chunks = client.chat.completions.create(model=release, messages=said, stream=True)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        else:
            text = client.chat.completions.create(model=release, messages=said).choices[0].message.content or ""
    assert text == f"you wrote write to {MAIL} please to me"
    assert MAIL not in json.dumps(models.requests[0].body) and "MASKED_EMAIL_" in models.requests[0].said
    shown = render(gateway.store, gateway.spans())
    assert MAIL not in shown and "MASKED_EMAIL_" in shown
    rows = gateway.store.database.rows("SELECT content FROM trace_bodies")
    assert rows and not any(MAIL.encode() in row["content"] for row in rows)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("release", ["author", "claude"])
def test_anthropic_s_clients_get_values_in_tool_calls(
    gateway: RunningGateway, models: ScriptedModels, release: str, stream: bool
) -> None:
    def send(received: Received) -> Scripted:
        return call_tool("send", {"to": received.said.split()[-1], "n": 1}, f"to {received.said}")

    models.otherwise = send
    said: Any = [{"role": "user", "content": f"write to {MAIL}"}]
    with anthropic.Anthropic(base_url=gateway.url, api_key=gateway.key()) as client:
        answer: Any
        if stream:
            with client.messages.stream(model=release, max_tokens=99, messages=said) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(model=release, max_tokens=99, messages=said)
    assert answer.content[0].text == f"to write to {MAIL}"
    assert answer.content[1].input == {"to": MAIL, "n": 1}


@pytest.mark.parametrize("stream", [False, True])
def test_a_value_with_line_breaks_stays_json_within_arguments(
    gateway: RunningGateway, models: ScriptedModels, stream: bool
) -> None:
    def save(received: Received) -> Scripted:
        return call_tool("save", {"content": received.said})

    models.otherwise = save
    said: Any = [{"role": "user", "content": PEM}]
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key()) as client:
        if stream:
            pieces = [
                call.function.arguments or ""
                for chunk in client.chat.completions.create(model="author", messages=said, stream=True)
                for call in (chunk.choices[0].delta.tool_calls or () if chunk.choices else ())
                if call.function
            ]
            arguments = "".join(pieces)
        else:
            message: Any = client.chat.completions.create(model="author", messages=said).choices[0].message
            arguments = message.tool_calls[0].function.arguments
    assert json.loads(arguments) == {"content": PEM}
    assert "MIIEvQIBADAN" not in json.dumps(models.requests[0].body)


def test_a_tenant_decides_what_is_masked(gateway: RunningGateway, models: ScriptedModels) -> None:
    gateway.set(
        tenants={
            "record": TenantSettings(masking="record"),
            "nothing": TenantSettings(masking="nothing"),
            "names": TenantSettings(names=("Zyxwv Qqqqqq",)),
        }
    )
    for tenant, leaves, kept in (("record", True, False), ("nothing", True, True), ("default", False, False)):
        with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key(tenant, tenant=tenant)) as client:
            text = f"tell {MAIL} about {tenant}"
            client.chat.completions.create(model="author", messages=[{"role": "user", "content": text}])
        assert (MAIL in json.dumps(models.requests[-1].body)) is leaves
        trace = gateway.store.spans(gateway.spans()[-1].place.trace_id)
        assert (MAIL in render(gateway.store, trace)) is kept
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key("n", tenant="names")) as client:
        client.chat.completions.create(model="author", messages=[{"role": "user", "content": "ask Zyxwv Qqqqqq"}])
    assert "Zyxwv" not in json.dumps(models.requests[-1].body)


def test_a_conversation_is_one_trace_and_what_was_masked_keeps_its_placeholder(
    gateway: RunningGateway, models: ScriptedModels
) -> None:
    models.otherwise = repeat
    said: Any = [{"role": "system", "content": "today is monday"}, {"role": "user", "content": f"write to {MAIL}"}]
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key()) as client:
        for turn in range(3):
            answer = client.chat.completions.create(model="author", messages=said).choices[0].message.content
            said = [*said, {"role": "assistant", "content": answer}, {"role": "user", "content": f"and then {turn}"}]
        client.chat.completions.create(model="author", messages=said[:2])
    first = models.requests[0].said.split()[-1]
    assert first.startswith("MASKED_EMAIL_") and first in json.dumps(models.requests[2].body)
    roots = [span for span in gateway.spans() if span.kind == "server"]
    assert len({span.place.trace_id for span in roots[:3]}) == 1
    assert roots[3].place.trace_id != roots[0].place.trace_id, "the same beginning alone is another conversation"
    assert [len(list(span.attributes[names.INPUT] or ())) for span in roots] == [1, 2, 2, 1]  # type: ignore[arg-type]
    assert roots[1].attributes[names.INPUT_AFTER] == roots[0].place.span_id
    shown = render(gateway.store, gateway.store.spans(roots[0].place.trace_id))
    assert shown.count("and then 0") == 2 and shown.count("write to MASKED_EMAIL_") == 2, "once said, once repeated"


def test_two_keys_never_share_a_conversation() -> None:
    other = Key("1" * 12, "you", "default", "outside", "", (), None, False)
    found, tenant = Conversations(), TenantSettings()
    said = [Message("user", (Text("a"),)), Message("assistant", (Text("b"),)), Message("user", (Text("c"),))]
    first, _, _, end = found.find(KEY, tenant, said[:1])
    found.remember(first, end, 1, "f" * 16)
    assert found.find(KEY, tenant, said)[:3] == (first, 1, "f" * 16)
    assert found.find(other, tenant, said)[0] is not first
    assert found.find(KEY, TenantSettings(masking="record"), said)[0] is not first


def test_structure_is_never_masked_and_numbers_and_keys_are() -> None:
    conversation = Conversation(KEY, TenantSettings())
    card = 4111111111111111
    body = {
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": MAIL, "function": {"arguments": json.dumps({"to": MAIL})}}]},
            {"role": "user", "content": [{"type": "tool_use", "input": {"card": card, MAIL: [MAIL], "n": 3}}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        ]
    }
    masked = conversation.mask_json(body)
    assert masked["messages"][0]["tool_calls"][0]["id"] == MAIL, "ids are the provider's"
    assert masked["messages"][2] == body["messages"][2]
    rest = json.dumps([masked["messages"][0]["tool_calls"][0]["function"], masked["messages"][1]])
    assert MAIL not in rest and str(card) not in rest and json.loads(rest)[1]["content"][0]["input"]["n"] == 3


WRITES: dict[WireName, Any] = {
    "chat": lambda text: {"id": "x", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
    "messages": lambda text: {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    },
    "responses": lambda text: {
        "type": "response.output_text.delta",
        "item_id": "m",
        "output_index": 0,
        "content_index": 0,
        "delta": text,
    },
}
ENDS: dict[WireName, Any] = {
    "chat": {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    "messages": {"type": "content_block_stop", "index": 0},
    "responses": {"type": "response.output_text.done", "item_id": "m", "output_index": 0, "content_index": 0},
}


@settings(deadline=None, max_examples=60)
@given(name=st.sampled_from(sorted(WRITES)), cuts=st.lists(st.integers(0, 200), max_size=12), tail=st.text(max_size=8))
def test_a_stream_is_revealed_wherever_it_is_cut(name: WireName, cuts: list[int], tail: str) -> None:
    conversation = Conversation(KEY, TenantSettings())
    placeholder = conversation.mask(MAIL)
    text = f"MAS {placeholder}, M{placeholder}{tail} MASKED_EMAIL_ MASK"
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in zip(places, places[1:], strict=False)]
    stream = RevealedStream(conversation, WIRES[name])
    out = b"".join([stream.feed("", WRITES[name](piece)) for piece in pieces] + [stream.feed("", dict(ENDS[name]))])
    wire, shown = WIRES[name], ""
    for event in sse.Splitter().feed(out):
        shown += "".join(piece.holder[piece.key] for piece in wire.pieces(json.loads(event.data)))
    assert shown == f"MAS {MAIL}, M{MAIL}{tail} MASKED_EMAIL_ MASK"
