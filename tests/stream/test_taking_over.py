"""What becomes of responses whose process is gone: carried on by policy, ended otherwise, fenced always."""

import asyncio

import pytest

from streaming.engine.registry import engine_for
from streaming.models import Response
from streaming.ownership.adoption import adopt_all
from streaming.ownership.stop import stop
from streaming.ownership.sweep import take_up_strays
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import STOPPED, TRUNCATED, End, decide
from streaming.store import creation, orphans, responses, threads
from streaming.store.creation import NewResponse
from tests.stream.conftest import DEADLINE_S, frames_text, text_of, until_stored

WORDS = [{"text": f"word{i} "} for i in range(60)]
WHOLE = "".join(word["text"] for word in WORDS)
#: Where an answer waits: before its owner is gone it cannot end, however long that takes.
AMID = "amid the words"


@pytest.fixture
async def scripted(row, bench):
    """The engine plays one script for everybody: an adopted API response has no question to read one from."""
    row.options = {"script": {"outputs": [*WORDS[:30], {"gate": AMID}, *WORDS[30:]], "delay_s": 0.004}}
    await threads.run(row.save)
    await bench.owner.pool.refresh(force=True)
    return engine_for(row)


async def die(bench, response):
    """Stop a relay as kill -9 does to what others see: nothing more is written, nothing is released."""
    relay = bench.owner.relay(response.id)
    tail = relay.tail
    await until_stored(tail, lambda t: t.sent_tokens > 0)
    relay.give_up()
    tail.released = True
    async with asyncio.timeout(DEADLINE_S):
        await bench.owner.ended(response.id)
    assert await bench.owner.journal.settled()


@pytest.mark.parametrize("policy", ["grace=30", "background"])
async def test_a_successor_carries_on_what_its_policy_lets_run_exactly_where_it_was(bench, scripted, successor, policy):
    response, _ = await bench.ask("go", policy=policy)
    await die(bench, response)
    before = await bench.log(response)
    scripted.open_gate(AMID)
    assert await adopt_all(successor.owner) == 1
    reader = successor.reader(response, successor.owner.tail(response.id))
    async with asyncio.timeout(DEADLINE_S):
        shown = b"".join([frame async for frame in reader.frames()])
    reader.close()
    row, events = await successor.ended(response), await successor.log(response)
    assert events[: len(before)] == before
    assert events[len(before)].kind == "continued"
    assert events[len(before)].epoch == 2
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (row.end_state, row.epoch) == ("completed", 2)
    first, second = row.attempts
    assert (first["ended"], first["count"]) == ("relay_lost", "at_least")
    assert first["generated_tokens"] == sum(event.token_count for event in before)
    assert (second["ended"], second["count"], second["request_id"]) == ("stop", "exact", f"{row.id}-2")
    assert first["generated_tokens"] + second["generated_tokens"] == row.generated_tokens
    assert text_of(events) == row.output_text == frames_text(shown) == WHOLE
    assert row.generated_tokens == row.sent_tokens == sum(event.token_count for event in events)


async def test_an_abort_response_ends_truncated_with_what_was_counted(bench, scripted, successor):
    response, tail = await bench.ask("go", policy="abort")
    reader = bench.reader(response, tail)
    await die(bench, response)
    reader.close()
    await adopt_all(successor.owner)
    row, events = await bench.row(response), await bench.log(response)
    assert (row.end_state, row.end_reason) == ("truncated", "relay_lost")
    assert row.output_text == text_of(events)
    assert WHOLE.startswith(row.output_text)
    assert row.generated_tokens == row.sent_tokens > 0
    assert row.usage_estimated
    assert events[-1].kind == "ended"


async def test_a_response_that_had_not_started_is_carried_on_from_nothing(bench, engine, successor):
    response, _ = await bench.ask({"outputs": [{"gate": "never"}]}, policy="background")
    await engine.until(lambda e: e.requests)
    bench.owner.tail(response.id).released = True
    bench.owner.relay(response.id).give_up()
    await bench.owner.ended(response.id)
    assert await adopt_all(successor.owner) == 1
    row, events = await successor.ended(response), await successor.log(response)
    assert row.end_state == "completed"
    assert text_of(events) == row.output_text != ""
    assert [event.kind for event in events[:2]] == ["continued", "started"]


async def test_two_successors_cannot_both_take_a_response(bench, scripted, successor):
    response, _ = await bench.ask("go", policy="background")
    await die(bench, response)
    row = await bench.row(response)
    first, second = await asyncio.gather(
        threads.run(orphans.adopt, row, "web_a"), threads.run(orphans.adopt, await bench.row(response), "web_b")
    )
    assert (first is None) != (second is None)


async def test_a_process_that_was_taken_over_can_neither_append_nor_end(bench, scripted, engine):
    response, tail = await bench.ask("go", policy="background")
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
    end = End(TRUNCATED, "relay_lost")
    assert await threads.run(orphans.end_orphan, await bench.row(response), end)
    scripted.open_gate(AMID)
    async with asyncio.timeout(DEADLINE_S):
        frames = [frame async for frame in reader.frames()]
    reader.close()
    assert b"stream_detached" in frames[-1]
    row, events = await bench.ended(response), await bench.log(response)
    assert (row.end_state, row.end_reason) == ("truncated", "relay_lost")
    assert [event.kind for event in events].count("ended") == 1
    assert events[-1].kind == "ended"
    assert tail.fenced
    assert engine.running.total() == 0


