"""Owns the proof of Anthropic's dialect: official order and types, blocks opened and closed once, the SDK as judge."""

import json

import anthropic
import httpx2
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from pydantic import TypeAdapter

from streaming.protocol.dialects import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, Head, encoder_for
from streaming.protocol.dialects.anthropic_errors import failure
from streaming.protocol.events import ENDED, REASONING, TEXT, TOOL_CALL, Event
from tests.protocol.said import meant
from tests.protocol.sample_events import ENDS, HEAD, USAGE, cases, encoded, log, log_of_kinds, parsed

EVENT = TypeAdapter(RawMessageStreamEvent)
WEATHER = [
    (REASONING, "They ask "), (REASONING, "for two."), (TEXT, "Let me see."),
    (TOOL_CALL, 0, '{"city": '), (TOOL_CALL, 0, '"Paris"}'), (TOOL_CALL, 1, '{"city": "Rome"}'),
]  # fmt: skip


def frames_of(events, sizes=(99,), head=HEAD):
    return parsed(encoded(ANTHROPIC, events, sizes, head))


def client(raw, status=200):
    kind = "text/event-stream" if status == 200 else "application/json"
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(status, content=raw, headers={"content-type": kind})
    )
    http_client = httpx2.Client(transport=transport)
    return anthropic.Anthropic(api_key="k", base_url="http://test", http_client=http_client, max_retries=0)


ASKED = {"model": "demo", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}


