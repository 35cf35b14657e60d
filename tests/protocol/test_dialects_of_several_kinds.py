"""Owns the proof that reasoning, refusals and tool calls reach the official SDK whole, in both dialects."""

import pytest
from hypothesis import given
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from streaming.protocol.dialects import ANTHROPIC, ENCODERS, OPENAI_CHAT, OPENAI_RESPONSES, encoder_for
from streaming.protocol.events import (
    CONTINUED,
    DELTAS,
    ENDED,
    REASONING,
    REFUSAL,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Event,
)
from tests.protocol import test_openai_chat, test_openai_responses
from tests.protocol.said import SAID, meant, seqs_in
from tests.protocol.sample_events import CHAT_HEAD, HEAD, cases, encoded, log_of_kinds, parsed
from tests.protocol.test_openai_responses import names, official

WEATHER = [
    (REASONING, "They ask "), (REASONING, "for two."), (TEXT, "Let me see."), (TOOL_CALL, 0, '{"city": "Pa'),
    (TOOL_CALL, 0, 'ris"}'), (TOOL_CALL, 1, '{"city": "Rome"}'), (TEXT, " Done."),
]  # fmt: skip


@given(cases)
def test_every_item_and_part_is_added_once_before_its_deltas_and_done_once_after_them(case):
    state = {}
    for name, data, _ in parsed(encoded(OPENAI_RESPONSES, case.events, case.sizes)):
        place = data.get("output_index"), data.get("content_index")
        if name.endswith(".added"):
            assert place not in state
            state[place] = "open"
        elif place[0] is not None:
            assert state[place] == "open"
            if name in ("response.content_part.done", "response.output_item.done"):
                state[place] = "done"
    ended = case.events[-1].payload
    if ended["end_state"] == "completed" and all(e.kind != TOOL_CALL for e in case.events):
        assert set(state.values()) <= {"done"}


@given(cases)
def test_the_last_event_holds_the_items_that_the_body_has(case):
    *_, (_, data, _) = parsed(encoded(OPENAI_RESPONSES, case.events, case.sizes))
    body = encoder_for(OPENAI_RESPONSES, HEAD).body(case.events)
    assert data["response"] == body
    Response.model_validate(official(body), strict=True)
    said, calls = meant(case.events)
    written = dict.fromkeys(DELTAS, "")
    for item in body["output"]:
        for part in item.get("content", []):
            kind = {"output_text": TEXT, "refusal": REFUSAL, "reasoning_text": REASONING}[part["type"]]
            written[kind] += part.get("text", "") + part.get("refusal", "")
    assert written == said
    assert [[i["name"], i["arguments"]] for i in body["output"] if i["type"] == "function_call"] == calls