async def test_stop_on_an_orphan_ends_it(bench, scripted, successor):
    response, _ = await bench.ask("go", policy="background")
    await die(bench, response)
    await stop(successor.owner, await successor.row(response), "user")
    row = await successor.row(response)
    assert (row.end_state, row.end_reason) == ("cancelled", "user")


async def test_an_owner_that_leaves_releases_what_runs_and_detaches_its_readers(bench, scripted, successor):
    response, tail = await bench.ask("go", policy="grace=30")
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
    reading = asyncio.create_task(_all(reader))
    await bench.owner.drain(0)
    data = await reading
    assert b"stream_detached" in data
    assert (await bench.row(response)).owner is None
    scripted.open_gate(AMID)
    await adopt_all(successor.owner)
    again = successor.reader(response, successor.owner.tail(response.id), cursor=reader.cursor)
    rest = await _all(again)
    row = await successor.ended(response)
    assert row.output_text == WHOLE
    assert frames_text(data) + frames_text(rest) == WHOLE


async def _all(reader) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        data = b"".join([frame async for frame in reader.frames()])
    reader.close()
    return data


async def _store(response, **fields):
    await threads.run(Response.objects.filter(id=response.id).update, **fields)


@pytest.mark.parametrize(
    "damage", [{"policy": "grace=1e-05"}, {"policy": "grace=99999"}, {"request": {}}, {"prompt_ids": b"no zlib"}]
)
async def test_one_that_cannot_be_carried_on_ends_and_keeps_nobody_from_starting(bench, scripted, successor, damage):
    damaged, _ = await bench.ask("go", policy="background")
    good, _ = await bench.ask("go", policy="background")
    await die(bench, damaged)
    await die(bench, good)
    await _store(damaged, **damage)
    scripted.open_gate(AMID)
    assert await adopt_all(successor.owner) == 2
    row = await successor.row(damaged)
    assert (row.end_state, row.end_reason) == ("truncated", "relay_lost")
    assert (await successor.ended(good)).end_state == "completed"


async def test_what_a_person_had_stopped_before_its_owner_died_is_not_carried_on(bench, scripted, successor, engine):
    response, _ = await bench.ask("go", policy="background")
    await die(bench, response)
    await threads.write(responses.request_stop, response.id, "api")
    asked = len(engine.requests)
    await adopt_all(successor.owner)
    row = await successor.row(response)
    assert (row.end_state, row.end_reason) == ("cancelled", "api")
    assert len(engine.requests) == asked


async def test_the_token_ids_of_a_logit_bias_are_numbers_again_when_it_is_carried_on(bench, scripted, successor):
    bias = {7: -100.0, 9: 5.5}
    response, _ = await bench.ask("go", policy="background", sampling={"logit_bias": bias, "temperature": 0.5})
    await die(bench, response)
    scripted.open_gate(AMID)
    await adopt_all(successor.owner)
    await successor.ended(response)
    requests = [r for r in scripted.requests if r.request_id.startswith(response.id)]
    assert [request.sampling.logit_bias for request in requests] == [bias, bias]


async def test_a_row_that_was_stored_although_that_seemed_to_fail_is_ended_and_one_that_runs_is_not(bench):
    running, _ = await bench.ask({"outputs": [{"gate": "never"}]})
    new = NewResponse(
        user_id=bench.user.pk, purpose="api", dialect=OPENAI_CHAT, model="scripted", policy="abort", stream=True,
        request={}, prompt_ids=(), owner=bench.owner.id,
    )  # fmt: skip
    stray = await threads.write(creation.create, new)
    suspects = await take_up_strays(bench.owner, set())
    assert suspects == {stray.id}
    assert (await bench.row(stray)).end_state is None
    await take_up_strays(bench.owner, suspects)
    row = await bench.row(stray)
    assert (row.end_state, row.end_reason) == ("truncated", "relay_lost")
    assert (await bench.row(running)).end_state is None


async def test_a_stop_ends_what_this_process_owns_but_no_longer_runs(bench, scripted):
    response, _ = await bench.ask("go", policy="background")
    await die(bench, response)
    async with asyncio.timeout(DEADLINE_S):
        await stop(bench.owner, await bench.row(response), "user")
    row = await bench.row(response)
    assert (row.end_state, row.end_reason) == ("cancelled", "user")


async def test_one_that_ends_before_its_new_engine_was_asked_keeps_the_text_and_the_count(bench, scripted, successor):
    response, _ = await bench.ask("go")
    await die(bench, response)
    await adopt_all(successor.owner)
    successor.owner.relay(response.id).stop(decide(None, STOPPED, "user"))
    row, events = await successor.ended(response), await successor.log(response)
    assert (row.end_state, row.output_text) == ("cancelled", text_of(events))
    assert row.output_text
    assert WHOLE.startswith(row.output_text)
    assert row.completion_tokens == row.sent_tokens == sum(event.token_count for event in events)
