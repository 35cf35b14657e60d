"""Anthropic's messages on the real launcher, with their own SDK: blocks, tools, counts, errors, resuming."""

import anthropic
import httpx
import openai
import pytest

from tests.e2e.reading import chat, read, script

TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
THOUGHT = "<think>They ask.</think>\n\n"


@pytest.fixture
def client(site, key):
    with anthropic.Anthropic(base_url=site.url, api_key=key, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def caller(site, key):
    return site.add_model(key, "tests-thinker", markers="think+hermes")


def says(*texts, **fields):
    return script(outputs=[{"text": text} for text in texts], **fields)


def asked(text, model="scripted", **body):
    return {"model": model, "max_tokens": 4000, "messages": [{"role": "user", "content": text}], **body}


def test_whole_and_streamed_are_alike(client):
    whole = client.messages.create(**asked(says("Hel", "lo")), system="Be brief.")
    assert (whole.content[0].text, whole.stop_reason, whole.role) == ("Hello", "end_turn", "assistant")
    with client.messages.stream(**asked(says("Hel", "lo")), system="Be brief.") as stream:
        assert "".join(stream.text_stream) == "Hello"
        final = stream.get_final_message()
    assert final.usage.output_tokens == whole.usage.output_tokens > 0
    assert final.usage.input_tokens == whole.usage.input_tokens > 0


def test_thinking_calls_and_their_results(client, caller):
    body = asked(says(THOUGHT, "Let me see.", CALL), caller, tools=[TOOL])
    whole = client.messages.create(**body)
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use"]
    assert (whole.content[0].thinking, whole.stop_reason) == ("They ask.", "tool_use")
    assert whole.content[2].input == {"city": "Paris"}
    with client.messages.stream(**body) as stream:
        assert [block.type for block in stream.get_final_message().content] == ["thinking", "text", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": whole.content[2].id, "content": [{"type": "text", "text": "18"}]}
    messages = [
        *body["messages"],
        whole.to_param(),
        {"role": "user", "content": [result, {"type": "text", "text": says("warm"), "cache_control": {
            "type": "ephemeral"}}]},
    ]  # fmt: skip
    last = client.messages.create(model=caller, max_tokens=100, messages=messages, tools=[TOOL])
    assert last.content[0].text == "warm"


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_tool_that_must_be_used_is_used(client, choice):
    held = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    whole = client.messages.create(**asked(says(held), tools=[TOOL], tool_choice=choice))
    assert [(block.name, block.input) for block in whole.content] == [("get_weather", {"city": "Paris"})]


def test_a_stop_sequence_is_named_and_max_tokens_too(client):
    whole = client.messages.create(**asked(says("one END two")), stop_sequences=["END", "x"])
    assert (whole.content[0].text, whole.stop_reason, whole.stop_sequence) == ("one ", "stop_sequence", "END")
    with client.messages.stream(**asked(says("one END two")), stop_sequences=["END"]) as stream:
        assert stream.get_final_message().stop_sequence == "END"
    cut = client.messages.create(**{**asked(says("one", " two")), "max_tokens": 4})
    assert cut.stop_reason == "max_tokens"


def test_tokens_are_counted_as_the_prompt_is(client):
    body = asked("How long is this?", system=[{"type": "text", "text": "Be kind."}])
    counted = client.messages.count_tokens(**{k: v for k, v in body.items() if k != "max_tokens"})
    assert counted.input_tokens == client.messages.create(**{**body, "max_tokens": 1}).usage.input_tokens


def test_the_key_comes_in_either_header_and_the_version_is_required(site, key):
    body = asked(says("a"))
    version = {"anthropic-version": "2023-06-01"}
    for headers in ({"x-api-key": key}, {"Authorization": f"Bearer {key}"}):
        assert (
            httpx.post(f"{site.url}/v1/messages", json=body, headers=version | headers, timeout=60).status_code == 200
        )
        refused = httpx.post(f"{site.url}/v1/messages", json=body, headers=headers, timeout=60)
        assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
        assert "anthropic-version" in refused.json()["error"]["message"]
    assert httpx.get(f"{site.url}/v1/models", headers={"x-api-key": key}, timeout=60).status_code == 200
    assert httpx.get(f"{site.url}/api/me", headers={"x-api-key": key}, timeout=60).status_code == 401


REFUSED = {
    "no max_tokens": ({"max_tokens": None}, "max_tokens"),
    "an image": ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "tool_result"),
    "a system turn": ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
    "a user who calls": (
        {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}]},
        "the user has no tool_use",
    ),
    "an assistant with results": (
        {"messages": [{"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]},
        "the assistant has no tool_result",
    ),
    "a tool of theirs": ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0"),
    "a temperature of 2": ({"temperature": 2}, "temperature"),
    "an unknown field": ({"mcp_servers": []}, "unknown field"),
    "a choice without a name": ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "name goes with"),
    "a pattern": ({"output_config": {"format": {"type": "json_schema", "schema": {"pattern": "a+"}}}}, "pattern"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_a_400_in_their_words(client, name):
    body, said = REFUSED[name]
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.post("/v1/messages", body={**asked("hi"), **body}, cast_to=dict)
    assert refused.value.body["type"] == "error"
    assert refused.value.body["error"]["type"] == "invalid_request_error"
    assert said in refused.value.message


def test_other_refusals_have_their_types(site, client, api):
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**asked("hi", "nope"))
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="nope", messages=[{"role": "user", "content": "hi"}])
    rows = site.rows("SELECT dialect, end_reason FROM streaming_response ORDER BY id DESC LIMIT 1")
    assert rows == [("anthropic", "not_found")]
    with (
        anthropic.Anthropic(base_url=site.url, api_key="sk-wrong", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(**asked("hi"))
    large = api.post("/v1/messages", content=b"x", headers={"Content-Type": "text/plain"})
    assert (large.status_code, large.json()["type"]) == (415, "error")
    assert api.get("/v1/messages").json()["error"]["type"] == "invalid_request_error"


def test_an_error_before_and_after_the_first_byte(client):
    for stream in (False, True):
        with pytest.raises(anthropic.InternalServerError) as failed:
            client.messages.create(**asked(script(outputs=[], fault={"kind": "error"})), stream=stream)
        assert (failed.value.status_code, failed.value.body["error"]["code"]) == (502, "upstream_error")
    broken = says("a", "b", delay_s=0.01, fault={"kind": "error", "after": 1})
    seen = []
    with pytest.raises(anthropic.APIStatusError) as failed:
        seen.extend(client.messages.create(**asked(broken), stream=True))
    assert failed.value.body["error"]["end_state"] == "errored"


def test_a_ping_comes_and_a_lost_stream_is_resumed_by_its_last_id(api):
    headers = {"anthropic-version": "2023-06-01", "X-Disconnect-Policy": "background"}
    body = {**asked(says(*"abcdefgh", delay_s=0.03)), "stream": True}
    first = read(api, "POST", "/v1/messages", json=body, headers=headers, until=lambda s: len(s.seqs) == 4)
    assert "event: ping" in first.raw.decode()
    rest = read(
        api, "GET", f"/v1/responses/{first.response_id}/stream", headers={"Last-Event-ID": first.last_id}
    )  # fmt: skip
    texts = [d["delta"]["text"] for s in (first, rest) for d in s.data if d["type"] == "content_block_delta"]
    assert "".join(texts) == "abcdefgh"
    assert rest.data[-1]["type"] == "message_stop"


def text_in(dialect, stream):
    if dialect == "anthropic":
        return "".join(d["delta"]["text"] for d in stream.data if d["type"] == "content_block_delta")
    return stream.text


@pytest.mark.parametrize("read_in", ["openai_chat", "openai_responses", "anthropic"])
def test_any_dialect_reads_what_any_dialect_started_from_every_cut(site, api, read_in):
    question = says(*"αβγδ", " ", "end")
    version = {"anthropic-version": "2023-06-01"}
    started = [
        chat(api, question).response_id,
        api.post("/v1/responses", json={"model": "scripted", "input": question}).json()["id"],
        api.post("/v1/messages", json=asked(question), headers=version).json()["id"],
    ]
    for response_id in started:
        path = f"/v1/responses/{response_id}/stream?dialect={read_in}"
        whole = read(api, "GET", path)
        assert text_in(read_in, whole) == "αβγδ end" == site.row(response_id)["output_text"]
        # A cut between any two frames: the reader comes back with the last id that it has.
        blocks = whole.raw.decode().split("\n\n")[:-1]
        for cut in range(len(blocks) + 1):
            seen = [line[4:] for block in blocks[:cut] for line in block.split("\n") if line.startswith("id: ")]
            headers = {"Last-Event-ID": seen[-1]} if seen else {}
            rest = read(api, "GET", path, headers=headers)
            first = type(whole)(raw="".join(f"{block}\n\n" for block in blocks[:cut]).encode())
            assert text_in(read_in, first) + text_in(read_in, rest) == "αβγδ end"


def test_an_unknown_dialect_is_a_400(api):
    response_id = chat(api, says("a")).response_id
    answer = api.get(f"/v1/responses/{response_id}/stream", params={"dialect": "cohere"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "dialect")


def test_a_message_is_stopped_and_fetched_by_openais_client_too(site, key, client):
    made = client.messages.create(**asked(says("a")))
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key=key) as other:
        assert other.responses.retrieve(made.id).output_text == "a"
        assert other.responses.cancel(made.id).status == "completed"
