"""Owns the proof of the responses dialect: official order and types, rising numbers, resumption from any of them."""

import functools
import typing

import httpx
import openai
import pytest
from hypothesis import given
from openai.types.responses import Response, ResponseStreamEvent

from streaming.protocol.dialects import OPENAI_RESPONSES, encoder_for
from streaming.protocol.events import CONTINUED, ENDED, Event
from tests.protocol.said import SAID, meant
from tests.protocol.sample_events import CHAT_HEAD, ENDS, HEAD, STOP, cases, encoded, log, parsed

TYPES = {
    typing.get_args(model.model_fields["type"].annotation)[0]: model
    for model in typing.get_args(typing.get_args(ResponseStreamEvent)[0])
}
BEFORE_TEXT = [
    "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
]  # fmt: skip
AFTER_TEXT = ["response.output_text.done", "response.content_part.done", "response.output_item.done"]


def names(frames):
    return [name for name, _, _ in frames]


def numbers(frames):
    return [data["sequence_number"] for _, data, _ in frames]


def client(raw):
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, content=raw, headers={"content-type": "text/event-stream"})
    )
    return openai.OpenAI(
        api_key="k", base_url="http://test/v1", http_client=httpx.Client(transport=transport), max_retries=0
    )


def test_events_come_in_the_official_order():
    frames = parsed(encoded(OPENAI_RESPONSES, log(["a", "b"])))
    delta = "response.output_text.delta"
    assert names(frames) == [*BEFORE_TEXT, delta, delta, *AFTER_TEXT, "response.completed"]
    assert all(name == data["type"] for name, data, _ in frames)


def official(response):
    """The response object with a code that the SDK knows: the one field where ours are richer."""
    return {**response, "error": {**response["error"], "code": "server_error"}} if response["error"] else response


@functools.lru_cache(maxsize=4096)
def check_strictly(block):
    [(name, data, _)] = parsed(block)
    if name == "response.continued":
        assert set(data) == {"type", "sequence_number", "attempt", "reason"}
        return
    response = {"response": official(data["response"])} if "response" in data else {}
    TYPES[name].model_validate({**data, **response}, strict=True)


@given(cases)
def test_every_event_is_strictly_valid_for_the_sdk(case):
    for block in encoded(OPENAI_RESPONSES, case.events, case.sizes).split(b"\n\n")[:-1]:
        check_strictly(block + b"\n\n")


@pytest.mark.parametrize(
    ("end", "name", "status", "details"),
    [
        ("stop", "response.completed", "completed", None),
        ("length", "response.incomplete", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "response.incomplete", "incomplete", {"reason": "content_filter"}),
        ("user", "response.incomplete", "cancelled", None),
        ("disconnected", "response.incomplete", "cancelled", None),
        ("upstream_error", "response.failed", "failed", None),
        ("idle", "response.failed", "failed", None),
        ("relay_lost", "response.failed", "failed", None),
    ],
)
def test_the_last_event_says_how_it_ended_with_usage_and_our_fields(end, name, status, details):
    *_, (last_name, data, _) = parsed(encoded(OPENAI_RESPONSES, log(["Caf", "é"], end)))
    response = data["response"]
    assert (last_name, response["status"], response["incomplete_details"]) == (name, status, details)
    assert (response["end_state"], response["end_reason"]) == (ENDS[end].end_state, ENDS[end].end_reason)
    assert response["output"][0]["content"][0]["text"] == "Café"
    assert response["output"][0]["status"] == ("completed" if status == "completed" else "incomplete")
    assert response["usage"]["output_tokens"] == response["usage"]["sent_tokens"] == 5
    assert response["usage"]["generated_tokens"] == 6
    assert response["stop"] == (STOP if end == "user" else None)
    assert (response["error"] is not None) == (status == "failed")


def test_the_error_of_a_failed_response_is_code_and_message():
    *_, (_, data, _) = parsed(encoded(OPENAI_RESPONSES, log([], "upstream_error")))
    assert data["response"]["error"] == {"code": "upstream_error", "message": "The engine ran out of memory."}


