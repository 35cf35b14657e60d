"""An engine that is drained takes nothing new; what runs there ends, or goes on at another, and it may come back."""

import asyncio
import json
import signal
from functools import partial

import pytest
from django.utils import timezone

from streaming.engine.registry import engine_for
from streaming.models import Engine
from streaming.ownership import draining
from streaming.ownership.ask import Refused
from streaming.ownership.draining import look_after_drained, move_away
from streaming.ownership.start import check, start
from streaming.store import threads
from tests.engine.answers import added, ask_of, asked
from tests.engine.conftest import until
from tests.engine.test_carrying_on_elsewhere import reasons
from tests.stream.conftest import until_stored

#: Twenty words, in the middle of which it waits.
WORDS = [{"text": f"w{nth} ", "count": 3} for nth in range(20)]
GATED = {"outputs": [*WORDS[:8], {"gate": "on"}, *WORDS[8:]]}


@pytest.fixture(autouse=True)
def _database(transactional_db, settings):
    """Other threads write here."""


async def drain(bench, name, at=True):
    def write():
        Engine.objects.filter(name=name).update(drain_started_at=timezone.now() if at else None)

    await threads.write(write)
    await bench.owner.pool.refresh(force=True)


async def engine_named(name):
    row = await threads.run(Engine.objects.get, name=name)
    return row, engine_for(row)


async def begun(bench, script, **fields):
    """An answer that has begun, and the name of its engine."""
    ask = ask_of(bench, json.dumps({"script": script}), **{"max_tokens": 900} | fields)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= 8)
    return response, bench.owner.relay(response.id).asking.account.current.lease.row.name


async def test_it_takes_nothing_new_and_again_when_it_is_back(bench, tmp_path):
    await added(tmp_path, "scripted", "", "")
    await drain(bench, "e0")
    await asyncio.gather(*[asked(bench) for _ in range(6)])
    _, gone = await engine_named("e0")
    assert gone.requests == []
    await drain(bench, "e0", at=False)
    await asyncio.gather(*[asked(bench) for _ in range(6)])
    assert gone.requests


async def test_where_all_are_drained_callers_are_told_to_come_again(bench, tmp_path):
    await added(tmp_path, "scripted", "")
    await drain(bench, "e0")
    with pytest.raises(Refused) as refused:
        await asked(bench)
    assert (refused.value.status, refused.value.code) == (503, "overloaded")
    assert refused.value.retry_after_s > 0


async def test_what_runs_there_may_end_there_and_goes_on_elsewhere_when_that_takes_too_long(bench, tmp_path):
    await added(tmp_path, "scripted", "", "")
    undisturbed, _ = await asked(bench, json.dumps({"script": {"outputs": WORDS}}), max_tokens=900)
    answers = [await begun(bench, GATED) for _ in range(6)]
    names = [name for _, name in answers]
    assert set(names) == {"e0", "e1"}
    await drain(bench, "e0")
    assert move_away(bench.owner, after_s=60) == 0, "not yet"
    assert move_away(bench.owner, after_s=0) == names.count("e0")
    for name in ("e0", "e1"):
        (await engine_named(name))[1].open_gate("on")
    for response, name in answers:
        row, events = await bench.ended(response), await bench.log(response)
        assert (row.end_state, row.output_text) == ("completed", undisturbed.output_text)
        assert reasons(events) == (["drained"] if name == "e0" else [])
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [(a["engine"], a["ended"]) for a in row.attempts] == (
            [("e0", "drained"), ("e1", "stop")] if name == "e0" else [("e1", "stop")]
        )
        assert sum(a["generated_tokens"] for a in row.attempts) == row.generated_tokens
    assert (await engine_named("e0"))[1].running.total() == 0
    assert bench.owner.pool.others("m", ()) == [(await engine_named("e1"))[0]], "leaving it was no fault of another"


async def test_what_no_other_can_carry_on_ends_where_it_is(bench, tmp_path):
    await added(tmp_path, "scripted", "", "")
    held = [await begun(bench, GATED, json_schema={"type": "object"}) for _ in range(2)]
    here = next(response for response, name in held if name == "e0")
    await drain(bench, "e0")
    assert move_away(bench.owner, after_s=0) == 0
    (await engine_named("e0"))[1].open_gate("on")
    row = await bench.ended(here)
    assert (row.end_state, len(row.attempts)) == ("completed", 1)


