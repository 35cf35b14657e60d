"""Owns the proof that reasoning, refusals and tool calls reach the official SDK whole, in both dialects."""

import copy

import pytest
from hypothesis import given
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

from streaming.protocol.dialects import ENCODERS, OPENAI_CHAT, OPENAI_RESPONSES, encoder_for
from streaming.protocol.events import CONTINUED, DELTAS, ENDED, REASONING, REFUSAL, STARTED, TEXT, TOOL_CALL, Event
from tests.protocol import test_openai_chat, test_openai_responses
from tests.protocol.sample_events import (
    CHAT_HEAD,
    HEAD,
    batch_sizes,
    encoded,
    log_of_kinds,
    logs_of_kinds,
    parsed,
)
from tests.protocol.test_dialects import seqs_in
from tests.protocol.test_openai_responses import TYPES, names, numbers

WEATHER = [
    (REASONING, "They ask "), (REASONING, "for two."), (TEXT, "Let me see."), (TOOL_CALL, 0, '{"city": "Pa'),
    (TOOL_CALL, 0, 'ris"}'), (TOOL_CALL, 1, '{"city": "Rome"}'), (TEXT, " Done."),
]  # fmt: skip


def meant(events):
    """What the events say: text by kind, and calls as (name, arguments), those without an error first."""
    said = {kind: "".join(e.payload["text"] for e in events if e.kind == kind) for kind in DELTAS}
    calls = {}
    for event in events:
        if event.kind == TOOL_CALL:
            call = calls.setdefault(event.payload["index"], ["", ""])
            call[0] += event.payload.get("name", "")
            call[1] += event.payload["arguments"]
    return said, list(calls.values())


def said_in_chat(frames):
    said, calls = dict.fromkeys(DELTAS, ""), {}
    fields = {"content": TEXT, "reasoning_content": REASONING, "refusal": REFUSAL}
    for _, data, _ in frames:
        for choice in data.get("choices", []) if isinstance(data, dict) else []:
            for field, kind in fields.items():
                said[kind] += choice["delta"].get(field) or ""
            for call in choice["delta"].get("tool_calls", []):
                whole = calls.setdefault(call["index"], ["", ""])
                whole[0] += call["function"].get("name", "")
                whole[1] += call["function"]["arguments"]
    return said, list(calls.values())


def said_in_responses(frames):
    said, calls = dict.fromkeys(DELTAS, ""), {}
    kinds = {"output_text": TEXT, "reasoning_text": REASONING, "refusal": REFUSAL}
    for name, data, _ in frames:
        if name == "response.output_item.added" and data["item"]["type"] == "function_call":
            calls[data["output_index"]] = [data["item"]["name"], ""]
        elif name == "response.function_call_arguments.delta":
            calls[data["output_index"]][1] += data["delta"]
        elif name.endswith(".delta"):
            said[kinds[name.split(".")[1]]] += data["delta"]
    return said, list(calls.values())


SAID = {OPENAI_CHAT: said_in_chat, OPENAI_RESPONSES: said_in_responses}


@pytest.mark.parametrize("dialect", ENCODERS)
@given(events=logs_of_kinds, sizes=batch_sizes, replay_sizes=batch_sizes)
def test_for_every_cut_what_was_said_and_its_replay_are_the_whole(dialect, events, sizes, replay_sizes):
    whole = meant(events)
    assert SAID[dialect](parsed(encoded(dialect, events, sizes))) == whole
    for cut in range(len(events) + 1):
        before = parsed(encoded(dialect, events[:cut], sizes))
        again = encoder_for(dialect, HEAD)
        again.fold(events[:cut])
        after = parsed(encoded(dialect, events[cut:], replay_sizes, encoder=again))
        assert SAID[dialect]([*before, *after]) == whole
        seqs = [position.seq for position in seqs_in(before) + seqs_in(after)]
        assert seqs == sorted(set(seqs))
        assert seqs[-1] == events[-1].seq


@pytest.mark.parametrize("dialect", ENCODERS)
@given(events=logs_of_kinds, sizes=batch_sizes)
def test_a_lost_connection_goes_on_after_the_last_id_that_arrived(dialect, events, sizes):
    frames = parsed(encoded(dialect, events, sizes))
    for arrived in range(len(frames) + 1):
        cursor = max((position.seq for position in seqs_in(frames[:arrived])), default=0)
        again = encoder_for(dialect, HEAD)
        again.fold(events[:cursor])
        rest = parsed(again.encode(events[cursor:])) if cursor < len(events) else []
        assert SAID[dialect]([*frames[:arrived], *rest]) == meant(events)


