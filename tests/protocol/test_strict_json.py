"""Bodies that JSON parsers commonly let through and that would break later."""

import json

import pytest

from streaming.protocol import strict_json
from streaming.protocol.strict_json import KEY_CHARS, MAX_DEPTH, PATH_CHARS, JsonRefused, parse


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


@pytest.mark.parametrize("fault", [b'"\\u0000"', b"NaN"])
def test_a_fault_is_named_by_a_path_of_bounded_length(fault):
    key = b"k" * 100_000
    with pytest.raises(JsonRefused) as refused:
        parse(b'{"' + key + b'":[{"' + key + b'":' + b'{"a":' * 60 + fault + b"}" * 61 + b"]}")
    assert refused.value.field.startswith("k" * KEY_CHARS + ".0." + "k" * KEY_CHARS + ".a")
    assert len(refused.value.field) <= PATH_CHARS
    assert len(refused.value.message) < PATH_CHARS + 100


def test_no_path_is_made_for_values_without_fault(monkeypatch):
    monkeypatch.setattr(strict_json, "_path", lambda way: pytest.fail("a path for each of many values"))
    body = b'{"' + b"k" * 1000 + b'":[' + b",".join([b'"\\ud83d\\ude00"'] * 1000) + b"]}"
    assert len(parse(body)["k" * 1000]) == 1000


def test_odd_numbers_are_looked_for_only_where_nothing_nests_deeply(monkeypatch):
    monkeypatch.setattr(strict_json, "_refuse_odd_number", lambda value: pytest.fail("looked into it"))
    with pytest.raises(JsonRefused, match="nested"):
        parse(b"[" * 500 + b"NaN" + b"]" * 500)


def test_the_deepest_allowed_body_passes():
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