async def test_no_more_move_than_the_others_have_room_for(bench, tmp_path):
    await added(tmp_path, "scripted", "", "")
    await threads.write(lambda: Engine.objects.update(slots=3))
    await bench.owner.pool.refresh(force=True)
    answers = [await begun(bench, GATED) for _ in range(4)]
    assert [name for _, name in answers].count("e0") == 2
    await drain(bench, "e0")
    assert move_away(bench.owner, after_s=0) == 1, "a slot is free; who found none would wait in the queue"
    for name in ("e0", "e1"):
        (await engine_named(name))[1].open_gate("on")
    rows = [await bench.ended(response) for response, _ in answers]
    assert {row.end_state for row in rows} == {"completed"}


async def test_a_question_that_waits_for_its_first_token_is_asked_elsewhere(bench, tmp_path):
    await added(tmp_path, "scripted", "", "")
    waits = {"outputs": [{"gate": "first"}, *WORDS]}
    ask = ask_of(bench, json.dumps({"script": waits}), max_tokens=900)
    responses = [
        (await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time()))[0]
        for _ in range(2)
    ]
    (_, one), (_, two) = await engine_named("e0"), await engine_named("e1")
    await one.until(lambda engine: engine.running)
    await two.until(lambda engine: engine.running)
    await drain(bench, "e0")
    assert move_away(bench.owner, after_s=0) == 1
    await two.until(lambda engine: engine.running.total() == 2)
    two.open_gate("first")
    for response in responses:
        row, events = await bench.ended(response), await bench.log(response)
        assert (row.end_state, reasons(events)) == ("completed", [])
        assert row.attempts[-1]["engine"] == "e1"


async def test_every_process_sees_the_row_by_itself_while_something_runs(bench, tmp_path, settings, monkeypatch):
    settings.ENGINE_DRAIN_S = 0
    monkeypatch.setattr(draining, "REFRESH_S", 0.05)
    monkeypatch.setattr("streaming.pool.pool.REFRESH_S", 0.05)
    bench.owner.run_beside(partial(look_after_drained, bench.owner))
    await added(tmp_path, "scripted", "", "")
    answers = [await begun(bench, GATED) for _ in range(2)]
    await threads.write(lambda: Engine.objects.filter(name="e0").update(drain_started_at=timezone.now()))
    (await engine_named("e1"))[1].open_gate("on")
    for response, _ in answers:
        row = await bench.ended(response)
        assert (row.end_state, row.attempts[-1]["engine"]) == ("completed", "e1")


@pytest.mark.engine
async def test_of_two_real_workers_one_is_drained_amid_answers_and_is_idle_then(bench, workers, demo_tokenizer):
    fields = {"kind": "llamacpp", "model": "m", "tokenizer": str(demo_tokenizer), "context_tokens": 2048}
    await threads.write(lambda: [Engine.objects.create(name=url, url=url, **fields) for _, url in workers])
    no_end = {"logit_bias": {2: -100.0, 0: -100.0}}
    started = []
    for nth in range(4):
        ask = ask_of(bench, f"Write a long story, number {nth}.", sampling=no_end, max_tokens=60)
        started.append(await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time()))
    for _, tail in started:
        await until_stored(tail, lambda tail: tail.sent_tokens >= 5)
    process, gone = workers[0]
    # What runs there cannot end before it is moved.
    process.send_signal(signal.SIGSTOP)
    await drain(bench, gone)
    before = {response.id: await bench.log(response) for response, _ in started}
    assert move_away(bench.owner, after_s=0) == 2
    process.send_signal(signal.SIGCONT)
    _, wire = await engine_named(gone)

    async def idle():
        return (await wire.load()).running == 0

    await until(idle)
    moved = 0
    for response, _ in started:
        row, events = await bench.ended(response), await bench.log(response)
        assert (row.end_state, row.finish_reason, row.completion_tokens) == ("completed", "length", 60)
        assert events[: len(before[response.id])] == before[response.id], "what was shown stays"
        assert sum(a["generated_tokens"] for a in row.attempts) == row.generated_tokens
        moved += reasons(events) == ["drained"]
    assert moved == 2
