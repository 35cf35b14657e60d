"""The Vercel AI SDK (`ai` with its openai-compatible provider) against the real site: what node/ai.mjs saw."""

import pytest

from tests.e2e.reading import eventually
from tests.sdk.conftest import run_node

pytestmark = pytest.mark.engine
judge = pytest.mark.judge


@pytest.fixture(scope="module")
def seen(place, node_packages):
    return run_node("ai.mjs", place)


@judge("Vercel AI SDK", "stream")
@judge("Vercel AI SDK", "usage")
def test_it_streams_with_usage(seen):
    stream = seen["stream"]
    assert (stream["text"], stream["finish"]) == ("Hello ☕", "stop")
    assert stream["usage"]["outputTokens"] == len("Hello ☕".encode())
    assert "error" not in stream["parts"]


@judge("Vercel AI SDK", "whole")
def test_whole_answers_are_the_same(seen):
    assert (seen["whole"]["text"], seen["whole"]["finish"]) == ("Hello ☕", "stop")
    assert seen["whole"]["usage"]["outputTokens"] == seen["stream"]["usage"]["outputTokens"]


def test_a_real_model_too(seen):
    assert seen["real"]["tokens"] == 16
    assert seen["real"]["text"]


@judge("Vercel AI SDK", "tools")
def test_it_runs_tools_and_comes_back_with_their_results(seen):
    assert (seen["tools"]["ran"], seen["tools"]["steps"]) == (["Paris", "Paris"], 2)


@judge("Vercel AI SDK", "structured")
def test_it_parses_structured_output(seen):
    assert seen["structured"] == {"name": "Ada", "age": 36}


@judge("Vercel AI SDK", "error before")
def test_an_error_before_the_first_byte_is_an_exception_with_its_status(seen):
    assert seen["before"] == {"name": "AI_APICallError", "status": 502, "retryable": True}


@judge("Vercel AI SDK", "error after")
def test_an_error_after_it_is_an_error_part_and_no_good_finish(seen):
    after = seen["after"]
    assert after["text"] == "ab"
    assert "error" in after["parts"]
    assert after["finish"] == "error"


@judge("Vercel AI SDK", "disconnect")
def test_who_goes_away_frees_the_engine(seen, place):
    assert seen["disconnect"]["aborted"]
    newest = "SELECT end_state FROM streaming_response WHERE model = 'tests-judged' ORDER BY id DESC LIMIT 1"
    assert eventually(lambda: place.site.rows(newest) == [("abandoned",)])
