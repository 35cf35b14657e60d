"""Readiness: one model that answers is enough, each is asked, and nobody is asked in vain or too often."""

import asyncio
import threading

from django.db import OperationalError

from streaming.models import Engine, Response
from streaming.ownership import probe as probe_module
from streaming.ownership.probe import Probe
from streaming.pool import pool as pool_module
from streaming.store import threads
from tests.stream.conftest import until_stored
from tests.stream.test_the_journal import broken_writes

STALLS = {"outputs": [{"text": "x"}], "fault": {"kind": "stall", "after": 0, "times": 9}}


async def probes():
    return await threads.run(lambda: list(Response.objects.filter(purpose="probe").order_by("id")))


async def add(name, **fields):
    await threads.write(lambda: Engine.objects.create(name=name, kind="scripted", model=name, **fields))


async def test_every_model_is_asked_once_while_the_answer_is_fresh(bench):
    await add("other")
    await bench.owner.pool.refresh(force=True)
    probe = Probe(bench.owner)
    for _ in range(5):
        ready = await probe.readiness()
        assert (ready.trouble, ready.models) == ("", 2)
    async with asyncio.timeout(60):
        while (await probe.readiness()).answering < 2:
            await asyncio.sleep(0.01)
    for row in await probes():  # an output is proof enough, before its end is stored
        await bench.ended(row)
    assert sorted(row.model for row in await probes()) == ["other", "scripted"]
    assert {(row.purpose, row.request["max_tokens"], row.end_state) for row in await probes()} == {
        ("probe", 1, "completed")
    }


async def test_a_model_that_hangs_keeps_nobody_from_the_others(bench, monkeypatch):
    await add("dead", options={"script": STALLS})
    await bench.owner.pool.refresh(force=True)
    async with asyncio.timeout(60):
        ready = await Probe(bench.owner).readiness()
    assert (ready.trouble, ready.models, ready.answering) == ("", 2, 1)
    monkeypatch.setattr(probe_module, "PATIENCE_S", 0.1)
    monkeypatch.setattr(probe_module, "ASK_AGAIN_S", 60.0)
    probe = Probe(bench.owner)
    await threads.write(lambda: Engine.objects.filter(model="scripted").update(enabled=False))
    await bench.owner.pool.refresh(force=True)
    ready = await probe.readiness()
    assert (ready.models, ready.answering) == (1, 0)
    assert "no token from the engine within" in ready.trouble
    before = len(await probes())
    for _ in range(5):
        assert (await probe.readiness()).trouble == ready.trouble
    assert len(await probes()) == before, "it is not asked again at once"


async def test_what_users_got_lately_is_proof_enough(bench):
    response, _ = await bench.ask({"outputs": [{"text": "x"}]})
    await bench.ended(response)
    assert (await Probe(bench.owner).readiness()).trouble == ""
    assert await probes() == []


async def test_without_engines_or_while_it_stops_a_process_is_not_ready(bench):
    await threads.write(lambda: Engine.objects.update(enabled=False))
    await bench.owner.pool.refresh(force=True)
    assert (await Probe(bench.owner).readiness()).trouble == "no engine is set up"
    bench.owner.draining = True
    try:
        assert (await Probe(bench.owner).readiness()).trouble == "the server is stopping"
    finally:
        bench.owner.draining = False


async def test_a_database_that_hangs_or_fails_is_noticed_although_an_engine_worked_a_moment_ago(bench, monkeypatch):
    response, _ = await bench.ask({"outputs": [{"text": "x"}]})
    await bench.ended(response)
    probe = Probe(bench.owner)
    assert (await probe.readiness()).trouble == ""
    monkeypatch.setattr(probe_module, "DATABASE_PATIENCE_S", 0.1)
    monkeypatch.setattr(pool_module, "REFRESH_S", 0.0)
    answers, asked = threading.Event(), []
    monkeypatch.setattr(pool_module.engines, "enabled", lambda: asked.append(1) or answers.wait(60) or [])
    for _ in range(3):
        assert (await probe.readiness()).trouble == "the database does not answer"
    assert len(asked) == 1, "one question for all who ask"
    answers.set()
    await asyncio.wait([probe._reading])

    def fails():
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(pool_module.engines, "enabled", fails)
    assert (await probe.readiness()).trouble == "the database does not answer"
    monkeypatch.undo()
    assert (await probe.readiness()).trouble == ""


async def test_a_disk_that_is_full_is_noticed_although_an_engine_still_works(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]})
    await until_stored(tail, lambda tail: tail.sent_tokens == 1)
    probe = Probe(bench.owner)
    with broken_writes():
        engine.open_gate("g")
        async with asyncio.timeout(60):
            while not bench.owner.journal.is_failing:
                await asyncio.sleep(0.01)
        assert (await probe.readiness()).trouble == "nothing can be stored"
    assert (await bench.ended(response)).end_state == "completed"
    assert (await probe.readiness()).trouble == ""