def test_events_come_in_the_official_order():
    frames = frames_of(log_of_kinds(WEATHER, "tool_calls"))
    assert [name for name, _, _ in frames] == [
        "message_start", "ping",
        "content_block_start", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_start", "content_block_delta",
        "content_block_stop", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert all(name == data["type"] for name, data, _ in frames)


@given(cases)
def test_every_event_is_valid_for_the_sdk_and_blocks_open_and_close_once(case):
    state = {}
    for name, data, _ in frames_of(case.events, case.sizes):
        if name == "error":
            assert {"type", "message"} <= data["error"].keys()
        elif name != "ping":
            EVENT.validate_python(data, strict=True)
        if name == "content_block_start":
            assert data["index"] == len(state)
            state[data["index"]] = "open"
        elif name.startswith("content_block"):
            assert state[data["index"]] == "open"
            state[data["index"]] = "open" if name == "content_block_delta" else "closed"
    if case.events[-1].payload["end_state"] == "completed":
        assert set(state.values()) <= {"closed"}


@given(cases)
def test_the_body_says_what_the_stream_says(case):
    body = encoder_for(ANTHROPIC, HEAD).body(case.events)
    if case.events[-1].payload["end_state"] != "completed":
        assert body["type"] == "error"
        return
    message = Message.model_validate(body, strict=True)
    said, calls = meant(case.events)
    assert "".join(block.text for block in message.content if block.type == "text") == "".join(
        e.payload["text"] for e in case.events if e.kind in (TEXT, "refusal")
    )
    assert "".join(block.thinking for block in message.content if block.type == "thinking") == said[REASONING]
    assert [block.name for block in message.content if block.type == "tool_use"] == [name for name, _ in calls]


@pytest.mark.parametrize(
    ("end", "stop_reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("tool_calls", "tool_use")],
)
def test_an_end_has_its_stop_reason_and_usage_without_what_was_cached(end, stop_reason):
    events = log(["Café"], end)
    payload = {**events[-1].payload, "usage": {**USAGE, "prompt_tokens": 7, "cached_tokens": 4}}
    events[-1] = Event(events[-1].seq, 1, ENDED, payload)
    *_, (_, delta, _), (_, _, _) = frames_of(events)
    assert delta["delta"] == {"stop_reason": stop_reason, "stop_sequence": None}
    assert (delta["usage"]["input_tokens"], delta["usage"]["cache_read_input_tokens"]) == (3, 4)
    assert delta["usage"]["output_tokens"] == 5
    assert encoder_for(ANTHROPIC, HEAD).body(events)["usage"] == delta["usage"]


def test_a_stop_string_that_matched_is_named():
    events = log(["a"])
    events[-1] = Event(events[-1].seq, 1, ENDED, {**events[-1].payload, "stop_sequence": "END"})
    assert frames_of(events)[-2][1]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_a_message_begins_with_the_prompts_tokens():
    [(_, start, _), *_] = frames_of(log(["a"]), head=Head(HEAD.response_id, "demo", 1, prompt_tokens=42))
    assert start["message"]["usage"]["input_tokens"] == 42
    assert start["message"]["id"] == HEAD.response_id


@pytest.mark.parametrize(
    ("end", "kind"), [("upstream_error", "api_error"), ("idle", "timeout_error"), ("user", "api_error")]
)
def test_an_end_that_is_no_answer_is_an_error_event_with_our_fields(end, kind):
    events = log(["a"], end)
    name, data, event_id = frames_of(events)[-1]
    assert (name, data["type"], data["error"]["type"]) == ("error", "error", kind)
    assert event_id.endswith(f".{events[-1].seq}")
    assert (data["error"]["end_state"], data["error"]["end_reason"]) == (ENDS[end].end_state, ENDS[end].end_reason)
    with pytest.raises(anthropic.APIStatusError), client(encoded(ANTHROPIC, events)).messages.stream(**ASKED) as stream:
        list(stream)


def test_the_sdk_gathers_text_thinking_and_calls():
    with client(encoded(ANTHROPIC, log_of_kinds(WEATHER, "tool_calls"))).messages.stream(**ASKED) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_message()
    assert {"text", "thinking", "input_json"} <= kinds
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[0].thinking == "They ask for two."
    assert [block.input for block in message.content[2:]] == [{"city": "Paris"}, {"city": "Rome"}]
    assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 5)


def test_arguments_that_are_no_object_stand_beside_the_input_flagged():
    events = log_of_kinds([(TOOL_CALL, 0, '["a"]')], "tool_calls")
    [call] = encoder_for(ANTHROPIC, HEAD).body(events)["content"]
    assert (call["input"], call["error"], call["arguments"]) == ({}, "invalid_arguments", '["a"]')
    stops = [data for name, data, _ in frames_of(events) if name == "content_block_stop"]
    assert stops == [{"type": "content_block_stop", "index": 0, "error": "invalid_arguments"}]


@pytest.mark.parametrize(
    ("status", "theirs", "kind", "error"),
    [
        (400, 400, "invalid_request_error", anthropic.BadRequestError),
        (401, 401, "authentication_error", anthropic.AuthenticationError),
        (403, 403, "permission_error", anthropic.PermissionDeniedError),
        (404, 404, "not_found_error", anthropic.NotFoundError),
        (413, 413, "request_too_large", anthropic.APIStatusError),
        (429, 429, "rate_limit_error", anthropic.RateLimitError),
        (500, 500, "api_error", anthropic.InternalServerError),
        (502, 502, "api_error", anthropic.InternalServerError),
        (503, 529, "overloaded_error", anthropic.APIStatusError),
        (504, 504, "timeout_error", anthropic.APIStatusError),
    ],
)
def test_a_status_has_their_type_and_their_exception(status, theirs, kind, error):
    shown, body = failure(status, {"message": "No.", "type": "x", "code": "c", "param": None})
    assert (shown, body["type"], body["error"]["type"], body["error"]["code"]) == (theirs, "error", kind, "c")
    with pytest.raises(error) as failed:
        client(json.dumps(body).encode(), shown).messages.create(**ASKED)
    assert failed.value.status_code == theirs


def test_openais_dialects_keep_a_failure_as_it_is():
    body = {"error": {"message": "No.", "type": "server_error", "code": "overloaded", "param": None}}
    for dialect in (OPENAI_CHAT, OPENAI_RESPONSES):
        assert encoder_for(dialect, HEAD).failure(503, body) == (503, body)
    assert encoder_for(ANTHROPIC, HEAD).failure(503, body) == failure(503, body["error"])
