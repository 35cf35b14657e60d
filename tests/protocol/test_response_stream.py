"""Owns the laws of one answer's stream: what is shown, what is counted, when it is over, and how it is rebuilt."""

import functools

import pytest
from hypothesis import given

from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.engine_output import EngineOutput, EngineUsage
from streaming.protocol.events import CONTINUED, STARTED, TEXT, Event, merge
from streaming.protocol.rebuilt_stream import RebuiltStream
from streaming.protocol.response_stream import ResponseStream
from tests.protocol import vocabularies
from tests.protocol.tape import inputs
from tests.protocol.vocabularies import SPECIAL

CAFE = [b"Hi", b"Caf", b"\xc3", b"\xa9", b" costs", b" 5", b"\xe2\x82", b"\xac", b".\n", b"##", b"#", b"END", b" more"]


def cafe(**options):
    return ResponseStream(detokenizer=Detokenizer(vocabularies.from_pieces(CAFE), [0]), **options)


def texts(drafts):
    return [draft.payload["text"] for draft in drafts]


def feed_each(stream, ids):
    return [draft for token_id in ids for draft in stream.feed(EngineOutput((token_id,)))]


def test_the_worked_example_comes_out_right():
    stream = cafe(stops=["###END"])
    drafts = feed_each(stream, range(1, 13))
    assert texts(drafts) == ["Caf", "é", " costs", " 5", "€", ".\n"]
    assert [draft.token_ids for draft in drafts] == [(1,), (2, 3), (4,), (5,), (6, 7), (8,)]
    assert [draft.token_count for draft in drafts] == [1, 2, 1, 1, 2, 1]
    assert (stream.completion_tokens, stream.generated_tokens) == (11, 12)
    assert (stream.finished, stream.finish_reason) == (True, "stop")
    assert stream.flush(natural=True) == []
    assert stream.leftover == ((9, 10, 11), 3)
    assert stream.output_text == "Café costs 5€.\n"


def test_with_a_second_stop_string_only_the_cut_of_the_deltas_changes():
    stream = cafe(stops=["###END", "\n\n"])
    assert texts(feed_each(stream, range(1, 13))) == ["Caf", "é", " costs", " 5", "€", ".", "\n"]
    assert (stream.completion_tokens, stream.finish_reason) == (11, "stop")
    assert stream.matched_stop == "###END"


def test_without_a_match_no_stop_string_ended_the_answer():
    for stream in (cafe(), cafe(stops=["###END"])):
        stream.feed(EngineOutput((1,), finish_reason="stop"))
        assert stream.matched_stop is None


@pytest.mark.parametrize("size", range(1, 13))
def test_a_stop_string_matched_inside_a_step_of_several_ids_counts_up_to_the_token_that_completed_it(size):
    stream = cafe(stops=["###END"])
    ids = tuple(range(1, 13))
    drafts = [d for start in range(0, 12, size) for d in stream.feed(EngineOutput(ids[start : start + size]))]
    assert "".join(texts(drafts)) == stream.output_text == "Café costs 5€.\n"
    assert (stream.completion_tokens, stream.generated_tokens) == (11, 12)
    carried = [token_id for draft in drafts for token_id in draft.token_ids]
    assert tuple(carried) + stream.leftover[0] == ids[:11]


def test_include_stop_shows_the_stop_string():
    stream = cafe(stops=["###END"], include_stop=True)
    assert "".join(texts(feed_each(stream, range(8, 13)))) == ".\n###END"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_hindi_cut_every_few_bytes_never_shows_half_a_character(size):
    text = "आपका चाय ☕ तैयार है"
    tokenizer, ids = vocabularies.cut(text, size)
    stream = ResponseStream(detokenizer=Detokenizer(tokenizer, []), stops=["नहीं"])
    drafts = feed_each(stream, ids) + stream.flush(natural=True)
    assert "".join(texts(drafts)) == stream.output_text == text
    assert not any("\ufffd" in shown for shown in texts(drafts))
    assert sum(draft.token_count for draft in drafts) == len(ids)


