"""The real vLLM, its CPU build: ids in and out, counts that are its counter, aborts that it proves itself.

Only where VLLM_ENV names its environment: `manage.py run_engine --kind vllm --cpu --install` makes that.
"""

import asyncio
import json
import os
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from streaming.engine.anthropic import AnthropicEngine
from streaming.engine.metrics_text import totals
from streaming.engine.openai import OpenAIEngine
from streaming.engine.prompt import render_prompt
from streaming.engine.tokenizer import TokenizerBundle
from streaming.engine.upstream import Upstream
from streaming.engine.vllm import VllmEngine
from tests.drill.engines import freeing, on_vllm, successor
from tests.drill.engines.findings import broken, table
from tests.drill.engines.stage import stage
from tests.drill.test_a_short_engines_drill import FREE_S
from tests.e2e.reading import eventually
from tests.e2e.site import STOP_PROOF_S
from tests.engine import vllm_server
from tests.engine.conftest import ask, collect, shown, until
from tests.engine.conftest import broken as broken_off
from tests.engine.counting import counting

SLOTS = vllm_server.SLOTS
SECRET = "lighthouse-7731"
BLOCK_TOKENS = 128


@pytest.fixture(scope="module")
def server(demo_model, tmp_path_factory):
    """The server's URL and its log, started by the command and stopped as a supervisor would."""
    log = tmp_path_factory.mktemp("vllm") / "log.txt"
    child, url = vllm_server.start(vllm_server.demo_model(Path(os.environ["VLLM_ENV"]), demo_model), log)
    yield url, log
    assert child.end(signal.SIGTERM) is not None


@pytest.fixture
async def vllm(server):
    engine = VllmEngine(server[0], {})
    yield engine
    await engine.aclose()


@pytest.fixture(scope="module")
def bundle(demo_tokenizer):
    return TokenizerBundle.load(demo_tokenizer)


def ids(outputs):
    return [token_id for output in outputs for token_id in output.token_ids]


async def generated_total(url):
    upstream = Upstream(url)
    values = totals((await upstream.ask("/metrics")).decode())
    await upstream.aclose()
    return values["vllm:generation_tokens_total"]


async def is_idle(engine):
    load = await engine.load()
    return load.running == load.waiting == 0


def endless(max_tokens=1500, **fields):
    """A request that the model does not end by itself."""
    return ask([504, 665], max_tokens=max_tokens, logit_bias={2: -100.0, 0: -100.0}, **fields)


async def test_it_is_ready_when_it_says_so_and_speaks_our_tokens(vllm, bundle):
    assert await vllm.healthy() is True
    assert await vllm.context_tokens() == 2048
    text = "Tokens of Café ☕, चाय and\n\n    some_code(1234);"
    assert await vllm.tokenize(text) == bundle.vocabulary.encode(text)


async def test_ids_give_the_text_that_its_chat_endpoints_give(server, vllm, bundle):
    request = ask(text=f"Name three colours. {SECRET}", max_tokens=12, temperature=0)
    prompt = render_prompt(bundle, request.messages)
    outputs = await collect(vllm, ask(prompt, max_tokens=12, temperature=0))
    assert (outputs[-1].finish_reason, outputs[-1].usage.completion_tokens) == ("length", 12)
    assert len(ids(outputs)) == 12
    assert outputs[-1].usage.prompt_tokens == len(prompt)
    text = bundle.tokenizer.decode(ids(outputs))
    name = Path(os.environ["VLLM_ENV"]) / "demo-model"
    continuous = {"continuous_usage": True}
    for engine in (
        OpenAIEngine(f"{server[0]}/v1", name.name, {}, continuous),
        AnthropicEngine(server[0], name.name, {}, {}),
    ):
        answer = await collect(engine, request)
        assert shown(answer) == text
        assert sum(output.token_count for output in answer) == 12
        assert answer[-1].usage.prompt_tokens == len(prompt)
        await engine.aclose()


async def test_an_answer_ends_by_itself_and_its_end_is_counted(vllm, bundle):
    prompt = render_prompt(bundle, [{"role": "user", "content": "Say hi."}])
    outputs = await collect(vllm, ask(prompt, max_tokens=200, temperature=0))
    assert outputs[-1].finish_reason == "stop"
    assert outputs[-1].usage.completion_tokens == len(ids(outputs))


async def test_in_decode_an_abort_is_proven_and_counts_exactly(server, vllm):
    await until(lambda: is_idle(vllm))
    before = await generated_total(server[0])
    request = endless()
    async with aclosing(vllm.generate(request)) as outputs:
        seen = [await anext(outputs) for _ in range(4)]
    async with asyncio.timeout(30):
        assert await vllm.abort_proven(request) is True
    usage = await vllm.usage_at_abort(request)
    assert len(ids(seen)) <= usage.completion_tokens < 300, "of 1500"
    await until(lambda: is_idle(vllm))
    assert await generated_total(server[0]) - before == usage.completion_tokens


