"""Engines that fail, hang or give up just when an answer ends or is stopped: the end that came first stays the end."""

import asyncio

import pytest
from django.db import OperationalError

from streaming.engine.base import EngineError
from streaming.engine.scripted import ScriptedEngine
from streaming.models import Engine
from streaming.protocol.end_state import STOPPED, decide
from streaming.store import threads
from tests.stream.conftest import until_stored

ENDLESS = {"outputs": [{"text": "x "}], "repeat": 0, "delay_s": 0.005}
BY_USER = decide(None, STOPPED, "user")


@pytest.fixture(autouse=True)
def _short(settings):
    settings.IDLE_TIMEOUT_S = 0.3
    settings.STOP_PROOF_S = 1.0


async def add_another(bench):
    fields = {"kind": "scripted", "model": "scripted", "context_tokens": 100_000, "slots": 4}
    await threads.write(lambda: Engine.objects.create(name="another", **fields))
    await bench.owner.pool.refresh(force=True)


@pytest.mark.parametrize("error", [EngineError("upstream_lost", "gone"), RuntimeError("bug")])
async def test_an_engine_that_cannot_tell_what_it_made_changes_no_end(bench, engine, monkeypatch, error):
    async def fails(*_):
        raise error

    monkeypatch.setattr(ScriptedEngine, "usage_at_abort", fails)
    response, tail = await bench.ask(ENDLESS)
    await until_stored(tail, lambda tail: tail.sent_tokens > 3)
    bench.owner.relay(response.id).stop(BY_USER)
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason, row.abort_proven) == ("cancelled", "user", True)
    response, _ = await bench.ask({"outputs": [{"text": "whole"}]})
    row = await bench.ended(response)
    assert (row.end_state, row.output_text) == ("completed", "whole")


async def test_an_engine_that_is_slow_to_tell_what_it_made_is_not_idle(bench, engine, monkeypatch):
    await add_another(bench)

    async def slow(*_):
        await asyncio.sleep(0.6)

    monkeypatch.setattr(ScriptedEngine, "usage_at_abort", slow)
    response, _ = await bench.ask({"outputs": [{"text": "whole"}]})
    row = await bench.ended(response)
    assert (row.end_state, row.output_text) == ("completed", "whole")
    assert [event.kind for event in await bench.log(response)] == ["started", "text", "ended"]


async def test_a_stop_while_a_hung_engine_is_left_claims_no_proof(bench, engine, monkeypatch):
    await add_another(bench)
    asked = asyncio.Event()

    async def never(*_):
        asked.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(ScriptedEngine, "abort_proven", never)
    stalls = {"outputs": [{"text": "x "}] * 5, "fault": {"kind": "stall", "after": 3}}
    response, _ = await bench.ask(stalls)
    await asked.wait()
    bench.owner.relay(response.id).stop(BY_USER)
    row = await bench.ended(response)
    assert (row.end_state, row.abort_proven) == ("cancelled", False)
    assert row.stop_ms > 0


async def test_a_database_that_cannot_be_read_when_an_answer_is_carried_on_is_what_ends_it(bench, engine, monkeypatch):
    await add_another(bench)
    lost = {"outputs": [{"text": "x "}] * 5, "fault": {"kind": "lost", "after": 3}}
    response, _ = await bench.ask(lost)

    def away(_):
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr("streaming.ownership.beginning.log.read", away)
        row = await bench.ended(response)
    assert (row.end_state, row.end_reason, row.output_text) == ("errored", "storage", "x x x ")
    assert [event.kind for event in await bench.log(response)][-2:] == ["continued", "ended"]


async def test_what_is_over_when_its_engine_gives_up_is_not_carried_on(bench, engine, monkeypatch):
    await add_another(bench)
    given = ScriptedEngine._output

    def output(self, step, usage):
        made = given(self, step, usage)
        return made._replace(finish_reason="abort") if len(made.token_ids) == len("END") else made

    monkeypatch.setattr(ScriptedEngine, "_output", output)
    script = {"outputs": [{"text": "a "}, {"text": "END", "count": 3}, {"text": "more"}]}
    response, _ = await bench.ask(script, stops=("END",))
    row = await bench.ended(response)
    assert (row.end_state, row.output_text) == ("completed", "a ")
    assert [event.kind for event in await bench.log(response)] == ["started", "text", "ended"]
