"""Owns the proof of the chat completions dialect: the official SDK reads it, strictly and through its client."""

import httpx
import openai
import pytest
from hypothesis import given
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from streaming.protocol.dialects import OPENAI_CHAT, Head, encoder_for
from streaming.protocol.events import REASONING, REFUSAL, STARTED, TOOL_RESULT, Event
from streaming.protocol.sse import HEARTBEAT
from tests.protocol.sample_events import ENDS, HEAD, HEAD_USAGE, USAGE, cases, encoded, log, parsed


def client(raw, content_type="text/event-stream"):
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, content=raw, headers={"content-type": content_type})
    )
    return openai.OpenAI(
        api_key="k", base_url="http://test/v1", http_client=httpx.Client(transport=transport), max_retries=0
    )


def chunks(raw):
    return client(raw).chat.completions.create(model="demo", messages=[{"role": "user", "content": "?"}], stream=True)


def strict(frames):
    return [ChatCompletionChunk.model_validate(data, strict=True) for _, data, _ in frames if data != "[DONE]"]


def test_the_sdk_reads_role_text_and_finish_reason_across_heartbeats():
    raw = b"".join(encoded(OPENAI_CHAT, [event]) + HEARTBEAT for event in log(["Caf", "é", " 5 €"]))
    got = list(chunks(raw))
    assert got[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in got) == "Café 5 €"
    assert [chunk.choices[0].finish_reason for chunk in got] == [None, None, None, None, "stop"]
    assert {chunk.id for chunk in got} == {HEAD.response_id}


def test_every_chunk_is_strictly_valid():
    frames = parsed(encoded(OPENAI_CHAT, log(["a", "b"]), head=HEAD_USAGE))
    assert [chunk.object for chunk in strict(frames)] == ["chat.completion.chunk"] * 5


@given(cases)
def test_every_chunk_of_every_kind_is_strictly_valid(case):
    frames = parsed(encoded(OPENAI_CHAT, case.events, case.sizes))
    strict([frame for frame in frames if "error" not in frame[1]])


def test_usage_is_one_chunk_without_choices_before_done_and_null_in_the_others():
    frames = parsed(encoded(OPENAI_CHAT, log(["a"]), head=HEAD_USAGE))
    assert [data["usage"] if data != "[DONE]" else data for _, data, _ in frames] == [
        None, None, None,
        {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 0}},
        "[DONE]",
    ]  # fmt: skip
    assert frames[3][1]["choices"] == []


def test_without_include_usage_no_chunk_mentions_it():
    frames = parsed(encoded(OPENAI_CHAT, log(["a"])))
    assert not any("usage" in data for _, data, _ in frames if data != "[DONE]")
    assert frames[-1][1] == "[DONE]"


def test_only_the_last_frame_of_the_end_carries_its_id():
    frames = parsed(encoded(OPENAI_CHAT, log(["a"]), head=HEAD_USAGE))
    ids = [event_id and event_id.rpartition(".")[2] for _, _, event_id in frames]
    assert ids == ["1", "2", None, None, "3"]


@pytest.mark.parametrize("end", [name for name, end in ENDS.items() if end.end_state != "completed"])
def test_an_end_that_is_not_completed_is_an_error_the_sdk_raises_and_no_done(end):
    raw = encoded(OPENAI_CHAT, log(["a"], end))
    assert b"[DONE]" not in raw
    assert b'"finish_reason":"' not in raw
    shown = []
    with pytest.raises(openai.APIError) as caught:
        shown.extend(chunk.choices[0].delta.content for chunk in chunks(raw))
    error = caught.value.body
    assert (error["end_state"], error["end_reason"]) == (ENDS[end].end_state, ENDS[end].end_reason)
    assert error["code"] == ENDS[end].end_reason
    assert error["message"]


def test_the_sdk_raises_on_the_detached_frame():
    raw = encoded(OPENAI_CHAT, log(["a"])[:2]) + encoder_for(OPENAI_CHAT, HEAD).detached("resp_X:1.2")
    with pytest.raises(openai.APIError, match="detached"):
        list(chunks(raw))


def test_the_body_is_a_strictly_valid_completion_that_the_sdk_reads():
    body = encoder_for(OPENAI_CHAT, HEAD).body(log(["Caf", "é"], "length"))
    completion = ChatCompletion.model_validate(body, strict=True)
    assert completion.choices[0].message.content == "Café"
    assert completion.choices[0].finish_reason == "length"
    assert completion.usage
    assert completion.usage.total_tokens == 12
    [text_less] = ChatCompletion.model_validate(encoder_for(OPENAI_CHAT, HEAD).body(log([])), strict=True).choices
    assert text_less.message.content == ""


def test_the_body_of_an_end_that_is_not_completed_is_the_error():
    body = encoder_for(OPENAI_CHAT, HEAD).body(log(["a"], "upstream_error"))
    assert body["error"]["message"] == "The engine ran out of memory."
    assert list(body) == ["error"]


def test_reasoning_and_refusals_have_fields_of_their_own_and_unknown_kinds_no_frame():
    events = [
        Event(1, 1, STARTED, {}),
        Event(2, 1, REASONING, {"text": "Hm"}),
        Event(3, 1, REASONING, {"text": "m."}),
        Event(4, 1, REFUSAL, {"text": "No."}),
        Event(5, 1, TOOL_RESULT, {}),
    ]
    deltas = [data["choices"][0]["delta"] for _, data, _ in parsed(encoded(OPENAI_CHAT, events, sizes=(5,)))]
    assert deltas == [{"role": "assistant", "content": ""}, {"reasoning_content": "Hmm."}, {"refusal": "No."}]
    ended = Event(6, 1, "ended", ENDS["stop"].to_payload(USAGE))
    message = encoder_for(OPENAI_CHAT, Head("r", "m", 1)).body([*events, ended])["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "", "reasoning_content": "Hmm.", "refusal": "No."}
