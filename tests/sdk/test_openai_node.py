"""openai-node against the real site. What it saw, it saw in one process: node/openai.mjs."""

import json

import pytest

from tests.sdk.conftest import COUNTED, run_node

pytestmark = pytest.mark.engine
judge = pytest.mark.judge


@pytest.fixture(scope="module")
def seen(place, node_packages):
    return run_node("openai.mjs", place)


@judge("openai-node", "stream")
@judge("openai-node", "usage")
def test_it_streams_with_usage(seen):
    stream = seen["stream"]
    assert (stream["text"], stream["reasons"], stream["done"]) == ("Hello ☕", ["stop"], True)
    assert stream["usage"]["completion_tokens"] == len("Hello ☕".encode())


@judge("openai-node", "whole")
def test_whole_answers_are_the_same(seen):
    whole = seen["whole"]
    assert (whole["text"], whole["finish_reason"]) == ("Hello ☕", "stop")
    assert whole["usage"] == {**seen["stream"]["usage"]}


def test_a_real_model_too(seen):
    real = seen["real"]
    assert real["streamed"] == real["whole"]
    assert real["tokens"] == 16


@judge("openai-node", "tools")
def test_it_gathers_calls(seen):
    [call] = seen["tools"]["calls"]
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
    assert seen["tools"]["finish_reason"] == "tool_calls"


@judge("openai-node", "structured")
def test_it_parses_structured_output(seen):
    assert seen["structured"] == {"name": "Ada", "age": 36}


@judge("openai-node", "error before")
def test_an_error_before_the_first_byte_is_an_exception_with_its_status(seen):
    assert seen["before"] == {"name": "InternalServerError", "status": 502, "code": "upstream_error"}


@judge("openai-node", "error after")
def test_an_error_after_it_is_an_exception_behind_the_text(seen):
    after = seen["after"]
    assert (after["text"], after["done"]) == ("ab", False)
    assert after["error"]["body"]["end_state"] == "errored"


@judge("openai-node", "stop")
def test_a_stop_ends_the_stream_in_band(seen):
    stop = seen["stop"]
    assert (stop["status"], stop["error"]["end_state"]) == ("cancelled", "cancelled")
    assert set(stop["text"].split()) <= {"tick"}


@judge("openai-node", "disconnect")
def test_who_goes_away_frees_the_engine(seen, place):
    assert place.ended(seen["disconnect"]["id"]) == ("abandoned", "disconnected")


@judge("openai-node", "resume")
def test_it_resumes_a_background_response(seen):
    assert seen["resume"] == {"text": COUNTED, "last": "response.completed"}


def test_it_streams_responses(seen):
    responses = seen["responses"]
    assert (responses["text"], responses["status"]) == ("Hello ☕", "completed")
    assert responses["usage"]["output_tokens"] == len("Hello ☕".encode())
