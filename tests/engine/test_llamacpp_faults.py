"""Every way an engine's stream can break, on a real socket: one EngineError, and what came before it is kept."""

import asyncio
import logging
import socket
from contextlib import aclosing

import pytest

from streaming.engine.base import EngineError, Load
from streaming.engine.llamacpp import LlamaCppEngine, completion_body, seed_of
from streaming.engine.metrics_text import totals
from tests.engine.conftest import BREAKS, ask, broken, collect, shown, until


async def outcome(engine, request):
    """What came before the failure, and the failure."""
    outputs, error = await broken(engine, request)
    assert "secret" not in error.message
    return outputs, error


async def test_an_answer_has_its_text_its_counts_and_its_finish_reason(fault, fault_client):
    outputs = await collect(fault_client, ask(prompt_ids=range(10), max_tokens=30))
    assert shown(outputs).count(" the") == 28
    assert sum(output.token_count for output in outputs) == 30
    last = outputs[-1]
    assert (last.finish_reason, last.usage.prompt_tokens, last.usage.completion_tokens) == ("length", 10, 30)
    assert last.usage.cached_tokens == 9
    assert [output.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert fault.counts()["aborted_total"] == 0


async def test_the_models_own_end_is_stop(fault, fault_client):
    fault.set_control({"eos_after": 3})
    outputs = await collect(fault_client, ask())
    assert outputs[-1].finish_reason == "stop"
    assert sum(output.token_count for output in outputs) == 3


@pytest.mark.parametrize("control", [{"split": True}, {"crlf": True}, {"split": True, "crlf": True}, {"burst": 7}])
async def test_how_the_bytes_are_cut_makes_no_difference(fault, fault_client, control):
    fault.set_control(control)
    outputs = await collect(fault_client, ask(max_tokens=21))
    assert shown(outputs).count(" the") == 19
    assert sum(output.token_count for output in outputs) == 21


@pytest.mark.parametrize(("control", "reason"), BREAKS)
async def test_a_stream_that_breaks_keeps_what_came_before(fault, fault_client, control, reason):
    fault.set_control(control)
    outputs, error = await outcome(fault_client, ask())
    assert error.reason == reason
    assert sum(output.token_count for output in outputs) == 3
    assert shown(outputs).endswith(" the the")
    assert all(output.finish_reason is None for output in outputs)


@pytest.mark.parametrize("control", [{"error_after": 0}, {"eof_after": 0}, {"garbage_after": 0}, {"reset_after": 0}])
async def test_a_stream_that_breaks_at_once_gives_nothing(fault, fault_client, control):
    fault.set_control(control)
    assert (await outcome(fault_client, ask()))[0] == []


async def test_what_came_in_the_same_bytes_as_the_failure_is_kept(fault, fault_client):
    fault.set_control({"burst": 50, "error_after": 30})
    outputs, error = await outcome(fault_client, ask())
    assert (error.reason, sum(output.token_count for output in outputs)) == ("upstream_error", 30)


async def test_bytes_that_are_no_utf8_become_replacement_characters_and_the_stream_goes_on(fault, fault_client):
    fault.set_control({"bad_utf8_after": 2})
    outputs = await collect(fault_client, ask(max_tokens=5))
    assert shown(outputs).endswith(" the" + "\ufffd" * 6 + " the the the")
    assert outputs[-1].usage.completion_tokens == 5


@pytest.mark.parametrize(
    ("control", "reason", "status"),
    [
        ({"status": 500}, "upstream_error", 500),
        ({"status": 503}, "upstream_error", 503),
        ({"status": 401}, "upstream_error", 401),
        ({"html": True}, "upstream_protocol", None),
        ({"json": True}, "upstream_protocol", None),
    ],
)
async def test_an_answer_that_is_no_stream_is_an_error(fault, fault_client, control, reason, status):
    fault.set_control(control)
    outputs, error = await outcome(fault_client, ask())
    assert (outputs, error.reason, error.status) == ([], reason, status)


@pytest.mark.parametrize("control", [{"error_after": 1}, {"garbage_after": 1}, {"status": 400}, {"json": True}])
async def test_the_engines_own_words_may_hold_a_prompt_so_only_a_debug_log_has_them(
    fault, fault_client, caplog, control
):
    fault.set_control(control)
    with caplog.at_level(logging.DEBUG, logger="streaming"):
        await outcome(fault_client, ask())
    words = ("scripted secret", "whole answer", "content")
    spoken = [record for record in caplog.records if any(word in record.getMessage() for word in words)]
    assert spoken
    assert {record.levelno for record in spoken} == {logging.DEBUG}
    assert any(record.levelno == logging.WARNING for record in caplog.records)


async def test_a_prompt_over_the_context_is_refused_with_both_numbers(fault_client):
    _, error = await outcome(fault_client, ask(prompt_ids=range(100)))
    assert (error.reason, error.status) == ("upstream_error", 400)
    assert error.message == "the prompt has 100 tokens, the engine's context 100"


async def test_an_engine_that_is_not_there_is_lost():
    # Kept, so that nobody else listens on its port meanwhile.
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        engine = LlamaCppEngine(f"http://127.0.0.1:{nobody.getsockname()[1]}", {})
        outputs, error = await outcome(engine, ask())
        assert (outputs, error.reason) == ([], "upstream_lost")
        assert await engine.healthy() is False
        with pytest.raises(EngineError, match="lost"):
            await engine.load()
        await engine.aclose()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ANSWERS = {
    b"": "upstream_lost",
    b"nonsense\r\n\r\n": "upstream_protocol",
    b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n": "upstream_error",
    STREAM: "upstream_lost",
    STREAM + b"data: [DONE]\n\n": "upstream_protocol",
    STREAM + b"data: [1]\n\n": "upstream_protocol",
    STREAM + b'data: {"content":3}\n\n': "upstream_protocol",
    STREAM + b"data: " + b"[" * 100_000 + b"\n\n": "upstream_protocol",
    STREAM + b'event: error\ndata: {"message":"secret"}\n\n': "upstream_error",
    STREAM + b'data: {"content":"","stop":true,"stop_type":"none"}\n\n': "engine_aborted",
    STREAM.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"): "upstream_protocol",
}


@pytest.mark.parametrize(("answer", "reason"), ANSWERS.items(), ids=range(len(ANSWERS)))
async def test_any_other_bytes_are_an_engine_error_too(answer, reason):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    engine = LlamaCppEngine(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
    outputs, error = await outcome(engine, ask())
    assert (outputs, error.reason) == ([], reason)
    await engine.aclose()
    server.close()


async def test_closing_the_iterator_closes_the_socket_at_once(fault, fault_client):
    async with aclosing(fault_client.generate(ask())) as outputs:
        assert (await anext(outputs)).token_count > 0
        assert fault.running == 1
    await until(lambda: at_rest(fault))
    assert fault.counts()["aborted_total"] == 1


@pytest.mark.parametrize("control", [{"prefill_s": 60}, {"stall_after": 2}, {}])
async def test_cancelling_the_task_closes_the_socket_in_every_phase(fault, fault_client, control):
    fault.set_control(control)
    task = asyncio.create_task(collect(fault_client, ask(max_tokens=10**6)))
    await until(lambda: is_true(fault.running == 1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: at_rest(fault))
    assert fault.counts()["aborted_total"] == 1


async def test_cancelling_while_the_engine_has_not_even_answered_closes_the_socket(fault, fault_client):
    fault.set_control({"prefill_s": 60})
    running = [asyncio.create_task(collect(fault_client, ask())) for _ in range(4)]
    await until(lambda: is_true(fault.running == 4))
    waiting = asyncio.create_task(collect(fault_client, ask()))
    await until(lambda: is_true(len(fault.deferred) == 1))
    assert await fault_client.load() == Load(running=4, waiting=1)
    waiting.cancel()
    await until(lambda: is_true(not fault.deferred))
    for task in running:
        task.cancel()
    await asyncio.gather(waiting, *running, return_exceptions=True)


async def at_rest(fault):
    return fault.running == 0


async def is_true(value):
    return value


async def test_more_streams_than_a_http_client_usually_allows_run_at_once(fault_client, fault):
    fault.slots += [None] * 200
    fault.set_control({"prefill_s": 60})
    tasks = [asyncio.create_task(collect(fault_client, ask())) for _ in range(150)]
    await until(lambda: is_true(fault.running == 150))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_abort_is_proven_once_the_slot_is_free_and_not_before(fault, fault_client):
    fault.set_control({"hold_slots": True})
    request = ask()
    async with aclosing(fault_client.generate(request)) as outputs:
        await anext(outputs)
    proof = asyncio.create_task(fault_client.abort_proven(request))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(proof), 0.3)
    fault.set_control({})
    assert await asyncio.wait_for(proof, 60) is True
    assert fault.running == 0


async def test_another_answer_with_the_same_seed_delays_the_proof(fault, fault_client):
    other = asyncio.create_task(collect(fault_client, ask(seed=7, max_tokens=10**6)))
    await until(lambda: is_true(fault.running == 1))
    request = ask(seed=7)
    async with aclosing(fault_client.generate(request)) as outputs:
        await anext(outputs)
    proof = asyncio.create_task(fault_client.abort_proven(request))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(proof), 0.3)
    other.cancel()
    assert await asyncio.wait_for(proof, 60) is True


async def test_an_aborted_request_that_may_still_wait_for_a_slot_is_not_proven(fault, fault_client):
    """A llama.cpp server does not notice a closed socket before the request has a slot."""
    fault.set_control({"prefill_s": 60})
    others = [asyncio.create_task(collect(fault_client, ask())) for _ in range(5)]
    await until(lambda: is_true(len(fault.deferred) == 1))
    proof = asyncio.create_task(fault_client.abort_proven(ask()))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(proof), 0.3)
    for task in others:
        task.cancel()
    assert await asyncio.wait_for(proof, 60) is True


