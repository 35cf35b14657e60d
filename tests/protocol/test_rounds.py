"""Owns the laws of an answer in several rounds: what goes on from round to round, what begins anew, every cut of it."""

import pytest
from hypothesis import given

from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.engine_output import EngineOutput, ToolFragment
from streaming.protocol.events import CONTINUED, STARTED, TEXT, TOOL_CALL, TOOL_RESULT, Draft, Event, calls_of, merge
from streaming.protocol.markers import FORMATS
from streaming.protocol.rebuilt_stream import RebuiltStream
from streaming.protocol.response_stream import ResponseStream
from streaming.protocol.rounds import earlier, rounds_of, split
from streaming.protocol.tool_calls import complete_call
from streaming.protocol.tool_result import ToolResult
from tests.protocol.tape import inputs
from tests.protocol.test_answers_of_several_kinds import ids_of, of_ids, of_text, run, seen, vocabulary

PROMPTS = [b"a", b"<ab", b'"']
CALL = ["<tool_call>", '{"name": "f", "arguments": {"a": 1}}', "</tool_call>"]


def result_of(call):
    return ToolResult(call["call_id"], f"{call['arguments']} is well", None if call["index"] else "failed")


def make(stored, rounds, commit_size, **options):
    """What an owner makes of the rest who has only the log so far: the whole log, and the stream of its last round."""
    log = list(stored) or [Event(1, 1, STARTED, {})]

    def store(drafts):
        for start in range(0, len(drafts), commit_size):
            for draft in merge(drafts[start : start + commit_size]):
                log.append(Event(len(log) + 1, 1, *draft))

    while True:
        last = rounds_of(log)[-1]
        if last.is_over and last.waiting:
            store([Draft(TOOL_RESULT, result_of(call).payload()) for call in last.waiting])
        over, said = split(log)
        detokenizer = Detokenizer(vocabulary(), PROMPTS[len(over)])
        stream = RebuiltStream(log, detokenizer=detokenizer, **options)
        ids = rounds[len(over)]
        outputs = of_ids(ids[sum(len(event.token_ids) for event in said) :])
        store([d for output in [*outputs, EngineOutput(finish_reason="stop")] for d in stream.feed(output)])
        store(stream.flush(natural=True))
        if stream.finish_reason != "tool_calls" or len(over) + 1 == len(rounds):
            return log, stream
        store([stream.result(result_of(call)) for call in rounds_of(log)[-1].calls])


LIKELY = [*ids_of("a", "b", "ok", "STOP", " the", "☕", "<think>", "</think>", "\n"), 0xE2, 0x98, 0x95, *b'<{"']


def said_on(tape, calls):
    said = tape.many(lambda: tape.of(LIKELY), 8)
    for _ in range(calls):
        said += ids_of(*CALL[: 2 + (tape.byte() > 40)])
        said += ids_of("\n") if tape.flag() else tape.many(lambda: tape.of(LIKELY), 3)
    return said


def case_on(tape):
    rounds = [said_on(tape, 1 + tape.below(3)) for _ in range(tape.below(3))]
    options = {
        "markers": FORMATS[tape.of(["hermes", "think+hermes"])],
        "stops": tape.many(lambda: tape.of(["STOP", "☕a"]), 1),
    }
    return 1 + tape.below(3), [*rounds, said_on(tape, tape.below(2))], options


def cuts_on(tape):
    """A case, and where to cut its log: a few places of each, for every place costs an answer more."""
    return [tape.byte() for _ in range(3)], case_on(tape)


@given(inputs(64, cuts_on))
def test_for_every_cut_of_several_rounds_the_rest_is_that_of_the_undisturbed_answer(case):
    places, (commit_size, rounds, options) = case
    whole, undisturbed = make([], rounds, commit_size, **options)
    for cut in {place * (len(whole) + 1) >> 8 for place in places}:
        continued = Event(cut + 1, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})
        log, stream = make([*whole[:cut], continued] if cut else [], rounds, commit_size, **options)
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        assert meaning(log) == meaning(whole)
        assert stream.output_text == undisturbed.output_text
        assert stream.output_text == "".join(event.payload["text"] for event in log if event.kind == TEXT)
        assert stream.completion_tokens == undisturbed.completion_tokens
        assert stream.leftover == undisturbed.leftover
        assert stream.finish_reason == undisturbed.finish_reason


@given(inputs(64, case_on))
def test_each_round_carries_its_own_tokens_and_no_other(case):
    commit_size, rounds, options = case
    log, stream = make([], rounds, commit_size, **options)
    found = rounds_of(log)
    for one, ids in zip(found, rounds, strict=False):
        carried = [token_id for event in (*one.said, *one.results) for token_id in event.token_ids]
        if not one.is_over:
            carried += stream.leftover[0]
        assert carried == (ids if one.is_over else ids[: len(carried)])
        assert all(not event.token_ids for event in one.results[1:])
    assert stream.round_tokens == sum(event.token_count for event in split(log)[1]) + stream.leftover[1]
    calls = [call for one in found for call in one.calls]
    assert [call["index"] for call in calls] == list(range(len(calls)))
    assert len({call["call_id"] for call in calls}) == len(calls)


def meaning(log):
    """The deltas as one reads them, and the results between them."""
    read, run_of_deltas = [], []
    for event in log:
        if event.kind == TOOL_RESULT:
            read += [seen(run_of_deltas), dict(event.payload)]
            run_of_deltas = []
        elif event.kind not in (STARTED, CONTINUED):
            run_of_deltas.append(Draft(event.kind, event.payload))
    return [*read, seen(run_of_deltas)]


def two_calls():
    """A log of one round with two calls."""
    log, _ = make([], [ids_of("ok ", *CALL, *CALL)], 1, markers=FORMATS["hermes"])
    return log