def test_text_kept_back_is_released_at_a_natural_end_and_at_a_cut():
    for natural in (True, False):
        stream = cafe(stops=["###END"])
        assert texts(feed_each(stream, [8, 9])) == [".\n"]
        stream.feed(EngineOutput(finish_reason="stop"))
        [draft] = stream.flush(natural)
        assert (draft.payload, draft.token_ids, draft.token_count) == ({"text": "##"}, (9,), 1)
        assert stream.leftover == ((), 0)
        assert stream.output_text == ".\n##"


def test_an_open_character_is_one_replacement_at_a_natural_end_and_dropped_by_a_cut():
    natural, cut = cafe(), cafe()
    assert texts(feed_each(natural, [5, 6])) == texts(feed_each(cut, [5, 6])) == [" 5"]
    assert [(d.payload["text"], d.token_ids) for d in natural.flush(natural=True)] == [("\ufffd", (6,))]
    assert cut.flush(natural=False) == []
    assert cut.leftover == ((6,), 1)


def test_a_stop_string_completed_by_the_flush_is_cut_too():
    stream = cafe(stops=["5\ufffd"])
    assert texts(feed_each(stream, [5, 6])) == [" "]
    assert stream.flush(natural=True) == []
    assert stream.finish_reason == "stop"


def test_tokens_without_text_ride_on_the_next_delta_or_are_left_over():
    tokenizer = vocabularies.from_pieces(CAFE)
    special = tokenizer.token_to_id(SPECIAL)
    stream = ResponseStream(detokenizer=Detokenizer(tokenizer, [0]))
    assert feed_each(stream, [special, special]) == []
    [draft] = feed_each(stream, [1])
    assert (draft.token_ids, draft.token_count) == ((special, special, 1), 3)
    assert stream.feed(EngineOutput((special,), finish_reason="stop")) == []
    assert stream.flush(natural=True) == []
    assert stream.leftover == ((special,), 1)


def test_the_engines_finish_reason_is_kept_and_nothing_after_it_belongs_to_the_answer():
    stream = cafe()
    stream.feed(EngineOutput((1,), finish_reason="abort"))
    assert (stream.finished, stream.finish_reason) == (True, "abort")
    assert stream.feed(EngineOutput((4,), finish_reason="stop")) == []
    assert (stream.finish_reason, stream.completion_tokens, stream.generated_tokens) == ("abort", 1, 2)


def test_a_stop_match_wins_over_the_engines_finish_reason_in_the_same_step():
    stream = cafe(stops=["END"])
    stream.feed(EngineOutput((11,), finish_reason="length"))
    assert stream.finish_reason == "stop"


def test_reaching_max_tokens_waits_for_the_engines_word_and_going_past_it_is_length():
    stream = cafe(max_tokens=2)
    feed_each(stream, [1, 4])
    assert not stream.finished
    stream.feed(EngineOutput(finish_reason="stop", usage=EngineUsage(completion_tokens=2)))
    assert stream.finish_reason == "stop"
    runaway = cafe(max_tokens=2)
    assert texts(runaway.feed(EngineOutput((1, 4, 5, 5)))) == ["Caf costs"]
    assert (runaway.finish_reason, runaway.completion_tokens, runaway.generated_tokens) == ("length", 2, 4)
    of_text = ResponseStream(detokenizer=None, max_tokens=2)
    assert texts(of_text.feed(EngineOutput(text="a b", token_count=2))) == ["a b"]
    assert texts(of_text.feed(EngineOutput(text="!"))) == ["!"]
    assert of_text.feed(EngineOutput(text="c", token_count=1)) == []
    assert of_text.finish_reason == "length"


def test_usage_is_the_latest_report_with_zero_as_a_value():
    stream = cafe()
    stream.feed(EngineOutput((1,), usage=EngineUsage(9, 1, 4)))
    stream.feed(EngineOutput((4,), usage=EngineUsage(completion_tokens=2, cached_tokens=0)))
    assert stream.usage == EngineUsage(9, 2, 0)


