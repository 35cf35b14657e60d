"""Laws of engines that say too much: events are of bounded size, an answer too, and what fits is what was said."""

import json

import pytest

from streaming.protocol.allowance import ITEM_BYTES
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.dialects import ENCODERS
from streaming.protocol.dialects.base import Head
from streaming.protocol.engine_output import EngineOutput, ToolFragment
from streaming.protocol.events import (
    ENDED,
    EVENT_BYTES_MAX,
    REASONING,
    STARTED,
    TEXT,
    TOOL_CALL,
    Draft,
    Event,
    calls_of,
    cut,
    joined_payload,
    merge,
    size_bytes,
)
from streaming.protocol.markers import FORMATS
from streaming.protocol.rebuilt_stream import RebuiltStream
from streaming.protocol.response_stream import ResponseStream
from streaming.protocol.sse_parser import SSEParser
from streaming.protocol.upstream.anthropic_messages import AnthropicMessages
from streaming.protocol.upstream.json_events import LABEL_CHARS_MAX, UpstreamFailure
from streaming.protocol.upstream.openai_chat import OpenAIChat
from tests.protocol.vocabularies import from_pieces

MAX_BYTES = 256 * 1024
LONG = "0123456789abcdef" * 40_000
HEAD = Head("resp_01JX0000000000000000000000", "demo", 1_700_000_000)
USAGE = {"prompt_tokens": 1, "completion_tokens": 1}


def call(arguments, **fields):
    return {"index": 0, "call_id": "c", "arguments": arguments, "complete": False, **fields}


@pytest.mark.parametrize(
    ("kind", "payload", "field"),
    [
        (TEXT, {"text": LONG}, "text"),
        (REASONING, {"text": "☕" + LONG}, "text"),
        (TEXT, {"text": "🙂" * 100_000}, "text"),
        (TOOL_CALL, call(LONG, name="f"), "arguments"),
        (TOOL_CALL, call(LONG), "arguments"),
    ],
)
def test_a_delta_of_any_length_is_stored_in_pieces_that_are_it_together(kind, payload, field):
    pieces = cut([Draft(kind, payload, (1, 2, 3), 3)])
    assert len(pieces) >= 3
    assert all(len(piece.payload[field].encode()) <= EVENT_BYTES_MAX for piece in pieces)
    assert all(size_bytes(piece.payload) <= EVENT_BYTES_MAX + 128 for piece in pieces)
    assert joined_payload(pieces) == payload
    assert [(piece.token_ids, piece.token_count) for piece in pieces] == [((1, 2, 3), 3)] + [((), 0)] * len(pieces[1:])
    assert cut(pieces) == pieces
    assert merge(pieces)[0].payload == payload


def test_what_is_no_delta_or_not_long_is_not_cut():
    drafts = [Draft(STARTED, {}), Draft(TEXT, {"text": "x" * EVENT_BYTES_MAX}), Draft(ENDED, {"text": None})]
    assert cut(drafts) == drafts


SAID = {
    "text": lambda n: EngineOutput(text="x" * 100, token_count=1),
    "text of other letters": lambda n: EngineOutput(text="चाय" * 30, token_count=1),
    "reasoning": lambda n: EngineOutput(reasoning="x" * 100, token_count=1),
    "refusal": lambda n: EngineOutput(refusal="x" * 100, token_count=1),
    "arguments": lambda n: calling(ToolFragment(0, "c", "f", "1" * 100)),
    "one character each beside a long id": lambda n: calling(ToolFragment(0, "c" * 5000, "f", "1")),
    "calls": lambda n: calling(ToolFragment(n, f"c{n}", "f", "{}")),
    "calls without end or id": lambda n: calling(ToolFragment(n, None, "f" * 50, "")),
    "turns from one kind to another": lambda n: EngineOutput(**{"text" if n % 2 else "reasoning": "x"}, token_count=1),
}


def calling(fragment):
    return EngineOutput(token_count=1, tool_calls=(fragment,))


