"""Owns the laws that every dialect keeps: replay from any cut, rising cursors, no forged frame."""

import functools

import pytest
from hypothesis import given

from streaming.protocol.dialects import ANTHROPIC, ENCODERS, Head, encoder_for
from streaming.protocol.end_state import End
from streaming.protocol.events import ENDED, STARTED, TEXT, TOOL_CALL, Event
from tests.protocol.said import SAID, meant_in, positions_in, seqs_in, text_in
from tests.protocol.sample_events import HEAD, cases, encoded, log, parsed
from tests.protocol.tape import inputs

DIALECTS = list(ENCODERS)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(cases)
def test_for_every_cut_what_was_said_up_to_it_and_its_replay_are_the_whole(dialect, case):
    events, whole = case.events, meant_in(dialect, case.events)
    assert SAID[dialect](parsed(encoded(dialect, events, case.sizes))) == whole
    for cut in range(len(events) + 1):
        before = parsed(encoded(dialect, events[:cut], case.sizes))
        again = encoder_for(dialect, HEAD)
        again.fold(events[:cut])
        both = before + parsed(encoded(dialect, events[cut:], case.replay_sizes, encoder=again))
        assert SAID[dialect](both) == whole
        seqs = seqs_in(both)
        assert seqs == sorted(set(seqs))
        assert seqs[-1] == events[-1].seq


@pytest.mark.parametrize("dialect", DIALECTS)
@given(cases)
def test_a_lost_connection_goes_on_after_the_last_id_that_arrived(dialect, case):
    """Frames without an id never say what the id before them does not know of."""
    events, whole = case.events, meant_in(dialect, case.events)
    frames = parsed(encoded(dialect, events, case.sizes))

    @functools.cache
    def rest_after(cursor):
        again = encoder_for(dialect, HEAD)
        again.fold(events[:cursor])
        return parsed(again.encode(events[cursor:]))

    cursor = 0
    for arrived in range(len(frames) + 1):
        cursor = max([cursor, *seqs_in(frames[arrived - 1 : arrived])])
        both = [*frames[:arrived], *rest_after(cursor)]
        assert SAID[dialect](both) == whole
        assert both[-1] == frames[-1], "the terminal frames come again"


@pytest.mark.parametrize("dialect", DIALECTS)
@given(cases)
def test_an_id_names_a_stored_event_and_its_epoch(dialect, case):
    epochs = {event.seq: event.epoch for event in case.events}
    for position in positions_in(parsed(encoded(dialect, case.events, case.sizes))):
        assert epochs[position.seq] == position.epoch


ATTACKS = [
    *["\n\ndata: [DONE]\n\n", "\r\rid: 9\r", '"}]}\n\ndata: {"error":1}', "\u2028data: x\u2029"],
    *["\x85\x0b\0", "data:", '\\"', "\\u000a", "[DONE]", "</script>"],
]


def hostile(tape):
    """What a model, a user or an engine may have written."""
    return tape.any_text(30, at_least=1) if tape.flag() else tape.of(ATTACKS)


def shape_of(raw):
    """All that a frame may not owe to what it says."""
    assert raw.isascii()
    assert b"\r" not in raw
    return [(name, event_id) for name, _, event_id in parsed(raw)]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(inputs(96, lambda tape: (hostile(tape), hostile(tape), hostile(tape))))
def test_hostile_text_model_names_and_messages_never_forge_or_break_a_frame(dialect, texts):
    text, model, message = texts

    def encoded_with(text, model, end):
        events = [Event(1, 1, STARTED, {}), Event(2, 1, TEXT, {"text": text}), Event(3, 1, ENDED, end.to_payload({}))]
        return encoded(dialect, events, head=Head(HEAD.response_id, model, 1, include_usage=True))

    completed = End("completed", "stop", finish_reason="stop")
    failed = End("errored", "upstream_error", error_message=message)
    harmless = End("errored", "upstream_error", error_message="plain")
    for end, plain_end in ((completed, completed), (failed, harmless)):
        raw = encoded_with(text, model, end)
        assert shape_of(raw) == shape_of(encoded_with("plain", "m", plain_end))
        assert text_in(dialect, parsed(raw)) == text
    last = parsed(raw)[-1][1]
    assert (last.get("error") or last["response"]["error"])["message"] == message


@pytest.mark.parametrize("dialect", DIALECTS)
@given(inputs(96, lambda tape: (hostile(tape), hostile(tape), hostile(tape))))
def test_hostile_names_ids_and_arguments_of_calls_never_forge_or_break_a_frame(dialect, texts):
    call_id, name, arguments = texts

    def encoded_with(call_id, name, arguments):
        call = {"index": 0, "call_id": call_id, "arguments": arguments, "complete": False, "name": name}
        end = {"index": 0, "call_id": call_id, "arguments": "", "complete": True, "error": "invalid_arguments"}
        return encoded(dialect, [Event(1, 1, STARTED, {}), Event(2, 1, TOOL_CALL, call), Event(3, 1, TOOL_CALL, end)])

    raw = encoded_with(call_id, name, arguments)
    assert shape_of(raw) == shape_of(encoded_with("c", "f", "{}"))
    assert SAID[dialect](parsed(raw))[1] == [[name, arguments]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_events_are_no_bytes(dialect):
    assert encoder_for(dialect, HEAD).encode([]) == b""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_response_id_that_could_forge_a_field_is_refused(dialect):
    with pytest.raises(ValueError, match="not allowed"):
        encoder_for(dialect, Head("resp_X\ndata: x", "demo", 1))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_detached_frame_is_an_error_without_id_that_says_where_to_go_on(dialect):
    [(name, data, event_id)] = parsed(encoder_for(dialect, HEAD).detached(f"{HEAD.response_id}:2.17"))
    assert (name, event_id) == ("error" if dialect == ANTHROPIC else "message", None)
    error = data["error"]
    assert (error["code"], error["resumable"]) == ("stream_detached", True)
    assert error["last_event_id"] == f"{HEAD.response_id}:2.17"
    assert error["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_adjacent_deltas_of_one_batch_are_one_frame_and_others_stay_apart(dialect):
    events = log(["a", "b", "c", "d"], continued_after=2)
    frames = parsed(encoded(dialect, events, sizes=(len(events),)))
    deltas = [(text_in(dialect, [frame]), frame[2]) for frame in frames if text_in(dialect, [frame])]
    assert deltas == [("ab", f"{HEAD.response_id}:1.3"), ("cd", f"{HEAD.response_id}:2.6")]
