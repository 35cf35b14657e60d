"""Titles and lines of batches begin where an engine has nothing else to do, and engines take others first."""

import asyncio

import pytest

from streaming.models import Response
from streaming.ownership.ask import Refused
from streaming.ownership.beginning import job_of
from streaming.protocol.policy import BACKGROUND, Policy

ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.01}


async def ask(bench, purpose):
    return (await bench.ask(ENDLESS, purpose=purpose))[0]


async def test_a_batch_leaves_the_last_slot_to_people_and_a_title_may_have_it(bench):
    for _ in range(3):
        await ask(bench, "batch")
    with pytest.raises(Refused) as refused:
        await ask(bench, "batch")
    assert (refused.value.status, refused.value.retry_after_s) == (503, 5)
    assert str(refused.value.message) == "a batch waits for an idle engine"
    await ask(bench, "title")
    with pytest.raises(Refused):
        await ask(bench, "title")
    waiting = await ask(bench, "api")
    assert waiting.end_state is None


async def test_lines_that_come_at_the_same_moment_do_not_take_one_slot_twice(bench):
    came = await asyncio.gather(*(ask(bench, "batch") for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(one, Response) for one in came) == 3
    assert {one.status for one in came if isinstance(one, Exception)} == {503}


@pytest.mark.parametrize(("purpose", "priority"), [("batch", 1), ("title", 1), ("api", 0), ("chat", 0)])
def test_engines_that_know_priorities_take_people_first(purpose, priority):
    response = Response(purpose=purpose, model="m", request={"max_tokens": 9, "stop": [], "sampling": {}})
    assert job_of(response, Policy(BACKGROUND, None), [1]).priority == priority