async def test_one_that_waits_for_a_slot_is_aborted_and_the_others_stay_exact(server, vllm):
    await until(lambda: is_idle(vllm))
    before = await generated_total(server[0])
    # Long enough to be seen while they run, and one beside them while it waits.
    running = [asyncio.create_task(collect(vllm, endless(120))) for _ in range(SLOTS)]
    await until(lambda: works_on(vllm, SLOTS, 0))
    request = endless()
    waiting = asyncio.create_task(collect(vllm, request))
    await until(lambda: works_on(vllm, SLOTS, 1))
    waiting.cancel()
    async with asyncio.timeout(30):
        await asyncio.gather(waiting, return_exceptions=True)
        assert await vllm.abort_proven(request) is True
    assert (await vllm.usage_at_abort(request)).completion_tokens == 0
    answers = await asyncio.gather(*running)
    assert [len(ids(answer)) for answer in answers] == [120] * SLOTS
    await until(lambda: is_idle(vllm))
    assert await generated_total(server[0]) - before == 120 * SLOTS


async def works_on(vllm, running, waiting):
    load = await vllm.load()
    return (load.running, load.waiting) == (running, waiting)


async def test_in_prefill_and_before_the_headers_an_abort_leaves_nothing_running(vllm):
    prompt = [4093 + nth % 1000 for nth in range(1900)]
    for wait_s in (0, 0.02, 0.1):
        request = ask(prompt, max_tokens=100)
        task = asyncio.create_task(collect(vllm, request))
        await asyncio.sleep(wait_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if wait_s:
            await vllm.abort_proven(request)
        await until(lambda: is_idle(vllm))


async def test_a_successor_aborts_by_the_attempts_name(server, vllm):
    successor = VllmEngine(server[0], {})
    task = asyncio.create_task(collect(vllm, endless(response_id="resp_paused")))
    await until(lambda: works_on(vllm, 1, 0))
    async with asyncio.timeout(30):
        await successor.abort("resp_paused-1")
        outputs = await task
    assert outputs[-1].finish_reason == "abort"
    assert outputs[-1].usage.completion_tokens == len(ids(outputs))
    await successor.aclose()
    again = await collect(vllm, endless(3, response_id="resp_paused"))
    assert len(ids(again)) == 3, "the name can be used again"


async def test_carrying_on_goes_on_behind_what_was_generated(vllm, bundle):
    prompt = render_prompt(bundle, [{"role": "user", "content": "Count from one to ten."}])
    first = ids(await collect(vllm, ask(prompt, max_tokens=6, temperature=0)))
    second = await collect(vllm, ask([*prompt, *first], max_tokens=6, temperature=0))
    assert second[-1].usage.prompt_tokens == len(prompt) + 6
    assert ids(second) != first


async def test_an_answer_can_be_held_to_a_schema(vllm, bundle):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    prompt = render_prompt(bundle, [{"role": "user", "content": "JSON, please."}])
    outputs = await collect(vllm, ask(prompt, max_tokens=60, temperature=0, json_schema=schema))
    assert json.loads(bundle.tokenizer.decode(ids(outputs)))["a"] in (1, 2)


async def test_a_prompt_that_is_too_long_is_an_error_although_its_status_is_200(vllm):
    _, error = await broken_off(vllm, ask([504] * 3000))
    assert (error.reason, error.status) == ("upstream_error", None)
    _, error = await broken_off(vllm, ask([10**6]))
    assert error.reason == "upstream_error"
    assert await vllm.healthy() is True


def test_left_in_each_phase_it_is_free_its_counter_is_our_books_and_a_paused_owner_is_stopped(
    server, tmp_path, model_dir, monkeypatch
):
    """The engines' drill on it, in the ways that its promise names."""
    for part in (freeing, successor):
        monkeypatch.setattr(part, "FREE_S", FREE_S)
    cells = [cell for cell in on_vllm.TOLD if cell[0] in ("stop", "disconnect", "timer")]
    with stage(tmp_path, model_dir, seed=6) as on:
        findings = asyncio.run(on_vllm.vllm(on, server[0], cells, released=()))
        assert on.complaints() == []
    print(table(findings))
    assert {finding.part for finding in findings} == {"a", "g", "h"}
    assert broken(findings) == []


@pytest.fixture(scope="module")
def rounds(server, tmp_path_factory, model_dir):
    with counting(tmp_path_factory.mktemp("rounds"), model_dir, server[0]) as site:
        yield site


def results(stream):
    return [item["output"] for item in stream.data[-1]["response"]["output"] if item["type"] == "function_call_output"]


def test_its_own_call_is_run_and_it_reads_the_result_with_what_it_knew_of_the_prompt(rounds):
    rounds.compared()
    chat, asked = rounds.begin()
    rounds.tool.go()
    stream = asked.result(60)
    row = rounds.site.row(stream.response_id)
    first, second = rounds.attempts(stream.response_id)
    assert (row["end_state"], results(stream)) == ("completed", ["delta is here"])
    assert stream.text.startswith("delta is here: 1 2 3")
    assert [first["ended"], second["ended"]] == ["tool_calls", "stop"]
    assert [first["count"], second["count"]] == ["exact", "exact"]
    assert row["prompt_tokens"] == first["prompt_tokens"] + second["prompt_tokens"]
    # It keeps whole blocks of what it has read.
    assert second["cached_tokens"] > first["prompt_tokens"] - BLOCK_TOKENS
    assert row["cached_tokens"] == first["cached_tokens"] + second["cached_tokens"]
    seen = rounds.compared()
    assert (seen["low"], seen["high"], seen["seen"]) == (row["generated_tokens"],) * 3


def begun(rounds, place):
    """An answer that is there now: its id, and the stream that somebody reads."""
    chat, asked = rounds.begin()
    rounds.tool.began()
    response_id = rounds.response_id(chat)
    if place == "in round 2":
        rounds.tool.go()
        eventually(lambda: " 2" in rounds.site.log_text(response_id), pause_s=0.005)
    return response_id, asked


@pytest.mark.parametrize("place", ["in the tool", "in round 2"])
def test_stopped_in_the_tool_or_in_its_second_round_it_is_free_and_its_counter_is_our_row(rounds, place):
    rounds.compared()
    response_id, asked = begun(rounds, place)
    stopped, stream = rounds.stop(response_id), asked.result(60)
    row, made = rounds.site.row(response_id), rounds.attempts(response_id)
    assert (row["end_state"], row["end_reason"]) == ("cancelled", "user")
    assert (row["abort_proven"], row["usage_estimated"]) == (True, False)
    assert stopped["stop"]["stop_ms"] < 1000 * STOP_PROOF_S, "the patience with what does not end"
    assert stream.data[-1]["response"]["status"] == "cancelled"
    ends = ["tool_calls"] if place == "in the tool" else ["tool_calls", "user"]
    assert ([one["ended"] for one in made], rounds.tool.was_cancelled) == (ends, place == "in the tool")
    assert row["prompt_tokens"] == sum(one["prompt_tokens"] for one in made)
    seen = rounds.compared()
    assert (seen["low"], seen["high"], seen["seen"]) == (row["generated_tokens"],) * 3


@pytest.mark.parametrize("place", ["in the tool", "in round 2"])
def test_after_kill_9_the_call_and_the_count_go_on_where_they_were(rounds, place):
    rounds.compared()
    response_id, asked = begun(rounds, place)
    # What the engine made is written while the call begins.
    eventually(lambda: rounds.attempts(response_id))
    rounds.site.kill()
    cut = asked.result(60)
    assert cut.broke
    rounds.tool.go()
    rounds.site.start()
    rest, whole = rounds.stream(response_id, cut.last_id), rounds.stream(response_id)
    assert cut.text + rest.text == whole.text
    assert whole.text.startswith("delta is here: 1 2 3")
    assert results(whole) == ["delta is here"]
    row, made = rounds.site.row(response_id), rounds.attempts(response_id)
    assert (row["end_state"], row["finish_reason"], row["epoch"]) == ("completed", "stop", 2)
    ends = ["tool_calls", "stop"] if place == "in the tool" else ["tool_calls", "relay_lost", "stop"]
    assert [one["ended"] for one in made] == ends
    assert row["generated_tokens"] == sum(one["generated_tokens"] for one in made)
    shown_again = made[-1]["prompt_tokens"] - (made[1]["generated_tokens"] if place == "in round 2" else 0)
    assert row["prompt_tokens"] == made[0]["prompt_tokens"] + shown_again
    is_exact = place == "in the tool"
    assert row["usage_estimated"] == (not is_exact), "nobody heard how much the engine made for the dead"
    seen = rounds.compared()
    assert (seen["drift"], seen["seen"] == row["generated_tokens"] == seen["high"]) == (0, is_exact)


def test_no_prompt_stands_in_its_log(server):
    """SF06."""
    assert SECRET not in server[1].read_text()
