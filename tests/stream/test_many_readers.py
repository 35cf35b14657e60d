"""Readers that come twice, leave at the last frame, are cut inside an event, or replay much: each gets the whole."""

import asyncio
import json
import random
from itertools import chain, pairwise

import pytest

from streaming.admission import ReaderCaps, TooMany
from streaming.journal import Tail
from streaming.protocol.dialects import OPENAI_RESPONSES, encoder_for
from streaming.protocol.dialects.base import Head
from streaming.protocol.events import TEXT, Event
from streaming.protocol.sse import HEARTBEAT
from streaming.reader import Reader
from streaming.store import log, threads
from tests.stream.conftest import DEADLINE_S, frames_text, text_of, until_stored
from tests.stream.test_a_response_from_question_to_end import read
from tests.stream.test_ends import ENDLESS, SHORT, at_some_moment

WORDS = {"outputs": [{"text": f" word{i}"} for i in range(12)], "delay_s": 0.003}
PAGE_BYTES = 64 * 1024


async def test_twenty_reconnects_with_one_cursor_cost_one_relay_and_read_the_same(bench, engine):
    response, tail = await bench.ask({"outputs": [{"text": "a"}, {"gate": "g"}, {"text": "b"}, {"text": "c"}]})
    await until_stored(tail, lambda t: text_of(t.events) == "a")
    readers = [bench.reader(response, tail, cursor=tail.last_seq) for _ in range(20)]
    reading = asyncio.gather(*(read(reader) for reader in readers))
    engine.open_gate("g")
    shown = await reading
    assert {frames_text(data) for data in shown} == {"bc"}
    row = await bench.ended(response)
    assert (row.output_text, row.epoch, row.generated_tokens) == ("abc", 1, 3)
    assert len(engine.requests) == 1
    assert tail.readers == 0


async def test_a_reader_that_leaves_in_the_instant_of_the_last_frame_changes_no_end(bench, engine):
    chance = random.Random(76)
    ends = {}
    for nth in range(200):
        response, tail = await bench.ask(SHORT, policy="abort")
        reader = bench.reader(response, tail)
        reading = asyncio.create_task(read(reader))
        if nth % 2:
            await at_some_moment(chance)
            reader.close()
        shown = await reading
        row = await bench.ended(response)
        assert await bench.owner.journal.settled()
        later, events = await bench.row(response), await bench.log(response)
        assert (later.end_state, later.last_seq, later.output_text) == (row.end_state, row.last_seq, text_of(events))
        assert row.end_state in {"completed", "abandoned"}
        assert [event.kind for event in events].count("ended") == 1
        assert row.output_text.startswith(frames_text(shown))
        assert later.delivered_tokens <= later.sent_tokens <= later.generated_tokens
        if b"[DONE]" in shown:
            assert (row.end_state, later.delivered_tokens) == ("completed", later.sent_tokens)
        ends.setdefault(row.end_state, nth)
    assert set(ends) == {"completed", "abandoned"}
    assert engine.running.total() == 0


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_reader_that_fails_in_the_middle_is_told_where_to_go_on(bench, monkeypatch, is_silent):
    response, tail = await bench.ask({"outputs": [{"text": "a"}]})
    await bench.ended(response)
    reader = bench.reader(response, tail)
    monkeypatch.setattr(reader._encoder, "encode", lambda events: 1 / 0)
    *before, last = [frame async for frame in reader.frames(is_silent)]
    reader.close()
    assert before == [HEARTBEAT] * is_silent
    error = json.loads(last.partition(b"data: ")[2])["error"]
    assert (error["code"], error["last_event_id"]) == ("stream_detached", f"{response.id}:1.0")


async def test_readers_who_leave_at_any_moment_leave_every_slot_free(bench, engine):
    chance = random.Random(52)

    async def come_and_go() -> None:
        for _ in range(60):
            response, tail = await bench.ask(chance.choice([ENDLESS, SHORT]), policy="abort")
            reader = bench.reader(response, tail)
            await at_some_moment(chance)
            reader.close()
            assert (await bench.ended(response)).end_state in {"abandoned", "completed"}

    # Two more than there are slots: some leave while they wait for one.
    await asyncio.gather(*(come_and_go() for _ in range(6)))
    assert engine.running.total() == 0
    assert bench.owner.running == []
    assert [seat.leased for seat in bench.owner.pool._seats.values()] == [0]
    after = [await bench.ask({"outputs": [{"gate": "g"}]}) for _ in range(4)]
    async with asyncio.timeout(DEADLINE_S):
        await engine.until(lambda e: e.running.total() == 4)
    engine.open_gate("g")
    for response, _ in after:
        await bench.ended(response)


def frames_of(data: bytes) -> list[dict]:
    """Complete frames of the responses dialect: the id, where there is one, beside what the data says."""
    frames = []
    for block in data.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        frames.append({"id": fields.get("id"), **json.loads(fields["data"])})
    return frames


def story(frames: list[dict]) -> tuple[list[str], str]:
    """What happened beside the text, each frame once, and the text."""
    once = {frame["sequence_number"]: frame for frame in frames}
    numbers = [frame["sequence_number"] for frame in frames if frame["id"]]
    assert numbers == sorted(set(numbers))
    told = [frame for _, frame in sorted(once.items())]
    delta = "response.output_text.delta"
    return [f["type"] for f in told if f["type"] != delta], "".join(f["delta"] for f in told if f["type"] == delta)