def test_the_items_of_an_answer_with_reasoning_and_calls_come_in_the_official_order():
    frames = parsed(encoded(OPENAI_RESPONSES, log_of_kinds(WEATHER, "tool_calls"), (99,), CHAT_HEAD))
    assert names(frames) == [
        "response.created", "response.in_progress",
        "response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
        "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
        "response.output_item.added", "response.content_part.added", "response.output_text.delta",
        "response.output_item.added", "response.function_call_arguments.delta",
        "response.output_item.added", "response.function_call_arguments.delta",
        "response.output_text.delta",
        "response.function_call_arguments.done", "response.output_item.done",
        "response.function_call_arguments.done", "response.output_item.done",
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    response = frames[-1][1]["response"]
    assert [(item["type"], item["status"]) for item in response["output"]] == [
        ("reasoning", "completed"), ("message", "completed"), ("function_call", "completed"),
        ("function_call", "completed"),
    ]  # fmt: skip
    assert response["output"][1]["id"] == "msg_2"
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 2


def test_the_sdks_stream_helpers_gather_reasoning_and_calls():
    raw = encoded(OPENAI_RESPONSES, log_of_kinds(WEATHER, "tool_calls"))
    with test_openai_responses.client(raw).responses.stream(model="demo", input="?") as stream:
        final = stream.get_final_response()
    assert final.output_text == "Let me see. Done."
    assert [(i.name, i.arguments) for i in final.output if i.type == "function_call"] == [
        ("f0", '{"city": "Paris"}'), ("f1", '{"city": "Rome"}'),
    ]  # fmt: skip
    raw = encoded(OPENAI_CHAT, log_of_kinds(WEATHER, "tool_calls"))
    messages = [{"role": "user", "content": "?"}]
    with test_openai_chat.client(raw).chat.completions.stream(model="demo", messages=messages) as stream:
        kinds = {event.type for event in stream}
        choice = stream.get_final_completion().choices[0]
    assert "tool_calls.function.arguments.delta" in kinds
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me see. Done.")
    assert choice.message.reasoning_content == "They ask for two."
    assert [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls] == [
        ("call_0", "f0", '{"city": "Paris"}'), ("call_1", "f1", '{"city": "Rome"}'),
    ]  # fmt: skip


def test_the_bodies_hold_calls_reasoning_and_refusals():
    events = log_of_kinds([*WEATHER, (REFUSAL, "No more.")], "tool_calls")
    completion = encoder_for(OPENAI_CHAT, HEAD).body(events)
    message = ChatCompletion.model_validate(completion, strict=True).choices[0].message
    assert [call.function.arguments for call in message.tool_calls] == ['{"city": "Paris"}', '{"city": "Rome"}']
    assert (message.content, message.refusal) == ("Let me see. Done.", "No more.")
    only_calls = encoder_for(OPENAI_CHAT, HEAD).body(log_of_kinds([(TOOL_CALL, 0, "{}")], "tool_calls"))
    assert only_calls["choices"][0]["message"]["content"] is None


@pytest.mark.parametrize("end", ["stop", "user"])
def test_invalid_arguments_are_flagged_in_every_form_and_a_call_that_was_cut_is_not_done(end):
    steps = [(TOOL_CALL, 0, '{"city": ')]
    natural = log_of_kinds(steps, end)
    [call] = encoder_for(OPENAI_RESPONSES, HEAD).body(natural)["output"]
    assert (call["arguments"], call["status"], call["error"]) == ('{"city": ', "completed", "invalid_arguments")
    deltas = [data["choices"][0]["delta"] for _, data, _ in parsed(encoded(OPENAI_CHAT, natural)) if "choices" in data]
    assert deltas[2]["tool_calls"] == [{"index": 0, "function": {"arguments": ""}, "error": "invalid_arguments"}]
    if end == "stop":
        [flagged] = encoder_for(OPENAI_CHAT, HEAD).body(natural)["choices"][0]["message"]["tool_calls"]
        assert flagged["error"] == "invalid_arguments"
    cut = log_of_kinds(steps, end, natural=False)
    assert "response.function_call_arguments.done" not in names(parsed(encoded(OPENAI_RESPONSES, cut)))
    [open_call] = encoder_for(OPENAI_RESPONSES, HEAD).body(cut)["output"]
    assert "error" not in open_call
    assert open_call["status"] == ("completed" if end == "stop" else "incomplete")


LOOKED_UP = [
    (TEXT, "Let me see."), (TOOL_CALL, 0, "{}"), (TOOL_RESULT, "call_0", "18 °C", None),
    (TOOL_RESULT, "call_1", "This took too long.", "timed_out"), (TEXT, " It is mild."),
]  # fmt: skip


def test_a_result_is_an_item_told_whole_behind_its_call_and_failed_ones_say_why():
    frames = parsed(encoded(OPENAI_RESPONSES, log_of_kinds(LOOKED_UP), (99,), CHAT_HEAD))
    done = names(frames).index("response.function_call_arguments.done")
    assert names(frames)[done + 1 : done + 7] == [
        "response.output_item.done",
        "response.output_item.added", "response.output_item.done",
        "response.output_item.added", "response.output_item.done",
        "response.output_text.delta",
    ]  # fmt: skip
    added, told = frames[done + 2][1], frames[done + 3][1]
    suffix = CHAT_HEAD.response_id.removeprefix("resp_")
    whole = {
        "id": f"fco_{suffix}_0", "type": "function_call_output", "call_id": "call_0", "output": "18 °C",
        "status": "completed",
    }  # fmt: skip
    assert added["item"] == told["item"] == whole
    failed = {"id": f"fco_{suffix}_1", "call_id": "call_1", "output": "This took too long.", "status": "incomplete"}
    assert frames[done + 5][1]["item"] == {**whole, **failed, "error": "timed_out"}
    items = frames[-1][1]["response"]["output"]
    assert [item["type"] for item in items] == ["message", "function_call", *["function_call_output"] * 2]
    assert items[0]["content"][0]["text"] == "Let me see. It is mild."


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC])
def test_dialects_without_results_pass_them_over_and_the_text_goes_on(dialect):
    events = log_of_kinds(LOOKED_UP)
    frames = parsed(encoded(dialect, events))
    assert SAID[dialect](frames) == meant(events)
    assert "18" not in str(frames) + str(encoder_for(dialect, HEAD).body(events))


