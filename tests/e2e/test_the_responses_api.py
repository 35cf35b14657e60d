"""OpenAI's responses on the real launcher: create, carry on, fetch, stream from any number, cancel, delete."""

import json

import openai
import pytest
from openai.types.responses import Response

from tests.e2e.reading import eventually, read, script
from tests.e2e.test_people_who_leave import posted

TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'


@pytest.fixture
def client(site, key):
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=0) as client:
        yield client


def says(*texts, **fields):
    return script(outputs=[{"text": text} for text in texts], **fields)


def slow(**fields):
    return says("tick ", repeat=200, delay_s=0.03, **fields)


def strict(body):
    """Judged by the SDK's own model, strictly; our richer error codes are the one exception."""
    if body["error"]:
        body = {**body, "error": {**body["error"], "code": "server_error"}}
    return Response.model_validate(body, strict=True)


def test_whole_streamed_and_fetched_are_one_response(client, api):
    whole = client.responses.create(model="scripted", input=says("Hel", "lo"), metadata={"a": "b"}, temperature=0.5)
    assert (whole.output_text, whole.status) == ("Hello", "completed")
    assert (whole.metadata, whole.temperature, whole.tools, whole.store) == ({"a": "b"}, 0.5, [], True)
    fetched = api.get(f"/v1/responses/{whole.id}").json()
    strict(fetched)
    assert client.responses.retrieve(whole.id).output == whole.output
    assert fetched["end_state"] == "completed"
    assert fetched["usage"]["output_tokens"] == fetched["usage"]["completion_tokens"] == whole.usage.output_tokens
    with client.responses.stream(model="scripted", input=says("Hel", "lo"), instructions="Be brief.") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == sorted({event.sequence_number for event in events})
    assert (final.output_text, final.instructions) == ("Hello", "Be brief.")


@pytest.mark.parametrize(
    "items",
    [
        [{"role": "user", "content": says("ok")}],
        [{"type": "message", "role": "developer", "content": "x"}, {"role": "user", "content": [
            {"type": "input_text", "text": says("ok")}]}],
        [{"role": "user", "content": "?"},
         {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
         {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
             {"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]},
         {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
         {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}", "status": "completed"},
         {"type": "function_call_output", "call_id": "c1", "output": "42"},
         {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "43"}]},
         {"role": "user", "content": says("ok")}],
    ],
)  # fmt: skip
def test_input_items_are_taken_and_listed(client, items):
    made = client.responses.create(model="scripted", input=items)
    assert made.output_text == "ok"
    listed = list(client.responses.input_items.list(made.id, order="asc", limit=2))
    assert [item.type for item in listed] == [item.get("type", "message") for item in items]
    assert len({item.id for item in listed}) == len(items)


def prompt_tokens(client, **body):
    return client.responses.create(model="scripted", **body).usage.input_tokens


def test_a_thread_goes_on_from_a_stored_response_with_its_calls(site, client):
    first = client.responses.create(
        model="scripted", input=says(CALL), tools=[TOOL], tool_choice="required", instructions="Never seen again."
    )
    [call] = first.output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "get_weather", {"city": "Paris"})
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    question = {"role": "user", "content": says("warm")}
    second = client.responses.create(model="scripted", input=[result, question], previous_response_id=first.id)
    assert (second.output_text, second.previous_response_id) == ("warm", first.id)
    # The same turns, sent whole, are the same prompt: a token of the scripted model is a byte.
    spelled = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": call.arguments}
    whole = [{"role": "user", "content": says(CALL)}, spelled, {**result, "call_id": "c"}, question]
    assert second.usage.input_tokens == prompt_tokens(client, input=whole)
    third = client.responses.create(model="scripted", input=says("3"), previous_response_id=second.id)
    assert third.usage.input_tokens > second.usage.input_tokens


def test_what_cannot_be_carried_on_is_a_400(site, client, api):
    unstored = client.responses.create(model="scripted", input=says("x"), store=False)
    running = client.responses.create(model="scripted", input=slow(), background=True)
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key=site.manage("create_api_key", "eve")) as eve:
        theirs = eve.responses.create(model="scripted", input=says("x"))
    for previous in (unstored.id, running.id, theirs.id, "resp_" + "0" * 26, "x"):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="scripted", input="?", previous_response_id=previous)
        assert (refused.value.param, refused.value.code) == ("previous_response_id", "previous_response_not_found")
    client.responses.cancel(running.id)


