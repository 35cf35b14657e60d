"""Readers at one process of what another runs: they keep it alive, they count, and the dead do not."""

import asyncio

import pytest

from streaming.engine.registry import engine_for
from streaming.models import ReaderPresence
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.company import Company
from streaming.ownership.stop import stop
from streaming.ownership.watch import look
from streaming.protocol.liveness import Judge
from streaming.store import orphans, threads, watch
from tests.stream.conftest import DEADLINE_S
from tests.stream.test_taking_over import die
from tests.stream.test_two_processes import beats_read, other  # noqa: F401  a fixture


@pytest.fixture
async def pair(bench, other):  # noqa: F811
    """Two processes that know of each other: the first runs the answers, the second has readers."""
    elsewhere, sweep = other
    bench.owner.meet(Company(bench.owner.id, Judge(), bench.owner.relay))
    return bench, elsewhere, sweep


def follower(elsewhere, response):
    return elsewhere.reader(response, presence=elsewhere.owner.company.presence, owner=response.owner)


async def noted(response, readers: int) -> None:
    """Wait until the second process's word stands in the rows."""
    async with asyncio.timeout(DEADLINE_S):
        while await threads.run(lambda: list(_readers(response))) != [readers]:
            await asyncio.sleep(0)


def _readers(response):
    return ReaderPresence.objects.filter(response_id=response.id).values_list("readers", flat=True)


async def test_a_reader_elsewhere_keeps_an_answer_that_lost_its_own(pair):
    bench, elsewhere, _ = pair
    response, tail = await bench.ask("go", policy="abort")
    own = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await own.first()
    follow = follower(elsewhere, response)
    await noted(response, 1)
    own.close()
    relay = bench.owner.relay(response.id)
    async with asyncio.timeout(DEADLINE_S):
        while relay.tail.readers == 0:
            await asyncio.sleep(0)
    seen = relay.tail.last_seq
    async with asyncio.timeout(DEADLINE_S):
        while relay.tail.last_seq < seen + 5:
            await asyncio.sleep(0)
    follow.close()
    await noted(response, 0)
    await look(bench.owner)
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason) == ("abandoned", "disconnected")
    assert engine_for(await threads.run(lambda: row.engine)).running.total() == 0


async def test_a_reader_elsewhere_of_an_answer_that_is_released_still_counts_for_who_takes_it_over(pair):
    bench, elsewhere, _ = pair
    response, _ = await bench.ask("go", policy="grace=30")
    follow = follower(elsewhere, response)
    await noted(response, 1)
    await bench.owner.drain(0)
    assert await threads.run(lambda: list(_readers(response))) == [1]
    follow.close()


async def test_a_reader_who_comes_elsewhere_between_two_looks_is_seen_before_the_answer_is_abandoned(pair):
    bench, elsewhere, _ = pair
    response, tail = await bench.ask("go", policy="grace=3000")
    own = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await own.first()
    own.close()
    follow = follower(elsewhere, response)
    await noted(response, 1)
    assert tail.readers == 0, "nobody has looked"
    bench.owner.relay(response.id).leaving(0.01)  # the grace is over now, and was not before
    async with asyncio.timeout(DEADLINE_S):
        while tail.readers == 0:
            await asyncio.sleep(0)
    assert bench.owner.relay(response.id)
    await stop(bench.owner, await bench.row(response), "api")
    follow.close()


async def test_what_readers_elsewhere_took_is_delivered_also_when_they_left_before_the_end(pair):
    bench, elsewhere, _ = pair
    response, _ = await bench.ask("go", policy="background")
    follow = follower(elsewhere, response)
    async with asyncio.timeout(DEADLINE_S):
        async for _ in follow.frames():
            if follow.cursor >= 10:
                break
    taken = follow._tokens
    follow.close()
    await noted(response, 0)
    await stop(bench.owner, await bench.row(response), "api")
    await bench.owner.company.count_delivered()
    row = await bench.row(response)
    assert taken <= row.delivered_tokens <= row.sent_tokens
    assert taken > 0
    assert not await threads.run(lambda: list(_readers(response)))


async def test_what_a_reader_elsewhere_takes_of_the_end_is_delivered(pair):
    bench, elsewhere, _ = pair
    script = {"outputs": [{"text": "tick "}], "repeat": 20, "delay_s": 0.002}
    response, _ = await bench.ask(script, policy="background")
    follow = follower(elsewhere, response)
    async with asyncio.timeout(DEADLINE_S):
        async for _ in follow.frames():
            pass
        follow.close()
        while (row := await bench.row(response)).delivered_tokens != row.sent_tokens:
            await asyncio.sleep(0)
    assert row.end_state == "completed"


async def goes(elsewhere, judge):
    await threads.write(orphans.release, elsewhere.owner.id)


async def dies(elsewhere, judge):
    elsewhere.owner._beside._tasks[0].cancel()
    for round_ in range(6):
        judge.read(await threads.run(watch.beats), 100.0 + 2.5 * round_)


@pytest.mark.parametrize("leaves", [goes, dies])
async def test_readers_of_a_process_that_is_dead_or_has_gone_do_not_count(pair, leaves):
    bench, elsewhere, _ = pair
    response, tail = await bench.ask("go", policy="grace=0.1")
    own = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await own.first()
    follow = follower(elsewhere, response)
    await noted(response, 1)
    await look(bench.owner)
    own.close()
    assert tail.readers == 1
    await leaves(elsewhere, bench.owner.company.judge)
    await look(bench.owner)
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason) == ("abandoned", "disconnected")
    follow.close()


async def test_an_abort_answer_of_a_dead_process_goes_on_for_who_reads_it(pair):
    bench, elsewhere, sweep = pair
    response, tail = await bench.ask("go", policy="abort")
    own = bench.reader(response, tail)
    follow = follower(elsewhere, response)
    await noted(response, 1)
    await die(bench, response)
    own.close()
    bench.owner._beside.close()
    for round_ in range(6):
        await threads.write(orphans.beat, elsewhere.owner.id)
        await beats_read(sweep, 1, 100.0 + 2.5 * round_)
    await sweep.sweep()
    relay = elsewhere.owner.relay(response.id)
    assert relay is not None
    assert relay.tail.readers == 1
    seen = follow.cursor
    async with asyncio.timeout(DEADLINE_S):
        async for _ in follow.frames():
            if follow.cursor > seen + 10 and follow._epoch == 2:
                break
    follow.close()
    await noted(response, 0)
    await look(elsewhere.owner)
    row = await elsewhere.ended(response)
    assert (row.end_state, row.epoch) == ("abandoned", 2)


async def test_who_comes_back_to_an_abort_answer_of_a_dead_process_gets_it_carried_on(pair):
    bench, elsewhere, sweep = pair
    response, tail = await bench.ask("go", policy="abort")
    own = bench.reader(response, tail)
    await die(bench, response)
    own.close()
    bench.owner._beside.close()
    await beats_read(sweep, 6, 100.0)
    await adopt_or_end(elsewhere.owner, await elsewhere.row(response), reader_waits=True)
    back = elsewhere.reader(response, elsewhere.owner.tail(response.id))
    async with asyncio.timeout(DEADLINE_S):
        async for _ in back.frames():
            if back._epoch == 2:
                break
    back.close()
    row = await elsewhere.ended(response)
    assert (row.end_state, row.epoch) == ("abandoned", 2)
