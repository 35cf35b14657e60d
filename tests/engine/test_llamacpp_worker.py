"""The real worker: what it counts is what we count, and closing the socket frees its slot in every phase."""

import asyncio
from contextlib import aclosing

import pytest

from streaming.engine.base import EngineError
from streaming.engine.llamacpp import seed_of
from streaming.engine.prompt import carry_on, render_prompt
from streaming.engine.tokenizer import TokenizerBundle
from tests.engine.conftest import ask, collect, shown, until

pytestmark = pytest.mark.engine

LONG_PROMPT = [4093 + nth % 1000 for nth in range(1500)]


async def slot_of(worker, request):
    for slot in await worker._upstream.ask_json("/slots"):
        if slot.get("params", {}).get("seed") == seed_of(request):
            return slot
    return None


async def busy_slot(worker, request):
    slot = await slot_of(worker, request)
    return slot if slot is not None and slot["is_processing"] else None


async def predicted_total(worker):
    text = (await worker._upstream.ask("/metrics")).decode()
    return int(text.split("llamacpp:tokens_predicted_total ")[-1].split()[0])


async def test_it_is_healthy_and_idle(worker):
    assert await worker.healthy() is True
    assert (await worker.load()).waiting == 0


async def test_our_counts_are_the_engines_own(worker, demo_tokenizer):
    bundle = TokenizerBundle.load(demo_tokenizer)
    prompt = render_prompt(bundle, [{"role": "user", "content": "Name three colours. Write चाय and ☕ too."}])
    before = await predicted_total(worker)
    outputs = await collect(worker, ask(prompt, max_tokens=40, temperature=0))
    usage = outputs[-1].usage
    assert usage.prompt_tokens == len(prompt)
    assert usage.completion_tokens == sum(output.token_count for output in outputs)
    assert usage.completion_tokens == await predicted_total(worker) - before
    assert outputs[-1].finish_reason in ("stop", "length")
    assert shown(outputs).strip()


async def test_a_limit_is_kept_and_said(worker):
    outputs = await collect(worker, ask([504, 665], max_tokens=5, logit_bias={2: -100.0, 0: -100.0}))
    assert outputs[-1].finish_reason == "length"
    assert outputs[-1].usage.completion_tokens == 5


async def test_a_repeated_prompt_is_cached_and_says_so(worker):
    prompt = LONG_PROMPT[:200]
    await collect(worker, ask(prompt, max_tokens=1))
    usage = (await collect(worker, ask(prompt, max_tokens=1)))[-1].usage
    assert usage.prompt_tokens == 200
    assert usage.cached_tokens > 100


async def test_characters_that_are_several_tokens_come_whole(worker, demo_tokenizer):
    bundle = TokenizerBundle.load(demo_tokenizer)
    prompt = bundle.vocabulary.encode("☕ ☕ ☕ ☕ ☕ ☕ ☕ ☕")
    outputs = await collect(worker, ask(prompt, max_tokens=24, temperature=0))
    assert "☕" in shown(outputs)
    # At its limit the engine itself shows what it has of a character.
    assert "\ufffd" not in shown(outputs[:-1]).rstrip("\ufffd")
    assert any(output.text == "" and output.token_count for output in outputs) or len(outputs) < 24


async def test_closing_in_decode_frees_the_slot_and_proves_it(worker):
    request = ask([504, 665], max_tokens=2000, logit_bias={2: -100.0, 0: -100.0})
    async with aclosing(worker.generate(request)) as outputs:
        for _ in range(5):
            await anext(outputs)
        assert await busy_slot(worker, request)
    async with asyncio.timeout(60):
        assert await worker.abort_proven(request) is True
    slot = await slot_of(worker, request)
    assert slot["is_processing"] is False


async def test_closing_in_prefill_frees_the_slot_long_before_the_prompt_is_read(worker):
    request = ask(LONG_PROMPT, max_tokens=2000)
    task = asyncio.create_task(collect(worker, request))
    await until(lambda: busy_slot(worker, request))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    processed = [0]
    while slot := await busy_slot(worker, request):
        processed.append(slot["n_prompt_tokens_processed"])
        await asyncio.sleep(0.02)
    assert max(processed) < len(LONG_PROMPT) / 2
    async with asyncio.timeout(60):
        assert await worker.abort_proven(request) is True


async def test_a_slot_that_was_aborted_serves_the_next_answer(worker):
    for _ in range(6):
        request = ask([504, 665], max_tokens=500, logit_bias={2: -100.0, 0: -100.0})
        async with aclosing(worker.generate(request)) as outputs:
            await anext(outputs)
        assert await worker.abort_proven(request) is True
    outputs = await collect(worker, ask([504, 665], max_tokens=3))
    assert outputs[-1].finish_reason in ("stop", "length")


async def test_a_prompt_over_the_context_is_refused_with_both_numbers(worker):
    with pytest.raises(EngineError) as caught:
        await collect(worker, ask([504] * 2100))
    assert caught.value.status == 400
    assert caught.value.message == "the prompt has 2100 tokens, the engine's context 2048"


async def test_an_equal_seed_gives_an_equal_answer(worker):
    def sampled():
        return ask([504, 665], max_tokens=12, seed=5, temperature=1.0, logit_bias={2: -100.0})

    assert shown(await collect(worker, sampled())) == shown(await collect(worker, sampled()))


async def test_carrying_on_goes_on_behind_what_was_shown(worker, demo_tokenizer):
    bundle = TokenizerBundle.load(demo_tokenizer)
    prompt = render_prompt(bundle, [{"role": "user", "content": "Count from one to ten."}])
    first = await collect(worker, ask(prompt, max_tokens=8, temperature=0))
    ids = carry_on(bundle, prompt, shown(first))
    assert bundle.tokenizer.decode(ids[len(prompt) :]) == shown(first)
    second = await collect(worker, ask(ids, max_tokens=8, temperature=0))
    assert second[-1].usage.prompt_tokens == len(ids)
    assert shown(second) != shown(first)


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"type": "string"}},
        {"type": "nonsense"},
        {"enum": []},
        {"type": "object", "properties": {"a": {"if": {"type": "string"}}}, "required": ["a"]},
        {"type": "object", "propertyNames": {"pattern": "^x"}},
    ],
)
async def test_a_schema_that_it_makes_no_grammar_of_is_refused_instead_of_ignored(worker, schema):
    for _ in range(2):
        with pytest.raises(EngineError) as caught:
            await collect(worker, ask([504, 665], max_tokens=8, json_schema=schema))
        assert caught.value.is_refusal, "no other engine of its kind would, and it is no fault"
        assert "JSON schema" in caught.value.message


@pytest.mark.parametrize(
    ("schema", "begins"), [({"type": "object"}, "{"), ({"type": "integer"}, "-0123456789"), ({"const": "a"}, '"')]
)
async def test_a_schema_that_it_can_hold_to_is_held_to(worker, schema, begins):
    assert shown(await collect(worker, ask([504, 665], max_tokens=8, json_schema=schema))).lstrip()[0] in begins
