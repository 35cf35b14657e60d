"""vLLM's wire on a real socket: ids in and out, aborts that are proven in every phase, and every way it breaks."""

import asyncio
from contextlib import aclosing

import pytest

from streaming.engine.base import GenerateRequest, Load, Sampling
from streaming.engine.vllm import VllmEngine, generate_body
from streaming.protocol.engine_output import EngineUsage
from tests.engine.conftest import BREAKS, ask, broken, collect, until


@pytest.fixture
async def vllm(fault):
    engine = VllmEngine(fault.url, {})
    yield engine
    await engine.aclose()


def ids(outputs):
    return [token_id for output in outputs for token_id in output.token_ids]


def count(outputs):
    return len(ids(outputs))


async def at_rest(fault):
    return fault.running == 0 and not fault.deferred


async def is_running(fault):
    return fault.running > 0


async def test_an_answer_has_its_ids_its_exact_usage_and_its_finish_reason(fault, vllm):
    outputs = await collect(vllm, ask(prompt_ids=range(10), max_tokens=30))
    assert ids(outputs) == [ord("a") + nth % 26 for nth in range(1, 31)]
    assert (outputs[-1].finish_reason, outputs[-1].usage) == ("length", EngineUsage(10, 30, None))
    assert fault.counts()["aborted_total"] == 0
    assert len(fault.bodies) == 1, "an answer that ended is not aborted"


@pytest.mark.parametrize("control", [{"split": True}, {"crlf": True}, {"burst": 7}, {"comments": True}])
async def test_how_the_bytes_come_makes_no_difference(fault, vllm, control):
    fault.set_control(control)
    assert ids(await collect(vllm, ask(max_tokens=21))) == [ord("a") + nth % 26 for nth in range(1, 22)]


@pytest.mark.parametrize(("control", "reason"), BREAKS)
async def test_a_stream_that_breaks_keeps_what_came_before(fault, vllm, control, reason):
    fault.set_control(control)
    outputs, error = await broken(vllm, ask())
    assert (error.reason, count(outputs)) == (reason, 3)
    assert "secret" not in error.message
    await until(lambda: at_rest(fault))


async def test_a_refusal_an_error_behind_a_200_and_an_engine_that_is_gone(fault, vllm):
    fault.set_control({"status": 503})
    _, error = await broken(vllm, ask())
    assert (error.reason, error.status) == ("upstream_error", 503)
    fault.set_control({"say": 'data: {"error": {"message": "The decoder prompt is secret", "code": 400}}\n\n'})
    outputs, error = await broken(vllm, ask())
    assert (outputs, error.reason) == ([], "upstream_error")
    gone = VllmEngine("http://127.0.0.1:1", {})
    assert (await broken(gone, ask()))[1].reason == "upstream_lost"
    assert await gone.healthy() is False
    await gone.aclose()


PHASES = {"decode": {}, "prefill": {"prefill_s": 60}, "hung": {"stall_after": 2}}


@pytest.mark.parametrize("phase", PHASES)
async def test_a_cancelled_answer_is_aborted_by_the_engines_own_id_and_proven_with_exact_usage(fault, vllm, phase):
    fault.set_control(PHASES[phase])
    request = ask(max_tokens=10**6)
    task = asyncio.create_task(collect(vllm, request))
    await until(lambda: is_running(fault))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(30):
        assert await vllm.abort_proven(request) is True
    assert fault.running == 0
    assert fault.bodies[-1] == {"request_ids": [f"generate-tokens-{request.request_id}"]}
    usage = await vllm.usage_at_abort(request)
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, fault.chunks_total)
    assert fault.counts()["aborted_total"] == 0, "the socket stayed open until the engine had said it"


async def test_one_that_still_waits_in_the_engine_is_aborted_too_and_nobody_else(fault, vllm):
    fault.set_control({"prefill_s": 60})
    running = [asyncio.create_task(collect(vllm, ask())) for _ in range(4)]
    await until(lambda: is_true(fault.running == 4))
    request = ask()
    waiting = asyncio.create_task(collect(vllm, request))
    await until(lambda: is_true(len(fault.deferred) == 1))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await vllm.abort_proven(request) is True
    assert (await vllm.usage_at_abort(request)).completion_tokens == 0
    assert (fault.running, len(fault.deferred)) == (4, 0)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def is_true(value):
    return value


