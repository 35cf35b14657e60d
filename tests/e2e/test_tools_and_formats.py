"""Tools and structured output over chat completions: what is taken, what is refused, what comes out."""

import json

import pytest

from tests.e2e.reading import chat, eventually, read, script

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
HELD_CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def caller(site, key):
    """A scripted model that writes its calls as Hermes models do."""
    return site.add_model(key, "tests-caller", markers="think+hermes")


def asked(api, model, said, **body):
    return api.post(
        "/v1/chat/completions", json={"model": model, "messages": [{"role": "user", "content": said}], **body}
    )


def pieces(text, size=7):
    return script(outputs=[{"text": text[at : at + size]} for at in range(0, len(text), size)])


def message_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"], answer.json()["choices"][0]["finish_reason"]


def test_a_call_comes_whole_and_in_pieces(api, caller):
    message, reason = message_of(asked(api, caller, pieces("Let me see." + CALL), tools=[TOOL]))
    assert (message["content"], reason) == ("Let me see.", "tool_calls")
    [call] = message["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("get_weather", {"city": "Paris"})
    stream = chat(api, pieces(CALL), model=caller, tools=[TOOL], parallel_tool_calls=True)
    deltas = [d["choices"][0]["delta"].get("tool_calls", [{}])[0] for d in stream.data[:-1]]
    assert "".join(d["function"]["arguments"] for d in deltas if d) == '{"city": "Paris"}'
    assert [d["id"] for d in deltas if "id" in d] == [f"call_{stream.response_id.removeprefix('resp_')}_0"]
    assert stream.data[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_of_an_answer_that_may_make_one_call_nothing_follows_it_and_its_engine_is_stopped(api, caller):
    said = pieces(CALL + CALL + " and on and on" * 5)
    answer = asked(api, caller, said, tools=[TOOL], parallel_tool_calls=False)
    message, reason = message_of(answer)
    assert (len(message["tool_calls"]), message["content"], reason) == (1, None, "tool_calls")
    assert "X-Ignored-Fields" not in answer.headers
    body = {"model": caller, "max_tokens": 500, "messages": [{"role": "user", "content": said}]}
    body["tools"] = [{"name": "get_weather", "input_schema": TOOL["function"]["parameters"]}]
    body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    theirs = api.post("/v1/messages", json=body, headers={"anthropic-version": "2023-06-01"}).json()
    assert [block["type"] for block in theirs["content"]] == ["tool_use"]
    assert theirs["stop_reason"] == "tool_use"


@pytest.mark.parametrize("body", [{}, {"tools": []}, {"tools": [TOOL], "tool_choice": "none"}])
def test_without_tools_what_looks_like_a_call_is_text(api, caller, body):
    message, reason = message_of(asked(api, caller, pieces(CALL), **body))
    assert (message["content"], reason) == (CALL, "stop")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_call_that_must_be_made_is_read_without_markers(api, choice):
    message, reason = message_of(asked(api, "scripted", pieces(HELD_CALL), tools=[TOOL], tool_choice=choice))
    assert (message["content"], reason) == (None, "tool_calls")
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}


def test_calls_and_their_results_are_taken_back_with_all_that_an_answer_has(api, caller):
    first, _ = message_of(asked(api, caller, pieces(CALL), tools=[TOOL]))
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        first | {"reasoning_content": "hm", "annotations": [], "function_call": None, "audio": None},
        {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "18 degrees"},
        {"role": "user", "content": script(outputs=[{"text": "ok"}])},
    ]
    body = {"model": caller, "messages": messages, "tools": [TOOL]}
    assert message_of(api.post("/v1/chat/completions", json=body))[0]["content"] == "ok"


@pytest.mark.parametrize(
    ("said", "reason", "code"),
    [
        ('{"name": "Ada", "age": 36}', "stop", None),
        ('{"name": "Ada", "age": "old"}', "stop", "schema_mismatch"),
        ('Sure: {"name": "Ada"', "stop", "invalid_json"),
        ('{"name": "A', "length", None),
    ],
)
def test_json_of_an_engine_that_did_not_keep_to_the_schema_is_flagged_where_it_ended_by_itself(api, said, reason, code):
    held = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    question = script(outputs=[{"text": said}], finish_reason=reason)
    answer = asked(api, "scripted", question, response_format=held)
    choice = answer.json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (said, reason)
    assert choice.get("output_error", {}).get("code") == code
    stored = api.get(f"/v1/responses/{answer.headers['X-Response-ID']}").json()
    assert stored["output_error"] == choice.get("output_error")


