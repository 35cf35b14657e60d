"""The group-commit writer: what it costs, what it does when the database is the trouble, what it never loses."""

import asyncio
import contextlib

import pytest
from django.db import OperationalError

from streaming.journal import batch as batch_module
from streaming.journal.tail import PENDING_BYTES_MAX
from streaming.ownership.stop import stop
from streaming.protocol.events import CONTINUED, Draft
from streaming.store import threads
from tests.databases import of_django
from tests.stream.conftest import DEADLINE_S, frames_text, text_of, until_stored
from tests.stream.test_a_response_from_question_to_end import read


def locked_database():
    """Somebody else writes, and holds up everybody who wants to."""
    return of_django().locked()


def wait_for_storage(journal, seconds):
    """No longer than this from now on. Set before the trouble, a machine that stalls would be taken for it."""
    journal._patience_s = seconds
    if journal._alarm:
        journal._alarm.cancel()
    journal._look()


async def test_many_responses_share_commits(bench):
    script = {"outputs": [{"text": "a"}, {"text": "b"}], "repeat": 50, "delay_s": 0.002}
    before = bench.owner.journal.commits
    responses = [await bench.ask(script) for _ in range(4)]
    rows = [await bench.ended(response) for response, _ in responses]
    commits = bench.owner.journal.commits - before
    outputs = 4 * 100
    assert [row.output_text for row in rows] == ["ab" * 50] * 4
    assert commits < outputs


async def test_while_the_database_is_locked_nothing_unsaved_is_shown_and_afterwards_all_is(bench, engine):
    script = {"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}, {"text": "c"}]}
    response, tail = await bench.ask(script)
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
    await until_stored(tail, lambda t: text_of(t.events) == "a")
    with locked_database():
        engine.open_gate("g")
        await engine.until(lambda e: e.finished)
        shown = tail.last_seq
        await asyncio.sleep(0.3)
        assert tail.last_seq == shown
        assert text_of(tail.events) == "a"
    data = await read(reader)
    row = await bench.ended(response)
    assert row.end_state == "completed"
    assert row.output_text == "abc"
    assert b"[DONE]" in data


async def test_storage_that_stays_away_ends_the_response_and_frees_the_engine(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.01})
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await reader.first()
    with broken_writes():
        wait_for_storage(bench.owner.journal, 0.3)
        data = await read(reader)
        await engine.until(lambda e: e.running.total() == 0)
    assert b"stream_detached" in data
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason) == ("errored", "storage")
    assert text_of(await bench.log(response)) == row.output_text


@contextlib.contextmanager
def broken_writes():
    """Every write fails as on a full disk; the real insert comes back afterwards."""
    real = batch_module.log.insert

    def full(_events):
        raise OperationalError("database or disk is full")

    batch_module.log.insert = full
    try:
        yield
    finally:
        batch_module.log.insert = real


async def test_one_response_that_cannot_be_stored_does_not_harm_the_others(bench, engine):
    good, _ = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]})
    bad, bad_tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]})
    await engine.until(lambda e: e.running.total() == 2)
    bench.owner.journal.append(bad_tail, [Draft(CONTINUED, {"odd": object()})])
    engine.open_gate("g")
    good_row, bad_row = await bench.ended(good), await bench.ended(bad)
    assert (good_row.end_state, good_row.output_text) == ("completed", "ab")
    assert (bad_row.end_state, bad_row.end_reason) == ("errored", "internal")


async def test_a_relay_waits_while_too_much_is_pending(bench, engine):
    script = {"outputs": [{"gate": "g"}, {"text": "x"}], "repeat": 8000}
    response, tail = await bench.ask(script)
    await engine.until(lambda e: e.running.total() == 1)
    assert await bench.owner.journal.settled()
    with locked_database():
        engine.open_gate("g")
        while not tail.pending_bytes > PENDING_BYTES_MAX:
            await asyncio.sleep(0)
        given = engine.outputs_given
        await asyncio.sleep(0.2)
        assert engine.outputs_given <= given + 1
        assert tail.pending_bytes < 2 * PENDING_BYTES_MAX
    row = await bench.ended(response)
    assert len(row.output_text) == row.completion_tokens


async def test_a_commit_that_went_through_although_it_was_reported_as_failed_is_not_taken_for_another_owners(
    bench, engine, monkeypatch
):
    """As PostgreSQL's connection does that breaks between the commit and its acknowledgement."""
    real = batch_module.Batch._write_together
    failures = []

    def unacknowledged(batch):
        real(batch)
        shown = any(event.kind in {"text", "ended"} for entry in batch.entries for event in entry.events)
        if shown and len(failures) < 4:
            failures.append(batch)
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(batch_module.Batch, "_write_together", unacknowledged)
    monkeypatch.setattr("streaming.journal.journal.RETRY_S", 0.01)
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"text": "b"}], "repeat": 5, "delay_s": 0.02})
    data = await read(bench.reader(response, tail))
    row, events = await bench.ended(response), await bench.log(response)
    assert failures
    assert not tail.fenced
    assert (row.end_state, row.output_text) == ("completed", "ab" * 5)
    assert frames_text(data) == text_of(events) == row.output_text
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_readers_read_and_stops_reach_the_engine_while_writers_wait_for_the_database(bench, engine):
    ended, _ = await bench.ask({"outputs": [{"text": "old"}]})
    await bench.ended(ended)
    response, tail = await bench.ask({"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.01})
    running = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await running.first()
    with locked_database():
        waiting = [asyncio.create_task(bench.ask("hello")) for _ in range(12)]
        await asyncio.sleep(0)
        assert frames_text(await read(bench.reader(ended))) == "old"
        stopping = asyncio.create_task(stop(bench.owner, await bench.row(response), "user"))
        async with asyncio.timeout(DEADLINE_S):
            await engine.until(lambda e: not any(r.startswith(response.id) for r, n in e.running.items() if n))
        assert not any(task.done() for task in waiting)
    await stopping
    row = await bench.row(response)
    assert (row.end_state, row.end_reason) == ("cancelled", "user")
    assert row.stop_requested_at
    for other, _tail in await asyncio.gather(*waiting):
        assert (await bench.ended(other)).end_state == "completed"
    running.close()


async def test_a_write_whose_turn_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(threads, "WRITE_PATIENCE_S", 0)
    with pytest.raises(OperationalError, match="takes no writes"):
        await threads.write(lambda: "written")