def test_a_background_response_is_fetched_later_and_followed_from_any_number(client, api):
    made = client.responses.create(model="scripted", input=says(*"abcdef", delay_s=0.05), background=True)
    assert made.status in {"queued", "in_progress"}
    assert made.background is True
    done = eventually(lambda: (r := client.responses.retrieve(made.id)).status == "completed" and r)
    assert done.output_text == "abcdef"
    events = list(client.responses.retrieve(made.id, stream=True))
    numbers = [event.sequence_number for event in events]
    for after in [0, *numbers]:
        rest = list(client.responses.retrieve(made.id, stream=True, starting_after=after))
        assert [event.sequence_number for event in rest] == [n for n in numbers if n > after]
    answer = api.get(f"/v1/responses/{made.id}", params={"stream": "true", "starting_after": 16 * 1000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "future_event")


def test_an_answer_that_runs_says_what_it_has_said_so_far(client, api):
    running = client.responses.create(model="scripted", input=slow(), background=True)
    body = eventually(lambda: (b := api.get(f"/v1/responses/{running.id}").json())["output_text"] and b)
    assert body["output"][0]["content"][0]["text"] == body["output_text"]
    assert (body["status"], body["end_state"], body["usage"]) == ("in_progress", None, None)
    client.responses.cancel(running.id)


def test_a_background_stream_outlives_its_reader(client, site):
    stream = client.responses.create(
        model="scripted", input=says(*"abcdef", delay_s=0.05), background=True, stream=True
    )
    seen = [next(iter(stream)) for _ in range(6)]
    stream.close()
    response_id = seen[0].response.id
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number))
    text = "".join(e.delta for e in [*seen, *rest] if e.type == "response.output_text.delta")
    assert (text, rest[-1].type) == ("abcdef", "response.completed")
    assert site.row(response_id)["policy"] == "background"


def test_a_response_that_is_not_to_be_stored_is_gone_once_it_is_over(client, api, site):
    made = client.responses.create(model="scripted", input="WORDS-NOT-KEPT", store=False)
    for path in ("", "/input_items", "?stream=true"):
        assert api.get(f"/v1/responses/{made.id}{path}").status_code == 404
    assert site.rows("SELECT COUNT(*) FROM streaming_responseinput WHERE response_id = ?", made.id) == [(0,)]


def test_cancel_and_delete_are_the_sdks(client, api, site):
    made = client.responses.create(model="scripted", input=slow(), background=True)
    cancelled = client.responses.cancel(made.id)
    assert cancelled.status == "cancelled"
    strict(api.get(f"/v1/responses/{made.id}").json())
    running = client.responses.create(model="scripted", input=slow(), background=True)
    for response_id in (made.id, running.id):
        client.responses.delete(response_id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response_id)
        assert (site.row(response_id)["output_text"], site.log_text(response_id)) == ("", "")
        assert site.row(response_id)["erased_at"]
        assert site.rows("SELECT COUNT(*) FROM streaming_responseinput WHERE response_id = ?", response_id) == [(0,)]
    assert api.delete(f"/v1/responses/{made.id}").status_code == 404


def test_an_answer_of_the_page_is_not_deleted_from_under_it(page, site):
    conversation = page.post("/api/conversations", json={}).json()["id"]
    answer = read(
        page, "POST", f"/api/conversations/{conversation}/messages", json={"text": says("a"), "model": "scripted"}
    )
    with site.api(site.manage("create_api_key", "ann")) as ann:
        assert ann.get(f"/v1/responses/{answer.response_id}").json()["output_text"] == "a"
        assert ann.delete(f"/v1/responses/{answer.response_id}").status_code == 409


