"""An abort that the engine does not prove at once: the end is stored without the proof, and the proof comes later."""

import asyncio
import signal

import pytest

from streaming.engine.scripted import ScriptedEngine
from streaming.models import Engine
from streaming.ownership import aborts, late_proofs
from streaming.ownership.company import Company
from streaming.ownership.start import check, start
from streaming.protocol.end_state import STOPPED, decide
from streaming.protocol.liveness import Judge
from streaming.store import threads
from tests.engine.answers import added, ask_of, asked
from tests.engine.conftest import until
from tests.fault_engine import FaultEngine
from tests.stream.conftest import until_stored

BY_API = decide(None, STOPPED, "api")


@pytest.fixture(autouse=True)
def _database(transactional_db, settings, monkeypatch):
    """Other threads write here."""
    settings.STOP_PROOF_S = 0.3
    monkeypatch.setattr(aborts, "FIRST_PAUSE_S", 0.1)


@pytest.fixture
async def fault():
    async with FaultEngine(rate=500, slots=4, context=1000).serving() as server:
        yield server


async def stopped_unproven(bench, **fields):
    """A response that was stopped, as its row says it then."""
    ask = ask_of(bench, max_tokens=900, **fields)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= 3)
    bench.owner.relay(response.id).stop(BY_API)
    return await bench.ended(response)


async def proven(bench, response):
    async def reached():
        row = await bench.row(response)
        return row if row.abort_proven else None

    return await until(reached)


@pytest.mark.parametrize("kind", ["llamacpp", "vllm"])
async def test_the_row_says_that_the_abort_is_not_proven_and_later_that_it_is(bench, tmp_path, fault, kind):
    fault.set_control({"hold_slots": True, "no_abort": True})
    await added(tmp_path, kind, fault.url)
    row = await stopped_unproven(bench)
    assert (row.end_state, row.end_reason, row.abort_proven) == ("cancelled", "api", False)
    assert [attempt["abort_proven"] for attempt in row.attempts] == [False]
    assert fault.running == 1
    assert len(bench.owner.aborts) == 1
    await asyncio.sleep(0.5)
    assert (await bench.row(row)).abort_proven is False, "it still works"
    fault.set_control({})
    later = await proven(bench, row)
    assert [(a["abort_proven"], a["abort_proven_ms"] > 300) for a in later.attempts] == [(True, True)]
    assert later.stop_ms == row.stop_ms, "what the person was told stays"
    events = await bench.log(row)
    assert events[-1].payload["stop"]["abort_proven"] is False, "as it was known at the end"
    await until(lambda: no_more(bench))
    if kind == "vllm":
        again = [body for body in fault.bodies if "request_ids" in body]
        assert len(again) > 1, "it was told again, not only asked"


async def no_more(bench):
    return len(bench.owner.aborts) == 0


async def test_an_engine_that_never_proves_it_is_given_up(bench, tmp_path, fault, monkeypatch, caplog):
    monkeypatch.setattr(aborts, "GIVE_UP_S", 1.0)
    fault.set_control({"hold_slots": True})
    await added(tmp_path, "llamacpp", fault.url)
    row = await stopped_unproven(bench)
    await until(lambda: no_more(bench))
    assert (await bench.row(row)).abort_proven is False
    assert "could not be proven" in caplog.text


