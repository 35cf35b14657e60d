"""Engines that say a great deal at once: memory, pages and logs are bounded by bytes, and readers get all of it."""

import asyncio

import pytest

from streaming.journal import Tail
from streaming.journal.tail import KEEP_BYTES, KEEP_ENDED_BYTES, KEEP_EVENTS
from streaming.models import Engine
from streaming.protocol.events import ENDED, EVENT_BYTES_MAX, TEXT, Event, size_bytes
from tests.stream.conftest import DEADLINE_S, frames_text, ids_of, text_of, until_stored
from tests.stream.test_a_response_from_question_to_end import read
from tests.stream.test_the_journal import broken_writes, wait_for_storage

LETTERS = "0123456789abcdef"
SAID = LETTERS * 25_000
OUTPUT = {"text": SAID, "count": 1}
#: What a frame of the chat dialect has beside its text.
FRAME_BYTES = 512


@pytest.fixture
def row():
    """A prompt is the script, and that is long."""
    fields = {"name": "s", "kind": "scripted", "model": "scripted", "context_tokens": 10**7, "slots": 4}
    return Engine.objects.create(**fields, options={"mode": "text"})


def held_bytes(tail: Tail) -> int:
    return sum(size_bytes(event.payload) for event in tail.events)


async def test_what_is_said_at_once_is_stored_kept_and_read_in_pieces(bench, engine):
    response, tail = await bench.ask({"outputs": [*[OUTPUT] * 5, {"gate": "g"}, {"text": "end", "count": 1}]})
    behind = bench.reader(response, tail)
    await until_stored(tail, lambda tail: tail.delivered_tokens or tail.sent_tokens >= 5)
    assert held_bytes(tail) <= 2 * KEEP_BYTES
    assert len(tail.events) < 2 * KEEP_EVENTS
    reading = asyncio.create_task(read_in_pages(behind))
    engine.open_gate("g")
    pages = await reading
    row = await bench.ended(response)
    assert row.output_text == 5 * SAID + "end"
    assert frames_text(b"".join(pages)) == row.output_text
    assert max(map(len, pages)) <= EVENT_BYTES_MAX + FRAME_BYTES
    assert (row.generated_tokens, tail.delivered_tokens) == (6, 6)
    events = await bench.log(response)
    assert max(size_bytes(event.payload) for event in events) <= EVENT_BYTES_MAX + FRAME_BYTES
    assert held_bytes(tail) <= KEEP_ENDED_BYTES + FRAME_BYTES
    for cursor in (1, 5, len(events) - 1):
        rest = await read(bench.reader(response, tail, cursor=cursor))
        assert frames_text(rest) == text_of(events[cursor:])
        assert ids_of(rest)[0] > cursor


async def read_in_pages(reader) -> list[bytes]:
    async with asyncio.timeout(DEADLINE_S):
        pages = [page async for page in reader.frames()]
    reader.close()
    return pages


@pytest.mark.parametrize(("size", "count"), [(1, 1000), (2000, 1000), (60_000, 100)])
def test_a_tail_keeps_so_many_events_or_so_many_bytes_and_none_is_missing_between(size, count):
    tail, kept = Tail("resp_1", 1, received_at=0.0), []
    for seq in range(1, count + 1):
        tail.publish([Event(seq, 1, TEXT, {"text": "x" * size})])
        kept.append((len(tail.events), held_bytes(tail)))
        assert [event.seq for event in tail.since(tail.first_seq - 1)] == list(range(tail.first_seq, seq + 1))
        assert tail.since(tail.first_seq - 2) is None or tail.first_seq == 1
    assert max(events for events, _ in kept) <= 2 * KEEP_EVENTS
    assert max(held for _, held in kept) <= 2 * KEEP_BYTES
    assert kept[-1][0] >= KEEP_EVENTS or kept[-1][1] >= KEEP_BYTES - size - FRAME_BYTES
    tail.publish([Event(count + 1, 1, ENDED, {"usage": {}})])
    assert tail.ended
    assert held_bytes(tail) <= KEEP_ENDED_BYTES


def test_the_newest_event_is_kept_whatever_its_size():
    tail = Tail("resp_1", 1, received_at=0.0)
    for seq in (1, 2):
        tail.publish([Event(seq, 1, TEXT, {"text": "x" * 3 * KEEP_BYTES})])
        assert [event.seq for event in tail.events] == [seq]


async def test_an_engine_that_says_more_than_an_answer_may_hold_is_stopped(bench, engine, settings):
    settings.MAX_OUTPUT_BYTES = 1_000_000
    response, _ = await bench.ask({"outputs": [OUTPUT], "repeat": 0, "delay_s": 0.01})
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason, row.finish_reason) == ("completed", "length", "length")
    assert row.output_text == 2 * SAID
    assert engine.running.total() == 0


async def test_who_comes_back_after_storage_was_lost_reads_to_the_end_also_what_memory_has_no_longer(bench):
    response, tail = await bench.ask({"outputs": [OUTPUT], "repeat": 0, "delay_s": 0.01, "first_delay_s": 0.5})
    await until_stored(tail, lambda tail: tail.events)
    with broken_writes():
        wait_for_storage(bench.owner.journal, 1)
        assert b"stream_detached" in await read(bench.reader(response, tail))
    row = await bench.ended(response)
    assert (row.end_state, row.end_reason) == ("errored", "storage")
    log = await bench.log(response)
    assert tail.since(1) is None
    for cursor in range(1, len(log)):
        rest = await read(bench.reader(response, tail, cursor=cursor))
        assert frames_text(rest) == text_of(log[cursor:])
        assert b"stream_detached" not in rest
