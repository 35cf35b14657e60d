"""Judging a whole answer against its schema: right, wrong, and what cannot or must not be judged."""

import json
import socket

import pytest

from streaming.protocol.output_check import MESSAGE_CHARS, output_error

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "near": {"type": "array", "items": {"$ref": "#/$defs/place"}}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"km": {"type": "number"}}}},
}
#: Each level may be any of two that are judged by the same next level: 2^n ways to fail.
BRANCHING = {
    "$ref": "#/$defs/n",
    "$defs": {"n": {"anyOf": [{"properties": {"c": {"$ref": "#/$defs/n"}}, "required": [name]} for name in "de"]}},
}


DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def leading_on(level) -> dict:
    """Forty levels, each of which leads to the next twice."""
    levels = {f"n{n}": level({"$ref": f"#/$defs/n{n + 1}"}) for n in range(40)}
    return {**levels, "n40": {"type": "object"}}


@pytest.mark.parametrize("text", ['{"city": "Paris"}', ' {"city": "", "near": [{"km": 1.5}, {}]}\n'])
def test_an_answer_that_follows_its_schema_has_nothing_wrong_with_it(text):
    assert output_error(text, CITY) is None


@pytest.mark.parametrize(
    ("text", "path", "says"),
    [
        ('{"near": []}', "", "'city' is a required property"),
        ('{"city": 3}', "/city", "3 is not of type 'string'"),
        ('{"city": "a", "near": [{}, {"km": "x"}]}', "/near/1/km", "'x' is not of type 'number'"),
        ('{"city": "a", "more": 1}', "", "more"),
        ("[]", "", "is not of type 'object'"),
    ],
)
def test_what_does_not_follow_it_is_named_with_its_place(text, path, says):
    error = output_error(text, CITY)
    assert (error["code"], error["path"]) == ("schema_mismatch", path)
    assert says in error["message"]


@pytest.mark.parametrize("text", ["", "Sure! {}", '{"city": "a"', '{"city": NaN}', "[" * 100_000, f"[{'9' * 5000}]"])
def test_what_is_no_json_is_said_to_be_none(text):
    assert output_error(text, CITY)["code"] == "invalid_json"


def test_a_message_is_short_however_long_the_value_is():
    error = output_error(json.dumps({"city": ["x" * 50_000]}), CITY)
    assert len(error["message"]) == MESSAGE_CHARS


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"}, {"properties": 5}, {"multipleOf": 0}, {"allOf": {}}, {"required": 5}, {"minimum": "a"},
        {"$ref": "#/$defs/none"}, {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
    ],
)  # fmt: skip
def test_a_schema_that_makes_no_sense_judges_nothing(schema):
    assert output_error('{"a": 1}', schema) is None


def test_nothing_is_fetched_whatever_a_schema_points_to():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        assert output_error("{}", {"$ref": url}) is None
        assert output_error("{}", {"$schema": url, "type": "array"})["code"] == "schema_mismatch"
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ('{"c":' * 40 + "1" + "}" * 40, BRANCHING),
        ("[" + ",".join(f'{{"a":{n}}}' for n in range(2_000)) + "]", {"uniqueItems": True}),
        (json.dumps(["x"] * 4_000), {"items": {"enum": [*(f"y{n}" for n in range(1_900)), "x"]}}),
        # What is evaluated is looked for along both references, by no keyword that could count.
        (
            '{"a": 1}',
            {
                "unevaluatedProperties": False,
                "$ref": "#/$defs/n0",
                "$defs": leading_on(lambda on: {**on, "$dynamicRef": on["$ref"]}),
            },
        ),
        # A part that names a draft must not be judged by that draft's own validator, which counts nothing.
        (
            '{"a": 1}',
            {
                "allOf": [DRAFT | {"$ref": "#/$defs/n0"}],
                "$defs": leading_on(lambda on: DRAFT | {"anyOf": [DRAFT | on | {"not": {}}] * 2}),
            },
        ),
        (json.dumps([[*range(4_000)]] * 2), {"items": {"anyOf": [{"const": [*range(3_999), 0]}] * 500}}),
        (json.dumps(list(range(8_000))), {"items": {"allOf": [{"minimum": 0}, {"maximum": 9_000}]}}),
    ],
)
def test_what_takes_too_many_steps_is_left_unjudged(text, schema):
    assert output_error(text, schema) is None


def test_the_same_schemas_judge_what_is_small_enough():
    assert output_error('{"c": {"c": 1}}', BRANCHING)["code"] == "schema_mismatch"
    assert output_error('[{"a": 1}, {"a": 1}]', {"uniqueItems": True})["code"] == "schema_mismatch"
    assert output_error('[{"a": 1}, {"a": 2}]', {"uniqueItems": True}) is None
    assert output_error('"b"', {"enum": ["a", "b"]}) is None
