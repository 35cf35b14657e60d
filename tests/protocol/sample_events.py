"""Owns sample logs and how encoded bytes are read back, for the tests of the dialects."""

import functools
import json
from typing import NamedTuple

from streaming.protocol.dialects import Head, encoder_for
from streaming.protocol.end_state import decide
from streaming.protocol.engine_output import ToolFragment
from streaming.protocol.events import (
    CONTINUED,
    DELTAS,
    ENDED,
    REASONING,
    REFUSAL,
    STARTED,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Event,
)
from streaming.protocol.sse_parser import SSEParser
from streaming.protocol.tool_calls import ToolCalls
from streaming.protocol.tool_result import ERRORS, ToolResult
from tests.protocol.tape import inputs

HEAD = Head("resp_01JX0000000000000000000000", "demo", 1_700_000_000)
HEAD_USAGE = Head("resp_01JX0000000000000000000000", "demo", 1_700_000_000, include_usage=True)
CHAT_HEAD = Head(
    "resp_01JX0000000000000000000000", "demo", 1_700_000_000,
    conversation_id="conv_1", user_message_id="msg_1", message_id="msg_2",
)  # fmt: skip

USAGE = {
    "prompt_tokens": 7, "cached_tokens": 0, "generated_tokens": 6, "completion_tokens": 5, "sent_tokens": 5,
    "delivered_tokens": 0, "estimated": False,
}  # fmt: skip

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
    """A whole log: started, the texts, maybe a continuation by another epoch after so many of them, the end."""
    return log_of_kinds([(TEXT, text) for text in texts], end, continued_after=continued_after)


def log_of_kinds(steps, end="stop", natural=True, continued_after=None):
    """A whole log of (kind, text), of (kind, number of a call, its arguments' next piece), with the calls' ends, and of
    (kind, call id, output, error): the calls before a result have ended, and behind it others begin."""
    calls, drafts, earlier = ToolCalls(), [], 0
    for index, (kind, *what) in enumerate(steps):
        if index == continued_after:
            drafts.append((CONTINUED, {"attempt": 2, "reason": "relay_lost"}))
        if kind == TOOL_CALL:
            drafts.append((kind, calls.take(ToolFragment(what[0] + earlier, None, f"f{what[0]}", what[1]))))
        elif kind == TOOL_RESULT:
            drafts += [(TOOL_CALL, payload) for payload in calls.complete_all()]
            drafts.append((kind, ToolResult(*what).payload()))
            earlier += 3
        else:
            drafts.append((kind, {"text": what[0]}))
    drafts += [(TOOL_CALL, payload) for payload in (calls.complete_all() if natural else [])]
    events, epoch = [Event(1, 1, STARTED, {})], 1
    for kind, payload in drafts:
        epoch += kind == CONTINUED
        if payload is not None:
            ids = (len(events),) if kind in DELTAS else ()
            events.append(Event(len(events) + 1, epoch, kind, payload, ids, 0 if kind == CONTINUED else 1))
    stop = STOP if ENDS[end].end_state == "cancelled" else None
    events.append(Event(len(events) + 1, epoch, ENDED, ENDS[end].to_payload(USAGE, stop)))
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


@functools.lru_cache(maxsize=4096)
def _frame(block):
    [event] = SSEParser().feed(block + b"\n\n")
    data = event.data if event.data == "[DONE]" else json.loads(event.data)
    return event.event, data, event.id or None


def parsed(raw):
    """(event, data as JSON or text, id or None when the frame itself has none) of every frame.

    Each block must be exactly one event. Equal frames are one object, which nobody may change.
    """
    *blocks, rest = raw.split(b"\n\n")
    assert rest == b""
    return [_frame(block) for block in blocks]


class Case(NamedTuple):
    """A log of every kind, and how many events come in each batch to a connection and to the one that resumes it."""

    events: list[Event]
    sizes: list[int]
    replay_sizes: list[int]


def _step(tape):
    kind = tape.of([TEXT, TEXT, REASONING, REFUSAL, TOOL_CALL, TOOL_CALL, TOOL_RESULT])
    if kind == TOOL_RESULT:
        return kind, f"call_{tape.below(3)}", tape.any_text(4), tape.of([None, *ERRORS])
    if kind == TOOL_CALL:
        return kind, tape.below(3), tape.of(["", "{", "}", '"a": 1', "é"])
    return kind, tape.any_text(4, at_least=1)


def _case(tape):
    sizes, replay_sizes = (tape.many(lambda: 1 + tape.below(4), 3, at_least=1) for _ in range(2))
    end, natural, continued_after = tape.of(list(ENDS)), not tape.flag(), tape.of([None, 0, 1, 2, 3, 5])
    return Case(log_of_kinds(tape.many(lambda: _step(tape), 10), end, natural, continued_after), sizes, replay_sizes)


cases = inputs(96, _case)
