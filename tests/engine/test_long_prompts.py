"""A prompt of megabytes takes seconds to cut into tokens: whoever else is served by the process goes on meanwhile."""

import asyncio
import threading

import pytest

from streaming.engine.tokenizer import TokenizerBundle
from streaming.models import Engine
from streaming.ownership import prompting
from streaming.ownership.ask import Ask
from streaming.protocol.policy import parse_policy

LONG = "word " * 200_000
ROW = Engine(name="s", kind="scripted", model="scripted", context_tokens=100_000)


def ask_of(messages):
    return Ask(
        user_id=1, purpose="api", dialect="openai_chat", stream=True, model="scripted", messages=messages,
        policy=parse_policy("abort", 3600),
    )  # fmt: skip


def test_other_threads_run_while_a_long_text_is_encoded():
    bundle = TokenizerBundle.bytes_only()
    has_begun, is_over = threading.Event(), threading.Event()
    turns = 0

    def take_turns():
        nonlocal turns
        has_begun.set()
        while not is_over.wait(0.001):
            turns += 1

    thread = threading.Thread(target=take_turns)
    thread.start()
    has_begun.wait()
    before = turns
    ids = bundle.vocabulary.encode(LONG)
    while_encoding = turns - before
    is_over.set()
    thread.join()
    assert len(ids) == len(LONG)
    assert while_encoding > 20


@pytest.mark.parametrize("where", ["content", "arguments"])
async def test_a_long_prompt_has_a_thread_of_its_own_wherever_it_is_long(monkeypatch, where):
    threads = []
    real = prompting.render_prompt

    def noted(*args, **options):
        threads.append(threading.current_thread())
        return real(*args, **options)

    monkeypatch.setattr(prompting, "render_prompt", noted)
    texts = {"content": "hi", "arguments": "{}", where: "x" * 50_000}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": texts["arguments"]}}
    messages = [
        {"role": "user", "content": texts["content"]},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    assert len(await prompting.tokenized(ask_of(messages), ROW)) > 50_000
    assert threads
    assert threading.main_thread() not in threads


async def test_of_long_prompts_one_at_a_time_is_in_memory(monkeypatch):
    at_work, most = 0, 0
    real = prompting.render_prompt

    def noted(*args, **options):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            return real(*args, **options)
        finally:
            at_work -= 1

    monkeypatch.setattr(prompting, "render_prompt", noted)
    ask = ask_of([{"role": "user", "content": "x" * 50_000}])
    prompts = await asyncio.gather(*[prompting.tokenized(ask, ROW) for _ in range(8)])
    assert {len(prompt) for prompt in prompts} == {len(prompts[0])}
    assert most == 1
