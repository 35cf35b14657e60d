"""Whatever bytes an engine sends, the answer has the one end that the design gives it: rows X20 to X40, from the socket
of an engine to the row in the database."""

import json
import re

import pytest

from tests.engine.answers import added, asked
from tests.fault_engine import FaultEngine

MAX_TOKENS = 40
LOST, ERROR, PROTOCOL = ("truncated", "upstream_lost"), ("errored", "upstream_error"), ("errored", "upstream_protocol")
ABORTED, STOPPED, CALLED = ("errored", "engine_aborted"), ("completed", "stop"), ("completed", "tool_calls")
DONE = "data: [DONE]\n\n"
REPORT = 'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}\n\n'


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


@pytest.fixture
async def engine():
    async with FaultEngine(rate=2000, slots=4, context=1000).serving() as server:
        yield server


def chunk(content="a", finish_reason=None, **delta):
    delta = {"content": content, **delta}
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}) + "\n\n"


def raw(content):
    """A chunk whose content is JSON as it stands."""
    return f'data: {{"choices":[{{"index":0,"delta":{{"content":"{content}"}}}}]}}\n\n'


END = chunk("", "stop") + REPORT + DONE


def call(index, call_id, arguments):
    function = {"arguments": arguments, **({"name": "look"} if call_id else {})}
    return {"index": index, "function": function, **({"id": call_id} if call_id else {})}


async def asked_over(bench, tmp_path, engine, kind, **fields):
    """The row and the log of one answer by the engine, over that wire."""
    await added(tmp_path, kind, engine.url + ("/v1" if kind == "openai" else ""))
    row, log = await asked(bench, max_tokens=MAX_TOKENS, **fields)
    assert log[-1].kind == "ended"
    assert (row.finish_reason is not None) == (row.end_state == "completed"), "none is ever made up"
    return row, log


def pieces(text, kind):
    """How many tokens of the fault engine a text is."""
    return len(text) if kind == "vllm" else len(re.findall(r" the|<[\d.]+>", text))


def end_of(row):
    return row.end_state, row.end_reason


EVERY_WIRE = {
    "X20 EOF": ({"eof_after": 3}, LOST, 3),
    "X20 the socket closes": ({"die_after": 3}, LOST, 3),
    "X21 RST": ({"reset_after": 3}, LOST, 3),
    "X22 half an event": ({"half_event_after": 3}, LOST, 3),
    "X27 an error": ({"error_after": 3}, ERROR, 3),
    "X28 JSON": ({"json": True}, PROTOCOL, 0),
    "X28 HTML": ({"html": True}, PROTOCOL, 0),
    "X29 CRLF": ({"crlf": True}, ("completed", "length"), MAX_TOKENS),
    "X29 in pieces": ({"split": True}, ("completed", "length"), MAX_TOKENS),
    "X30 comments": ({"comments": True}, ("completed", "length"), MAX_TOKENS),
    "X31 a line without an end": ({"long_line_after": 3}, PROTOCOL, 3),
    "X36 no JSON": ({"garbage_after": 3}, PROTOCOL, 3),
    "X38 a burst": ({"burst": MAX_TOKENS, "rate": 10_000}, ("completed", "length"), MAX_TOKENS),
}


@pytest.mark.parametrize("kind", ["llamacpp", "vllm", "openai", "anthropic"])
@pytest.mark.parametrize("case", EVERY_WIRE)
async def test_over_every_wire_it_ends_as_it_must_and_keeps_what_came(bench, tmp_path, engine, case, kind):
    control, end, tokens = EVERY_WIRE[case]
    engine.set_control(control)
    row, log = await asked_over(bench, tmp_path, engine, kind)
    assert end_of(row) == end
    assert pieces(row.output_text, kind) == tokens
    assert "secret" not in json.dumps([event.payload for event in log])


