"""Owns the laws that every dialect keeps: replay from any cut, rising cursors, no forged frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.cursor import parse_last_event_id
from streaming.protocol.dialects import ENCODERS, Head, encoder_for
from streaming.protocol.end_state import End
from streaming.protocol.events import ENDED, STARTED, TEXT, Event
from tests.protocol.sample_events import HEAD, batch_sizes, encoded, log, logs, parsed

DIALECTS = list(ENCODERS)


def text_in(frames):
    """The answer's text as the deltas of a dialect give it."""
    text = ""
    for _, data, _ in frames:
        if isinstance(data, dict) and data.get("type") == "response.output_text.delta":
            text += data["delta"]
        elif isinstance(data, dict):
            text += "".join(choice["delta"].get("content", "") for choice in data.get("choices", []))
    return text


def seqs_in(frames):
    return [parse_last_event_id(event_id, HEAD.response_id) for _, _, event_id in frames if event_id]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=logs, sizes=batch_sizes, replay_sizes=batch_sizes)
def test_for_every_cut_text_up_to_it_and_replay_after_it_are_the_whole(dialect, events, sizes, replay_sizes):
    whole = "".join(event.payload["text"] for event in events if event.kind == TEXT)
    assert text_in(parsed(encoded(dialect, events, sizes))) == whole
    for cut in range(len(events) + 1):
        before = parsed(encoded(dialect, events[:cut], sizes))
        again = encoder_for(dialect, HEAD)
        again.fold(events[:cut])
        after = parsed(encoded(dialect, events[cut:], replay_sizes, encoder=again))
        assert text_in(before) + text_in(after) == whole
        seqs = [position.seq for position in seqs_in(before) + seqs_in(after)]
        assert seqs == sorted(set(seqs))
        assert seqs[-1] == events[-1].seq


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=logs, sizes=batch_sizes)
def test_a_lost_connection_goes_on_after_the_last_id_that_arrived(dialect, events, sizes):
    """Frames without an id never hold text that the id before them does not know of."""
    whole = "".join(event.payload["text"] for event in events if event.kind == TEXT)
    frames = parsed(encoded(dialect, events, sizes))
    for arrived in range(len(frames) + 1):
        cursor = max((position.seq for position in seqs_in(frames[:arrived])), default=0)
        again = encoder_for(dialect, HEAD)
        again.fold(events[:cursor])
        rest = parsed(again.encode(events[cursor:])) if cursor < len(events) else []
        assert text_in(frames[:arrived]) + text_in(rest) == whole


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=logs, sizes=batch_sizes)
def test_an_id_names_a_stored_event_and_its_epoch(dialect, events, sizes):
    epochs = {event.seq: event.epoch for event in events}
    for position in seqs_in(parsed(encoded(dialect, events, sizes))):
        assert epochs[position.seq] == position.epoch


hostile = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.sampled_from(["\n\ndata: [DONE]\n\n", "\r\rid: 9\r", '"}]}\n\ndata: {"error":1}', "\u2028data: x\u2029"]),
    st.sampled_from(["\x85\x0b\0", "data:", '\\"', "\\u000a", "[DONE]", "</script>"]),
)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(text=hostile, model=hostile, message=hostile)
def test_hostile_text_model_names_and_messages_never_forge_or_break_a_frame(dialect, text, model, message):
    def frames_with(text, model, end):
        events = [Event(1, 1, STARTED, {}), Event(2, 1, TEXT, {"text": text}), Event(3, 1, ENDED, end.to_payload({}))]
        raw = encoded(dialect, events, head=Head(HEAD.response_id, model, 1, include_usage=True))
        assert raw.isascii()
        assert b"\r" not in raw
        return parsed(raw)

    completed = End("completed", "stop", finish_reason="stop")
    failed = End("errored", "upstream_error", error_message=message)
    harmless = End("errored", "upstream_error", error_message="plain")
    for end, plain_end in ((completed, completed), (failed, harmless)):
        frames = frames_with(text, model, end)
        shape = [(name, event_id) for name, _, event_id in frames]
        assert shape == [(name, event_id) for name, _, event_id in frames_with("plain", "m", plain_end)]
        assert text_in(frames) == text
    last = frames[-1][1]
    assert (last.get("error") or last["response"]["error"])["message"] == message


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
    assert (name, event_id) == ("message", None)
    error = data["error"]
    assert (error["code"], error["resumable"]) == ("stream_detached", True)
    assert error["last_event_id"] == f"{HEAD.response_id}:2.17"
    assert error["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_adjacent_deltas_of_one_batch_are_one_frame_and_others_stay_apart(dialect):
    events = log(["a", "b", "c", "d"], continued_after=2)
    frames = parsed(encoded(dialect, events, sizes=(len(events),)))
    deltas = [(text_in([frame]), frame[2]) for frame in frames if text_in([frame])]
    assert deltas == [("ab", f"{HEAD.response_id}:1.3"), ("cd", f"{HEAD.response_id}:2.6")]
