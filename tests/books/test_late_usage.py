"""What an engine made for an owner that was taken for dead: that one knows it to the token, and writes it down. 3 s."""

import asyncio

import pytest

from streaming.models import Response
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.start import check, start
from streaming.ownership.stop import stop
from streaming.ownership.watch import look
from streaming.store import attempts, threads
from tests.books.test_reconcile import looked
from tests.engine.answers import added, ask_of
from tests.engine.conftest import until
from tests.fault_engine import FaultEngine
from tests.stream.conftest import until_stored

LIMIT = 60
#: At this pace an answer of LIMIT tokens takes 6 s: it is amid them when it is taken over, also where that takes long.
SLOW = {"rate": 10}


@pytest.fixture
async def server():
    async with FaultEngine(rate=200, slots=100, context=1000).serving() as made:
        yield made


async def begun(bench) -> Response:
    ask = ask_of(bench, max_tokens=LIMIT)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens >= 5)
    return await bench.row(response)


async def told_late(bench, response, nth=0) -> Response:
    async def reached():
        row = await bench.row(response)
        return row if row.end_state and row.attempts[nth]["count"] == "exact" else None

    return await until(reached)


@pytest.mark.parametrize("is_silent", [False, True], ids=["amid tokens", "amid silence"])
async def test_after_an_adoption_the_books_are_exact_and_the_log_has_nothing_of_it(
    bench, tmp_path, server, successor, is_silent
):
    await added(tmp_path, "vllm", server.url)
    await looked()
    server.set_control({"stall_after": 12} if is_silent else SLOW)
    response = await begun(bench)
    if is_silent:
        await until_stored(bench.owner.tail(response.id), lambda tail: tail.sent_tokens == 12)
    server.set_control({})
    await adopt_or_end(successor.owner, response)
    if is_silent:
        await look(bench.owner)
    await successor.ended(response)
    row = await told_late(bench, response)
    first, second = row.attempts
    assert (row.end_state, row.epoch, row.completion_tokens) == ("completed", 2, LIMIT)
    assert (first["request_id"], first["ended"], first["count"]) == (f"{row.id}-1", "relay_lost", "exact")
    assert (second["request_id"], second["ended"], second["count"]) == (f"{row.id}-2", "length", "exact")
    assert row.generated_tokens == first["generated_tokens"] + second["generated_tokens"] == server.chunks_total
    assert row.usage_estimated is False
    events = await bench.log(response)
    assert [event.epoch for event in events] == sorted(event.epoch for event in events)
    assert sum(event.token_count for event in events) == row.sent_tokens == LIMIT
    [found] = await looked()
    assert (found.low, found.seen, found.high) == (server.chunks_total,) * 3


async def test_a_stop_of_what_seems_an_orphan_reaches_its_engine_and_the_count_is_exact_too(
    bench, tmp_path, server, successor
):
    await added(tmp_path, "vllm", server.url)
    await looked()
    server.set_control(SLOW)
    response = await begun(bench)
    await stop(successor.owner, response, "user")
    row = await told_late(bench, response)
    assert (row.end_state, row.end_reason) == ("cancelled", "user")
    assert row.generated_tokens == server.chunks_total < LIMIT
    [found] = await looked()
    assert (found.low, found.seen, found.high) == (server.chunks_total,) * 3


async def test_an_attempt_after_a_failed_one_is_aborted_and_counted_under_its_own_name(
    bench, tmp_path, server, successor
):
    await added(tmp_path, "vllm", "http://127.0.0.1:9", server.url)
    server.set_control(SLOW)
    response = await begun(bench)
    server.set_control({})
    (failed,) = response.attempts
    assert failed["request_id"] == f"{response.id}-1"
    await adopt_or_end(successor.owner, response)
    await successor.ended(response)
    row = await told_late(bench, response, nth=1)
    assert [one["request_id"] for one in row.attempts[:3]] == [f"{row.id}-1", f"{row.id}-1r2", f"{row.id}-2"]
    names = [name for body in server.bodies for name in body.get("request_ids", ())]
    assert f"generate-tokens-{row.id}-1r2" in names


async def test_nothing_else_of_a_response_can_be_changed_that_way_and_not_before_its_end(bench, tmp_path, server):
    await added(tmp_path, "vllm", server.url)
    server.set_control({"stall_after": 12})
    response = await begun(bench)
    made = {"request_id": f"{response.id}-1", "count": "exact", "generated_tokens": 999}
    made |= {"prompt_tokens": 7, "cached_tokens": None, "engine_id": None}
    assert await threads.write(attempts.note_made, response.id, [made]) is False
    await stop(bench.owner, response, "api")
    row = await bench.ended(response)
    assert await threads.write(attempts.note_made, row.id, [made]) is True
    assert (await bench.row(row)).attempts == row.attempts, "it was not lost"
    assert await threads.write(attempts.note_made, "resp_gone", [made]) is True