def with_result(log, call):
    return [*log, Event(len(log) + 1, 1, TOOL_RESULT, result_of(call).payload(), (7,), 1)]


def test_a_log_that_ends_amid_the_results_knows_which_calls_still_wait():
    log = two_calls()
    first, second = rounds_of(log)[-1].calls
    assert rounds_of(log)[-1].waiting == [first, second]
    assert not rounds_of(log)[-1].is_over
    log = with_result(log, first)
    assert (rounds_of(log)[-1].is_over, rounds_of(log)[-1].waiting) == (True, [second])
    continued = Event(len(log) + 1, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})
    assert rounds_of([*log, continued])[-1].waiting == [second]
    log = with_result([*log, continued], second)
    assert rounds_of(log)[-1].waiting == []
    assert split(log)[1] == []
    stream = RebuiltStream(log, detokenizer=None)
    assert (stream.output_text, stream.leftover, stream.finished) == ("ok ", ((), 0), False)
    assert stream.completion_tokens == sum(event.token_count for event in log)


def test_a_round_is_told_as_the_answer_with_its_calls_and_a_turn_for_each_result():
    log = two_calls()
    for call in rounds_of(log)[-1].calls:
        log = with_result(log, call)
    [one] = rounds_of(log)
    function = {"name": "f", "arguments": '{"a": 1}'}
    assert one.turns() == [
        {"role": "assistant", "content": "ok ", "tool_calls": [
            {"id": "call_0", "type": "function", "function": function},
            {"id": "call_1", "type": "function", "function": function},
        ]},
        {"role": "tool", "tool_call_id": "call_0", "content": '{"a": 1} is well'},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"a": 1} is well'},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    ['{"a": ', '{"a": "\\ud800"}', '{"\\ud800": 1}', '{"a": 1e999}', '{"a": ' + "[" * 600 + "]" * 600 + "}"],
)
def test_arguments_that_are_no_json_are_not_told_to_engines_that_would_refuse_them(arguments):
    call = {"index": 0, "call_id": "c", "name": "f", "arguments": arguments, "complete": True}
    [one] = rounds_of([Event(1, 1, TOOL_CALL, call), Event(2, 1, TOOL_RESULT, ToolResult("c", "?").payload())])
    assert one.turns()[0]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("call_id", ["c1", "call_1", None])
def test_an_id_that_an_engine_gives_again_in_another_round_names_another_call(call_id):
    fragment = ToolFragment(0, call_id, "f", "{}")
    log = [Event(1, 1, STARTED, {})]
    for _ in range(3):
        stream = ResponseStream(detokenizer=None, before=earlier(split(log)[0]))
        outputs = [EngineOutput(tool_calls=(fragment,), token_count=1), EngineOutput(finish_reason="stop")]
        for draft in run(stream, outputs):
            log.append(Event(len(log) + 1, 1, *draft))
        [call] = rounds_of(log)[-1].calls
        log.append(Event(len(log) + 1, 1, *stream.result(result_of(call))))
    calls = [call for one in rounds_of(log) for call in one.calls]
    assert [call["index"] for call in calls] == [0, 1, 2]
    assert len({call["call_id"] for call in calls}) == 3
    assert [one.waiting for one in rounds_of(log)] == [[], [], []]


@pytest.mark.parametrize(
    ("markers", "text"),
    [
        ("hermes", '<tool_call>\n{"name": "f", "arguments": {"a": 1\n</tool_call>\n'),
        ("hermes", '<tool_call>\n{"name": "f", "arguments": "{\\"a\\": 1"}\n</tool_call>\n'),
        ("llama3", '{"name": "f", "parameters": "{\\"a\\": 1"}; {"name": "g", "parameters": {"a": 2}}'),
        ("llama3", '{"name": "f", "parameters": {"a": 1}; {"name": "g", "parameters": {"a": 2}}'),
    ],
)
def test_who_goes_on_from_text_runs_the_calls_that_the_log_tells_and_makes_none_whole(markers, text):
    options = {"markers": FORMATS[markers]}
    first = ResponseStream(detokenizer=None, **options)
    log = [Event(1, 1, STARTED, {}), *(Event(2 + n, 1, *draft) for n, draft in enumerate(run(first, of_text(text))))]
    rest = RebuiltStream(log, detokenizer=None, **options)
    for stream in (first, rest):
        stream.feed(EngineOutput(finish_reason="stop"))
        stream.flush(natural=True)
    assert rest.calls == first.calls == calls_of(log)
    assert [complete_call(call) for call in rest.calls] == [complete_call(call) for call in first.calls]


def test_an_id_that_an_engine_makes_up_before_it_is_ours_is_not_given_twice():
    stream = ResponseStream(detokenizer=None)
    fragments = [ToolFragment(0, "call_1", "f", "{}"), ToolFragment(1, None, "f", "{}"), ToolFragment(2, "", "f", "{}")]
    run(stream, [*(EngineOutput(tool_calls=(one,)) for one in fragments), EngineOutput(finish_reason="stop")])
    assert [call["call_id"] for call in stream.calls] == ["call_1", "call_1_", "call_2"]


def test_tokens_of_all_rounds_together_have_one_limit():
    log = with_result(two_calls()[:-1], {"index": 0, "call_id": "call_0", "arguments": "{}"})
    made = sum(event.token_count for event in log)
    stream = RebuiltStream(log, detokenizer=None, max_tokens=made)
    assert stream.finish_reason == "length"
    stream = RebuiltStream(log, detokenizer=None, max_tokens=made + 2)
    run(stream, of_text("a", "b", "c"))
    assert (stream.finish_reason, stream.completion_tokens) == ("length", made + 2)