def test_the_sdk_streams_an_answer_and_gathers_it():
    raw = encoded(OPENAI_RESPONSES, log(["Caf", "é", "!"], continued_after=2))
    events = list(client(raw).responses.create(model="demo", input="?", stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Café!"
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "Café!"
    with client(encoded(OPENAI_RESPONSES, log(["Caf", "é"]))).responses.stream(model="demo", input="?") as stream:
        assert stream.get_final_response().output_text == "Café"


def test_the_sdk_raises_on_the_detached_frame():
    raw = encoded(OPENAI_RESPONSES, log(["a"])[:2]) + encoder_for(OPENAI_RESPONSES, HEAD).detached("resp_X:1.2")
    with pytest.raises(openai.APIError, match="detached"):
        list(client(raw).responses.create(model="demo", input="?", stream=True))


@given(cases)
def test_numbers_rise_and_the_last_frame_of_a_group_has_sixteen_times_its_seq(case):
    frames = parsed(encoded(OPENAI_RESPONSES, case.events, case.sizes))
    assert numbers(frames) == sorted(set(numbers(frames)))
    for _, data, event_id in frames:
        if event_id:
            assert data["sequence_number"] == 16 * int(event_id.rpartition(".")[2])
        else:
            assert data["sequence_number"] % 16 != 0


@given(cases)
def test_starting_after_any_number_gives_exactly_what_is_missing(case):
    events, whole = case.events, meant(case.events)
    frames = parsed(encoded(OPENAI_RESPONSES, events, case.sizes))
    structure = [name for name in names(frames) if not name.endswith(".delta")]
    for arrived, number in enumerate([0, *numbers(frames)]):
        encoder = encoder_for(OPENAI_RESPONSES, HEAD, starting_after=number)
        encoder.fold(events[: number // 16])
        rest = parsed(encoded(OPENAI_RESPONSES, events[number // 16 :], case.replay_sizes, encoder=encoder))
        both = frames[:arrived] + rest
        sequence = numbers(both)
        assert sequence == sorted(set(sequence))
        assert SAID[OPENAI_RESPONSES](both) == whole
        assert [name for name in names(both) if not name.endswith(".delta")] == structure


def test_an_end_before_the_start_is_still_a_response_that_was_created():
    ended = Event(1, 1, ENDED, ENDS["idle"].to_payload({}))
    frames = parsed(encoded(OPENAI_RESPONSES, [ended]))
    assert names(frames) == ["response.created", "response.in_progress", "response.failed"]
    assert numbers(frames) == [1, 2, 16]
    continued = Event(1, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})
    assert names(parsed(encoded(OPENAI_RESPONSES, [continued]))) == [*BEFORE_TEXT[:2], "response.continued"]


def test_an_answer_without_text_has_no_item():
    frames = parsed(encoded(OPENAI_RESPONSES, log([])))
    assert names(frames) == ["response.created", "response.in_progress", "response.completed"]
    assert frames[-1][1]["response"]["output"] == []


def test_kinds_that_this_dialect_lacks_give_no_frame():
    assert encoded(OPENAI_RESPONSES, [Event(2, 1, "a kind of later", {})]) == b""


def test_the_pages_response_names_conversation_and_messages_and_the_item_is_the_message():
    frames = parsed(encoded(OPENAI_RESPONSES, log(["a"]), head=CHAT_HEAD))
    created = frames[0][1]["response"]
    ids = (created["conversation_id"], created["user_message_id"], created["message_id"])
    assert ids == ("conv_1", "msg_1", "msg_2")
    assert frames[4][1]["item_id"] == "msg_2"
    assert "conversation_id" not in parsed(encoded(OPENAI_RESPONSES, log(["a"])))[0][1]["response"]


def test_the_body_is_a_strictly_valid_response_while_running_and_after():
    encoder = encoder_for(OPENAI_RESPONSES, HEAD)
    running = Response.model_validate(encoder.body(log(["Caf", "é"])[:2]), strict=True)
    assert (running.status, running.output_text, running.usage) == ("in_progress", "Caf", None)
    done = Response.model_validate(encoder.body(log(["Caf", "é"])), strict=True)
    assert (done.status, done.output_text) == ("completed", "Café")
    assert Response.model_validate(encoder.body([]), strict=True).output == []