async def test_an_engine_that_does_not_show_its_slots_proves_nothing():
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 501 X\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    engine = LlamaCppEngine(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {})
    assert await engine.abort_proven(ask()) is False
    await engine.aclose()
    server.close()


def test_what_the_caller_left_open_stays_the_engines_default():
    body = completion_body(ask(prompt_ids=[5, 6], max_tokens=9))
    assert body["prompt"] == [5, 6]
    assert body["n_predict"] == 9
    assert not body.keys() & {"temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "logit_bias"}
    assert "stop" not in completion_body(ask(stop=("###",)))


def test_sampling_is_passed_on():
    body = completion_body(ask(temperature=0.0, top_p=0.5, top_k=3, logit_bias={7: -1.5}, presence_penalty=0.1))
    assert (body["temperature"], body["top_p"], body["top_k"], body["presence_penalty"]) == (0.0, 0.5, 3, 0.1)
    assert body["logit_bias"] == [[7, -1.5]]


def test_a_seed_names_the_attempt_and_fits_the_engine():
    assert seed_of(ask(seed=42)) == 42
    assert 0 <= seed_of(ask(seed=2**63)) < 2**32 - 1
    one, other = ask(response_id="resp_a"), ask(response_id="resp_b")
    assert seed_of(one) == seed_of(ask(response_id="resp_a")) != seed_of(other)


def test_metrics_are_read_and_what_makes_no_sense_is_left_out():
    assert totals('# HELP x\na 3\nb 4.7\nc NaN\nd +Inf\ne x\n\nf{l="a b"} 2\nf{l="2"} 0.5\nf{l="3"} 3.5\n') == {
        "a": 3,
        "b": 4,
        "f": 6,
    }


async def test_the_key_comes_from_the_named_variable(monkeypatch):
    heads = []

    async def serve(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    monkeypatch.setenv("SOME_ENGINE_KEY", "k-123")
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    engine = LlamaCppEngine(
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", {"api_key_env": "SOME_ENGINE_KEY"}
    )
    assert await engine.healthy() is True
    assert b"Authorization: Bearer k-123\r\n" in heads[0]
    assert heads[0].startswith(b"GET /health ")
    await engine.aclose()
    server.close()


async def test_whether_a_schema_can_be_held_to_is_asked_once(fault, fault_client):
    schema = {"type": "object"}
    for _ in range(3):
        await collect(fault_client, ask(max_tokens=3, json_schema=schema))
    await collect(fault_client, ask(max_tokens=3))
    trials = [body for body in fault.bodies if body["n_predict"] == 1]
    assert (len(trials), fault.requests_total) == (1, 5)
    assert trials[0]["json_schema"] == schema
