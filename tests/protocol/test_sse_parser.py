"""Owns the laws of the parser: the same events for every cut and every line end, linear work, bounded memory."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.sse_parser import SSEParseError, SSEParser

LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}

#: What Python's splitlines would take for line ends.
SEPARATORS = "x\u2028y\x85z\x0b\x0c\x1c\u2029"

#: name -> (stream with LF ends, what is dispatched)
CASES = {
    "two data lines": (b"data: one\ndata: two\n\n", [("message", "one\ntwo", "")]),
    "event and id": (b"event: x\nid: r:1.2\ndata: {}\n\n", [("x", "{}", "r:1.2")]),
    "id stays": (b"id: 1\ndata: a\n\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "1")]),
    "id is cleared": (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "")]),
    "id with NUL is ignored": (b"id: 1\nid: 2\x003\ndata: a\n\n", [("message", "a", "1")]),
    "id without data": (b"id: 7\n\ndata: a\n\n", [("message", "a", "7")]),
    "event is forgotten": (b"event: x\n\ndata: a\n\n", [("message", "a", "")]),
    "comment": (b": QUEUED\n\n:\ndata: a\n: ping\n\n", [("message", "a", "")]),
    "no space, two spaces": (b"data:a\ndata:  b\n\n", [("message", "a\n b", "")]),
    "colons in data": (b'data: {"a":1}\n\n', [("message", '{"a":1}', "")]),
    "bare data field": (b"data\n\ndata\ndata\n\n", [("message", "", ""), ("message", "\n", "")]),
    "unknown fields": (b"retry: 3000\nfoo: bar\nDATA: x\n data: y\ndata: z\n\n", [("message", "z", "")]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [("message", "a", "")]),
    "characters": ("data: 北 चाय 😀 é\n\n".encode(), [("message", "北 चाय 😀 é", "")]),
    "separators in text": (f"data: {SEPARATORS}\n\n".encode(), [("message", SEPARATORS, "")]),
    "invalid bytes": (b"data: a\xffb\xc0\x80\xed\xa0\x80\xf0\x9f\n\n", [("message", "a\ufffdb" + "\ufffd" * 6, "")]),
    "half an event": (b"data: a\n\ndata: b\n", [("message", "a", "")]),
    "half a line": (b"data: a\n\ndata: b", [("message", "a", "")]),
    "nothing": (b"", []),
    "empty lines": (b"\n\n\ndata: a\n\n\n\n", [("message", "a", "")]),
}  # fmt: skip


def parse(*pieces):
    parser = SSEParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    parser.finish()
    return events


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("case", CASES)
def test_every_cut_with_every_line_end_gives_the_same_events(case, end):
    raw, expected = CASES[case]
    raw = raw.replace(b"\n", LINE_ENDS[end])
    assert parse(raw) == expected
    assert parse(*(raw[index : index + 1] for index in range(len(raw)))) == expected
    for cut in range(len(raw) + 1):
        assert parse(raw[:cut], b"", raw[cut:]) == expected


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


FIELDS = [b"data", b"event", b"id", b":", b" ", b"x", b"\0", "é".encode()]
ODDITIES = [b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xe2", b"\x80\xa8", b"\xff"]
soup = st.lists(st.sampled_from(FIELDS + ODDITIES), max_size=40).map(b"".join)


@given(soup, st.lists(st.integers(0, 80), max_size=6))
def test_any_bytes_in_any_pieces_agree_with_the_standards_algorithm(raw, cuts):
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[start:end] for start, end in pairwise(edges)]
    assert parse(*pieces) == reference(raw)


def test_a_line_of_megabytes_passes_in_linear_work():
    line = b"data: " + b"a" * 3_000_000
    parser = SSEParser()
    pieces = [line[start : start + 100] for start in range(0, len(line), 100)]
    assert all(parser.feed(piece) == [] for piece in pieces)
    assert len(parser._partial) == len(pieces), "pieces are joined once, at the end of the line"
    [event] = parser.feed(b"\n\n")
    assert len(event.data) == 3_000_000


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