def refusals():
    function = TOOL["function"]
    deep = {"type": "string"}
    for _ in range(20):
        deep = {"type": "array", "items": deep}
    held = {"tool_choice": "required"}
    return {
        "a tool that is no function": ({"tools": [{"type": "web_search"}]}, "tools.0.type", "web_search"),
        "a name with a space": ({"tools": [{"type": "function", "function": {"name": "a b"}}]},
                                "tools.0.function.name", "a b"),
        "two of one name": ({"tools": [TOOL, TOOL]}, None, "one name"),
        "129 tools": ({"tools": [TOOL] * 129}, "tools", "128"),
        "a choice without tools": ({"tool_choice": "required"}, None, "no tools"),
        "an unknown choice": ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "nope"}}},
                              None, "nope"),
        "deep parameters": ({"tools": [{"type": "function", "function": {**function, "parameters": deep}}]},
                            "tools.0.function.parameters", "16 levels"),
        "large parameters": ({"tools": [{"type": "function", "function": {
                                **function, "parameters": {"description": "x" * 70_000}}}]},
                             "tools.0.function.parameters", "65536"),
        "a pattern that a call is held to": ({**held, "tools": [{"type": "function", "function": {
                                "name": "f", "parameters": {"properties": {"a": {"pattern": "(a+)+$"}}}}}]},
                             None, "pattern"),
        "a format that is none": ({"response_format": {"type": "xml"}}, "response_format.type", "xml"),
        "a schema without its type": ({"response_format": {"type": "text", "json_schema": {"schema": {}}}},
                                      "response_format", "json_schema"),
        "a type without its schema": ({"response_format": {"type": "json_schema"}}, "response_format", "json_schema"),
        "a deep schema": (schema(deep), "response_format.json_schema.schema", "16 levels"),
        "a pattern": (schema({"properties": {"a": {"pattern": "(a+)+$"}}}), "response_format.json_schema.schema",
                      "pattern is not taken"),
        "a million items": (schema({"items": {}, "minItems": 10**6}), "response_format.json_schema.schema",
                            "minItems"),
        "a pattern in a corner": (schema({"unevaluatedProperties": {"pattern": "(a+)+$"}}),
                                  "response_format.json_schema.schema", "pattern"),
        "a pattern behind a reference": (schema({"$ref": "#/default", "default": {"pattern": "(a+)+$"}}),
                                         "response_format.json_schema.schema", "$ref"),
        "a million items behind a reference": (schema({"$ref": "#/x", "x": {"items": {}, "minItems": 10**6}}),
                                               "response_format.json_schema.schema", "$ref"),
        "a pattern behind a dynamic reference": (schema({"$dynamicRef": "#/x", "x": {"pattern": "(a+)+$"}}),
                                                 "response_format.json_schema.schema", "$dynamicRef is not taken"),
        "a pattern in what another draft extends": (schema({"extends": {"pattern": "(a+)+$"}}),
                                                    "response_format.json_schema.schema", "extends is not taken"),
        "a pattern in a type": (schema({"type": [{"pattern": "(a+)+$"}]}), "response_format.json_schema.schema",
                                "type must be"),
        "a schema from elsewhere": (schema({"$ref": "http://127.0.0.1:1/x"}), "response_format.json_schema.schema",
                                    "$ref"),
        "a grammar": ({"guided_regex": "(a+)+$"}, "guided_regex", "unknown field"),
        "structured_outputs": ({"structured_outputs": {"regex": "a"}}, "structured_outputs", "unknown field"),
        "embeddings": ({"prompt_embeds": "AAAA"}, "prompt_embeds", "unknown field"),
        "another server": ({"base_url": "http://127.0.0.1:1"}, "base_url", "unknown field"),
        "more headers": ({"extra_headers": {"a": "b"}}, "extra_headers", "unknown field"),
        "a template's variable": ({"chat_template_kwargs": {"enable_thinking": True, "tools": []}},
                                  "chat_template_kwargs.tools", "unknown"),
        "301 biases": ({"logit_bias": {str(n): 1 for n in range(301)}}, "logit_bias", "300"),
        "a bias that nothing has": ({"logit_bias": {"9999999": 1}}, "logit_bias", "258"),
        "a bias by name": ({"logit_bias": {"a": 1}}, "logit_bias", "token ids"),
        "more tokens at least than at most": ({"min_tokens": 9, "max_tokens": 3}, "min_tokens", "at most 3"),
        "a seed that is no 32 bits": ({"seed": 10**30}, "seed", "less than"),
        "a penalty of 3": ({"presence_penalty": 3}, "presence_penalty", "2"),
        "top_logprobs": ({"top_logprobs": 5}, "top_logprobs", "got 5"),
    }  # fmt: skip


