"""Chat endpoints on a real socket, in both wires: answers, every way they break, what they are sent and what not."""

import asyncio
import json
import logging
from contextlib import aclosing

import pytest

from streaming.engine.anthropic import AnthropicEngine
from streaming.engine.api_key import check_variable, key_of
from streaming.engine.base import EngineError, GenerateRequest, Load, Sampling
from streaming.engine.chat_endpoint import explain_refusal
from streaming.engine.openai import OpenAIEngine
from streaming.protocol.engine_output import EngineUsage
from tests.engine.conftest import BREAKS, ask, broken, collect, shown, until


def openai(url, capabilities=None, **options):
    return OpenAIEngine(f"{url}/v1", "m", options, capabilities or {})


def anthropic(url, capabilities=None, **options):
    return AnthropicEngine(url, "m", options, capabilities or {})


MAKE = {"openai": openai, "anthropic": anthropic}


@pytest.fixture(params=MAKE)
async def chat(request, fault):
    engine = MAKE[request.param](fault.url)
    yield engine
    await engine.aclose()


@pytest.fixture
async def hosted(fault):
    engine = openai(fault.url)
    yield engine
    await engine.aclose()


def count(outputs):
    return sum(output.token_count for output in outputs)


async def test_an_answer_has_its_text_its_counts_and_its_finish_reason(fault, chat):
    outputs = await collect(chat, ask(text="five words are in here", max_tokens=30))
    assert shown(outputs).count(" the") == 28
    assert count(outputs) == 30
    assert (outputs[-1].finish_reason, outputs[-1].usage) == ("length", EngineUsage(5, 30, 0))
    assert [output.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert fault.counts()["aborted_total"] == 0


async def test_the_models_own_end_is_stop(fault, chat):
    fault.set_control({"eos_after": 3})
    outputs = await collect(chat, ask())
    assert (shown(outputs).count(" the"), outputs[-1].finish_reason) == (2, "stop")
    assert outputs[-1].usage.completion_tokens == 3


@pytest.mark.parametrize("control", [{"split": True}, {"crlf": True}, {"burst": 7}, {"comments": True, "split": True}])
async def test_how_the_bytes_come_makes_no_difference(fault, chat, control):
    fault.set_control(control)
    outputs = await collect(chat, ask(max_tokens=21))
    assert (shown(outputs).count(" the"), count(outputs)) == (19, 21)


@pytest.mark.parametrize(("control", "reason"), [*BREAKS, ({"burst": 9, "error_after": 3}, "upstream_error")])
async def test_a_stream_that_breaks_keeps_what_came_before(fault, chat, control, reason):
    fault.set_control(control)
    outputs, error = await broken(chat, ask())
    assert (error.reason, shown(outputs).count(" the")) == (reason, 2)
    assert "secret" not in error.message
    await until(lambda: at_rest(fault))


async def at_rest(fault):
    return fault.running == 0


@pytest.mark.parametrize(
    ("control", "reason", "status"),
    [
        ({"status": 500}, "upstream_error", 500),
        ({"status": 429}, "upstream_error", 429),
        ({"status": 401}, "upstream_error", 401),
        ({"html": True}, "upstream_protocol", None),
        ({"json": True}, "upstream_protocol", None),
    ],
)
async def test_an_answer_that_is_no_stream_is_an_error(fault, chat, control, reason, status):
    fault.set_control(control)
    outputs, error = await broken(chat, ask())
    assert (outputs, error.reason, error.status) == ([], reason, status)
    assert "secret" not in error.message


async def test_bytes_that_are_no_utf8_become_replacement_characters_and_the_stream_goes_on(fault, chat):
    fault.set_control({"bad_utf8_after": 2})
    assert shown(await collect(chat, ask(max_tokens=5))).endswith(" the" + "\ufffd" * 6 + " the the the")


CHUNK = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":%s}]}\n\n'
REPORT = 'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":9}}\n\n'
DONE = "data: [DONE]\n\n"


@pytest.mark.parametrize("then", ["open", "reset", "eof"])
async def test_done_ends_the_answer_whatever_the_socket_does(fault, hosted, monkeypatch, then):
    """X25: some servers never close."""
    monkeypatch.setattr("streaming.engine.chat_endpoint.LAST_WORDS_S", 120.0)
    fault.set_control({"say": CHUNK % '"stop"' + REPORT + DONE + "nonsense\n\n", "then": then})
    async with asyncio.timeout(60):
        outputs = await collect(hosted, ask())
    assert (shown(outputs), count(outputs), outputs[-1].finish_reason) == ("a", 9, "stop")
    await until(lambda: at_rest(fault))


@pytest.mark.parametrize("then", ["reset", "eof"])
async def test_a_finish_reason_without_done_is_an_end_however_the_connection_goes(fault, hosted, then):
    fault.set_control({"say": CHUNK % '"length"' + "data: {half an ev", "then": then})
    outputs = await collect(hosted, ask())
    assert (shown(outputs), outputs[-1].finish_reason, outputs[-1].usage) == ("a", "length", None)


async def test_after_the_finish_reason_silence_is_not_waited_out(fault, hosted, monkeypatch):
    monkeypatch.setattr("streaming.engine.chat_endpoint.LAST_WORDS_S", 0.05)
    fault.set_control({"say": CHUNK % '"stop"', "then": "open"})
    async with asyncio.timeout(60):
        outputs = await collect(hosted, ask())
    assert (shown(outputs), outputs[-1].finish_reason) == ("a", "stop")
    await until(lambda: at_rest(fault))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (CHUNK % "null" + DONE, "upstream_lost"),
        (CHUNK % '"new"', "upstream_protocol"),
        (CHUNK % '"error"', "upstream_error"),
        (CHUNK % "null" + 'event: error\ndata: {"message":"secret"}\n\n', "upstream_error"),
        (CHUNK % "null" + 'data: {"object":"error","message":"secret"}\n\n', "upstream_error"),
    ],
)
async def test_an_end_is_never_made_up(fault, hosted, said, reason):
    fault.set_control({"say": said, "then": "open"})
    outputs, error = await broken(hosted, ask())
    assert (shown(outputs), error.reason) == ("a", reason)