def test_surrogates_cut_over_two_outputs_are_joined_and_lone_ones_and_nul_replaced():
    stream = ResponseStream(detokenizer=None)
    outputs = ["a\ud83d", "\ude00b\0", "\ude00", "", "c\ud83d"]
    drafts = [d for text in outputs for d in stream.feed(EngineOutput(text=text, token_count=1))]
    drafts += stream.flush(natural=True)
    assert texts(drafts) == ["a", "😀b\ufffd", "\ufffd", "c", "\ufffd"]
    assert [draft.token_count for draft in drafts] == [1, 1, 1, 2, 0]
    stream.output_text.encode()


def test_nul_made_of_ids_is_replaced():
    stream = ResponseStream(detokenizer=Detokenizer(vocabularies.all_bytes(), b"a"), stops=["\0"])
    assert "".join(texts(feed_each(stream, b"a\0b"))) == "a\ufffdb"


@pytest.mark.parametrize(
    "output",
    [EngineOutput(), EngineOutput(text=""), EngineOutput(text="", token_count=0), EngineOutput(usage=EngineUsage())],
)
def test_an_output_without_text_gives_no_draft(output):
    stream = ResponseStream(detokenizer=None)
    assert stream.feed(output) == []
    assert not stream.finished
    assert stream.flush(natural=True) == []


def test_ids_without_a_detokenizer_are_a_mistake_of_the_caller():
    with pytest.raises(AssertionError, match="detokenizer"):
        ResponseStream(detokenizer=None).feed(EngineOutput((1,)))


WORDS = ["#", "##", "END", "###", "a", "\n", " the", "चाय", "☕"]


@functools.cache
def words_and_bytes():
    return vocabularies.from_pieces([bytes([byte]) for byte in range(128, 256)] + [word.encode() for word in WORDS])


def ids_on(tape):
    """Words, any id, whole characters as bytes."""
    ids = []
    for kind in tape.many(lambda: tape.below(3), 14):
        if kind == 0:
            ids.append(128 + tape.below(9))
        elif kind == 1:
            ids.append(tape.below(138))
        else:
            ids += [byte - 128 for byte in tape.of(["é", "😀", "है"]).encode()]
    return ids


def stops_on(tape):
    return tape.many(lambda: tape.of(["###END", "##a", "\n\n", "#", "है", "☕ the", "\ufffd"]), 3)


def outputs_of(ids, sizes):
    """The ids as an engine yields them, in steps of the given sizes over and over."""
    outputs, start = [], 0
    while start < len(ids):
        size = sizes[len(outputs) % len(sizes)]
        outputs.append(EngineOutput(tuple(ids[start : start + size])))
        start += size
    return outputs


def run(stream, outputs):
    """Everything the stream gives for these outputs, and its counts in the end."""
    drafts = []
    for output in outputs:
        if not stream.finished:
            drafts += stream.feed(output)
    drafts += stream.flush(natural=True)
    counts = (stream.completion_tokens, stream.generated_tokens, stream.finish_reason, stream.leftover)
    return drafts, counts, stream.output_text


def numbered(drafts, size):
    """The drafts as the journal stores them: merged per commit of some drafts, numbered without gaps."""
    stored = [Event(1, 1, STARTED, {})]
    for start in range(0, len(drafts), size):
        for draft in merge(drafts[start : start + size]):
            stored.append(Event(len(stored) + 1, 1, *draft))
    return stored