@pytest.mark.parametrize("say", SAID.values(), ids=SAID)
def test_an_answer_without_end_ends_at_its_limit_whatever_it_is_made_of(say):
    stream = ResponseStream(detokenizer=None, max_bytes=MAX_BYTES, max_tokens=10**6)
    drafts = []
    for nth in range(20_000):
        drafts += stream.feed(say(nth))
        if stream.finished:
            break
    assert stream.finish_reason == "length"
    drafts += stream.flush(natural=True)
    merged = merge(drafts)
    assert sum(size_bytes(draft.payload) for draft in drafts) + ITEM_BYTES * len(merged) > MAX_BYTES // 5
    assert sum(size_bytes(draft.payload) for draft in merged) <= MAX_BYTES + 64 * len(merged)
    # Each item costs every reader of the responses dialect more than its text.
    assert len({draft.payload["index"] for draft in merged if draft.kind == TOOL_CALL}) <= MAX_BYTES // ITEM_BYTES
    assert len(merged) <= MAX_BYTES // ITEM_BYTES or merged[0].kind == TOOL_CALL
    # A call that was cut short is none.
    assert not any(call["complete"] for call in calls_of(drafts))
    assert stream.feed(say(0)) == []


@pytest.mark.parametrize(
    ("markers", "first", "more"),
    [
        ("none", EngineOutput(), calling(ToolFragment(0, "c", None, "1" * 100))),
        ("none", EngineOutput(), calling(ToolFragment(0, None, None, "1" * 100))),
        ("hermes", EngineOutput(text='<tool_call>{"name": "'), EngineOutput(text="f" * 100)),
        ("llama3", EngineOutput(text='{"name": "f", "parameters": '), EngineOutput(text=" " * 100)),
    ],
)
def test_what_is_kept_and_not_shown_has_the_same_limit(markers, first, more):
    stream = ResponseStream(detokenizer=None, max_bytes=MAX_BYTES, markers=FORMATS[markers])
    fed, drafts = 0, stream.feed(first)
    while not stream.finished and fed < 2 * MAX_BYTES:
        drafts += stream.feed(more)
        fed += 100
    assert (stream.finish_reason, drafts) == ("length", [])
    assert MAX_BYTES - 4 * ITEM_BYTES < fed <= MAX_BYTES + 100
    assert sum(size_bytes(draft.payload) for draft in stream.flush(natural=True)) <= MAX_BYTES


def test_a_call_in_marked_text_counts_once():
    said = f'<tool_call>{{"name": "f", "arguments": {{"a": "{"x" * (MAX_BYTES - 6 * ITEM_BYTES)}"}}}}</tool_call>'
    stream = ResponseStream(detokenizer=None, max_bytes=MAX_BYTES, markers=FORMATS["hermes"])
    for at in range(0, len(said), 1000):
        stream.feed(EngineOutput(text=said[at : at + 1000], token_count=1))
    stream.feed(EngineOutput(finish_reason="stop"))
    assert (stream.finish_reason, [call["complete"] for call in stream.calls]) == ("tool_calls", [True])


