"""Owns the laws of a stream with reasoning, calls, refusals or a filter: order, counts, rebuilding at every cut."""

import functools

import pytest
from hypothesis import given

from streaming.protocol.block_list import BlockList
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.engine_output import EngineOutput, ToolFragment
from streaming.protocol.events import CONTINUED, REASONING, REFUSAL, STARTED, TEXT, TOOL_CALL, Draft, Event, merge
from streaming.protocol.markers import FORMATS, spelled
from streaming.protocol.output_filter import Ruling
from streaming.protocol.rebuilt_stream import RebuiltStream
from streaming.protocol.response_stream import ResponseStream
from tests.protocol import vocabularies
from tests.protocol.tape import inputs

WORDS = ["<think>", "</think>\n", "<tool_call>", "</tool_call>", '{"name": "f", "argu', 'ments": {"a"', ": 1}}", " the"]
WORDS += ["STOP", "ST", "OP", "</thi", "nk>ok", "a</think>b<tool_call>", "☕", "secret", "}; {"]


@functools.cache
def vocabulary():
    """Ids 0 to 255 are bytes, then the words: some hold the end of one kind and the beginning of another."""
    return vocabularies.all_bytes(*WORDS)


def ids_of(*texts):
    return [i for text in texts for i in ([256 + WORDS.index(text)] if text in WORDS else text.encode())]


def stream_of_ids(**options):
    return ResponseStream(detokenizer=Detokenizer(vocabulary(), b"a"), **options)


def seen(drafts):
    """Adjacent drafts of a kind as one: [kind, text] or [call_id, name, arguments, how it ended]."""
    result = []
    for draft in drafts:
        payload = draft.payload
        if draft.kind == TOOL_CALL:
            if "name" in payload:
                result.append([payload["call_id"], payload["name"], "", None])
            [call] = [entry for entry in result if entry[0] == payload["call_id"]]
            call[2] += payload["arguments"]
            call[3] = payload.get("error", "ok") if payload["complete"] else None
        elif result and result[-1][0] == draft.kind:
            result[-1][1] += payload["text"]
        else:
            result.append([draft.kind, payload["text"]])
    return result


def run(stream, outputs, natural=True):
    drafts = []
    for output in outputs:
        if not stream.finished:
            drafts += stream.feed(output)
    return drafts + stream.flush(natural)


def of_ids(ids):
    return [EngineOutput((token_id,)) for token_id in ids]


def of_text(*texts):
    return [EngineOutput(text=text, token_count=1) for text in texts]


THINK, BOTH = FORMATS["think"], FORMATS["think+hermes"]


def test_c17_stop_strings_cut_the_text_and_never_the_reasoning():
    stream = stream_of_ids(stops=["STOP"], markers=THINK)
    drafts = run(stream, of_ids(ids_of("<think>", "so STOP here", "</think>\n", "ok ", "ST", "OP", "more")))
    assert seen(drafts) == [[REASONING, "so STOP here"], [TEXT, "ok "]]
    assert stream.output_text == "ok "
    assert stream.finish_reason == "stop"


def test_a_stop_string_is_not_matched_across_text_of_another_kind():
    stream = ResponseStream(detokenizer=None, stops=["STOP"], markers=FORMATS["hermes"])
    drafts = run(stream, of_text("a ST", '<tool_call>{"name": "f"}</tool_call>', "OP b"))
    assert seen(drafts) == [[TEXT, "a ST"], ["call_0", "f", "{}", "ok"], [TEXT, "OP b"]]


def test_a_token_that_ends_one_kind_and_begins_another_gives_both_with_its_id_on_the_first():
    stream = stream_of_ids(markers=BOTH)
    stream.feed(EngineOutput(tuple(ids_of("<think>"))))
    drafts = stream.feed(EngineOutput(tuple(ids_of("a</think>b<tool_call>"))))
    assert [(d.kind, d.payload["text"], len(d.token_ids), d.token_count) for d in drafts] == [
        (REASONING, "a", 2, 2), (TEXT, "b", 0, 0),
    ]  # fmt: skip