def test_structured_text_is_held_to_its_schema_and_parsed(client):
    schema = {
        "type": "json_schema",
        "name": "p",
        "schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }
    made = client.responses.create(model="scripted", input=says('{"a": 1}'), text={"format": schema})
    assert json.loads(made.output_text) == {"a": 1}
    assert made.text.format.type == "json_schema"


def test_an_error_before_and_after_the_first_byte(client):
    with pytest.raises(openai.APIStatusError) as failed:
        client.responses.create(model="scripted", input=script(outputs=[], fault={"kind": "error"}), stream=True)
    assert failed.value.status_code == 502
    broken = says("a", "b", delay_s=0.01, fault={"kind": "error", "after": 1})
    events = list(client.responses.create(model="scripted", input=broken, stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "upstream_error"


REFUSED = {
    "no input": ({"input": ""}, None, "input"),
    "no items": ({"input": []}, None, "input"),
    "an image": ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}]},
                 "input.0.content.0.type", "input_image"),
    "a reference": ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0", "function_call_output"),
    "a number": ({"input": 5}, "input", "got 5"),
    "a tool of theirs": ({"tools": [{"type": "web_search"}]}, "tools.0.type", "web_search"),
    "background unstored": ({"background": True, "store": False}, None, "background"),
    "truncation": ({"truncation": "auto"}, "truncation", "auto"),
    "a conversation": ({"conversation": "c"}, "conversation", "unknown field"),
    "a prompt of theirs": ({"prompt": {"id": "x"}}, "prompt", "unknown field"),
    "logprobs": ({"include": ["message.output_text.logprobs"]}, "include.0", "logprobs"),
    "a template": ({"chat_template": "{{ 1 }}"}, "chat_template", "unknown field"),
    "a pattern": ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {"pattern": "(a+)+$"}}}},
                  "text.format.schema", "pattern"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_a_400_that_names_it(api, name):
    body, param, said = REFUSED[name]
    answer = api.post("/v1/responses", json={"model": "scripted", "input": "hi", **body})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), error
    assert said in error["message"]


def test_a_refusal_is_recorded_in_its_dialect(site, api):
    api.post("/v1/responses", json={"model": "nope", "input": "hi"})
    rows = site.rows("SELECT dialect, end_reason FROM streaming_response ORDER BY id DESC LIMIT 1")
    assert rows == [("openai_responses", "not_found")]


def test_an_idempotency_key_names_one_response_of_the_dialect(client, api):
    headers = {"Idempotency-Key": "responses-1"}
    body = {"model": "scripted", "input": says("a", "b"), "background": True}
    first, second = (api.post("/v1/responses", json=body, headers=headers).json() for _ in range(2))
    assert first["id"] == second["id"]
    answer = api.post("/v1/chat/completions", headers=headers, json={
        "model": "scripted", "messages": [{"role": "user", "content": "x"}]})  # fmt: skip
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_key_reused")


def vanish(site, key, body, headers):
    """Ask, and be gone as soon as the answer is being made."""
    running = "SELECT 1 FROM streaming_response WHERE idempotency_key = ? AND state = 'running'"
    with posted(site, key, "/v1/chat/completions", body, headers):
        eventually(lambda: site.rows(running, headers["Idempotency-Key"]))


def test_a_call_that_does_not_stream_and_lost_its_client_is_fetched_by_its_key_or_id(site, api, key):
    body = {"model": "scripted", "messages": [{"role": "user", "content": says("late", delay_s=2)}]}
    headers = {"Idempotency-Key": "vanished-1", "X-Disconnect-Policy": "background"}
    vanish(site, key, body, headers)
    again = api.post("/v1/chat/completions", json=body, headers=headers).json()
    assert again["choices"][0]["message"]["content"] == "late"
    assert api.get(f"/v1/responses/{again['id']}").json()["output_text"] == "late"
    # Without such a policy there is nothing to fetch: the engine was freed.
    body = {"model": "scripted", "messages": [{"role": "user", "content": script(outputs=[{"gate": "never"}])}]}
    headers = {"Idempotency-Key": "vanished-2"}
    vanish(site, key, body, headers)
    ends = "SELECT end_state FROM streaming_response WHERE idempotency_key = 'vanished-2'"
    assert eventually(lambda: site.rows(ends) == [("abandoned",)])
    assert api.post("/v1/chat/completions", json=body, headers=headers).status_code == 409
