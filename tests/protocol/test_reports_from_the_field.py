"""Owns the reports of others that concern text and parsing: each as a test of its whole kind, under its number."""

import json

import openai
import pytest

from examples.verdict import verdict
from streaming.protocol.detokenizer import Detokenizer
from streaming.protocol.dialects import OPENAI_CHAT, OPENAI_RESPONSES
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.markers import FORMATS
from streaming.protocol.response_stream import ResponseStream
from streaming.protocol.sse import HEARTBEAT
from streaming.protocol.sse_parser import SSEParseError, SSEParser
from tests.protocol import vocabularies
from tests.protocol.sample_events import HEAD_USAGE, encoded, log, parsed
from tests.protocol.test_openai_chat import chunks
from tests.protocol.test_openai_responses import client as responses_client

LINE_ENDS = [b"\n", b"\r\n", b"\r"]


def content(text):
    """An upstream chunk with this text, its characters as they are."""
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n\n"


def texts_in(*pieces):
    """The texts that our parser finds in bytes that come in pieces."""
    parser = SSEParser()
    data = [event.data for piece in pieces for event in parser.feed(piece)]
    return [json.loads(one)["choices"][0]["delta"]["content"] for one in data if one != "[DONE]"]


def shown(texts, **options):
    stream = ResponseStream(detokenizer=None, **options)
    drafts = [draft for text in texts for draft in stream.feed(EngineOutput(text=text, token_count=1))]
    return [draft.payload["text"] for draft in drafts + stream.flush(natural=True)]


def test_c01_heartbeats_after_an_id_do_not_end_the_sdks_stream():
    raw = b"".join(encoded(OPENAI_CHAT, [event]) + HEARTBEAT * 2 for event in log(["a", "b"]))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks(HEARTBEAT + raw)) == "ab"
    raw = encoded(OPENAI_RESPONSES, log(["a"])).replace(b"\n\nevent", b"\n\n" + HEARTBEAT + b"event")
    events = list(responses_client(raw).responses.create(model="demo", input="?", stream=True))
    assert events[-1].response.output_text == "a"


@pytest.mark.parametrize("end", LINE_ENDS)
def test_c02_an_upstream_comment_is_dropped_and_never_data(end):
    raw = (b": QUEUED\n\n" + content("a") + b": OPENROUTER PROCESSING\n" + content("b")).replace(b"\n", end)
    for cut in range(len(raw)):
        assert texts_in(raw[:cut], raw[cut:]) == ["a", "b"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_c03_only_cr_and_lf_end_a_line_and_we_escape_all_others(separator):
    text = f"x{separator}y"
    raw = b'data: "' + text.encode() + b'"\n\n'
    for cut in range(len(raw)):
        parser = SSEParser()
        assert [event.data for piece in (raw[:cut], raw[cut:]) for event in parser.feed(piece)] == [f'"{text}"']
    for dialect in (OPENAI_CHAT, OPENAI_RESPONSES):
        sent = encoded(dialect, log([text]))
        assert sent.isascii()
        assert len(sent.decode().splitlines()) == sent.count(b"\n"), "even the wildest reader splits it right"


def test_c04_a_cr_at_the_end_of_a_read_is_no_second_line_end():
    parser = SSEParser()
    assert parser.feed(b"data: one\r") == []
    assert parser.feed(b"\ndata: two\r\n\r\n") == [("message", "one\ntwo", "")]


@pytest.mark.parametrize("character", ["北", "é", "😀", "है", "👩‍👩‍👧‍👦"])
def test_c06_a_character_cut_by_a_read_is_whole(character):
    raw = content(character) + b"data: [DONE]\n\n"
    for first in range(len(raw)):
        for second in range(first, min(first + 4, len(raw))):
            assert texts_in(raw[:first], raw[first:second], raw[second:]) == [character]


def test_c07_a_line_of_hundreds_of_kilobytes_passes_and_only_the_cap_ends_it():
    raw = content("a" * 200_000)
    assert texts_in(*[raw[start : start + 4096] for start in range(0, len(raw), 4096)]) == ["a" * 200_000]
    with pytest.raises(SSEParseError, match="1000 bytes"):
        SSEParser(max_line_bytes=1000).feed(raw)


@pytest.mark.parametrize("mode", ["text", "ids"])
def test_c09_nul_from_a_model_is_a_replacement_character(mode):
    if mode == "text":
        assert "".join(shown(["a\0b"])) == "a\ufffdb"
    else:
        stream = ResponseStream(detokenizer=Detokenizer(vocabularies.all_bytes(), b"x"), stops=["\0"])
        drafts = [draft for byte in b"a\0b" for draft in stream.feed(EngineOutput((byte,)))]
        assert "".join(draft.payload["text"] for draft in drafts) == "a\ufffdb"


def test_c10_a_pair_cut_over_two_chunks_is_one_emoji_and_a_lone_half_is_replaced():
    assert shown(["\ud83d", "\ude00"]) == ["😀"]
    assert shown(["a\ud83d", "b"]) == ["a", "\ufffdb"]
    assert shown(["a\ud83d"]) == ["a", "\ufffd"]
    assert texts_in(b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n') == ["\ud83d"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [("61ff62", "a\ufffdb"), ("c080", "\ufffd\ufffd"), ("eda080", "\ufffd\ufffd\ufffd"), ("61f09f", "a\ufffd")],
)
def test_c11_invalid_bytes_are_replaced_and_the_stream_goes_on(raw, text):
    data = b'data: "' + bytes.fromhex(raw) + b'"\n\n'
    for cut in range(len(data)):
        parser = SSEParser()
        assert [e.data for piece in (data[:cut], data[cut:]) for e in parser.feed(piece)] == [f'"{text}"']
    stream = ResponseStream(detokenizer=Detokenizer(vocabularies.all_bytes(), b"x"))
    drafts = [draft for byte in bytes.fromhex(raw) + b"." for draft in stream.feed(EngineOutput((byte,)))]
    stream.feed(EngineOutput(finish_reason="stop"))
    drafts += stream.flush(natural=True)
    assert "".join(draft.payload["text"] for draft in drafts) == text + "."
    assert stream.finish_reason == "stop"


def test_c12_bytes_of_a_character_show_nothing_until_it_is_whole():
    detokenizer = Detokenizer(vocabularies.all_bytes(), b"x")
    assert [detokenizer.push(byte) for byte in "😀ď".encode()] == ["", "", "", "😀", "", "ď"]
    assert detokenizer.push(0xF0) + detokenizer.flush() == "\ufffd"


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["DEFGHIJ"], ["ABC", "DEF", "G", "HI", "J"], "ABC"),
        (["\n\n"], ["a\n", "\nb"], "a"),
        (["ab", "abc"], ["x", "a", "bc"], "x"),
        (["abc", "b"], ["xa", "b", "c"], "xa"),
    ],
)
def test_c15_nothing_of_a_stop_string_is_shown(stops, pieces, expected):
    assert "".join(shown(pieces, stops=stops)) == expected
    text = "".join(pieces)
    for cut in range(len(text)):
        assert "".join(shown([text[:cut], text[cut:]], stops=stops)) == expected


