"""Bodies that JSON parsers commonly let through and that would break later."""

import json

import pytest

from streaming.protocol.strict_json import MAX_DEPTH, JsonRefused, parse


@pytest.mark.parametrize(
    ("body", "says", "field"),
    [
        (b'{"a": NaN}', "NaN", "a"),
        (b'{"a": -Infinity}', "-Infinity", "a"),
        (b'[1, "x", [], {"b": NaN}]', "NaN", "3.b"),
        (b'{"a": [{"b": 1e999}]}', "out of range", "a.0.b"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' stands twice", "c"),
        (b'{"a": {"b": ["ok", "\\ud83d"]}}', "surrogate", "a.b.1"),
        (b'{"a": "\\uDE00\\uD83D"}', "surrogate", "a"),
        (b'{"a": [{"b": "x\\u0000y"}]}', "NUL", "a.0.b"),
        (b'{"a\\u0000": 1}', "NUL", "a\ufffd"),
        (b'"\\u0000"', "NUL", None),
        (b'{"a": "x\x00y"}', "not JSON", None),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7", None),
        (b'{"a": "\xed\xa0\xbd"}', "not UTF-8", None),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark", None),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8", None),
        ('{"a": 1}'.encode("utf-16-le"), "not JSON", None),
        (b"[" * 100_000 + b"]" * 100_000, "nested", None),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested", None),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested", None),
        (b"[" + b"1" * 5_000 + b"]", "too many digits", None),
        (b'{"a": 1} x', "not JSON", None),
        (b"", "not JSON", None),
    ],
)
def test_a_body_that_would_break_later_is_refused_with_its_place(body, says, field):
    with pytest.raises(JsonRefused) as refused:
        parse(body)
    assert says in refused.value.message
    assert refused.value.field == field


@pytest.mark.parametrize(
    "value",
    [
        {"a": "चाय ☕ 👩‍🚀 \u2028\x7f", "b": [1, 2.5, None, True, -0.0]},
        {"a": "\\u0000 written out"},
        ["x"] * 200,
        [[{}]] * 200,
        10**30,
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_ordinary_json_in_either_spelling_comes_through_unchanged(value, ascii_only):
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


def test_the_deepest_allowed_body_passes():
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