def test_a_stop_with_calls_is_the_finish_reason_tool_calls():
    for finish_reason, expected in (("stop", "tool_calls"), ("length", "length"), ("tool_calls", "tool_calls")):
        stream = stream_of_ids(markers=BOTH)
        run(stream, of_ids(ids_of("<tool_call>", '{"name": "f", "argu', 'ments": {"a"', ": 1}}", "</tool_call>")))
        stream.feed(EngineOutput(finish_reason=finish_reason))
        assert stream.finish_reason == expected
    without_calls = stream_of_ids(markers=BOTH)
    without_calls.feed(EngineOutput(finish_reason="stop"))
    assert without_calls.finish_reason == "stop"


def test_a_call_is_complete_at_its_end_and_one_cut_by_a_limit_is_invalid():
    texts = ["<tool_call>", '{"name": "f", "argu', 'ments": {"a"']
    stream = stream_of_ids(markers=BOTH)
    stream.feed(EngineOutput((), finish_reason=None))
    assert seen(run(stream, of_ids(ids_of(*texts)))) == [["call_0", "f", '{"a"', "invalid_arguments"]]
    cut = stream_of_ids(markers=BOTH, call_prefix="call_X")
    assert seen(run(cut, of_ids(ids_of(*texts)), natural=False)) == [["call_X_0", "f", '{"a"', None]]


def test_min_tokens_lets_stop_strings_pass_until_so_many_tokens_came():
    def shown(min_tokens, *texts):
        stream = stream_of_ids(stops=["STOP"], min_tokens=min_tokens)
        run(stream, of_ids(ids_of(*texts)))
        return stream.output_text, stream.finish_reason

    assert shown(0, "STOP") == ("", "stop")
    assert shown(1, "STOP", "a", "STOP") == ("STOPa", "stop")
    assert shown(3, "STOP", "STOP", "STOP", "b", "STOP") == ("STOPSTOPSTOPb", "stop")
    assert shown(1, "ST", "OP", "x") == ("STOPx", None), "its beginning was shown, so it is no match"
    assert shown(2, "STOP", "ST", "OP") == ("STOPSTOP", None)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_min_tokens_count_single_tokens_within_a_step(size):
    ids = ids_of("STOP", "a", "STOP", "b")
    stream = stream_of_ids(stops=["STOP"], min_tokens=2)
    run(stream, [EngineOutput(tuple(ids[start : start + size])) for start in range(0, len(ids), size)])
    assert (stream.output_text, stream.completion_tokens) == ("STOPa", 3)


def test_text_before_the_first_counted_token_is_searched_too():
    stream = ResponseStream(detokenizer=None, stops=["STOP"])
    assert run(stream, [EngineOutput(text="STOP", token_count=0)]) == []
    assert stream.finish_reason == "stop"


@pytest.mark.parametrize(("include_stop", "shown"), [(False, ("", "a ")), (True, ("STOP", "a STOP"))])
def test_a_stop_string_at_the_very_start_and_at_the_very_end(include_stop, shown):
    for text, expected in zip(("STOP and more", "a STOP"), shown, strict=True):
        for size in (1, 3, 20):
            stream = ResponseStream(detokenizer=None, stops=["STOP"], include_stop=include_stop)
            run(stream, of_text(*[text[start : start + size] for start in range(0, len(text), size)]))
            assert (stream.output_text, stream.finish_reason) == (expected, "stop")


def test_an_engine_that_tells_kinds_apart_gives_them_in_their_order():
    stream = ResponseStream(detokenizer=None, stops=["STOP"])
    drafts = run(stream, [
        EngineOutput(text="Hi ", token_count=1),
        EngineOutput(reasoning="so STO", token_count=1),
        EngineOutput(reasoning="P", text="the", token_count=2),
        EngineOutput(text=" answer", token_count=1),
        EngineOutput(refusal="no", tool_calls=(ToolFragment(0, "c1", "f", "{"),), token_count=1),
        EngineOutput(tool_calls=(ToolFragment(0, arguments="}"), ToolFragment(0, "c2", "g", "")), token_count=1),
        EngineOutput(finish_reason="stop"),
    ])  # fmt: skip
    assert seen(drafts) == [
        [TEXT, "Hi "], [REASONING, "so STOP"], [TEXT, "the answer"], [REFUSAL, "no"],
        ["c1", "f", "{}", "ok"], ["c2", "g", "{}", "ok"],
    ]  # fmt: skip
    assert stream.finish_reason == "tool_calls"
    assert stream.output_text == "Hi the answer"
    assert sum(draft.token_count for draft in drafts) == stream.completion_tokens == 7