async def test_leaving_the_iterator_aborts_as_well(fault, vllm):
    request = ask()
    async with aclosing(vllm.generate(request)) as outputs:
        seen = count([await anext(outputs)])
    assert await vllm.abort_proven(request) is True
    assert (await vllm.usage_at_abort(request)).completion_tokens >= seen
    await until(lambda: at_rest(fault))


async def test_a_hundred_answers_of_which_each_tenth_is_aborted_leave_the_others_exact(fault, vllm):
    """X77."""
    fault.slots += [None] * 100
    fault.set_control({"rate": 10, "prefill_s": 1})
    requests = [ask(max_tokens=20, response_id=f"resp_h{nth}") for nth in range(100)]
    tasks = [asyncio.create_task(collect(vllm, request)) for request in requests]
    await until(lambda: is_true(fault.running > 50))
    for task in tasks[::10]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    whole = [ord("a") + nth % 26 for nth in range(1, 21)]
    for nth, answer in enumerate(answers):
        if nth % 10:
            assert (ids(answer), answer[-1].finish_reason) == (whole, "length")
        else:
            assert await vllm.abort_proven(requests[nth]) is True
    fault.set_control({})
    again = await collect(vllm, ask(max_tokens=20, response_id="resp_h10"))
    assert ids(again) == whole, "the same key can be used again"


async def test_an_abort_that_does_nothing_ends_with_the_socket_and_without_proof(fault, vllm, monkeypatch):
    monkeypatch.setattr("streaming.engine.vllm.ABORT_TIMEOUT_S", 0.2)
    fault.set_control({"no_abort": True})
    request = ask(max_tokens=10**6)
    async with aclosing(vllm.generate(request)) as outputs:
        await anext(outputs)
    assert await vllm.abort_proven(request) is False
    await until(lambda: at_rest(fault))
    assert fault.counts()["aborted_total"] == 1


async def test_an_answer_that_was_never_begun_has_no_proof_and_no_usage(vllm):
    assert await vllm.abort_proven(ask()) is False
    assert await vllm.usage_at_abort(ask()) is None


async def test_a_successor_aborts_the_attempt_of_an_owner_that_was_paused(fault, vllm):
    """X04: it knows the attempt by its name only."""
    successor = VllmEngine(fault.url, {})
    task = asyncio.create_task(collect(vllm, ask(max_tokens=10**6, response_id="resp_paused")))
    await until(lambda: is_running(fault))
    await successor.abort("resp_paused-1")
    assert (await task)[-1].finish_reason == "abort"
    await successor.aclose()


async def test_closing_the_engine_leaves_no_abort_behind(fault):
    engine = VllmEngine(fault.url, {})
    fault.set_control({"no_abort": True})
    async with aclosing(engine.generate(ask(max_tokens=10**6))) as outputs:
        await anext(outputs)
    await engine.aclose()
    await until(lambda: at_rest(fault))


async def test_the_load_is_what_its_gauges_say(vllm):
    from tests.engine.test_chat_endpoints import Answering

    gauges = b'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 1.0\n'
    async with Answering(gauges + b'vllm:num_requests_waiting{engine="0"} 5.0\n') as (url, _):
        engine = VllmEngine(url, {})
        assert await engine.load() == Load(running=3, waiting=5)
        await engine.aclose()


def test_the_request_holds_ids_and_what_is_allowed_and_nothing_else():
    request = GenerateRequest("resp_1-2", (5, 6), [{"role": "user", "content": "secret"}], Sampling(9), "u7", 3)
    assert generate_body(request) == {
        "request_id": "resp_1-2",
        "token_ids": [5, 6],
        "sampling_params": {"max_tokens": 9, "min_tokens": 0, "detokenize": False},
        "stream": True,
        "stream_options": {"include_usage": True},
        "priority": 3,
        "cache_salt": "u7",
    }
    assert "cache_salt" not in generate_body(ask())


def test_sampling_is_passed_on_within_what_the_engine_survives():
    chosen = {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
    }
    schema = {"type": "object"}
    body = generate_body(
        ask(**chosen, max_tokens=5, min_tokens=9, logit_bias={7: -1.5}, stop=("x",), json_schema=schema)
    )
    params = body["sampling_params"]
    assert {name: params[name] for name in chosen} == chosen
    assert (params["max_tokens"], params["min_tokens"]) == (5, 5), "SD06: more at least than at most kills its loop"
    assert (params["logit_bias"], params["structured_outputs"]) == ({"7": -1.5}, {"json": schema})
    assert "stop" not in params