async def test_an_abort_that_nobody_asked_for_is_said(fault, hosted):
    """X23."""
    fault.set_control({"say": CHUNK % '"abort"' + DONE})
    assert (await collect(hosted, ask()))[-1].finish_reason == "abort"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":{"message":"secret"}}', "upstream_error"),
        (b'{"object":"error","message":"secret"}', "upstream_error"),
        (b'{"choices":[{"message":{"content":"whole answer"}}]}', "upstream_protocol"),
        (b"[]", "upstream_protocol"),
        (b"[" * 100_000, "upstream_protocol"),
    ],
)
async def test_a_200_with_json_is_no_answer(body, reason):
    """X28."""
    async with Answering(body) as (url, _):
        engine = openai(url)
        outputs, error = await broken(engine, ask())
        assert (outputs, error.reason) == ([], reason)
        assert "secret" not in error.message
        await engine.aclose()


async def test_without_their_usage_we_count_and_say_nothing_of_theirs(fault, chat):
    fault.set_control({"usage": "none"})
    outputs = await collect(chat, ask(max_tokens=30))
    assert outputs[-1].usage is None or outputs[-1].usage.completion_tokens is None
    assert count(outputs) == 29, "the last token that a guess may give would end the answer"
    assert shown(outputs).count(" the") == 28


async def test_an_answer_that_is_left_early_has_the_tokens_that_were_seen(fault):
    for capabilities in ({}, {"continuous_usage": True}):
        engine = openai(fault.url, capabilities)
        async with aclosing(engine.generate(ask())) as outputs:
            seen = [await anext(outputs) for _ in range(4)]
        assert count(seen) >= 4
        assert (seen[-1].usage is not None) == bool(capabilities)
        await until(lambda: at_rest(fault))
        await engine.aclose()


@pytest.mark.parametrize("control", [{"prefill_s": 60}, {"stall_after": 2}, {}])
async def test_cancelling_closes_the_socket_in_every_phase_and_claims_no_proof(fault, chat, control):
    fault.set_control(control)
    request = ask(max_tokens=10**6)
    task = asyncio.create_task(collect(chat, request))
    await until(lambda: is_running(fault))
    assert await chat.load() == Load(running=1, waiting=0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: at_rest(fault))
    assert fault.counts()["aborted_total"] == 1
    assert await chat.abort_proven(request) is False
    assert await chat.usage_at_abort(request) is None
    assert await chat.load() == Load(running=0, waiting=0)


async def is_running(fault):
    return fault.running == 1