def schema(one):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": one}}}


@pytest.mark.parametrize("name", refusals())
def test_what_is_not_taken_is_a_400_that_names_it(api, name):
    body, param, said = refusals()[name]
    answer = asked(api, "scripted", "hi", **body)
    error = answer.json()["error"]
    assert answer.status_code == 400, answer.text
    assert error["param"] == param
    assert said in error["message"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "assistant", "content": None},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": "x", "tool_call_id": "a"},
        {"role": "user", "content": "x", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": ""}}]},
        {"role": "assistant", "content": [{"type": "text", "refusal": "x"}]},
    ],
)
def test_a_turn_that_does_not_fit_its_role_is_a_400(api, message):
    answer = api.post("/v1/chat/completions", json={"model": "scripted", "messages": [message]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("messages.0")


def test_tools_for_a_model_without_a_format_for_calls_are_a_clear_400(api):
    error = asked(api, "scripted", "hi", tools=[TOOL]).json()["error"]
    assert (error["param"], "no format for tool calls" in error["message"]) == ("tools", True)
    both = asked(api, "scripted", "hi", tools=[TOOL], response_format={"type": "json_object"})
    assert (both.status_code, both.json()["error"]["param"]) == (400, "response_format")


def test_fields_without_an_effect_are_named_in_a_header(api):
    harmless = {"user": "u", "store": True, "metadata": {"a": "b"}, "verbosity": "low"}
    answer = asked(api, "scripted", script(outputs=[{"text": "a"}]), **harmless)
    assert answer.headers["X-Ignored-Fields"] == "metadata, user, verbosity"
    assert "X-Ignored-Fields" not in asked(api, "scripted", script(outputs=[{"text": "a"}]), user=None).headers


def test_what_a_request_asks_for_is_kept_without_its_words(site, api):
    answer = asked(api, "scripted", pieces(HELD_CALL), tools=[TOOL], tool_choice="required", seed=5, top_k=3)
    row = site.row(answer.json()["id"])
    request = json.loads(row["request"])
    assert request["sampling"] == {"seed": 5, "top_k": 3}
    assert request["options"] == {"include_usage": False, "tools": True, "must_call": True, "constrained": True}
    assert "city" not in row["request"]


@pytest.mark.engine
def test_a_real_model_is_held_to_a_schema(api):
    body = schema(PERSON) | {"max_tokens": 200, "temperature": 0}
    message, reason = message_of(asked(api, "smollm2", "Who wrote Faust, and how old did he get?", **body))
    assert reason == "stop"
    person = json.loads(message["content"])
    assert (set(person), type(person["name"]), type(person["age"])) == ({"name", "age"}, str, int)
    stream = chat(api, "Tell me a fact.", model="smollm2", max_tokens=300, response_format={"type": "json_object"})
    if stream.data[-2]["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(stream.text), dict)


@pytest.mark.engine
def test_a_real_model_makes_the_call_that_it_must_make(api):
    body = {"tools": [TOOL], "tool_choice": "required", "max_tokens": 200, "temperature": 0}
    message, reason = message_of(asked(api, "smollm2", "What is the weather in Paris?", **body))
    assert reason == "tool_calls"
    [call] = message["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert isinstance(json.loads(call["function"]["arguments"])["city"], str)


@pytest.mark.engine
def test_an_answer_that_is_held_to_a_schema_is_not_carried_on(site, api):
    body = {"model": "smollm2", "stream": True, "max_tokens": 1500, **schema(
        {"type": "array", "items": {"type": "string"}, "minItems": 300})}  # fmt: skip
    body["messages"] = [{"role": "user", "content": "Write many words."}]
    headers = {"X-Disconnect-Policy": "background"}
    first = read(
        api, "POST", "/v1/chat/completions", json=body, headers=headers,
        until=lambda s: len(s.seqs) > 5 and (site.kill() or True),
    )  # fmt: skip
    site.start()
    row = eventually(lambda: (r := site.row(first.response_id))["end_state"] and r)
    assert (row["end_state"], row["end_reason"]) == ("truncated", "relay_lost")