def test_what_a_hosted_engine_sends_after_its_end_or_a_stop_is_no_part_of_the_answer():
    stream = ResponseStream(detokenizer=None, stops=["STOP"])
    late = EngineOutput(reasoning="x", tool_calls=(ToolFragment(0, "c1", "f"),), token_count=1)
    calls = (ToolFragment(0, "c1", "f"),)
    both = stream.feed(EngineOutput(text="a STOP", refusal="r", tool_calls=calls, token_count=1))
    assert seen(both) == [[TEXT, "a "]]
    assert stream.feed(late) == []
    assert stream.flush(natural=True) == []
    assert (stream.generated_tokens, stream.completion_tokens) == (2, 1)


def test_an_answer_that_may_make_one_call_is_over_with_it():
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    stream = ResponseStream(detokenizer=None, markers=BOTH, one_call=True)
    assert seen(run(stream, of_text("ok ", call, call, "more"))) == [[TEXT, "ok "], ["call_0", "f", "{}", "ok"]]
    assert (stream.finish_reason, stream.generated_tokens, stream.completion_tokens) == ("tool_calls", 2, 2)


@pytest.mark.parametrize("second", [ToolFragment(1, "c2", "g"), ToolFragment(0, "c2", "g"), ToolFragment(1)])
def test_where_a_hosted_engine_begins_another_call_than_the_one_asked_for_the_first_is_whole(second):
    stream = ResponseStream(detokenizer=None, one_call=True)
    drafts = run(stream, [
        EngineOutput(tool_calls=(ToolFragment(0, "c1", "f", '{"a"'),), token_count=1),
        EngineOutput(tool_calls=(ToolFragment(0, arguments=": 1}"),), token_count=1),
        EngineOutput(tool_calls=(second, ToolFragment(0, "c1", arguments="!")), text="x", token_count=1),
        EngineOutput(text="more", reasoning="more", token_count=1),
        EngineOutput(finish_reason="stop"),
    ])  # fmt: skip
    assert [call for call in seen(drafts) if call[0] != TEXT] == [["c1", "f", '{"a": 1}', "ok"]]
    assert stream.finish_reason == "tool_calls"


def test_c10_surrogates_cut_over_pieces_of_one_kind_are_joined_and_lone_ones_replaced():
    stream = ResponseStream(detokenizer=None)
    halves = [EngineOutput(reasoning="a\ud83d"), EngineOutput(text="x\ud83d")]
    others = [EngineOutput(reasoning="\ude00\0"), EngineOutput(text="\ude00")]
    assert seen(run(stream, [*halves, *others, EngineOutput(refusal="\ud83d")])) == [
        [REASONING, "a"], [TEXT, "x"], [REASONING, "😀\ufffd"], [TEXT, "😀"], [REFUSAL, "\ufffd"],
    ]  # fmt: skip
    cut = ResponseStream(detokenizer=None)
    assert seen(run(cut, [EngineOutput(reasoning="a\ud83d")], natural=False)) == [[REASONING, "a"]]


def test_a_filter_masks_text_and_reasoning_and_is_part_of_what_is_stored():
    stream = ResponseStream(detokenizer=None, markers=THINK, output_filter=BlockList(["secret"]), stops=["END"])
    drafts = run(stream, of_text("<think>my sec", "ret</think>The sec", "ret i", "s", " EN", "D x"))
    assert seen(drafts) == [[REASONING, "my ***"], [TEXT, "The *** is "]]
    assert (stream.output_text, stream.finish_reason) == ("The *** is ", "stop")


def test_a_filter_that_ends_the_answer_gives_content_filter_and_nothing_behind_it():
    for markers in (None, BOTH):
        stream = ResponseStream(detokenizer=None, markers=markers, output_filter=BlockList(["secret"], ends=True))
        drafts = run(stream, of_text("The sec", "ret is", " out"))
        assert seen(drafts) == [[TEXT, "The "]]
        assert (stream.finish_reason, stream.generated_tokens) == ("content_filter", 2)
        assert stream.flush(natural=True) == []


class EndsWithQuestion:
    window_characters = 5

    def rule(self, text, is_end):
        return Ruling(0, len(text), ends=True) if is_end and text.endswith("?") else None


