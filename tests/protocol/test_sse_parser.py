"""Owns the laws of the parser: the same events for every cut and every line end, linear work, bounded memory."""

import json
import re
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given

from streaming.protocol.sse_parser import SSEParseError, SSEParser
from tests.protocol.tape import inputs

LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}

TABLE = json.loads((Path(__file__).parent.parent / "cases" / "sse.json").read_text())["cases"]


def bytes_of(case, end):
    raw = bytes.fromhex(case["hex"]) if "hex" in case else case["stream"].encode()
    return raw if case.get("as_is") else raw.replace(b"\n", end)


def parse(*pieces):
    parser = SSEParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    parser.finish()
    return events


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("case", TABLE, ids=[case["name"] for case in TABLE])
def test_every_cut_with_every_line_end_gives_the_same_events(case, end):
    raw = bytes_of(case, LINE_ENDS[end])
    expected = [tuple(event) for event in case["events"]]
    assert parse(raw) == expected
    assert parse(*(raw[index : index + 1] for index in range(len(raw)))) == expected
    for cut in range(len(raw) + 1):
        assert parse(raw[:cut], b"", raw[cut:]) == expected


def test_the_table_agrees_with_the_standards_algorithm():
    for case in TABLE:
        assert reference(bytes_of(case, b"\n")) == [tuple(event) for event in case["events"]]


def test_an_event_is_given_as_soon_as_its_last_byte_is_there():
    parser = SSEParser()
    assert parser.feed(b"data: a\r\n\r") == [("message", "a", "")]
    assert parser.feed(b"\ndata: b\r\r") == [("message", "b", "")]


def reference(raw):
    """The standard's algorithm on the whole decoded text, written as plainly as possible."""
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _ = re.split("\r\n|\n|\r", text)
    events, data, name, last_id = [], [], "", ""
    for line in lines:
        if line == "":
            if data:
                events.append((name or "message", "\n".join(data), last_id))
            data, name = [], ""
        else:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "event":
                name = value
            elif field == "id" and "\0" not in value:
                last_id = value
    return events


FIELDS = [b"data: a", b"data", b"event: e", b"event", b"id: 1", b"id", b":", b" ", b"x", b"\0", "é".encode()]
LINE_BREAKS = [b"\n", b"\r", b"\r\n", b"\n\n"]
ODDITIES = [b"\xef\xbb\xbf", b"\xe2", b"\x80\xa8", b"\xff"]


def cut_soup(tape):
    """Lines of some pieces, mostly ended; a mark of the byte order at the start half the time."""
    cuts, raw = tape.many(lambda: tape.below(81), 6), tape.of([b"", b"\xef\xbb\xbf"])
    for _ in range(tape.size(14)):
        raw += b"".join(tape.many(lambda: tape.of(FIELDS + ODDITIES), 4)) + tape.of(LINE_BREAKS)
    return cuts, raw + tape.of([b"", b"", *FIELDS])


@given(inputs(64, cut_soup))
def test_any_bytes_in_any_pieces_agree_with_the_standards_algorithm(case):
    cuts, raw = case
    expected = reference(raw)
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    assert parse(*[raw[start:end] for start, end in pairwise(edges)]) == expected
    assert parse(*[raw[at : at + 1] for at in range(len(raw))]) == expected


class Counting(list):
    """A list that counts the bytes that are taken out of it."""

    taken_bytes = 0

    def __iter__(self):
        for piece in super().__iter__():
            self.taken_bytes += len(piece)
            yield piece


@contextmanager
def unmeasured():
    """Coverage takes note of every line; of two million equal calls that is most of the time, and says nothing new."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def test_a_line_of_two_megabytes_in_single_bytes_is_gathered_once():
    line = b"data: " + b"a" * 2_000_000
    parser = SSEParser()
    parser._partial = Counting()
    with unmeasured():
        assert not any(parser.feed(line[at : at + 1]) for at in range(len(line)))
    assert parser._partial.taken_bytes == 0
    [event] = parser.feed(b"\n\n")
    assert parser._partial.taken_bytes == len(line)
    assert len(event.data) == 2_000_000


def test_work_on_many_lines_in_small_pieces_is_linear():
    raw = b"data: abc\n: c\n\n" * 2_000
    parser = SSEParser()
    parser._partial = Counting()
    assert sum(len(parser.feed(raw[start : start + 3])) for start in range(0, len(raw), 3)) == 2_000
    assert parser._partial.taken_bytes <= len(raw)


@pytest.mark.parametrize(
    "pieces", [[b"x" * 100 + b"\n"], [b"x" * 60, b"x" * 40], [*[b"x"] * 100, b"\n", *[b"x"] * 100]]
)
def test_a_line_of_exactly_the_cap_passes_and_one_byte_more_does_not(pieces):
    parser = SSEParser(max_line_bytes=100)
    assert [event for piece in pieces for event in parser.feed(piece)] == []
    if pieces[-1].endswith(b"x"):
        with pytest.raises(SSEParseError):
            parser.feed(b"x")


def test_what_was_dropped_at_an_end_does_not_count_any_more():
    parser = SSEParser(max_line_bytes=100)
    parser.feed(b"x" * 60)
    parser.finish()
    assert parser.feed(b"x" * 100) == []


def test_the_data_of_an_event_counts_with_the_line_ends_between_its_lines():
    parser = SSEParser(max_line_bytes=100)
    for _ in range(3):
        [event] = parser.feed(b"data: " + b"a" * 49 + b"\ndata: " + b"b" * 50 + b"\n\n")
        assert len(event.data) == 100
    assert parser.feed(b"data: " + b"a" * 50 + b"\n") == []
    with pytest.raises(SSEParseError):
        parser.feed(b"data: " + b"b" * 50 + b"\n")


@pytest.mark.parametrize(
    "raw", [b"data: " + b"a" * 100, b"x" * 101, b"data: " + b"a" * 100 + b"\n", b"data: a\n" * 60, b"data\n" * 102]
)
def test_the_cap_ends_a_line_or_an_event_that_never_does_with_bounded_memory(raw):
    with pytest.raises(SSEParseError, match="100 bytes"):
        SSEParser(max_line_bytes=100).feed(raw)
    parser = SSEParser(max_line_bytes=100)
    with pytest.raises(SSEParseError, match="100 bytes"):
        [parser.feed(raw[index : index + 1]) for index in range(len(raw))]


def test_many_events_below_the_cap_pass():
    parser = SSEParser(max_line_bytes=100)
    assert len(parser.feed((b"data: " + b"a" * 94 + b"\n\n") * 50)) == 50


def test_the_end_drops_an_unfinished_event_and_says_so():
    parser = SSEParser()
    assert parser.finish() is False
    parser.feed(b"event: x\ndata: a\n")
    assert parser.finish() is True
    parser.feed(b"data: half")
    assert parser.finish() is True
    assert parser.feed(b"\n\ndata: b\n\n") == [("message", "b", "")]
