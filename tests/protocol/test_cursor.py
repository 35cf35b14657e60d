"""Owns the laws of positions: an event id reads back, everything else a client may send is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.cursor import CursorError, Position, format_event_id, parse_last_event_id

ID = "resp_01JX0000000000000000000000"


@given(st.integers(0, 10**10 - 1), st.integers(0, 10**10 - 1))
def test_an_event_id_reads_back(epoch, seq):
    text = format_event_id(ID, epoch, seq)
    assert text == f"{ID}:{epoch}.{seq}"
    assert parse_last_event_id(text, ID) == Position(epoch, seq)


def test_a_bare_seq_has_no_epoch():
    assert parse_last_event_id("17", ID) == Position(None, 17)


NUMBERS = ["", " 1", "1 ", "-1", "+1", "1.5", "٣", "²", "1" * 11, "0x1", "1\n", "\0"]
ENDINGS = ["1", "1.", ".1", "1.2.3", "1.2\n", "-1.2", f"1.{'9' * 11}", "١.٢"]
GARBAGE = [*NUMBERS, *(f"{ID}:{ending}" for ending in ENDINGS), f" {ID}:1.2", "x" * 10_000, f"{'x' * 65}:1.2"]


@pytest.mark.parametrize("text", GARBAGE)
def test_anything_else_is_refused(text):
    with pytest.raises(CursorError, match="not an event id"):
        parse_last_event_id(text, ID)


def test_an_id_of_another_response_is_refused_without_naming_it():
    with pytest.raises(CursorError, match="another response") as caught:
        parse_last_event_id("resp_SECRET:1.2", ID)
    assert "SECRET" not in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_a_position_or_a_cursor_error(text):
    try:
        position = parse_last_event_id(text, ID)
    except CursorError:
        return
    assert text.isascii()
    assert 0 <= position.seq < 10**10
