"""Taking over from an owner that still stores: on PostgreSQL each can wait for the other, and the owner is who loses.

An event has its place in the log before PostgreSQL asks for its response. Who takes over holds that, and waits for the
place.
"""

import asyncio

from streaming.store import orphans, threads
from tests.databases import of_django
from tests.stream.conftest import DEADLINE_S, text_of, until_stored


async def until_somebody_waits(lock: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(of_django().is_waited_for, lock):
            await asyncio.sleep(0)


async def test_who_waits_for_an_event_of_an_owner_that_waits_for_the_row_gets_both(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}, {"gate": "never"}]})
    await until_stored(tail, lambda t: text_of(t.events) == "a")
    with of_django().events_without_their_row():
        engine.open_gate("g")
        await until_somebody_waits("advisory")
        ending = asyncio.create_task(threads.write(orphans.end_orphan, await bench.row(response), orphans.LOST))
        await until_somebody_waits("transactionid")
    async with asyncio.timeout(DEADLINE_S):
        assert await ending
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason) == ("truncated", "relay_lost")
    assert row.output_text == text_of(await bench.log(response))


async def test_two_who_take_over_do_not_help_an_owner_that_stores_all_the_time(bench):
    for _ in range(15):
        response, _tail = await bench.ask({"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.001})
        row = await bench.row(response)
        ends = (threads.write(orphans.end_orphan, row, orphans.LOST) for _ in range(2))
        assert sorted(await asyncio.gather(*ends)) == [False, True]
        ended = await bench.ended(response)
        assert (ended.end_state, ended.end_reason) == ("truncated", "relay_lost")
