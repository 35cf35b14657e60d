"""Two owners of one database: stops from elsewhere, deaths judged by beats, an owner that was only paused."""

import asyncio

import pytest
from django.db import DataError

from streaming.engine.registry import engine_for
from streaming.models import Response
from streaming.ownership.company import Company
from streaming.ownership.owner import Owner
from streaming.ownership.stop import stop
from streaming.ownership.sweep import Sweep
from streaming.ownership.watch import look
from streaming.protocol.liveness import Judge
from streaming.store import orphans, threads, watch
from tests.stream.conftest import DEADLINE_S, Bench, text_of
from tests.stream.test_taking_over import die

ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.002}


@pytest.fixture
async def other(bench, user, row):
    """A second process that serves the same database, with a judge whose clock the tests move."""
    row.options = {"script": ENDLESS}
    await threads.write(row.save)
    await bench.owner.pool.refresh(force=True)
    owner = Owner()
    await owner.start()
    company = Company(owner.id, Judge(), owner.relay)
    owner.meet(company)
    sweep = Sweep(owner, company.judge)
    yield Bench(owner, user), sweep
    await owner.drain(0)


async def beats_read(sweep: Sweep, times: int, at_s: float) -> None:
    for index in range(times):
        sweep._judge.read(await threads.run(watch.beats), at_s + 2.5 * index)


async def started(bench, policy="background"):
    response, tail = await bench.ask("go", policy=policy)
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
    reader.close()
    return response


async def test_a_stop_from_another_process_reaches_the_owner_through_the_row(bench, other, row):
    elsewhere, _ = other
    response = await started(bench)
    stopping = asyncio.create_task(stop(elsewhere.owner, await elsewhere.row(response), "user"))
    async with asyncio.timeout(DEADLINE_S):
        while not (await bench.row(response)).stop_reason:
            await asyncio.sleep(0)
        await look(bench.owner)
        await stopping
    ended = await bench.row(response)
    assert (ended.end_state, ended.end_reason, ended.abort_proven) == ("cancelled", "user", True)
    assert engine_for(row).running.total() == 0


async def test_a_living_owner_keeps_its_responses_however_often_others_sweep(bench, other):
    _, sweep = other
    response = await started(bench)
    for round_ in range(8):
        await threads.write(orphans.beat, bench.owner.id)
        await beats_read(sweep, 1, 100.0 + 2.5 * round_)
        await sweep.sweep()
    assert bench.owner.relay(response.id) is not None
    assert (await bench.row(response)).epoch == 1
    await stop(bench.owner, await bench.row(response), "api")


async def test_a_dead_owners_responses_are_taken_over_by_who_sees_its_counter_stand_still(bench, other):
    elsewhere, sweep = other
    response, tail = await bench.ask("go", policy="abort")
    reader = bench.reader(response, tail)
    await die(bench, response)
    reader.close()
    bench.owner._beside._tasks[0].cancel()
    await beats_read(sweep, 4, 100.0)
    await sweep.sweep()
    assert (await bench.row(response)).end_state is None
    await beats_read(sweep, 2, 110.0)
    await sweep.sweep()
    row = await bench.row(response)
    assert (row.end_state, row.end_reason) == ("truncated", "relay_lost")


async def test_an_owner_that_was_only_paused_finds_out_and_stops_its_engine(bench, other, row):
    """What SIGSTOP and SIGCONT do: the judge sees no beats, takes over, and then the old owner goes on."""
    elsewhere, sweep = other
    response = await started(bench)
    relay = bench.owner.relay(response.id)
    bench.owner._beside._tasks[0].cancel()
    await beats_read(sweep, 6, 100.0)
    await sweep.sweep()
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
    assert relay.tail.fenced
    taken = elsewhere.owner.relay(response.id)
    assert taken is not None
    await stop(elsewhere.owner, await elsewhere.row(response), "user")
    ended, events = await bench.row(response), await bench.log(response)
    assert (ended.epoch, ended.end_state) == (2, "cancelled")
    assert [event.kind for event in events].count("continued") == 1
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(event.epoch == 2 for event in events[[e.kind for e in events].index("continued") :])
    assert text_of(events) == ended.output_text
    assert engine_for(row).running.total() == 0


async def test_an_owner_whose_response_was_taken_while_its_engine_is_silent_finds_out_too(bench, other, row):
    elsewhere, sweep = other
    response, _ = await bench.ask({"outputs": [{"text": "a"}, {"gate": "never"}]}, policy="background")
    engine = engine_for(row)
    await engine.until(lambda e: e.outputs_given)
    bench.owner._beside._tasks[0].cancel()
    await beats_read(sweep, 6, 100.0)
    await sweep.sweep()
    await look(bench.owner)
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
    assert engine.running[f"{response.id}-1"] == 0
    await stop(elsewhere.owner, await elsewhere.row(response), "user")


async def test_a_released_response_is_taken_at_the_next_sweep(bench, other):
    elsewhere, sweep = other
    response = await started(bench)
    await bench.owner.drain(0)
    await sweep.sweep()
    assert elsewhere.owner.relay(response.id) is not None
    await stop(elsewhere.owner, await elsewhere.row(response), "user")


async def test_one_that_can_neither_be_carried_on_nor_ended_keeps_no_other_from_being_taken_over(
    bench, other, monkeypatch
):
    _, sweep = other
    fields = {"purpose": "api", "dialect": "openai_chat", "model": "scripted", "policy": "abort"}
    bad, good = [await threads.write(Response.objects.create, owner=None, **fields) for _ in range(2)]
    end = orphans.end_orphan

    def end_unless_bad(response, how):
        if response.id == bad.id:
            raise DataError("value out of range")
        return end(response, how)

    monkeypatch.setattr(orphans, "end_orphan", end_unless_bad)
    await sweep.sweep()
    assert [(await bench.row(response)).end_reason for response in (bad, good)] == ["", "relay_lost"]
