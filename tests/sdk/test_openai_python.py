"""openai-python against the real site: chat completions and responses, scripted and with a real model."""

import json

import openai
import pytest

from tests.sdk.conftest import (
    BREAKS_AFTER,
    BREAKS_BEFORE,
    CALLS,
    COUNTED,
    COUNTS,
    ENDLESS,
    HELLO,
    JSON,
    PERSON,
    WEATHER,
    until_failure,
)

judge = pytest.mark.judge
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}


@pytest.fixture
def client(place):
    with openai.OpenAI(base_url=place.url, api_key=place.key, max_retries=0) as client:
        yield client


def asked(text, model="tests-judged", **body):
    return {"model": model, "messages": [{"role": "user", "content": text}], **body}


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@judge("openai-python", "stream")
@judge("openai-python", "usage")
def test_it_streams_with_usage(client):
    chunks = list(client.chat.completions.create(**asked(HELLO), stream=True, stream_options={"include_usage": True}))
    assert text_of(chunks) == "Hello ☕"
    assert chunks[-1].usage.completion_tokens == len("Hello ☕".encode())
    without = list(client.chat.completions.create(**asked(HELLO), stream=True))
    assert all(chunk.usage is None and chunk.choices for chunk in without)


@judge("openai-python", "whole")
def test_whole_answers_are_the_same(client):
    [choice] = client.chat.completions.create(**asked(HELLO)).choices
    assert (choice.message.content, choice.finish_reason) == ("Hello ☕", "stop")


@judge("openai-python", "tools")
def test_it_gathers_calls(client):
    with client.chat.completions.stream(**asked(CALLS), tools=TOOLS) as stream:
        names = [event.name for event in stream if event.type == "tool_calls.function.arguments.done"]
        message = stream.get_final_completion().choices[0].message
    assert names == ["get_weather"]
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Paris"}


@pytest.mark.engine
@judge("openai-python", "structured")
@pytest.mark.parametrize("model", ["tests-judged", "smollm2"])
def test_structured_output_is_json_of_the_schema(client, model):
    question = JSON if model == "tests-judged" else "Who wrote Faust?"
    body = asked(question, model, max_tokens=200, temperature=0)
    person = json.loads(client.chat.completions.create(**body, response_format=FORMAT).choices[0].message.content)
    assert (set(person), type(person["age"])) == ({"name", "age"}, int)


@pytest.mark.engine
def test_a_real_model_calls_what_it_must_call(client):
    body = asked("Weather in Paris?", "smollm2", max_tokens=200, temperature=0)
    message = client.chat.completions.create(**body, tools=TOOLS, tool_choice="required").choices[0].message
    assert message.tool_calls[0].function.name == "get_weather"


@judge("openai-python", "error before")
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_byte_is_an_exception_with_its_status(client, stream):
    with pytest.raises(openai.InternalServerError) as failed:
        client.chat.completions.create(**asked(BREAKS_BEFORE), stream=stream)
    assert (failed.value.status_code, failed.value.code) == (502, "upstream_error")


@judge("openai-python", "error after")
def test_an_error_after_it_is_an_exception_behind_the_text(client):
    stream = client.chat.completions.create(**asked(BREAKS_AFTER), stream=True)
    seen, failed = until_failure(stream, openai.APIError)
    assert (text_of(seen), failed.code) == ("ab", "upstream_error")


@judge("openai-python", "stop")
def test_a_stop_ends_the_stream_in_band(client):
    stream = client.chat.completions.create(**asked(ENDLESS), stream=True)
    stopped = client.responses.cancel(next(stream).id)
    _, failed = until_failure(stream, openai.APIError)
    assert (stopped.status, failed.body["end_state"]) == ("cancelled", "cancelled")


@judge("openai-python", "disconnect")
def test_who_goes_away_frees_the_engine(client, place):
    stream = client.chat.completions.create(**asked(ENDLESS), stream=True)
    response_id = next(iter(stream)).id
    stream.close()
    assert place.ended(response_id) == ("abandoned", "disconnected")


@judge("openai-python", "resume")
def test_it_resumes_a_background_response(client):
    text, last, response_id = "", 0, None
    stream = client.responses.create(model="tests-judged", input=COUNTS, background=True, stream=True)
    for event in stream:
        response_id = response_id or event.response.id
        text += event.delta if event.type == "response.output_text.delta" else ""
        last = event.sequence_number
        if len(text) > 6:
            break
    stream.close()
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=last))
    assert text + "".join(e.delta for e in rest if e.type == "response.output_text.delta") == COUNTED
    assert rest[-1].type == "response.completed"
