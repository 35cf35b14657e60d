"""A process that leaves while a new response is being stored lets go of it too, and another carries it on."""

import asyncio

import pytest

from streaming.models import Response
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.owner import Owner
from streaming.store import threads
from tests.stream.conftest import DEADLINE_S
from tests.stream.test_the_journal import locked_database

SCRIPT = {"outputs": [{"text": "x "}], "repeat": 500, "delay_s": 0.002}


@pytest.mark.parametrize("has_left", [False, True], ids=["who asked waits", "who asked has left"])
async def test_what_is_stored_too_late_is_let_go_and_carried_on(bench, engine, has_left):
    with locked_database():
        asking = asyncio.create_task(bench.ask(SCRIPT))
        async with asyncio.timeout(DEADLINE_S):
            while not bench.owner.places.without_slot("scripted"):
                await asyncio.sleep(0)
        if has_left:
            asking.cancel()
        leaving = asyncio.create_task(bench.owner.drain(0))
        await asyncio.wait([leaving], timeout=0.3)
        assert not leaving.done()
    async with asyncio.timeout(DEADLINE_S):
        await leaving
        if not has_left:
            response, tail = await asking
            assert tail.given_up
            assert b"stream_detached" in b"".join([frame async for frame in bench.reader(response, tail).frames()])
        await engine.until(lambda engine: not +engine.running)
        while bench.owner.running:
            await asyncio.sleep(0)
    response = await threads.run(Response.objects.get)
    assert (response.owner, response.end_state) == (None, None)
    successor = Owner()
    await successor.start()
    await adopt_or_end(successor, response)
    async with asyncio.timeout(DEADLINE_S):
        await successor.ended(response.id)
    row = await bench.row(response)
    assert (row.end_state, row.epoch) == ("completed", 2)
    await successor.drain(0)
