"""The real worker's own chat endpoints, in both wires: its usage is its counter, and a closed socket frees its slot."""

from contextlib import aclosing

import pytest

from streaming.engine.anthropic import AnthropicEngine
from streaming.engine.llamacpp import LlamaCppEngine
from streaming.engine.openai import OpenAIEngine
from streaming.engine.prompt import render_prompt
from streaming.engine.tokenizer import TokenizerBundle
from tests.engine.conftest import ask, broken, collect, shown, until
from tests.engine.test_llamacpp_worker import predicted_total

pytestmark = pytest.mark.engine


@pytest.fixture(params=["openai", "anthropic"])
async def chat(request, worker_url):
    makers = {
        "openai": lambda: OpenAIEngine(f"{worker_url}/v1", "m", {}, {}),
        "anthropic": lambda: AnthropicEngine(worker_url, "m", {}, {}),
    }
    engine = makers[request.param]()
    yield engine
    await engine.aclose()


async def test_it_is_healthy(chat):
    assert await chat.healthy() is True


async def test_its_usage_is_its_counter_and_its_prompt_is_what_we_would_have_made(chat, worker, demo_tokenizer):
    # Not one whose answer begins with half a character: there the worker forgets its message_start.
    request = ask(text="Name three colours.", max_tokens=40, temperature=0)
    before = await predicted_total(worker)
    outputs = await collect(chat, request)
    usage = outputs[-1].usage
    assert usage.completion_tokens == await predicted_total(worker) - before
    assert usage.completion_tokens == sum(output.token_count for output in outputs)
    assert usage.prompt_tokens == len(render_prompt(TokenizerBundle.load(demo_tokenizer), request.messages))
    assert outputs[-1].finish_reason in ("stop", "length")
    assert shown(outputs).strip()


async def test_the_answer_is_the_one_that_ids_give(chat, worker, demo_tokenizer):
    request = ask(text="Count from one to five.", max_tokens=16, temperature=0)
    ids = render_prompt(TokenizerBundle.load(demo_tokenizer), request.messages)
    by_ids = await collect(worker, ask(ids, max_tokens=16, temperature=0))
    assert shown(await collect(chat, request)) == shown(by_ids)


async def test_a_limit_is_kept_and_said(chat):
    outputs = await collect(chat, ask(text="Write a long story.", max_tokens=5))
    assert (outputs[-1].finish_reason, outputs[-1].usage.completion_tokens) == ("length", 5)


async def test_a_stop_string_ends_it(chat):
    outputs = await collect(chat, ask(text="Count from one to ten.", max_tokens=60, temperature=0, stop=("e",)))
    assert outputs[-1].finish_reason == "stop"
    assert "e" not in shown(outputs)


async def test_leaving_frees_its_slot(chat, worker: LlamaCppEngine):
    before = await predicted_total(worker)
    no_end = {"logit_bias": {2: -100.0, 0: -100.0}} if isinstance(chat, OpenAIEngine) else {}
    async with aclosing(chat.generate(ask(text="Write a very long story.", max_tokens=1500, **no_end))) as outputs:
        for _ in range(3):
            await anext(outputs)
        assert (await worker.load()).running == 1
    await until(lambda: is_idle(worker))
    assert await predicted_total(worker) - before < 1500 / 2, "it was left, not finished"


async def is_idle(worker):
    return (await worker.load()).running == 0


async def test_a_prompt_over_the_context_is_refused_in_our_words(chat):
    _, error = await broken(chat, ask(text="word " * 3000))
    assert (error.status, error.message) == (400, "the prompt is longer than the engine's context")