class Answering:
    """A server that gives one body to everything, and keeps what it was asked."""

    def __init__(self, body, status=200):
        self.body, self.status, self.heads = body, status, []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}", self.heads

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        head = f"HTTP/1.1 {self.status} X\r\nContent-Type: application/json\r\nContent-Length: {len(self.body)}"
        writer.write(f"{head}\r\nLocation: http://127.0.0.1:1/\r\n\r\n".encode() + self.body)
        writer.close()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (404, True), (401, False), (403, False), (503, False)])
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_health_is_an_answer_that_is_no_trouble(make, status, healthy):
    async with Answering(b"{}", status) as (url, heads):
        engine = make(url)
        assert await engine.healthy() is healthy
        assert heads[0].startswith("GET /v1/models ")
        await engine.aclose()


async def test_an_endpoint_that_is_not_there_is_lost_and_not_healthy():
    engine = openai("http://127.0.0.1:1")
    assert (await broken(engine, ask()))[1].reason == "upstream_lost"
    assert await engine.healthy() is False
    await engine.aclose()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_redirect_is_refused_and_never_followed(make):
    """SB02: the key would go along."""
    async with Answering(b"canary") as (target, canary), Answering(b"", 302) as (url, _):
        engine = make(url)
        _, error = await broken(engine, ask())
        assert (error.reason, error.status, canary) == ("upstream_error", 302, [])
        await engine.aclose()


async def test_the_key_comes_from_the_named_variable_and_stands_in_the_wires_own_header(monkeypatch):
    monkeypatch.setenv("HOSTED_API_KEY", " k-123\n")
    for make, header in ((openai, "Authorization: Bearer k-123\r\n"), (anthropic, "x-api-key: k-123\r\n")):
        async with Answering(b"{}") as (url, heads):
            engine = make(url, api_key_env="HOSTED_API_KEY")
            await engine.healthy()
            assert header in heads[0]
            assert ("anthropic-version: 2023-06-01\r\n" in heads[0]) == (make is anthropic)
            await engine.aclose()


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "PATH", "my_api_key", "X_API_KEY\n", 3, ["A_API_KEY"]])
def test_no_other_secret_of_the_site_can_be_named(name, caplog):
    with pytest.raises(ValueError, match="no variable for a key"):
        check_variable(name)
    with caplog.at_level(logging.ERROR, logger="streaming"):
        assert key_of({"api_key_env": name}) == ""
    assert "no variable for a key" in caplog.text


def test_a_variable_that_is_not_set_is_said_once(monkeypatch, caplog):
    monkeypatch.delenv("GONE_API_KEY", raising=False)
    with caplog.at_level(logging.WARNING, logger="streaming"):
        openai("http://127.0.0.1:1", api_key_env="GONE_API_KEY")
    assert [record.getMessage() for record in caplog.records] == [
        "the environment has no GONE_API_KEY: the engine is asked without a key"
    ]


TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "hi", "secret": "x"},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "go on", "name": None},
]


def request_of(turns=TURNS, salt="", **sampling):
    return GenerateRequest("resp_1-1", (1, 2), turns, Sampling(**{"max_tokens": 9} | sampling), cache_salt=salt)


async def sent(fault, engine, request):
    await collect(engine, request)
    await engine.aclose()
    return fault.bodies[-1]


async def test_openai_is_sent_the_messages_and_always_asked_for_usage(fault):
    assert await sent(fault, openai(fault.url), request_of()) == {
        "model": "m",
        "messages": [{k: v for k, v in turn.items() if k != "secret" and v is not None} for turn in TURNS],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
    }


async def test_openai_is_sent_what_the_caller_chose_and_what_the_probe_found(fault):
    capabilities = {"continuous_usage": True, "max_tokens_field": "max_completion_tokens"}
    engine = openai(fault.url, capabilities, upstream_model="theirs", cache_salt=True)
    chosen = {"temperature": 0.0, "top_p": 0.5, "seed": 3, "presence_penalty": 1.0, "frequency_penalty": -1.0}
    body = await sent(fault, engine, request_of(salt="u7", stop=tuple("abcdef"), logit_bias={5: -1.0}, **chosen))
    assert {name: body[name] for name in chosen} == chosen
    assert (body["model"], body["cache_salt"], body["max_completion_tokens"]) == ("theirs", "u7", 9)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (body["stop"], body["logit_bias"]) == (["a", "b", "c", "d"], {"5": -1.0})
    assert "max_tokens" not in body
    other = await sent(fault, openai(fault.url, {"stream_options": False}), request_of(stop=("x",), min_tokens=2))
    assert not other.keys() & {"stream_options", "stop", "cache_salt", "min_tokens"}