@given(inputs(48, lambda tape: (1 + tape.below(3), tape.of([None, 3, 8]), stops_on(tape), ids_on(tape))))
def test_for_every_cut_the_rebuilt_stream_goes_on_as_the_undisturbed_one(case):
    commit_size, max_tokens, stops, ids = case
    options = {"stops": stops, "max_tokens": max_tokens}
    undisturbed = ResponseStream(detokenizer=Detokenizer(words_and_bytes(), [132]), **options)
    fed = [(undisturbed.feed(EngineOutput((token_id,))), token_id) for token_id in ids]
    drafts = [draft for step, _ in fed for draft in step]
    final = undisturbed.flush(natural=True)
    events = numbered(drafts, commit_size)
    for cut in range(len(events) + 1):
        stored = [*events[:cut], Event(cut + 1, 2, CONTINUED, {"attempt": 2, "reason": "relay_lost"})]
        rebuilt = RebuiltStream(stored, detokenizer=Detokenizer(words_and_bytes(), [132]), **options)
        assert rebuilt.output_text == "".join(event.payload["text"] for event in stored if event.kind == TEXT)
        consumed = sum(len(event.token_ids) for event in stored)
        later = feed_each(rebuilt, ids[consumed:]) + rebuilt.flush(natural=True)
        before = events[1:cut]
        assert (
            "".join(texts(before)) + "".join(texts(later)) == undisturbed.output_text == "".join(texts(drafts + final))
        )
        assert sum(d.token_count for d in before + later) + rebuilt.leftover[1] == undisturbed.completion_tokens
        assert rebuilt.completion_tokens == undisturbed.completion_tokens
        assert rebuilt.generated_tokens == undisturbed.generated_tokens
        assert rebuilt.leftover == undisturbed.leftover
        if max_tokens is None:
            assert rebuilt.finish_reason == undisturbed.finish_reason


@given(inputs(32, lambda tape: (tape.of([["###END"], ["#E"], []]), tape.text("#ENDab☕", 20))))
def test_an_answer_of_text_goes_on_from_what_was_shown(case):
    stops, text = case
    whole, _, shown = run(
        ResponseStream(detokenizer=None, stops=stops), [EngineOutput(text=c, token_count=1) for c in text]
    )
    events = numbered(whole, 1)
    for cut in range(1, len(events) + 1):
        rebuilt = RebuiltStream(events[:cut], detokenizer=None, stops=stops)
        rest = text[len(rebuilt.output_text) :]
        run(rebuilt, [EngineOutput(text=c, token_count=1) for c in rest])
        assert rebuilt.output_text == shown
        assert rebuilt.completion_tokens >= sum(event.token_count for event in events[:cut])


def test_a_rebuilt_stream_that_has_all_its_tokens_is_finished():
    stored = [Event(1, 1, TEXT, {"text": "Caf costs"}, (1, 4), 2)]
    rebuilt = RebuiltStream(stored, detokenizer=Detokenizer(vocabularies.from_pieces(CAFE), [0]), max_tokens=2)
    assert (rebuilt.finished, rebuilt.finish_reason) == (True, "length")
    matched = RebuiltStream(
        [Event(1, 1, TEXT, {"text": "Caf"}, (1, 11), 2)],
        detokenizer=Detokenizer(vocabularies.from_pieces(CAFE), [0]), stops=["END"], max_tokens=2,
    )  # fmt: skip
    assert matched.finish_reason == "stop"


@given(inputs(48, lambda tape: (tape.many(lambda: 1 + tape.below(4), 4, 1), stops_on(tape), ids_on(tape))))
def test_how_ids_arrive_changes_neither_text_nor_counts(case):
    sizes, stops, ids = case

    def once(outputs):
        drafts, counts, shown = run(
            ResponseStream(detokenizer=Detokenizer(words_and_bytes(), [132]), stops=stops), outputs
        )
        assert "".join(texts(drafts)) == shown
        assert all(texts(drafts))
        assert sum(draft.token_count for draft in drafts) + counts[3][1] == counts[0]
        return shown, counts[0], counts[2]

    assert once(outputs_of(ids, [1])) == once(outputs_of(ids, sizes))


@given(inputs(48, lambda tape: (stops_on(tape), ids_on(tape))))
def test_no_delta_holds_part_of_a_matched_stop_string_or_half_a_character(case):
    stops, ids = case
    _, counts, shown = run(
        ResponseStream(detokenizer=Detokenizer(words_and_bytes(), [132]), stops=stops), outputs_of(ids, [1])
    )
    whole = words_and_bytes().decode(ids)
    if counts[2] == "stop":
        rest = whole[len(shown) :]
        assert any(rest.startswith(stop) for stop in stops)
    else:
        assert shown.rstrip("\ufffd") == whole.rstrip("\ufffd")
    assert whole.startswith(shown.rstrip("\ufffd"))