@given(logs_of_kinds, batch_sizes, batch_sizes)
def test_starting_after_any_number_gives_exactly_what_is_missing(events, sizes, replay_sizes):
    frames = parsed(encoded(OPENAI_RESPONSES, events, sizes))
    structure = [name for name in names(frames) if not name.endswith(".delta")]
    for arrived, number in enumerate([0, *numbers(frames)]):
        encoder = encoder_for(OPENAI_RESPONSES, HEAD, starting_after=number)
        encoder.fold(events[: number // 16])
        rest = parsed(encoded(OPENAI_RESPONSES, events[number // 16 :], replay_sizes, encoder=encoder))
        both = frames[:arrived] + rest
        assert numbers(both) == sorted(set(numbers(both)))
        assert said_in_responses(both) == meant(events)
        assert [name for name in names(both) if not name.endswith(".delta")] == structure


@given(logs_of_kinds, batch_sizes)
def test_every_frame_is_strictly_valid_for_the_sdk_and_the_numbers_rise(events, sizes):
    frames = parsed(encoded(OPENAI_RESPONSES, events, sizes))
    assert numbers(frames) == sorted(set(numbers(frames)))
    for name, data, event_id in frames:
        assert (data["sequence_number"] % 16 == 0) == bool(event_id)
        official = copy.deepcopy(data)
        if official.get("response", {}).get("error"):
            official["response"]["error"]["code"] = "server_error"  # the one field where our codes are richer
        TYPES[name].model_validate(official, strict=True)
    for _, data, _ in parsed(encoded(OPENAI_CHAT, events, sizes)):
        if isinstance(data, dict) and "choices" in data:
            ChatCompletionChunk.model_validate(data, strict=True)


@given(logs_of_kinds, batch_sizes)
def test_every_item_and_part_is_added_once_before_its_deltas_and_done_once_after_them(events, sizes):
    state = {}
    for name, data, _ in parsed(encoded(OPENAI_RESPONSES, events, sizes)):
        place = data.get("output_index"), data.get("content_index")
        if name.endswith(".added"):
            assert place not in state
            state[place] = "open"
        elif place[0] is not None:
            assert state[place] == "open"
            if name in ("response.content_part.done", "response.output_item.done"):
                state[place] = "done"
    ended = events[-1].payload
    if ended["end_state"] == "completed" and all(e.kind != TOOL_CALL for e in events):
        assert set(state.values()) <= {"done"}


@given(logs_of_kinds, batch_sizes)
def test_the_last_event_holds_the_items_that_the_body_has(events, sizes):
    *_, (_, data, _) = parsed(encoded(OPENAI_RESPONSES, events, sizes))
    body = encoder_for(OPENAI_RESPONSES, HEAD).body(events)
    assert data["response"] == body
    items = copy.deepcopy(body)
    if items["error"]:
        items["error"]["code"] = "server_error"
    Response.model_validate(items, strict=True)
    said, calls = meant(events)
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


def test_adjacent_pieces_of_one_call_are_one_frame_and_of_two_calls_are_two():
    events = log_of_kinds([(TOOL_CALL, 0, "{"), (TOOL_CALL, 0, "}"), (TOOL_CALL, 1, "{}")])[:4]
    for dialect in ENCODERS:
        frames = parsed(encoded(dialect, events, (9,)))
        assert SAID[dialect](frames)[1] == [["f0", "{}"], ["f1", "{}"]]
        assert [position.seq for position in seqs_in(frames)][-2:] == [3, 4]


def test_reasoning_that_begins_again_is_an_item_of_its_own():
    steps = [(REASONING, "a"), (TEXT, "b"), (REASONING, "c"), (TEXT, "d")]
    response = encoder_for(OPENAI_RESPONSES, HEAD).body(log_of_kinds(steps))
    assert [(item["type"], item["content"][0]["text"]) for item in response["output"]] == [
        ("reasoning", "a"), ("message", "bd"), ("reasoning", "c"),
    ]  # fmt: skip


def test_hostile_names_ids_and_arguments_of_calls_never_forge_a_frame():
    hostile = '"}]}\n\ndata: [DONE]\n\n\u2028\r'
    payload = {"index": 0, "call_id": hostile, "name": hostile, "arguments": hostile, "complete": False}
    end = Event(3, 1, TOOL_CALL, {"index": 0, "call_id": "c", "arguments": "", "complete": True})
    for dialect in ENCODERS:
        plain = {**payload, "call_id": "c", "name": "f", "arguments": "{}"}
        started = Event(1, 1, STARTED, {})
        raws = [encoded(dialect, [started, Event(2, 1, TOOL_CALL, one), end]) for one in (payload, plain)]
        shapes = [[(name, event_id) for name, _, event_id in parsed(raw)] for raw in raws]
        assert shapes[0] == shapes[1]
        assert SAID[dialect](parsed(raws[0]))[1] == [[hostile, hostile]]


def test_a_continuation_inside_a_call_changes_nothing_of_it():
    events = log_of_kinds([(TOOL_CALL, 0, "{"), (TOOL_CALL, 0, "}")])
    continued = Event(3, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})
    moved = [Event(event.seq + 1, 2, *event[2:]) for event in events[2:]]
    for dialect in ENCODERS:
        assert SAID[dialect](parsed(encoded(dialect, [*events[:2], continued, *moved])))[1] == [["f0", "{}"]]
    assert moved[-1].kind == ENDED
