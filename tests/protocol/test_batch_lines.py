"""Owns the laws of a batch's lines: cut anywhere they are the same, what is wrong with one is told by its number."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.protocol.batch_lines import ERRORS_MAX, LineRefused, answered, check, lines, read, unanswered

CHAT = "/v1/chat/completions"
LONGEST = 10_000


def line(custom_id="a", **fields):
    body = {"model": "m", "messages": []}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body, **fields}).encode()


def checked(data, longest=LONGEST):
    return check(lines([data], longest), CHAT, longest)


def faults(data):
    return [(fault["line"], fault["code"]) for fault in checked(data).errors]


@given(st.lists(st.binary(max_size=12), max_size=12), st.data())
def test_lines_are_the_same_wherever_the_bytes_are_cut(parts, data):
    whole = b"\n".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    wanted = [(n, part) for n, part in enumerate(whole.split(b"\n"), 1) if part.strip(b" \t\r")]
    assert list(lines(pieces, 1000)) == list(lines([whole], 1000)) == wanted


def test_a_line_that_is_too_long_is_never_held_whole():
    [(number, held)] = lines((b"x" * 1000 for _ in range(1000)), 5000)
    assert (number, len(held)) == (1, 5001)
    assert [fault["code"] for fault in checked(b"x" * 20_000).errors] == ["line_too_long"]
    assert "at most 10000 bytes" in checked(line(pad="x" * 10_000)).errors[0]["message"]


def test_crlf_blank_lines_and_a_missing_last_newline_do_no_harm():
    data = line("a") + b"\r\n\r\n \t\n" + line("b")
    assert (checked(data).count, checked(data).errors) == (2, [])
    assert [number for number, _ in lines([data], LONGEST)] == [1, 4]


@pytest.mark.parametrize(
    ("bad", "code", "said", "param"),
    [
        (b"nonsense", "invalid_json_line", "the line is not JSON", None),
        (b"[" * 70 + b"]" * 70, "invalid_json_line", "the line is nested over 64 levels deep", None),
        (b"\xef\xbb\xbf" + line(), "invalid_json_line", "the line starts with a byte order mark", None),
        (line().replace(b'"a"', b'"\\u0000"'), "invalid_json_line", "custom_id: NUL", "custom_id"),
        (line().replace(b'"a"', b'"\\ud800"'), "invalid_json_line", "custom_id: half a surrogate", "custom_id"),
        (b'{"a": 1, "a": 2}', "invalid_json_line", "the key 'a' stands twice", "a"),
        (b"7", "invalid_json_line", "must be a JSON object (got 7)", None),
        (b"[1, 2]", "invalid_json_line", "got an array of 2", None),
        (line(extra=1), "invalid_request", "extra: unknown field", "extra"),
        (b'{"custom_id": "a", "method": "POST", "url": "/"}', "invalid_request", "body: this field is req", "body"),
        (line(""), "invalid_request", 'custom_id: 1 to 256 characters (got "")', "custom_id"),
        (line("x" * 257), "invalid_request", "…)", "custom_id"),
        (line(7), "invalid_request", "(got 7)", "custom_id"),
        (line(method="GET"), "invalid_request", 'method: POST (got "GET")', "method"),
        (line(url="/v1/responses"), "invalid_url", "url: the batch's endpoint, /v1/chat/completions", "url"),
        (line(body=[]), "invalid_request", "body: a JSON object (got an array of 0)", "body"),
        (line(body={}), "invalid_request", "body.model: the name of a model (got null)", "body.model"),
        (line(body={"model": {}}), "invalid_request", "got an object of 0", "body.model"),
        (line(body={"model": "m", "stream": True}), "invalid_request", "body.stream: not in a batch", "body.stream"),
        (line(body={"model": "m", "background": True}), "invalid_request", "body.backg", "body.background"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_number(bad, code, said, param):
    [fault] = checked(line("first") + b"\n" + bad + b"\n" + line("last")).errors
    assert (fault["line"], fault["code"], fault["param"]) == (2, code, param)
    assert said in fault["message"]
    with pytest.raises(LineRefused):
        read(bad, CHAT, LONGEST)


def test_a_custom_id_stands_once():
    data = b"\n".join([line("a"), line("b"), line("a"), line("a")])
    assert faults(data) == [(3, "duplicate_custom_id"), (4, "duplicate_custom_id")]
    assert "the same as on line 1" in checked(data).errors[0]["message"]


def test_a_file_of_nothing_but_faults_names_the_first_hundred():
    assert len(checked(b"x\n" * 1000).errors) == ERRORS_MAX
    assert faults(b"\n\n \r\n") == [(None, "empty_file")]


def test_one_request_that_is_not_to_be_stored_makes_the_batch_one():
    quiet = line("b", body={"model": "m", "store": False})
    assert not checked(line()).keeps_nothing
    assert checked(line() + b"\n" + quiet + b"\n" + line("c")).keeps_nothing


def test_answers_are_lines_whatever_is_in_them():
    said = answered("batch_req_1", "a\n☕", 200, "resp_1", {"text": "x\ny\u2028"})
    not_said = unanswered("batch_req_2", "b", "batch_expired", "too late")
    for written in (said, not_said):
        assert written.count(b"\n") == 1
        assert written.endswith(b"\n")
    assert json.loads(said) == {
        "id": "batch_req_1", "custom_id": "a\n☕", "error": None,
        "response": {"status_code": 200, "request_id": "resp_1", "body": {"text": "x\ny\u2028"}},
    }  # fmt: skip
    assert json.loads(not_said)["error"] == {"code": "batch_expired", "message": "too late"}