@pytest.mark.parametrize("kind", ["llamacpp", "vllm"])
async def test_of_more_than_memory_may_hold_none_is_lost_for_their_rows_tell(bench, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(aborts, "AT_A_TIME", 2)
    monkeypatch.setattr(late_proofs, "PAGE", 3)
    async with FaultEngine(rate=500, slots=20, context=1000).serving() as fault:
        fault.set_control({"hold_slots": True, "no_abort": True})
        await added(tmp_path, kind, fault.url)
        rows = await asyncio.gather(*[stopped_unproven(bench) for _ in range(10)])
        assert all(row.unproven_since for row in rows)
        assert len(bench.owner.aborts) == 2
        await late_proofs.ask_again(bench.owner)
        assert len(bench.owner.aborts) == 10, "two by memory, and the rows of the others"
        await until(lambda: has_left(fault, 10))
        fault.set_control({})
        await until(lambda: no_task(bench))
        await late_proofs.ask_again(bench.owner)
        assert len(bench.owner.aborts) == 0
    for row in [await bench.row(row) for row in rows]:
        assert (row.abort_proven, row.unproven_since) == (True, None)
        assert [one["abort_proven"] for one in row.attempts] == [True]
        assert row.attempts[0]["abort_proven_ms"] > 0


async def has_left(fault, count):
    return fault.aborted_total == count


async def no_task(bench):
    return len(bench.owner.aborts) - bench.owner.aborts.in_rows == 0


async def test_what_a_process_left_unproven_that_is_gone_is_asked_by_the_next_and_what_a_living_one_asks_is_not(
    bench, tmp_path, fault, monkeypatch
):
    monkeypatch.setattr(aborts, "AT_A_TIME", 0)
    fault.set_control({"hold_slots": True})
    await added(tmp_path, "llamacpp", fault.url)
    row = await stopped_unproven(bench)
    row.owner = "web_other"
    await threads.write(row.save)
    fault.set_control({})
    judge = Judge(unchanged_s=10.0)
    bench.owner.company = Company(bench.owner.id, judge, bench.owner.relay)
    judge.read({"web_other": 1}, 0.0)
    await late_proofs.ask_again(bench.owner)
    assert (await bench.row(row)).abort_proven is False
    judge.read({}, 1.0)
    assert judge.is_dead("web_other") is False, "only just"
    judge.read({}, 2.0)
    await late_proofs.ask_again(bench.owner)
    assert (await bench.row(row)).abort_proven is True
    bench.owner.company = None


async def test_an_abort_of_too_long_ago_is_asked_for_no_more(bench, tmp_path, fault, monkeypatch):
    monkeypatch.setattr(aborts, "AT_A_TIME", 0)
    monkeypatch.setattr(late_proofs, "GIVE_UP_S", 0.2)
    fault.set_control({"hold_slots": True})
    await added(tmp_path, "llamacpp", fault.url)
    row = await stopped_unproven(bench)
    fault.set_control({})
    await asyncio.sleep(0.3)
    await late_proofs.ask_again(bench.owner)
    row = await bench.row(row)
    assert row.abort_proven is False
    assert row.unproven_since


async def test_where_nothing_can_be_proven_nobody_asks_again(bench, tmp_path, fault):
    await added(tmp_path, "openai", f"{fault.url}/v1")
    row = await stopped_unproven(bench)
    assert (row.abort_proven, row.unproven_since) == (False, None)
    assert len(bench.owner.aborts) == 0


async def test_an_engine_that_was_left_amid_an_answer_is_proven_in_its_own_attempt(bench, tmp_path, settings):
    settings.IDLE_TIMEOUT_S = 0.2
    await added(tmp_path, "scripted", "", "", options={"abort_proof": False})
    given, open_again = ScriptedEngine.abort_proven, asyncio.Event()

    async def not_yet(self, request):
        await open_again.wait()
        self.proves_aborts = True
        return await given(self, request)

    script = '{"script": {"outputs": [{"text": "x"}], "repeat": 20, "fault": {"kind": "stall", "after": 5}}}'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedEngine, "abort_proven", not_yet)
        row, _ = await asked(bench, script)
        assert (row.end_state, row.abort_proven) == ("completed", None)
        assert [a["abort_proven"] for a in row.attempts] == [False, None]
        open_again.set()

        async def told():
            return [a["abort_proven"] for a in (await bench.row(row)).attempts] == [True, None]

        await until(told)
    assert (await bench.row(row)).abort_proven is None, "the answer itself was not aborted"


@pytest.mark.engine
async def test_a_real_worker_that_is_stopped_and_continued_proves_it_then(bench, worker_process, demo_tokenizer):
    process, url = worker_process
    fields = {"kind": "llamacpp", "model": "m", "tokenizer": str(demo_tokenizer), "context_tokens": 2048}
    await threads.write(lambda: Engine.objects.create(name="e", url=url, **fields))
    no_end = {"logit_bias": {2: -100.0, 0: -100.0}}
    ask = ask_of(bench, "Write a long story.", sampling=no_end, max_tokens=900)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= 3)
    process.send_signal(signal.SIGSTOP)
    try:
        bench.owner.relay(response.id).stop(BY_API)
        row = await bench.ended(response)
        assert (row.end_state, row.abort_proven) == ("cancelled", False)
    finally:
        process.send_signal(signal.SIGCONT)
    row = await proven(bench, response)
    assert row.attempts[0]["abort_proven_ms"] > 300