CHAT = {
    "X24 no [DONE]": ({"say": chunk("abc") + chunk("", "stop")}, STOPPED, "abc"),
    "X24 no [DONE], reset": ({"say": chunk("abc") + chunk("", "stop"), "then": "reset"}, STOPPED, "abc"),
    "X25 the socket stays open": ({"say": chunk("abc") + END, "then": "open"}, STOPPED, "abc"),
    "X26 content after the reason": ({"say": chunk("abc") + chunk("", "stop") + chunk("x") + END}, STOPPED, "abc"),
    "X26 data after [DONE]": ({"say": chunk("abc") + END + chunk("x") + "data: {nonsense\n\n"}, STOPPED, "abc"),
    "X27 data: error": ({"say": chunk("abc") + 'data: {"error": {"message": "secret"}}\n\n'}, ERROR, "abc"),
    "X27 event: error": ({"say": chunk("abc") + 'event: error\ndata: {"message": "secret"}\n\n'}, ERROR, "abc"),
    "X27 object: error": ({"say": chunk("abc") + 'data: {"object": "error", "message": "secret"}\n\n'}, ERROR, "abc"),
    "X29 CR alone": ({"say": (chunk("abc") + END).replace("\n", "\r")}, STOPPED, "abc"),
    "X29 every end of a line": ({"say": chunk("a").replace("\n", "\r\n") + chunk("bc") + END}, STOPPED, "abc"),
    "X30 a BOM": ({"say": "\ufeff" + chunk("abc") + END}, STOPPED, "abc"),
    "X30 unknown fields": ({"say": "retry: 9\nfoo: bar\n\nevent: ping\n\n" + chunk("abc") + END}, STOPPED, "abc"),
    "X30 no space": ({"say": chunk("abc").replace("data: ", "data:") + END}, STOPPED, "abc"),
    "X30 several lines": ({"say": chunk("abc").replace('"choices"', '\ndata: "choices"') + END}, STOPPED, "abc"),
    "X31 a line of a megabyte": ({"say": chunk("a" * 10**6) + END}, STOPPED, "a" * 10**6),
    "X33 NUL": ({"say": raw("a\\u0000c") + END}, STOPPED, "a\ufffdc"),
    "X34 a pair over two chunks": ({"say": raw("\\ud83d") + raw("\\ude00") + END}, STOPPED, "😀"),
    "X34 a lone half": ({"say": raw("\\ud83d") + raw("b") + END}, STOPPED, "\ufffdb"),
    "X35 separators": ({"say": raw("a\\u2028\\u2029\\u0085\\u000b") + END}, STOPPED, "a\u2028\u2029\x85\x0b"),
    "X37 empty deltas": (
        {
            "say": chunk("", role="assistant") + chunk(None) + 'data: {"id": "x"}\n\n'
            'data: {"choices": []}\n\ndata: {"choices": [{"index": 0, "finish_reason": null}]}\n\n' + chunk("abc") + END
        },
        STOPPED,
        "abc",
    ),
    "X40 another choice": (
        {"say": chunk("abc") + chunk("x").replace('"index": 0', '"index": 1') + END}, STOPPED, "abc",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHAT)
async def test_of_chat_chunks_it_ends_as_it_must_with_the_text_that_was_meant(bench, tmp_path, engine, case):
    control, end, text = CHAT[case]
    engine.set_control(control)
    row, log = await asked_over(bench, tmp_path, engine, "openai")
    assert (end_of(row), row.output_text) == (end, text)
    assert "".join(event.payload["text"] for event in log if event.kind == "text") == text
    assert "secret" not in json.dumps([event.payload for event in log])


@pytest.mark.parametrize(("kind", "frames"), [
    ("vllm", 'data: {"request_id":"r","choices":[{"index":0,"token_ids":[97,98],"finish_reason":"abort"}]}\n\n'),
    ("openai", chunk("ab", "abort")),
])  # fmt: skip
async def test_an_engine_that_gives_up_by_itself_is_an_error_and_never_a_stop(bench, tmp_path, engine, kind, frames):
    """X23."""
    engine.set_control({"say": frames + DONE})
    row, _ = await asked_over(bench, tmp_path, engine, kind)
    assert (end_of(row), row.output_text) == (ABORTED, "ab")


async def test_bytes_that_are_no_utf8_are_replaced_and_the_answer_goes_on(bench, tmp_path, engine):
    """X32."""
    engine.set_control({"bad_utf8_after": 2})
    row, _ = await asked_over(bench, tmp_path, engine, "llamacpp")
    assert end_of(row) == ("completed", "length")
    assert row.output_text.count("\ufffd") == 6
    assert row.completion_tokens == MAX_TOKENS


async def test_a_burst_is_stored_in_fewer_events_than_it_has_tokens(bench, tmp_path, engine):
    """X38."""
    engine.set_control({"burst": 10, "rate": 10_000})
    row, log = await asked_over(bench, tmp_path, engine, "vllm")
    assert row.completion_tokens == MAX_TOKENS
    assert sum(event.kind == "text" for event in log) <= MAX_TOKENS / 10


async def test_fragments_of_calls_in_disorder_are_put_together_and_what_is_no_json_is_flagged(bench, tmp_path, engine):
    """X39."""
    calls = [
        call(0, "c1", '{"q": "\\u00'), call(1, "c2", '{"q"'), call(0, None, 'e9"}'), call(1, None, ": 1}"),
        call(0, "c3", '{"q": '),
    ]  # fmt: skip
    frames = "".join(chunk(None, tool_calls=[one]) for one in calls)
    engine.set_control({"say": frames + chunk("", "tool_calls") + DONE})
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    row, log = await asked_over(bench, tmp_path, engine, "openai", tools=[tool])
    assert end_of(row) == CALLED
    made = {}
    for event in log:
        if event.kind == "tool_call":
            one = made.setdefault(event.payload["index"], {"arguments": ""})
            one["arguments"] += event.payload.get("arguments") or ""
            one["id"] = event.payload.get("call_id") or one.get("id")
            one["complete"] = event.payload.get("complete")
    assert {one["id"]: one["arguments"] for one in made.values()} == {
        "c1": '{"q": "\\u00e9"}', "c2": '{"q": 1}', "c3": '{"q": ',
    }  # fmt: skip