async def test_a_cut_between_the_frames_of_one_event_loses_nothing(bench):
    response, tail = await bench.ask(WORDS)
    head = Head(response.id, response.model, int(response.created_at.timestamp()))

    def reader(source, cursor: int = 0) -> Reader:
        encoder = encoder_for(OPENAI_RESPONSES, head)
        journal = bench.owner.journal
        return Reader(response.id, encoder, tail=source, journal=journal, heartbeat_s=15, cursor=cursor)

    whole = await read(reader(tail))
    frames = frames_of(whole)
    events = await bench.log(response)
    # Several events have more than one frame, so cuts inside of an event are among these.
    assert len(frames) >= len(events) + 5
    assert story(frames)[1] == text_of(events)
    for cut in range(len(frames) + 1):
        before = frames[:cut]
        cursor = next((int(frame["id"].rsplit(".", 1)[1]) for frame in reversed(before) if frame["id"]), 0)
        for source in (tail, None):
            rest = frames_of(await read(reader(source, cursor)))
            # Who has seen the end is told the end once more; all else comes once.
            if cursor == len(events):
                assert rest[-1] == frames[-1]
            else:
                assert story(before + rest) == story(frames)


async def store_log(response, texts: list[str]) -> None:
    """Put a log of these texts in the place of an ended response's own."""
    ended = (await threads.run(log.read, response.id))[-1]
    events = [Event(seq, 1, TEXT, {"text": text}) for seq, text in enumerate(texts, 1)]
    await threads.run(response.events.all().delete)
    await threads.run(log.insert, [(response.id, event) for event in [*events, ended._replace(seq=len(texts) + 1)]])


async def test_a_replay_of_a_megabyte_lets_another_stream_go_on_meanwhile(bench):
    long, _ = await bench.ask(SHORT)
    await bench.ended(long)
    await store_log(long, ["x" * 255 + "\n"] * 4096)
    live, tail = await bench.ask(ENDLESS)
    live_reader = bench.reader(live, tail)
    shown = turns = 0

    async def follow() -> None:
        nonlocal shown
        async for _ in live_reader.frames():
            shown += 1

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    following, turning = asyncio.create_task(follow()), asyncio.create_task(turn())
    between = []
    # Once will do, unless the machine is so busy that the other stream's commits take longer than a replay.
    for _ in range(20):
        pages, turns_before, shown_before = [], [], []
        async for page in bench.reader(long).frames():
            pages.append(page)
            turns_before.append(turns)
            shown_before.append(shown)
        assert len(frames_text(b"".join(pages))) == 2**20
        assert len(pages) >= 16
        assert max(map(len, pages)) <= PAGE_BYTES + 1024
        assert all(before < after for before, after in pairwise(turns_before))
        between.append(shown_before[-1] - shown_before[0])
        if max(between) >= 2:
            break
    assert max(between) >= 2
    turning.cancel()
    live_reader.close()
    await following


async def test_a_page_is_64_kb_or_one_event_whatever_the_size_of_the_events(bench):
    response, _ = await bench.ask(SHORT)
    await bench.ended(response)
    sizes = [10, 30_000, 30_000, 30_000, 300_000, 300_000, 10, *[1] * 600, 65_000, 65_000]
    await store_log(response, ["x" * size for size in sizes])
    cursor, pages = 0, []
    while page := await threads.run(log.page, response.id, cursor):
        assert [event.seq for event in page] == list(range(cursor + 1, cursor + 1 + len(page)))
        cursor = page[-1].seq
        pages.append([len(event.payload.get("text", "")) for event in page])
    assert list(chain.from_iterable(pages)) == [*sizes, 0]
    assert all(len(page) == 1 or sum(page) <= PAGE_BYTES for page in pages)
    assert pages[:4] == [[10, 30_000, 30_000], [30_000], [300_000], [300_000]]
    assert len(pages) <= 8


async def test_what_a_late_reader_finds_in_memory_comes_in_pages_too(bench):
    response, _ = await bench.ask(SHORT)
    tail = Tail(response.id, response.epoch, received_at=0.0)
    tail.publish([Event(seq, 1, TEXT, {"text": "x" * 6_000}) for seq in range(1, 41)])
    reader = bench.reader(response, tail)
    pages = []
    async with asyncio.timeout(DEADLINE_S):
        async for page in reader.frames():
            pages.append(len(frames_text(page)))
            if len(pages) == 4:
                break
    reader.close()
    assert pages == [60_000] * 4
    await bench.ended(response)


def test_a_user_has_so_many_readers_and_each_gives_its_place_back():
    caps = ReaderCaps(per_response=2, per_user=3)
    with caps.place(1, "a"), caps.place(1, "b"), caps.place(2, "a"):
        caps.check(1, "b")
        with pytest.raises(TooMany, match=r"2 readers of this response are open already \(limit 2\)"):
            caps.check(3, "a")
        with caps.place(1, "c"), pytest.raises(TooMany, match=r"3 readers of this user are open already \(limit 3\)"):
            caps.check(1, "b")
        caps.check(1, "b")
    assert not caps._open
