"""LangChain's ChatOpenAI against the real site."""

import openai
import pytest
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.e2e.reading import eventually
from tests.sdk.conftest import BREAKS_AFTER, BREAKS_BEFORE, CALLS, ENDLESS, HELLO, JSON, PERSON, until_failure

judge = pytest.mark.judge


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"18 degrees in {city}"


@pytest.fixture
def model(place):
    return ChatOpenAI(model="tests-judged", base_url=place.url, api_key=place.key, max_retries=0, stream_usage=True)


@judge("LangChain ChatOpenAI", "stream")
@judge("LangChain ChatOpenAI", "usage")
def test_it_streams_with_usage(model):
    chunks = list(model.stream(HELLO))
    assert "".join(chunk.content for chunk in chunks) == "Hello ☕"
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.usage_metadata["output_tokens"] == len("Hello ☕".encode())


@judge("LangChain ChatOpenAI", "whole")
def test_whole_answers_are_the_same(model):
    message = model.invoke([("system", "Be brief."), ("human", HELLO)])
    assert (message.content, message.response_metadata["finish_reason"]) == ("Hello ☕", "stop")


@pytest.mark.engine
def test_a_real_model_too(place):
    model = ChatOpenAI(model="smollm2", base_url=place.url, api_key=place.key, max_tokens=12, temperature=0)
    assert model.invoke("Tell me about lighthouses").usage_metadata["output_tokens"] == 12


@judge("LangChain ChatOpenAI", "tools")
def test_calls_are_gathered_and_their_results_taken_back(model):
    bound = model.bind_tools([get_weather])
    message = bound.invoke(CALLS)
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("get_weather", {"city": "Paris"})]
    result = get_weather.invoke(message.tool_calls[0])
    assert bound.invoke([("human", CALLS), message, result, ("human", HELLO)]).content == "Hello ☕"


@judge("LangChain ChatOpenAI", "structured")
@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_structured_output_is_parsed(model, method):
    held = model.with_structured_output({"title": "person", **PERSON}, method=method)
    assert held.invoke(JSON) == {"name": "Ada", "age": 36}


@judge("LangChain ChatOpenAI", "error before")
def test_an_error_before_the_first_byte_is_an_exception(model):
    with pytest.raises(openai.InternalServerError):
        model.invoke(BREAKS_BEFORE)


@judge("LangChain ChatOpenAI", "error after")
def test_an_error_after_it_is_an_exception_behind_the_text(model):
    seen, _ = until_failure(model.stream(BREAKS_AFTER), openai.APIError)
    assert "".join(chunk.content for chunk in seen) == "ab"


@judge("LangChain ChatOpenAI", "disconnect")
def test_who_goes_away_frees_the_engine(model, place):
    stream = model.stream(ENDLESS)
    next(stream)
    stream.close()
    newest = "SELECT end_state FROM streaming_response WHERE model = 'tests-judged' ORDER BY id DESC LIMIT 1"
    assert eventually(lambda: place.site.rows(newest) == [("abandoned",)])


def test_it_speaks_responses_too(place):
    model = ChatOpenAI(
        model="tests-judged", base_url=place.url, api_key=place.key, max_retries=0, use_responses_api=True
    )
    assert model.invoke(HELLO).text == "Hello ☕"
    assert "".join(chunk.text for chunk in model.stream(HELLO)) == "Hello ☕"