def test_an_answer_of_just_its_limit_is_whole():
    for field in ("text", "reasoning", "refusal"):
        room = MAX_BYTES - (0 if field == "text" else ITEM_BYTES)
        stream = ResponseStream(detokenizer=None, max_bytes=MAX_BYTES)
        drafts = [d for _ in range(2) for d in stream.feed(EngineOutput(token_count=1, **{field: "x" * (room // 2)}))]
        drafts += stream.feed(EngineOutput(finish_reason="stop"))
        assert (stream.finish_reason, len(joined_payload(drafts)["text"])) == ("stop", room)


def test_an_answer_taken_over_has_what_is_left_of_its_limit():
    log = [Event(1, 1, STARTED, {}), Event(2, 1, TEXT, {"text": "x" * (MAX_BYTES - 10)}, (), 5)]
    for size, finish_reason in ((10, None), (11, "length")):
        stream = RebuiltStream(log, detokenizer=None, max_bytes=MAX_BYTES)
        stream.feed(EngineOutput(text="y" * size, token_count=1))
        assert stream.finish_reason == finish_reason


@pytest.mark.parametrize(
    ("said_bytes", "result_bytes", "finish_reason"), [(MAX_BYTES - 1000, 1, "length"), (1, MAX_BYTES, None)]
)
def test_a_later_round_has_what_earlier_ones_left_and_results_are_no_part_of_what_an_engine_said(
    said_bytes, result_bytes, finish_reason
):
    said = Event(2, 1, TEXT, {"text": "x" * said_bytes}, (), 5)
    asked = [Event(3, 1, TOOL_CALL, call("{}", name="f")), Event(4, 1, TOOL_CALL, call("", complete=True))]
    result = Event(5, 1, "tool_result", {"call_id": "c", "output": "4" * result_bytes, "error": None})
    stream = RebuiltStream([said, *asked, result], detokenizer=None, max_bytes=MAX_BYTES)
    stream.feed(EngineOutput(text="y" * 1000, token_count=1))
    assert stream.finish_reason == finish_reason


def test_ids_whose_text_was_stored_in_pieces_go_on_where_they_were():
    tokenizer, ids = from_pieces([b"a" * 40_000, b"b" * 40_000, b"c"]), (0, 1, 2)
    whole = ResponseStream(detokenizer=Detokenizer(tokenizer, []))
    drafts = merge([draft for token_id in ids for draft in whole.feed(EngineOutput((token_id,)))])
    assert len(drafts) == 1
    pieces = cut(drafts)
    assert len(pieces) > 1
    log = [Event(seq, 1, *piece) for seq, piece in enumerate(pieces, 1)]
    again = RebuiltStream(log, detokenizer=Detokenizer(tokenizer, []))
    assert again.output_text == whole.output_text
    assert again.completion_tokens == len(ids)
    (draft,) = again.feed(EngineOutput((ids[2],)))
    assert draft.payload == {"text": "c"}
    assert again.flush(natural=True) == []


def frames(*objects):
    return SSEParser().feed("".join(f"data: {json.dumps(one)}\n\n" for one in objects).encode())


@pytest.mark.parametrize("field", ["id", "name"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_an_id_or_a_name_of_any_length_would_stand_in_every_event_of_its_call(wire, field):
    def read(label):
        labels = {"id": "c", "name": "f", field: label}
        if wire == "openai":
            function = {"name": labels["name"], "arguments": "{}"}
            delta = {"tool_calls": [{"index": 0, "id": labels["id"], "function": function}]}
            reading, event = OpenAIChat(), {"choices": [{"index": 0, "delta": delta}]}
        else:
            block = {"type": "tool_use", "input": {}, **labels}
            reading, event = AnthropicMessages(), {"type": "content_block_start", "index": 0, "content_block": block}
        return reading.read(frames(event)), reading.failure

    (output,), failure = read("x" * LABEL_CHARS_MAX)
    assert failure is None
    assert "x" * LABEL_CHARS_MAX in (output.tool_calls[0].call_id, output.tool_calls[0].name)
    outputs, failure = read("x" * (LABEL_CHARS_MAX + 1))
    assert outputs == []
    assert isinstance(failure, UpstreamFailure)
    assert failure.reason == "upstream_protocol"


@pytest.mark.parametrize("dialect", ENCODERS)
def test_an_ending_in_parts_is_the_ending(dialect):
    ended = {"end_state": "completed", "end_reason": "stop", "finish_reason": "stop", "usage": USAGE}
    log = [
        Event(1, 1, STARTED, {}),
        Event(2, 1, REASONING, {"text": "hm"}),
        Event(3, 1, TEXT, {"text": LONG}),
        Event(4, 1, TOOL_CALL, call("{}", name="f")),
        Event(5, 1, TEXT, {"text": "!"}),
        Event(6, 1, ENDED, ended),
    ]
    for cursor in range(len(log)):
        whole, in_parts = ENCODERS[dialect](HEAD), ENCODERS[dialect](HEAD)
        for encoder in (whole, in_parts):
            encoder.fold(log[:cursor])
        parts = list(in_parts.ending(log[cursor:]))
        assert b"".join(parts) == whole.encode(log[cursor:])
        assert max(map(len, parts[1:]), default=0) < 2 * len(LONG)