def test_adjacent_pieces_of_one_call_are_one_frame_and_of_two_calls_are_two():
    events = log_of_kinds([(TOOL_CALL, 0, "{"), (TOOL_CALL, 0, "}"), (TOOL_CALL, 1, "{}")])[:4]
    for dialect in ENCODERS:
        frames = parsed(encoded(dialect, events, (9,)))
        assert SAID[dialect](frames)[1] == [["f0", "{}"], ["f1", "{}"]]
        assert seqs_in(frames)[-2:] == [3, 4]


def test_reasoning_that_begins_again_is_an_item_of_its_own():
    steps = [(REASONING, "a"), (TEXT, "b"), (REASONING, "c"), (TEXT, "d")]
    response = encoder_for(OPENAI_RESPONSES, HEAD).body(log_of_kinds(steps))
    assert [(item["type"], item["content"][0]["text"]) for item in response["output"]] == [
        ("reasoning", "a"), ("message", "bd"), ("reasoning", "c"),
    ]  # fmt: skip


def test_a_continuation_inside_a_call_changes_nothing_of_it():
    events = log_of_kinds([(TOOL_CALL, 0, "{"), (TOOL_CALL, 0, "}")])
    continued = Event(3, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})
    moved = [Event(event.seq + 1, 2, *event[2:]) for event in events[2:]]
    for dialect in ENCODERS:
        assert SAID[dialect](parsed(encoded(dialect, [*events[:2], continued, *moved])))[1] == [["f0", "{}"]]
    assert moved[-1].kind == ENDED


FAULT = {"code": "schema_mismatch", "message": "3 is not of type 'string'", "path": "/city"}


@pytest.mark.parametrize(
    ("dialect", "in_frame", "in_body"),
    [
        (OPENAI_CHAT, lambda data: data.get("choices", [{}])[0], lambda body: body["choices"][0]),
        (OPENAI_RESPONSES, lambda data: data.get("response", {}), lambda body: body),
        (ANTHROPIC, lambda data: data.get("delta", {}), lambda body: body),
    ],
)
def test_json_that_does_not_follow_its_schema_is_flagged_once_at_the_end(dialect, in_frame, in_body):
    *events, ended = log_of_kinds([(TEXT, '{"city": 3}')])
    for fault in ({}, {"output_error": FAULT}):
        flagged = [*events, ended._replace(payload={**ended.payload, **fault})]
        frames = parsed(encoded(dialect, flagged, (99,)))
        found = [in_frame(data).get("output_error") for _, data, _ in frames if isinstance(data, dict)]
        assert [error for error in found if error] == [error for error in [fault.get("output_error")] if error]
        assert in_body(encoder_for(dialect, HEAD).body(flagged)).get("output_error") == fault.get("output_error")
