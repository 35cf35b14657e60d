"""Owns that an answer knows which stop string ended it, and that the ended event says so only then."""

from streaming.protocol.end_state import decide
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.output_filter import Ruling
from streaming.protocol.response_stream import ResponseStream

STOPPED = decide(None, "finished", "stop")


class NoFilter:
    window_characters = 1

    def rule(self, text: str, is_end: bool) -> Ruling | None:
        return None


def fed(*texts, **options):
    stream = ResponseStream(detokenizer=None, **options)
    for text in texts:
        stream.feed(EngineOutput(text=text, token_count=1))
    return stream


def test_the_string_that_is_complete_first_is_named():
    stream = fed("one E", "N", "D two STOP", stops=("STOP", "END"))
    assert (stream.finish_reason, stream.matched_stop) == ("stop", "END")


def test_an_answer_that_ends_by_itself_names_none():
    assert fed("one EN", stops=("END",)).matched_stop is None
    assert fed("one").matched_stop is None
    assert fed("one", output_filter=NoFilter()).matched_stop is None


def test_the_ended_event_has_the_string_only_where_there_was_one():
    assert STOPPED.to_payload({}, None, "END")["stop_sequence"] == "END"
    assert "stop_sequence" not in STOPPED.to_payload({})