async def test_anthropic_is_sent_the_system_text_apart_and_what_its_wire_knows(fault):
    assert await sent(fault, anthropic(fault.url), request_of()) == {
        "model": "m",
        "messages": [{"role": turn["role"], "content": turn["content"]} for turn in TURNS[1:]],
        "system": "Be brief.",
        "max_tokens": 9,
        "stream": True,
    }
    chosen = request_of(TURNS[1:], temperature=1.7, top_p=0.5, top_k=4, seed=3, stop=(" ", "\n\n", "END"))
    body = await sent(fault, anthropic(fault.url), chosen)
    assert (body["temperature"], body["top_k"], body["stop_sequences"]) == (1.0, 4, ["END"])
    assert not body.keys() & {"system", "top_p", "seed"}
    body = await sent(fault, anthropic(fault.url), request_of(top_p=0.5, stop=("END",), min_tokens=2))
    assert body["top_p"] == 0.5
    assert "stop_sequences" not in body


TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
BARE_TOOL = {"type": "function", "function": {"name": "g"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
BROKEN_CALL = {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{"}}
TOOL_TURNS = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "", "tool_calls": [CALL, BROKEN_CALL]},
    {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    {"role": "assistant", "content": "So:", "tool_calls": [CALL]},
]


def with_tools(choice):
    return GenerateRequest("resp_1-1", (1,), TOOL_TURNS, Sampling(9), tools=(TOOL, BARE_TOOL), tool_choice=choice)


@pytest.mark.parametrize("choice", ["auto", "required", "f"])
async def test_tools_their_calls_and_results_are_said_in_the_wires_words(fault, choice):
    body = await sent(fault, openai(fault.url), with_tools(choice))
    assert (body["messages"], body["tools"]) == (TOOL_TURNS, [TOOL, BARE_TOOL])
    named = {"type": "function", "function": {"name": "f"}}
    assert body["tool_choice"] == (named if choice == "f" else choice)
    body = await sent(fault, anthropic(fault.url), with_tools(choice))
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
    assert body["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [use, {"type": "tool_use", "id": "c2", "name": "g", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "So:"}, use]},
    ]
    described = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
    assert body["tools"] == [described, {"name": "g", "input_schema": {"type": "object"}}]
    said = {"auto": {"type": "auto"}, "required": {"type": "any"}, "f": {"type": "tool", "name": "f"}}
    assert body["tool_choice"] == said[choice]


async def test_openai_can_be_held_to_a_schema(fault):
    schema = {"type": "object", "properties": {}}
    body = await sent(fault, openai(fault.url), request_of(json_schema=schema))
    wanted = {"name": "answer", "schema": schema, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}
    body = await sent(fault, openai(fault.url), request_of(json_schema={"type": "object"}))
    assert body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "secret"},
        {"type": "exceed_context_size_error"},
        {"type": "invalid_request_error", "message": "Prompt is too long: secret"},
        {"message": "This model's maximum context length is 5 tokens"},
    ],
)
async def test_a_prompt_that_is_too_long_is_said_in_our_words(error):
    assert explain_refusal(json.dumps({"error": error}).encode()) == "the prompt is longer than the engine's context"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"error":"x"}', b'{"error":{"message":"no"}}', b'{"error":{"code":[]}}']
)
def test_any_other_refusal_stays_unexplained(body):
    assert explain_refusal(body) is None


async def test_what_an_endpoint_says_in_its_error_is_for_a_debug_log_only(fault, chat, caplog):
    fault.set_control({"error_after": 1})
    with caplog.at_level(logging.DEBUG, logger="streaming"):
        await broken(chat, ask())
    spoken = [record for record in caplog.records if "scripted secret" in record.getMessage()]
    assert {record.levelno for record in spoken} == {logging.DEBUG}
    assert spoken


async def test_the_error_of_an_endpoint_is_an_engine_error(fault, chat):
    fault.set_control({"status": 503})
    with pytest.raises(EngineError, match="status 503"):
        await collect(chat, ask())
