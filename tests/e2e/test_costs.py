"""What many connections cost one real process: threads, database connections and memory are bounded, all comes back."""

import asyncio
import contextlib
import json
import random
import shutil
import signal
from itertools import cycle, islice

import pytest

from streaming.protocol.dialects import ENCODERS
from streaming.protocol.events import EVENT_BYTES_MAX
from streaming.store import threads
from tests.e2e.crowd import (
    Follower,
    Held,
    nobody_left,
    opened,
    paused,
    question,
    raise_descriptor_limit,
    reset,
    running,
    session,
)
from tests.e2e.reading import chat, script
from tests.e2e.site import Site

SILENT = script(outputs=[{"gate": "never"}])
AFTER_ONE_TOKEN = script(outputs=[{"text": "a"}, {"gate": "never"}])
IDLE_STREAMS = 1000
#: Pools start a thread when all of theirs are busy, up to these.
POOLED_THREADS = threads.READ_THREADS + threads.WRITE_THREADS
IDLE_BYTES = 60 * 1024
WORDS = [f"w{nth} " for nth in range(25)]
STORM_READERS = 400
BACKGROUND = {"X-Disconnect-Policy": "background"}
EVENT_CHARS, LOG_EVENTS = 4096, 51_200
STUCK_BYTES = 5 * 2**20
#: An engine that says 500 KB at a time and does not end, and what it may cost with so many readers who take nothing.
FLOOD = {"outputs": [{"text": "x" * 500_000, "count": 1}], "repeat": 0, "delay_s": 0.5}
FLOOD_READERS, FLOOD_BYTES = 50, 40 * 2**20


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, model_dir):
    """A site of its own whose engine takes everybody, and another engine with two places."""
    raise_descriptor_limit()
    patience = {"QUEUE_TIMEOUT_S": "600", "TTFT_TIMEOUT_S": "600", "IDLE_TIMEOUT_S": "600"}
    site = Site(tmp_path_factory.mktemp("crowd"), model_dir, STUCK_READER_S="3", **patience)
    site.migrate()
    site.scripted(slots=1300)
    site.scripted("few", slots=2)
    site.start()
    yield site
    site.stop()
    shutil.rmtree(site.data_dir)


@pytest.fixture(scope="module")
def keys(crowd):
    """Of two users: the default cap lets each have half of the crowd."""
    return [crowd.manage("create_api_key", name) for name in ("one", "two")]


async def crowded(site, keys, count: int) -> list[asyncio.StreamWriter]:
    """So many idle streams: nothing said, one token said, a body waited for."""
    kinds = [question(SILENT), question(AFTER_ONE_TOKEN), question(SILENT, stream=False)]
    opening = (opened(site, keys[nth % 2], kinds[nth % 3]) for nth in range(count))
    writers = await asyncio.gather(*opening)
    await running(site, count)
    return list(writers)


async def gone(site, writers) -> None:
    for writer in writers:
        writer.close()
    await nobody_left(site)


async def test_a_thousand_idle_streams_add_no_thread_hold_no_connection_and_little_memory(crowd, keys):
    await gone(crowd, await crowded(crowd, keys, 100))
    before = Held.by(crowd)
    assert before.is_bounded
    writers = await crowded(crowd, keys, IDLE_STREAMS)
    held = Held.by(crowd)
    assert held.is_bounded
    assert held.threads <= before.threads + POOLED_THREADS
    assert (held.rss_bytes - before.rss_bytes) / IDLE_STREAMS <= IDLE_BYTES
    # Each user has as many as he may; a third is served beside them.
    fresh = await asyncio.to_thread(crowd.manage, "create_api_key", "three")
    async with session(fresh) as web:
        async with web.get(f"{crowd.url}/healthz") as health:
            assert health.status == 200
        follower = Follower(web, crowd.url)
        await follower.ask(question(script(outputs=[{"text": word} for word in WORDS])), "abort")
        assert (follower.is_done, follower.text) == (True, "".join(WORDS))
        one_more = web.post(
            f"{crowd.url}/v1/chat/completions", json=question(SILENT), headers={"Authorization": f"Bearer {keys[0]}"}
        )
        async with one_more as refused:
            assert (refused.status, "Retry-After" in refused.headers) == (429, True)
    await gone(crowd, writers)
    after = Held.by(crowd)
    assert after.threads <= before.threads + POOLED_THREADS
    assert after.is_bounded


async def test_a_storm_of_reconnects_is_served_whole(crowd, keys):
    body = question(script(outputs=[{"text": word} for word in WORDS], delay_s=0.3))
    async with session(keys[0]) as one, session(keys[1]) as two:
        followers = [Follower((one, two)[nth % 2], crowd.url) for nth in range(STORM_READERS)]
        await asyncio.gather(*(follower.ask(body, "grace=60", frames=3) for follower in followers))
        assert not any(follower.is_done for follower in followers)
        storm = asyncio.gather(*(follower.come_back() for follower in followers))
        held = []
        while not storm.done():
            held.append(await asyncio.to_thread(Held.by, crowd))
            await asyncio.wait([storm], timeout=0.5)
        await storm
    assert all(sample.is_bounded for sample in held)
    assert {follower.text for follower in followers} == {"".join(WORDS)}
    assert all(follower.is_done for follower in followers)
    assert {status for follower in followers for status in follower.statuses} <= {200, 429, 503}
    ids = [follower.response_id for follower in followers]
    assert len(set(ids)) == STORM_READERS
    ended = crowd.rows("SELECT COUNT(*) FROM streaming_response WHERE id >= ? AND end_state = 'completed'", min(ids))
    assert ended == [(STORM_READERS,)]
    again = crowd.rows("SELECT COUNT(*) FROM streaming_response WHERE id >= ? AND epoch > 1", min(ids))
    assert again == [(0,)]


