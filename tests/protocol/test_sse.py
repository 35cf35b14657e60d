"""Owns the laws of written frames: one line of data, fields from a fixed alphabet, a heartbeat no SDK chokes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.sse import HEARTBEAT, checked_field, frame
from streaming.protocol.sse_parser import SSEParser


def test_a_frame_has_event_id_and_data_in_this_order():
    assert frame("{}", event="response.created", id="resp_X:1.2") == (
        b"event: response.created\nid: resp_X:1.2\ndata: {}\n\n"
    )
    assert frame("[DONE]") == b"data: [DONE]\n\n"


@pytest.mark.parametrize("data", ["", "a\nb", "a\rb", "é", "\u2028"])
def test_data_that_is_no_single_ascii_line_is_refused(data):
    with pytest.raises(ValueError, match="one line"):
        frame(data)


@pytest.mark.parametrize("field", ["", "a b", "a\nb", "a\n", "é", "a\0", "٣"])
def test_a_field_outside_the_alphabet_is_refused(field):
    with pytest.raises(ValueError, match="not allowed"):
        frame("{}", event=field)
    with pytest.raises(ValueError, match="not allowed"):
        frame("{}", id=field)
    with pytest.raises(ValueError, match="not allowed"):
        checked_field(field)


def test_the_heartbeat_is_one_comment_line_and_dispatches_nothing():
    assert HEARTBEAT == b": ping\n"
    parser = SSEParser()
    assert parser.feed(frame("1", id="r:1.1") + HEARTBEAT) == [("message", "1", "r:1.1")]
    assert parser.feed(HEARTBEAT * 3 + frame("2")) == [("message", "2", "r:1.1")]


@given(st.text(st.characters(max_codepoint=127, exclude_characters="\r\n"), min_size=1))
def test_a_frame_reads_back_as_written(data):
    assert SSEParser().feed(frame(data, event="e", id="1")) == [("e", data, "1")]
