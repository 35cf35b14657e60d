"""Several who find one orphan at the same moment, in one process: one relay runs, and no place is lost."""

import asyncio

from streaming.models import Response
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.owner import Owner
from streaming.store import threads
from tests.stream.conftest import DEADLINE_S


async def test_who_comes_while_an_answer_is_being_adopted_waits_for_its_relay(bench, engine, monkeypatch):
    response, _ = await bench.ask({"outputs": [{"text": "x "}, {"gate": "never"}]})
    await bench.owner.drain(0)
    successor = Owner()
    await successor.start()
    asked, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow(*_):
        asked.set()
        await may_go_on.wait()

    monkeypatch.setattr("streaming.ownership.adoption.silence", slow)
    first = asyncio.create_task(adopt_or_end(successor, await bench.row(response)))
    async with asyncio.timeout(DEADLINE_S):
        await asked.wait()
        row = await bench.row(response)
        assert row.owner == successor.id
        assert not successor.is_orphan(row)
        second = asyncio.create_task(adopt_or_end(successor, row, reader_waits=True))
        await asyncio.wait([second], timeout=0.1)
        may_go_on.set()
        await asyncio.gather(first, second)
        assert successor.tail(response.id)
        await successor.ended(response.id)
    assert (await threads.run(Response.objects.get)).epoch == 2
    assert not successor.running
    successor.admission.check(bench.user.pk)
    assert successor.admission._running == 0
    await successor.drain(0)
