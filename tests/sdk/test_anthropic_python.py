"""anthropic-python against the real site, scripted and with a real model."""

import json

import anthropic
import pytest

from tests.e2e.reading import script
from tests.gates import Gate
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
TOOLS = [{"name": "get_weather", "input_schema": WEATHER}]


@pytest.fixture
def client(place):
    with anthropic.Anthropic(base_url=place.site.url, api_key=place.key, max_retries=0) as client:
        yield client


def asked(text, model="tests-judged", max_tokens=4000, **body):
    return {"model": model, "max_tokens": max_tokens, "messages": [{"role": "user", "content": text}], **body}


@judge("anthropic-python", "stream")
@judge("anthropic-python", "usage")
def test_it_streams_with_usage(client):
    with client.messages.stream(**asked(HELLO)) as stream:
        assert "".join(stream.text_stream) == "Hello ☕"
        usage = stream.get_final_message().usage
    assert usage.output_tokens == len("Hello ☕".encode())


@judge("anthropic-python", "whole")
def test_whole_answers_are_the_same(client):
    message = client.messages.create(**asked(HELLO))
    assert (message.content[0].text, message.stop_reason) == ("Hello ☕", "end_turn")


@pytest.mark.engine
def test_a_real_model_too(client):
    body = asked("Tell me about lighthouses", "smollm2", 16, extra_body={"temperature": 0})
    message = client.messages.create(**body)
    assert (message.usage.output_tokens, message.stop_reason) == (16, "max_tokens")
    with client.messages.stream(
        **asked("Tell me about lighthouses", "smollm2", 16, extra_body={"temperature": 0})
    ) as stream:
        assert "".join(stream.text_stream) == message.content[0].text


@judge("anthropic-python", "tools")
def test_it_gathers_calls(client):
    with client.messages.stream(**asked(CALLS, tools=TOOLS)) as stream:
        [block] = stream.get_final_message().content
    assert (block.name, block.input) == ("get_weather", {"city": "Paris"})


@judge("anthropic-python", "structured")
def test_structured_output_is_parsed(client):
    config = {"format": {"type": "json_schema", "schema": PERSON}}
    message = client.messages.create(**asked(JSON), output_config=config)
    assert message.content[0].text == '{"name": "Ada", "age": 36}'


@judge("anthropic-python", "error before")
def test_an_error_before_the_first_byte_is_an_exception_with_its_status(client):
    with pytest.raises(anthropic.InternalServerError) as failed:
        client.messages.create(**asked(BREAKS_BEFORE), stream=True)
    assert failed.value.body["error"]["type"] == "api_error"


@judge("anthropic-python", "error after")
def test_an_error_after_it_is_an_exception_behind_the_text(client):
    with client.messages.stream(**asked(BREAKS_AFTER)) as stream:
        seen, failed = until_failure(stream.text_stream, anthropic.APIStatusError)
    assert "".join(seen) == "ab"
    assert failed.body["error"]["end_state"] == "errored"


@judge("anthropic-python", "stop")
def test_a_stop_ends_the_stream_in_band(client):
    with client.messages.stream(**asked(ENDLESS)) as stream:
        next(iter(stream.text_stream))
        path = f"/v1/responses/{stream.current_message_snapshot.id}/cancel"
        stopped = client.post(path, cast_to=object)
        _, failed = until_failure(stream.text_stream, anthropic.APIStatusError)
    assert stopped["end_state"] == failed.body["error"]["end_state"] == "cancelled"


@judge("anthropic-python", "disconnect")
def test_who_goes_away_frees_the_engine(client, place):
    with client.messages.stream(**asked(ENDLESS)) as stream:
        next(iter(stream.text_stream))
        response_id = stream.current_message_snapshot.id
    assert place.ended(response_id) == ("abandoned", "disconnected")


@judge("anthropic-python", "resume")
def test_the_rest_of_a_lost_stream_is_read_as_the_events_that_it_is(client, place):
    """Their client knows no resuming: the events come over its own connection, from the last id on."""
    zero, *others = json.loads(COUNTS)["script"]["outputs"]
    gate = Gate(place.site.data_dir)
    counts = script(outputs=[zero, gate.step, *others])  # no reader gets more than "0 " as its first event
    with place.site.api(place.key) as api:
        headers = {"X-Disconnect-Policy": "background"}
        with client.messages.stream(**asked(counts), extra_headers=headers) as stream:
            text = next(iter(stream.text_stream))
            response_id = stream.current_message_snapshot.id
        gate.open()
        rest = api.get(f"/v1/responses/{response_id}/stream", headers={"Last-Event-ID": f"{response_id}:1.2"}).text
    assert rest.count("event: message_stop") == 1
    assert text == "0 "
    lines = [line for line in rest.splitlines() if '"text_delta"' in line]
    assert "".join(line.split('"text":"')[1].removesuffix('"}}') for line in lines) == COUNTED[len(text) :]