@pytest.mark.parametrize("markers", [None, BOTH])
def test_the_filters_last_look_belongs_to_the_output_that_ends_the_answer(markers):
    """The relay reads the finish_reason before it flushes."""
    stream = ResponseStream(detokenizer=None, markers=markers, output_filter=EndsWithQuestion())
    assert seen(stream.feed(EngineOutput(text="What is it?"))) == [[TEXT, "What i"]]
    assert stream.feed(EngineOutput(finish_reason="stop")) == []
    assert stream.finish_reason == "content_filter"
    fine = ResponseStream(detokenizer=None, markers=markers, output_filter=EndsWithQuestion())
    drafts = fine.feed(EngineOutput(text="It is.", token_count=1, finish_reason="stop"))
    assert [(draft.payload["text"], draft.token_count) for draft in drafts] == [("It is.", 1)]
    assert fine.finish_reason == "stop"
    assert fine.flush(natural=True) == []


def test_a_filter_that_ends_reasoning_lets_no_call_or_text_follow():
    stream = ResponseStream(detokenizer=None, output_filter=EndsWithQuestion())
    calls = (ToolFragment(0, "c1", "f"),)
    drafts = run(stream, [EngineOutput(reasoning="why?", text="so", tool_calls=calls, token_count=1)])
    assert drafts == []
    assert stream.finish_reason == "content_filter"


def test_without_a_filter_and_stop_strings_there_is_no_gate_to_pass():
    assert ResponseStream(detokenizer=None)._gate is None
    assert ResponseStream(detokenizer=None)._parts is None


def numbered(drafts, size):
    stored = [Event(1, 1, STARTED, {})]
    for start in range(0, len(drafts), size):
        for draft in merge(drafts[start : start + size]):
            stored.append(Event(len(stored) + 1, 1, *draft))
    return stored


LIKELY = [*[256 + n for n in range(len(WORDS))] * 2, *b'ab<>{}"; \n', 0xE2, 0x98, 0x95]
FILTERS = [None, BlockList(["secret", "the a"]), BlockList(["ok"], ends=True)]


def ids_on(tape):
    return tape.many(lambda: tape.of(LIKELY), 16)


def options_on(tape):
    return {
        "markers": tape.of(list(FORMATS.values())),
        "stops": tape.many(lambda: tape.of(["STOP", "a", "☕", "</", "OP th"]), 2),
        "min_tokens": tape.of([0, 0, 3]),
        "max_tokens": tape.of([None, None, 5]),
        "output_filter": tape.of(FILTERS),
        "one_call": tape.of([False, False, True]),
    }


@given(inputs(32, lambda tape: (1 + tape.below(3), options_on(tape), ids_on(tape))))
def test_for_every_cut_the_rebuilt_stream_goes_on_as_the_undisturbed_one(case):
    commit_size, options, ids = case
    undisturbed = stream_of_ids(**options)
    drafts = [draft for output in of_ids(ids) for draft in undisturbed.feed(output)]
    final = undisturbed.flush(natural=True)
    whole = seen([*drafts, *final])
    events = numbered([*drafts, *final], commit_size)
    for cut in range(len(events) + 1):
        stored = [*events[:cut], Event(cut + 1, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})]
        rebuilt = stream_of_ids_rebuilt(stored, options)
        consumed = sum(len(event.token_ids) for event in stored)
        later = [draft for output in of_ids(ids[consumed:]) for draft in rebuilt.feed(output)]
        later += rebuilt.flush(natural=True)
        before = [Draft(event.kind, event.payload) for event in stored if event.kind not in (STARTED, CONTINUED)]
        assert seen([*before, *later]) == whole
        assert rebuilt.output_text == undisturbed.output_text
        assert rebuilt.completion_tokens == undisturbed.completion_tokens
        assert rebuilt.generated_tokens == undisturbed.generated_tokens
        assert rebuilt.leftover == undisturbed.leftover
        if options["max_tokens"] is None:
            assert rebuilt.finish_reason == undisturbed.finish_reason


def test_a_stream_rebuilt_inside_a_call_goes_on_with_it():
    ids = ids_of("ok ", "<tool_call>", '{"name": "f", "argu', 'ments": {"a"', ": 1}}", "</tool_call>", "x")
    whole = stream_of_ids(markers=BOTH)
    drafts = [draft for output in of_ids(ids) for draft in whole.feed(output)]
    for cut in range(len(drafts) + 1):
        stored = numbered(drafts[:cut], 1)
        rebuilt = stream_of_ids_rebuilt(stored, {"markers": BOTH})
        consumed = sum(len(event.token_ids) for event in stored)
        later = [draft for output in of_ids(ids[consumed:]) for draft in rebuilt.feed(output)]
        assert seen([*drafts[:cut], *later]) == seen(drafts) == [
            [TEXT, "ok "], ["call_0", "f", '{"a": 1}', "ok"], [TEXT, "x"],
        ]  # fmt: skip


