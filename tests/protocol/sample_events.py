"""Owns sample logs and how encoded bytes are read back, for the tests of the dialects."""

import json

from hypothesis import strategies as st

from streaming.protocol.dialects import Head, encoder_for
from streaming.protocol.end_state import decide
from streaming.protocol.engine_output import ToolFragment
from streaming.protocol.events import CONTINUED, ENDED, REASONING, REFUSAL, STARTED, TEXT, TOOL_CALL, Event
from streaming.protocol.sse_parser import SSEParser
from streaming.protocol.tool_calls import ToolCalls
from streaming.protocol.usage import Usage

HEAD = Head("resp_01JX0000000000000000000000", "demo", 1_700_000_000)
HEAD_USAGE = Head("resp_01JX0000000000000000000000", "demo", 1_700_000_000, include_usage=True)
CHAT_HEAD = Head(
    "resp_01JX0000000000000000000000", "demo", 1_700_000_000,
    conversation_id="conv_1", user_message_id="msg_1", message_id="msg_2",
)  # fmt: skip

USAGE = Usage(
    prompt_tokens=7, cached_tokens=0, generated_tokens=6, completion_tokens=5, sent_tokens=5, estimated=False
).to_payload()

ENDS = {
    "stop": decide(None, "finished", "stop"),
    "length": decide(None, "finished", "length"),
    "content_filter": decide(None, "finished", "content_filter"),
    "user": decide(None, "stopped", "user"),
    "disconnected": decide(None, "readers_gone"),
    "upstream_error": decide(None, "engine_failed", "upstream_error", "The engine ran out of memory."),
    "idle": decide(None, "timer_fired", "idle"),
    "relay_lost": decide(None, "owner_lost"),
    "tool_calls": decide(None, "finished", "tool_calls"),
}
STOP = {"stop_ms": 12.5, "generated": 6, "sent": 5, "tokens_after_stop": 1, "abort_proven": True}


def log(texts, end="stop", continued_after=None):
    """A whole log: started, the texts, maybe a continuation by another epoch, the end."""
    events, epoch = [Event(1, 1, STARTED, {})], 1
    for index, text in enumerate(texts):
        if index == continued_after:
            epoch = 2
            events.append(Event(len(events) + 1, epoch, CONTINUED, {"attempt": 2, "reason": "relay_lost"}))
        events.append(Event(len(events) + 1, epoch, TEXT, {"text": text}, (index,), 1))
    stop = STOP if ENDS[end].end_state == "cancelled" else None
    events.append(Event(len(events) + 1, epoch, ENDED, ENDS[end].to_payload(USAGE, stop)))
    return events


def log_of_kinds(steps, end="stop", natural=True):
    """A whole log of (kind, text) and of (kind, number of a call, its arguments' next piece), and its calls' ends."""
    events, calls = [Event(1, 1, STARTED, {})], ToolCalls()
    payloads = []
    for kind, *what in steps:
        if kind == TOOL_CALL:
            payloads.append((kind, calls.take(ToolFragment(what[0], None, f"f{what[0]}", what[1]))))
        else:
            payloads.append((kind, {"text": what[0]}))
    payloads += [(TOOL_CALL, payload) for payload in (calls.complete_all() if natural else [])]
    for kind, payload in payloads:
        if payload is not None:
            events.append(Event(len(events) + 1, 1, kind, payload, (), 1))
    events.append(Event(len(events) + 1, 1, ENDED, ENDS[end].to_payload(USAGE)))
    return events


def encoded(dialect, events, sizes=(1,), head=HEAD, encoder=None):
    """The bytes of a connection that gets the events in batches of the given sizes over and over."""
    encoder = encoder or encoder_for(dialect, head)
    raw, start, batches = b"", 0, 0
    while start < len(events):
        size = sizes[batches % len(sizes)]
        raw += encoder.encode(events[start : start + size])
        start, batches = start + size, batches + 1
    return raw


def parsed(raw):
    """(event, data as JSON or text, id or None when the frame itself has none) of every frame."""
    frames = []
    for block in raw.split(b"\n\n")[:-1]:
        [event] = SSEParser().feed(block + b"\n\n")
        data = event.data if event.data == "[DONE]" else json.loads(event.data)
        frames.append((event.event, data, event.id or None))
    assert len(frames) == len(SSEParser().feed(raw))
    return frames


logs = st.builds(
    log,
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), max_size=6),
    st.sampled_from(list(ENDS)),
    st.one_of(st.none(), st.integers(0, 5)),
)
batch_sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)

steps = st.one_of(
    st.tuples(
        st.sampled_from([TEXT, REASONING, REFUSAL]),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
    ),
    st.tuples(st.just(TOOL_CALL), st.integers(0, 2), st.sampled_from(["{", "}", '"a": 1', "", "é"])),
)
logs_of_kinds = st.builds(log_of_kinds, st.lists(steps, max_size=10), st.sampled_from(list(ENDS)), st.booleans())