async def test_clients_that_reset_at_once_leave_the_engine_free(crowd, keys):
    chance = random.Random(52)

    async def reset_soon() -> None:
        text = chance.choice([SILENT, AFTER_ONE_TOKEN, script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.01)])
        writer = await opened(crowd, keys[0], question(text, model="few", stream=chance.random() < 0.7))
        await asyncio.sleep(chance.choice([0, 0.002, 0.02, 0.2]))
        reset(writer.transport)

    few = "model = 'few' AND end_state IS NULL"
    for nth in range(6):
        if is_late := bool(nth % 2):  # they are gone before the process has heard of one
            crowd.web.popen.send_signal(signal.SIGSTOP)
        await asyncio.gather(*(reset_soon() for _ in range(50)))
        if is_late:
            crowd.web.popen.send_signal(signal.SIGCONT)
        await nobody_left(crowd)
    came = crowd.rows("SELECT COUNT(*) FROM streaming_response WHERE model = 'few' AND state = 'ended'")[0][0]
    assert came > 100
    # Both places are free at once, and a third asker waits: neither a slot lost nor one too many.
    writers = [await opened(crowd, keys[0], question(SILENT, model="few")) for _ in range(3)]
    await running(crowd, 3, few)
    await running(crowd, 2, "model = 'few' AND state = 'running'")
    await gone(crowd, writers)


async def test_an_engine_that_floods_fifty_readers_who_take_nothing_fills_no_memory(crowd, keys):
    """A process of its own: in an older one there is memory to be filled that others gave back."""
    await asyncio.to_thread(crowd.stop)
    await asyncio.to_thread(crowd.start)
    model = await asyncio.to_thread(crowd.add_model, keys[0], "floods", script=FLOOD, mode="text")
    before, most = Held.by(crowd), 0
    async with session(keys[0]) as web, contextlib.AsyncExitStack() as stack:
        asked = web.post(f"{crowd.url}/v1/chat/completions", json=question("go", model=model), headers=BACKGROUND)
        answer = await stack.enter_async_context(asked)
        first = json.loads((await answer.content.readuntil(b"\n\n")).partition(b"data: ")[2])
        path = f"/v1/responses/{first['id']}/stream?dialect="
        dialects = islice(cycle(ENCODERS), FLOOD_READERS)
        readers = await asyncio.gather(*(paused(crowd, keys[0], path + dialect) for dialect in dialects))
        async with asyncio.timeout(60):
            while (row := crowd.row(first["id"]))["end_state"] is None:
                most = max(most, Held.by(crowd).rss_bytes)
                await asyncio.sleep(0.05)  # until the next look: nobody tells how much a process has
    # The engine never ends it; more than an answer may hold is not taken.
    assert (row["end_state"], row["end_reason"], len(row["output_text"])) == ("completed", "length", 2_000_000)
    assert max(most, Held.by(crowd).rss_bytes) - before.rss_bytes <= FLOOD_BYTES
    await gone(crowd, readers)
    largest = crowd.rows(
        "SELECT MAX(LENGTH(CAST(payload AS text))) FROM streaming_responseevent WHERE response_id = ?", first["id"]
    )
    assert largest[0][0] <= EVENT_BYTES_MAX + 100


def long_log(site, key) -> str:
    """The id of an ended response whose log has 200 MB."""
    with site.api(key) as client:
        small = chat(client, script(outputs=[{"text": "0" * EVENT_CHARS}])).response_id
    changed = {"id": "resp_" + "1" * 26, "last_seq": LOG_EVENTS + 1}
    columns = list(site.row(small))
    places = ", ".join("?" if column in changed else column for column in columns)
    copied = (
        f"INSERT INTO streaming_response ({', '.join(columns)}) SELECT {places} FROM streaming_response WHERE id = ?"  # noqa: S608
    )
    site.write(copied, *(changed[column] for column in columns if column in changed), small)
    event = (
        "INSERT INTO streaming_responseevent (response_id, seq, epoch, kind, payload, token_count)"
        " WITH RECURSIVE n(seq) AS (SELECT CAST(? AS integer) UNION ALL SELECT seq + 1 FROM n WHERE seq < ?)"
        " SELECT ?, n.seq, 1, kind, payload, 1 FROM n, streaming_responseevent e WHERE e.response_id = ? AND kind = ?"
    )
    site.write(event, 1, LOG_EVENTS, changed["id"], small, "text")
    site.write(event, LOG_EVENTS + 1, 0, changed["id"], small, "ended")
    return changed["id"]


async def test_a_reader_that_stops_reading_200_mb_costs_no_memory_and_is_cut_off(crowd, keys):
    response_id = await asyncio.to_thread(long_log, crowd, keys[0])
    path = f"{crowd.url}/v1/responses/{response_id}/stream"
    async with session(keys[0]) as web:
        # The pages that the database keeps in memory are no cost of a reader.
        async with web.get(path) as answer:
            await answer.content.readexactly(20 * 2**20)
            reset(answer.connection.transport)
        before = Held.by(crowd)
        told = len(crowd.web.lines)
        async with session(keys[0]) as idle, idle.get(path) as answer:
            await answer.content.readexactly(1000)
            answer.connection.transport.pause_reading()
            await asyncio.to_thread(crowd.web.line_with, "reader stuck for", 60, told)
            held = Held.by(crowd)
        assert held.rss_bytes - before.rss_bytes <= STUCK_BYTES
        assert held.is_bounded
        # It may come back, from wherever it was.
        async with web.get(path, headers={"Last-Event-ID": str(LOG_EVENTS - 2)}) as answer:
            rest = await answer.content.read()
        assert rest.count(b"0" * EVENT_CHARS) == 2
        assert rest.endswith(b"[DONE]\n\n")
