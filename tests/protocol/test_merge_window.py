"""Owns the number of events that an answer costs when deltas are gathered for a while before they are stored."""

import pytest

from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.events import Draft, merge
from streaming.protocol.response_stream import ResponseStream

TOKENS = 300
TOKENS_PER_S = 50


class Clock:
    """Time that only moves when it is told to."""

    now_ms = 0.0


def events_of(window_ms, texts):
    """Store what has gathered once the oldest of it has waited for the window."""
    clock, stream = Clock(), ResponseStream(detokenizer=None)
    pending: list[Draft] = []
    due_ms = None
    events = []

    def commit():
        nonlocal pending, due_ms
        events.extend(merge(pending))
        pending, due_ms = [], None

    for number, text in enumerate(texts):
        arrives_ms = number * 1000 / TOKENS_PER_S
        if due_ms is not None and due_ms <= arrives_ms:
            clock.now_ms = due_ms
            commit()
        clock.now_ms = arrives_ms
        pending += stream.feed(EngineOutput(text=text, token_count=1))
        if due_ms is None:
            due_ms = clock.now_ms + window_ms
        if due_ms <= clock.now_ms:
            commit()
    pending += stream.flush(natural=True)
    commit()
    return events


@pytest.mark.parametrize(("window_ms", "events"), [(0, 300), (20, 300), (100, 60)])
def test_300_tokens_at_50_a_second_are_so_many_events(window_ms, events):
    """A token comes each 20 ms: a window of 20 ms gathers nothing, one of 100 ms five tokens."""
    texts = [f"{number} " for number in range(TOKENS)]
    stored = events_of(window_ms, texts)
    assert len(stored) == events
    assert "".join(event.payload["text"] for event in stored) == "".join(texts)
    assert sum(event.token_count for event in stored) == TOKENS
