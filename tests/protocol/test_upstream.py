"""The laws of reading foreign wires: any cut gives the same answer, nothing is invented, counts add up to reports."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.engine_output import EngineUsage, ToolFragment
from streaming.protocol.events import joined_payload
from streaming.protocol.upstream import AnthropicMessages, OpenAIChat, UpstreamFailure, VllmGenerate
from streaming.protocol.upstream import anthropic_messages as anthropic_wire
from streaming.protocol.upstream import openai_chat as openai_wire
from streaming.protocol.upstream.meter import Meter
from tests.protocol.upstream_wires import (
    STOP,
    anthropic,
    block,
    chunk,
    delta,
    drafts_of,
    failure_of,
    fragments,
    message_delta,
    message_start,
    openai,
    outputs_of,
    report,
    sse,
    summed,
)

OPENAI_ANSWER = (
    chunk(role="assistant", content=None),
    chunk(reasoning_content="Thi"),
    chunk(reasoning="nk"),
    chunk(content="Café "),
    chunk(content=""),
    chunk(content="☕\u2028\ud83d"),
    chunk(content="\ude00"),
    chunk(refusal="No."),
    chunk(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": " 1}"}}]),
    chunk("tool_calls"),
    report(completion=30, prompt_tokens_details={"cached_tokens": 0}),
    "[DONE]",
)
ANTHROPIC_ANSWER = (
    message_start(input_tokens=3, cache_read_input_tokens=4, cache_creation_input_tokens=0, output_tokens=1),
    {"type": "ping"},
    block(0, "thinking", thinking=""),
    delta(0, "thinking_delta", thinking="Think"),
    delta(0, "signature_delta", signature="abc"),
    {"type": "content_block_stop", "index": 0},
    block(1, "text", text=""),
    delta(1, "text_delta", text="Café "),
    delta(1, "text_delta", text="☕\u2028\ud83d"),
    delta(1, "text_delta", text="\ude00No."),
    block(2, "tool_use", id="c1", name="f", input={}),
    delta(2, "input_json_delta", partial_json=""),
    delta(2, "input_json_delta", partial_json='{"a":'),
    delta(2, "input_json_delta", partial_json=" 1}"),
    message_delta("tool_use", output_tokens=30),
    STOP,
)
WIRES = {"openai": (OpenAIChat, OPENAI_ANSWER), "anthropic": (AnthropicMessages, ANTHROPIC_ANSWER)}


@pytest.fixture(params=WIRES)
def wire(request):
    return WIRES[request.param]


def test_an_openai_answer_of_every_kind_comes_through():
    outputs = openai(*OPENAI_ANSWER)
    usage = EngineUsage(7, 30, 0)
    assert summed(outputs) == ("Café ☕\u2028\ud83d\ude00", "Think", "No.", 30, "tool_calls", usage)
    assert fragments(outputs) == [
        ToolFragment(0, "c1", "f", ""),
        ToolFragment(0, None, None, '{"a":'),
        ToolFragment(0, None, None, " 1}"),
    ]


def test_an_anthropic_answer_of_every_kind_comes_through():
    outputs = anthropic(*ANTHROPIC_ANSWER)
    assert summed(outputs)[:2] == ("Café ☕\u2028\ud83d\ude00No.", "Think")
    assert summed(outputs)[3:] == (30, "tool_calls", EngineUsage(7, 30, 4))
    assert [fragment.arguments for fragment in fragments(outputs)] == ["", '{"a":', " 1}"]
    assert {fragment.index for fragment in fragments(outputs)} == {2}


def test_an_answer_of_several_kinds_becomes_the_events_of_a_response(wire):
    reading, answer = wire
    drafts, stream = drafts_of(outputs_of(reading(), sse(*answer)))
    texts = {kind: "".join(d.payload["text"] for d in drafts if d.kind == kind) for kind in ("text", "reasoning")}
    assert texts["text"].startswith("Café ☕\u2028😀")
    assert texts["reasoning"] == "Think"
    call = joined_payload([draft for draft in drafts if draft.kind == "tool_call"])
    assert (call["call_id"], call["name"], call["arguments"], call["complete"]) == ("c1", "f", '{"a": 1}', True)
    assert (stream.finish_reason, stream.completion_tokens) == ("tool_calls", 30)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_cut_gives_the_same_answer(wire, newline):
    """Another line end matters where it is; elsewhere the cuts of the first one have been everywhere."""
    reading, answer = wire
    data = sse(*answer, newline=newline)
    whole = outputs_of(reading(), data)
    cuts = range(len(data) + 1)
    for cut in cuts if newline == "\n" else [at for at in cuts if set(data[max(0, at - 2) : at + 2]) & set(b"\r\n")]:
        outputs = outputs_of(reading(), data[:cut], data[cut:])
        assert (summed(outputs), fragments(outputs)) == (summed(whole), fragments(whole))


@given(st.data())
def test_any_cuts_give_the_same_answer(data):
    reading, answer = WIRES[data.draw(st.sampled_from(sorted(WIRES)))]
    stream = sse(*answer)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert summed(outputs_of(reading(), *reads)) == summed(outputs_of(reading(), stream))


def test_comments_names_and_fields_of_theirs_change_nothing(wire):
    reading, answer = wire
    noisy = b"".join(b": ping\n\nretry: 5\nid: <script>\nnonsense\nevent: execute\n" + sse(part) for part in answer)
    assert summed(outputs_of(reading(), noisy)) == summed(outputs_of(reading(), sse(*answer)))


def test_texts_that_came_together_are_one_output_and_other_kinds_keep_their_order():
    outputs = openai(chunk(content="a"), chunk(content="b"), chunk(reasoning="c"), chunk(content="d"), chunk("stop"))
    assert [(output.text, output.reasoning, output.token_count) for output in outputs] == [
        ("ab", "", 2),
        ("", "c", 1),
        ("d", "", 1),
        (None, "", 0),
    ]
    each = [chunk(content="a", usage={"completion_tokens": n, "prompt_tokens": 1}) for n in (2, 5)]
    assert openai(*each, chunk("stop"))[0][1:5] == ("aa", 5, None, EngineUsage(1, 5, None))


def test_chunks_without_content_give_nothing():
    empty = [
        chunk(role="assistant"),
        chunk(content=None),
        chunk(content=""),
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [3, {"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 0, "delta": None, "finish_reason": ""}]},
        chunk(tool_calls=None),
        chunk(tool_calls=[None]),
        chunk(usage="none"),
        chunk(usage={}),
        {"error": None, "choices": []},
    ]
    assert OpenAIChat().read([event for part in empty for event in events_of(part)]) == []
    others = [{"type": "ping"}, {"type": "new"}, {}, delta(0, "new"), block(0, "new"), block(0, "text")]
    others += [message_start(), {"type": "message_start"}, {"type": "message_delta"}, block(0, "thinking")]
    assert AnthropicMessages().read([event for part in others for event in events_of(part)]) == []


def events_of(payload):
    from streaming.protocol.sse_parser import SSEParser

    return SSEParser().feed(sse(payload))


@pytest.mark.parametrize(("theirs", "ours"), openai_wire.FINISH_REASONS.items())
def test_every_finish_reason_of_openais_table_is_ours(theirs, ours):
    assert openai(chunk(content="a"), chunk(theirs), "[DONE]")[-1].finish_reason == ours


@pytest.mark.parametrize(("theirs", "ours"), anthropic_wire.FINISH_REASONS.items())
def test_every_finish_reason_of_anthropics_table_is_ours(theirs, ours):
    assert anthropic(delta(0, "text_delta", text="a"), message_delta(theirs), STOP)[-1].finish_reason == ours


@pytest.mark.parametrize("theirs", ["STOP", "weird", 3, {"a": 1}])
def test_an_unknown_finish_reason_is_a_failure_and_what_came_with_it_is_kept(theirs):
    outputs, failure = failure_of(OpenAIChat(), chunk(theirs, content="a"), chunk(content="b"))
    assert (summed(outputs)[0], failure.reason) == ("a", "upstream_protocol")
    outputs, failure = failure_of(AnthropicMessages(), delta(0, "text_delta", text="a"), message_delta(theirs))
    assert (summed(outputs)[0], failure.reason) == ("a", "upstream_protocol")
    assert "weird" not in failure.message


def test_an_answer_that_ended_in_an_error_is_no_answer():
    assert failure_of(OpenAIChat(), chunk("error"))[1].reason == "upstream_error"


@pytest.mark.parametrize("rest", [(), ("[DONE]",), (chunk(content="more"), "[DONE]")])
def test_a_stream_without_a_finish_reason_is_lost_whatever_ends_it(rest):
    outputs, failure = failure_of(OpenAIChat(), chunk(content="a"), *rest)
    assert summed([*outputs])[0].startswith("a")
    assert failure.reason == "upstream_lost"
    assert failure_of(AnthropicMessages(), delta(0, "text_delta", text="a"), STOP)[1].reason == "upstream_lost"


def test_a_finish_reason_without_done_is_an_end():
    assert openai(chunk(content="a"), chunk("stop"))[-1].finish_reason == "stop"
    assert anthropic(delta(0, "text_delta", text="a"), message_delta("end_turn"))[-1].finish_reason == "stop"


def test_after_the_finish_reason_only_usage_counts():
    late = (chunk("length", content="b"), report(completion=9), {"error": "late"}, "nonsense", "[DONE]")
    outputs = openai(chunk("stop", content="a"), *late)
    assert (summed(outputs)[0], summed(outputs)[3:5]) == ("a", (9, "stop"))
    late = (delta(0, "text_delta", text="b"), block(1, "text", text="c"), message_delta("max_tokens", output_tokens=9))
    outputs = anthropic(delta(0, "text_delta", text="a"), message_delta("end_turn", output_tokens=4), *late, STOP)
    assert (summed(outputs)[0], summed(outputs)[3:5]) == ("a", (9, "stop"))


def test_nothing_after_done_is_looked_at():
    reading = OpenAIChat()
    data = sse(chunk(content="a"), chunk("stop"), " [DONE] ", "nonsense", report(completion=99))
    assert summed(outputs_of(reading, data))[3] == 1
    assert reading.is_over
    assert reading.failure is None


ERRORS = [
    {"error": {"message": "secret"}},
    {"error": "secret"},
    {"object": "error", "message": "secret"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "secret"}},
]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_the_stream_is_a_failure_in_our_words(wire, error):
    reading, answer = wire
    outputs, failure = failure_of(reading(), *answer[:10], error, *answer[10:])
    assert summed(outputs)[0].startswith("Café")
    assert failure.reason == "upstream_error"
    assert "secret" not in failure.message
    assert "secret" in failure.said


def test_an_error_may_be_told_by_the_events_name_alone(wire):
    event = events_of({"message": "secret"})[0]._replace(event="error")
    reading = wire[0]()
    assert reading.read([event]) == []
    assert reading.failure.reason == "upstream_error"


@pytest.mark.parametrize("data", ["{", "[1]", "3", "null", "nonsense", "[" * 100_000, '{"a": 1} x'])
def test_what_is_no_object_is_a_failure_and_never_skipped(wire, data):
    outputs, failure = failure_of(wire[0](), *wire[1][:10], data, *wire[1][10:])
    assert failure.reason == "upstream_protocol"
    assert summed(outputs)[0].startswith("Café")


def test_white_space_around_an_object_is_no_fault():
    assert summed(openai(json.dumps(chunk(content="a")) + "  ", chunk("stop")))[0] == "a"


@pytest.mark.parametrize("part", [{"content": 3}, {"content": ["a"]}, {"reasoning": {}}, {"refusal": True}])
def test_content_that_is_no_text_is_a_failure(part):
    assert failure_of(OpenAIChat(), chunk(**part))[1].reason == "upstream_protocol"


@pytest.mark.parametrize("call", [{"id": 3}, {"function": {"name": []}}, {"function": {"arguments": 3}}])
def test_a_call_whose_fields_are_no_text_is_a_failure(call):
    assert failure_of(OpenAIChat(), chunk(tool_calls=[call]))[1].reason == "upstream_protocol"


def test_other_ways_to_spell_a_call_are_read():
    whole = chunk(
        tool_calls=[{"index": -1, "id": "", "function": {"name": "f", "arguments": {"a": 1}}}, {"function": 3}]
    )
    assert fragments(openai(whole, chunk("stop"))) == [ToolFragment(None, None, "f", '{"a": 1}'), ToolFragment()]
    old = (chunk(function_call={"name": "f", "arguments": "{"}), chunk(function_call={"arguments": "}"}))
    assert fragments(openai(*old, chunk("function_call"))) == [
        ToolFragment(None, None, "f", "{"),
        ToolFragment(arguments="}"),
    ]
    given = anthropic(block(1, "tool_use", id="c", name="f", input={"a": 1}), message_delta("tool_use"), STOP)
    assert fragments(given) == [ToolFragment(1, "c", "f", '{"a": 1}')]


def test_calls_side_by_side_keep_their_indices_and_ids():
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(3)]
    drafts, _ = drafts_of(openai(chunk(tool_calls=calls), chunk("tool_calls")))
    assert [d.payload["call_id"] for d in drafts if d.payload["complete"]] == ["c0", "c1", "c2"]


def test_thinking_that_stands_in_the_start_of_its_block_is_kept():
    outputs = anthropic(block(0, "thinking", thinking="a"), block(1, "text", text="b"), message_delta("end_turn"))
    assert summed(outputs)[:2] == ("b", "a")


def test_an_explicit_zero_is_a_value_and_a_missing_count_is_none():
    assert openai(chunk("stop"), report(0, 0))[-1].usage == EngineUsage(0, 0, None)
    assert openai(chunk("stop"), {"usage": {"prompt_tokens": True, "completion_tokens": -1}})[-1].usage == EngineUsage()
    assert openai(chunk("stop"))[-1].usage is None
    assert openai(chunk("stop"), report(prompt_cache_hit_tokens=4))[-1].usage == EngineUsage(7, 5, 4)
    assert anthropic(message_start(input_tokens=0), message_delta("end_turn", output_tokens=0))[
        -1
    ].usage == EngineUsage(0, 0)
    assert anthropic(message_delta("end_turn"))[-1].usage == EngineUsage()


def test_reports_are_cumulative_so_a_later_one_replaces_the_earlier():
    each = [chunk(content="a", usage={"prompt_tokens": 7, "completion_tokens": n}) for n in (1, 2, 4)]
    outputs = outputs_of(OpenAIChat(), *map(sse, each), sse(chunk("stop")), sse(report(completion=6)))
    assert [output.token_count for output in outputs] == [1, 1, 2, 2, 0]
    assert outputs[-1].usage == EngineUsage(7, 6, None)


def test_the_beginnings_count_of_an_anthropic_answer_is_no_report():
    reading = AnthropicMessages()
    outputs = reading.read(events_of(message_start(input_tokens=3, output_tokens=2)))
    outputs += reading.read(events_of(delta(0, "text_delta", text="a")))
    assert [(output.text, output.token_count, output.usage) for output in outputs] == [("a", 1, EngineUsage(3, None))]


def test_without_a_report_the_count_is_a_guess_of_the_right_size():
    assert summed(openai(*[chunk(content=" the")] * 10, chunk("stop")))[3] == 10
    assert summed(openai(*[chunk(content=" lighthouse keeper" * 10)] * 3, chunk("stop")))[3] == 108
    assert summed(anthropic(delta(0, "text_delta", text="x" * 50), message_delta("end_turn")))[3] == 10


@pytest.mark.parametrize("reported", [0, 1, 12, 40, 200])
def test_counts_add_up_to_the_report_unless_the_guess_was_higher(reported):
    texts = [chunk(content=" lamp")] * 12
    assert summed(openai(*texts, chunk("stop"), report(completion=reported)))[3] == max(12, reported)


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 12, 13])
def test_a_guess_never_makes_an_answer_longer_than_it_was_allowed_to_be(max_tokens):
    texts = [chunk(content=" lamp")] * 12
    outputs = openai(*texts, chunk("stop"), max_tokens=max_tokens)
    assert summed(outputs)[3] == min(12, max(0, max_tokens - 1))
    assert summed(outputs)[0] == " lamp" * 12


@given(st.lists(st.one_of(st.integers(0, 80), st.integers(0, 80).map(str)), max_size=30), st.integers(1, 60))
def test_a_meter_never_falls_and_ends_at_or_above_every_report(steps, max_tokens):
    meter, counted, highest, guessed = Meter(max_tokens), 0, 0, 0
    for step in steps:
        given_out = meter.guess(step) if isinstance(step, int) else meter.report(int(step))
        assert given_out >= 0
        counted += given_out
        if isinstance(step, str):
            highest = max(highest, int(step))
        else:
            guessed = max(guessed, counted if given_out else 0)
    assert counted >= highest
    assert guessed <= max_tokens - 1


def ids(*token_ids, finish_reason=None, usage=None):
    made = {"request_id": "generate-tokens-resp_1-1", "usage": usage, "output_mode": "tokens"}
    return made | {"choices": [{"index": 0, "finish_reason": finish_reason, "token_ids": list(token_ids)}]}


def test_an_answer_of_ids_comes_through_with_the_engines_own_name_and_its_exact_usage():
    reading = VllmGenerate()
    end = (ids(7, 8, finish_reason="length"), ids(9), report(3, 5), "[DONE]")
    outputs = outputs_of(reading, sse(ids(4)), sse(ids(5), ids(), ids(6)), sse(*end))
    assert [output.token_ids for output in outputs] == [(4,), (5, 6), (7, 8), ()]
    assert outputs[-1].finish_reason == "length"
    assert outputs[-1].usage == EngineUsage(3, 5, None)
    assert (reading.engine_id, reading.usage) == ("generate-tokens-resp_1-1", outputs[-1].usage)


def test_an_aborted_answer_of_ids_says_so_and_keeps_its_usage():
    usage = {"prompt_tokens": 3, "completion_tokens": 0}
    outputs = outputs_of(VllmGenerate(), sse(ids(finish_reason="abort"), {"choices": [], "usage": usage}, "[DONE]"))
    assert (outputs[-1].finish_reason, outputs[-1].usage) == ("abort", EngineUsage(3, 0))


@pytest.mark.parametrize("wrong", ["ids", [1, -2], [True], [1.5], {"a": 1}])
def test_ids_that_are_none_are_a_failure(wrong):
    payload = ids(4) | {"request_id": 3, "choices": [{"index": 0, "token_ids": wrong}]}
    outputs, failure = failure_of(VllmGenerate(), ids(4), payload, ids(5))
    assert ([output.token_ids for output in outputs], failure.reason) == ([(4,)], "upstream_protocol")


@pytest.mark.parametrize("payload", [{"request_id": 3}, {"choices": [{"index": 0, "token_ids": None}]}, {}])
def test_chunks_without_ids_give_nothing(payload):
    reading = VllmGenerate()
    assert (reading.read(events_of(payload)), reading.engine_id) == ([], None)


def test_ids_that_came_with_an_unknown_finish_reason_are_kept():
    outputs, failure = failure_of(VllmGenerate(), ids(4, finish_reason="weird"))
    assert ([output.token_ids for output in outputs], failure.reason) == ([(4,)], "upstream_protocol")


def test_a_failure_says_why_in_words_that_are_safe_to_show():
    failure = UpstreamFailure("upstream_error", "ours", "theirs")
    assert (str(failure), failure.reason, failure.said) == ("ours", "upstream_error", "theirs")