@pytest.mark.parametrize("how", ["marked", "told apart by the engine"])
def test_c17_a_stop_string_in_the_reasoning_cuts_nothing(how):
    stream = ResponseStream(detokenizer=None, stops=["STOP"], markers=FORMATS["think"] if how == "marked" else None)
    outputs = [EngineOutput(reasoning="so STOP it"), EngineOutput(text="ok ST"), EngineOutput(text="OP no")]
    if how == "marked":
        outputs = [EngineOutput(text=text) for text in ("<think>so ST", "OP it</th", "ink>ok S", "TOP no")]
    drafts = [draft for output in outputs for draft in stream.feed(output)] + stream.flush(natural=True)
    said = {kind: "".join(d.payload["text"] for d in drafts if d.kind == kind) for kind in ("reasoning", "text")}
    assert said == {"reasoning": "so STOP it", "text": "ok "}


def test_c21_usage_is_one_chunk_without_choices_and_null_elsewhere():
    frames = [data for _, data, _ in parsed(encoded(OPENAI_CHAT, log(["a", "b"]), head=HEAD_USAGE)) if data != "[DONE]"]
    assert [frame["choices"] == [] for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert [frame["usage"] is None for frame in frames] == [True] * (len(frames) - 1) + [False]
    assert not any("usage" in data for _, data, _ in parsed(encoded(OPENAI_CHAT, log(["a"]))) if data != "[DONE]")


@pytest.mark.parametrize("end", ["relay_lost", "upstream_error"])
def test_c23_c24_c26_a_stream_that_failed_says_so_and_never_looks_complete(end):
    raw = encoded(OPENAI_CHAT, log(["a", "b"], end))
    assert b"[DONE]" not in raw
    texts = []
    with pytest.raises(openai.APIError):
        texts.extend(chunk.choices[0].delta.content for chunk in chunks(raw))
    assert "".join(texts) == "ab"
    assert verdict([data if isinstance(data, str) else json.dumps(data) for _, data, _ in parsed(raw)]).outcome in (
        "truncated", "errored",
    )  # fmt: skip
    assert verdict([content("a").decode().removeprefix("data: ").strip()]).resume, "a bare end is a lost connection"