def test_what_was_let_go_at_an_end_that_was_not_stored_is_not_let_go_again():
    drafts = run(stream_of_ids(stops=["STOP"]), of_ids(ids_of("a ST")))
    rebuilt = stream_of_ids_rebuilt(numbered(drafts, 1), {"stops": ["STOP"]})
    assert rebuilt.flush(natural=True) == []
    assert rebuilt.output_text == "a ST"


def stream_of_ids_rebuilt(stored, options):
    return RebuiltStream(stored, detokenizer=Detokenizer(vocabulary(), b"a"), **options)


@given(inputs(32, lambda tape: (tape.many(lambda: 1 + tape.below(4), 4, 1), options_on(tape), ids_on(tape))))
def test_how_ids_arrive_changes_nothing_that_is_seen(case):
    sizes, options, ids = case

    def once(outputs):
        stream = stream_of_ids(**options)
        drafts = run(stream, outputs)
        assert sum(draft.token_count for draft in drafts) + stream.leftover[1] == stream.completion_tokens
        carried = [token_id for draft in drafts for token_id in draft.token_ids]
        assert [*carried, *stream.leftover[0]] == ids[: stream.completion_tokens]
        assert stream.output_text == "".join(d.payload["text"] for d in drafts if d.kind == TEXT)
        return seen(drafts), stream.completion_tokens, stream.finish_reason

    outputs, start = [], 0
    while start < len(ids):
        size = sizes[len(outputs) % len(sizes)]
        outputs.append(EngineOutput(tuple(ids[start : start + size])))
        start += size
    assert once(of_ids(ids)) == once(outputs)


@pytest.mark.parametrize("markers", ["think+hermes", "hermes", "llama3"])
@pytest.mark.parametrize("output_filter", [None, BlockList(["zzz"])])
@pytest.mark.parametrize("one_call", [False, True])
def test_an_answer_of_text_goes_on_from_what_was_shown(markers, output_filter, one_call):
    """At every cut, as an engine does that is given what was shown: it writes on exactly there."""
    call = '{"name": "f", "arguments": {"a": [1, "}"]}}'
    written = {
        "think+hermes": f"<think>\nso STOP\n</think>\n\nok <tool_call>\n{call}\n</tool_call>\n",
        "hermes": f"ok <tool_call>\n{call}\n</tool_call>\n<tool_call>\n{call}\n</tool_call>\n",
        "llama3": f"{call}; {call.replace('f', 'g', 1)}; ",
    }[markers]
    options = {"markers": FORMATS[markers], "stops": ["STOP"], "output_filter": output_filter, "one_call": one_call}
    undisturbed = ResponseStream(detokenizer=None, **options)
    drafts = [draft for output in of_text(*written) for draft in undisturbed.feed(output)]
    whole = seen([*drafts, *undisturbed.flush(natural=True)])
    events = numbered(drafts, 1)
    for cut in range(1, len(events) + 1):
        stored = events[:cut]
        rebuilt = RebuiltStream(stored, detokenizer=None, **options)
        before = [Draft(event.kind, event.payload) for event in stored[1:]]
        later = run(rebuilt, of_text(*rest_of(written, markers, before)))
        assert seen([*before, *later]) == whole


def rest_of(written, markers, before):
    """What an undisturbed writer still has to write after these events."""
    shown = spelled(FORMATS[markers], before)
    canonical = written.replace('"arguments"', '"parameters"') if markers == "llama3" else written
    assert canonical.startswith(shown.rstrip()), (canonical, shown)
    return canonical[len(shown) :] if canonical.startswith(shown) else canonical[len(shown.rstrip()) :].lstrip()


def test_an_answer_of_ids_can_be_carried_on_by_an_engine_of_text():
    stored = [Event(1, 1, REASONING, {"text": "hm"}, tuple(ids_of("<think>", "hm")), 3)]
    rebuilt = RebuiltStream(stored, detokenizer=None, markers=THINK)
    assert seen(run(rebuilt, of_text("m</think> ok"))) == [[REASONING, "m"], [TEXT, "ok"]]
    assert rebuilt.completion_tokens == 4
