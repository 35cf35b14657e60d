"""The life of one response in a process: engine, relay, journal, reader, end."""

import asyncio

from streaming.journal.tail import KEEP_ENDED_EVENTS
from streaming.protocol.events import ENDED, STARTED
from tests.databases import of_django
from tests.stream.conftest import DEADLINE_S, frames_text, ids_of, text_of

WORDS = {"outputs": [{"text": f" word{i}"} for i in range(40)], "delay_s": 0.001}


async def read(reader) -> bytes:
    async with asyncio.timeout(DEADLINE_S):
        data = b"".join([frame async for frame in reader.frames()])
    reader.close()
    return data


async def test_what_a_reader_is_shown_is_what_the_log_and_the_row_hold(bench):
    response, tail = await bench.ask(WORDS)
    shown = await read(bench.reader(response, tail))
    row, events = await bench.ended(response), await bench.log(response)
    expected = "".join(f" word{i}" for i in range(40))
    assert frames_text(shown) == text_of(events) == row.output_text == expected
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[0].kind == STARTED
    assert [event.kind for event in events].count(ENDED) == 1
    assert events[-1].kind == ENDED
    assert (row.state, row.end_state, row.end_reason, row.finish_reason) == ("ended", "completed", "stop", "stop")
    assert row.last_seq == len(events)
    assert row.prompt_ids is None


async def test_nothing_is_visible_before_it_is_stored(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]})
    reader = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        first = await reader.first()
    stored = await bench.log(response)
    assert first in stored
    assert tail.last_seq == stored[-1].seq
    engine.open_gate("g")
    await bench.ended(response)
    reader.close()


async def test_adjacent_tokens_merge_while_the_journal_is_busy_and_no_token_is_lost(bench, engine):
    response, tail = await bench.ask({"outputs": [{"gate": "g"}, *[{"text": "x"}] * 500]})
    with of_django().locked():
        engine.open_gate("g")
        async with asyncio.timeout(DEADLINE_S):
            await engine.until(lambda e: e.finished)
    row = await bench.ended(response)
    events = await bench.log(response)
    assert text_of(events) == "x" * 500
    assert sum(event.token_count for event in events) == row.generated_tokens == row.sent_tokens
    assert len(events) < 10


async def test_usage_counts_what_was_made_consumed_sent_and_delivered(bench):
    response, tail = await bench.ask({"outputs": [{"text": "ab"}, {"text": "##END cd"}]}, stops=("##END",))
    shown = await read(bench.reader(response, tail))
    row = await bench.ended(response)
    assert await bench.owner.journal.settled()
    row = await bench.row(response)
    assert frames_text(shown) == row.output_text == "ab"
    assert row.finish_reason == "stop"
    # Byte tokens: "ab" and "##END" are part of the answer, " cd" was made in the same step and is not.
    assert (row.generated_tokens, row.completion_tokens, row.sent_tokens) == (10, 7, 7)
    assert row.delivered_tokens == 7
    assert row.wasted_tokens == 3


async def test_a_replay_from_every_cursor_joins_to_the_whole_text(bench):
    response, tail = await bench.ask(WORDS)
    await read(bench.reader(response, tail))
    events = await bench.log(response)
    for cursor in range(len(events) + 1):
        before = text_of(event for event in events if event.seq <= cursor)
        for source in (tail, None):
            data = await read(bench.reader(response, source, cursor=cursor))
            assert before + frames_text(data) == text_of(events)
            ids = ids_of(data)
            assert ids == sorted(set(ids))
            assert all(seq > min(cursor, len(events) - 1) for seq in ids)
            assert data.endswith(b"[DONE]\n\n")


async def test_a_second_reader_that_comes_late_gets_everything_and_costs_no_second_relay(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}]})
    first = bench.reader(response, tail)
    async with asyncio.timeout(DEADLINE_S):
        await first.first()
    readers = [first, *(bench.reader(response, tail) for _ in range(15))]
    reading = asyncio.gather(*(read(reader) for reader in readers))
    engine.open_gate("g")
    assert [frames_text(data) for data in await reading] == ["ab"] * 16
    assert len(engine.requests) == 1


async def test_a_reader_of_a_long_answer_reads_rows_once_memory_no_longer_holds_them(bench):
    script = {"outputs": [{"text": "tick "}, {"text": "tock "}], "repeat": 1500, "delay_s": 0.0001}
    response, tail = await bench.ask(script)
    await bench.ended(response)
    events = await bench.log(response)
    assert len(tail.events) <= KEEP_ENDED_EVENTS
    data = await read(bench.reader(response, tail))
    assert frames_text(data) == text_of(events)


async def test_a_silent_stream_carries_heartbeats_of_one_newline(bench, engine):
    response, tail = await bench.ask({"outputs": [{"gate": "g"}, {"text": "a"}]})
    reader = bench.reader(response, tail, heartbeat_s=0.05)
    got = []
    async with asyncio.timeout(DEADLINE_S):
        async for frame in reader.frames():
            got.append(frame)
            if len(got) == 3:
                engine.open_gate("g")
    reader.close()
    assert got[:3] == [b": ping\n"] * 3
    assert frames_text(b"".join(got)) == "a"


async def test_a_character_cut_over_tokens_is_shown_whole(bench):
    text = "आपका चाय ☕ तैयार है"
    outputs = [{"bytes": bytes([byte]).hex()} for byte in text.encode()]
    response, tail = await bench.ask({"outputs": outputs, "delay_s": 0.001})
    shown = await read(bench.reader(response, tail))
    assert frames_text(shown) == text
    assert "\ufffd" not in frames_text(shown)
