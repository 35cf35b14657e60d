"""Idle streams cost no thread and hold no database connection; slow questions wait outside of both."""

import asyncio
import json
from pathlib import Path

import psutil

from tests.e2e.reading import script

STREAMS = 100


def held(site) -> tuple[int, int]:
    """Threads of the web process, and its open descriptors of the database file."""
    process = psutil.Process(site.web.popen.pid)
    database = str(site.data_dir / "db.sqlite3")
    links = [link.resolve() for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.exists()]
    return process.num_threads(), sum(str(link) == database for link in links)


async def opened(site, key, body: dict) -> asyncio.StreamWriter:
    """A request whose answer nobody waits for."""
    data = json.dumps(body).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s" % (key.encode(), len(data), data)
    )
    await writer.drain()
    return writer


async def running(site, count: int) -> None:
    async with asyncio.timeout(30):
        while site.rows("SELECT COUNT(*) FROM streaming_response WHERE state = 'running'") != [(count,)]:
            await asyncio.sleep(0.05)


async def measured(site, key, body):
    writers = await asyncio.gather(*(opened(site, key, body) for _ in range(STREAMS)))
    await running(site, STREAMS)
    figures = held(site)
    for writer in writers:
        writer.close()
    await running(site, 0)
    return figures


async def test_a_hundred_idle_streams_add_no_thread_and_hold_no_connection(site, key):
    silent = script(outputs=[{"gate": "never"}])
    after_one_token = script(outputs=[{"text": "a"}, {"gate": "never"}])
    body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    await (await opened(site, key, body)).drain()
    await asyncio.gather(*(asyncio.to_thread(lambda: None) for _ in range(4)))
    bound_threads, bound_connections = 32, 12
    for question, stream in [(silent, True), (after_one_token, True), (silent, False)]:
        body = {"model": "scripted", "stream": stream, "messages": [{"role": "user", "content": question}]}
        threads, connections = await measured(site, key, body)
        assert threads <= bound_threads
        assert connections <= bound_connections
    # Twice as many streams cost not one more: what there is belongs to the process, not to its streams.
    before = held(site)
    writers = await asyncio.gather(*(opened(site, key, body) for _ in range(2 * STREAMS)))
    await running(site, 2 * STREAMS)
    assert held(site)[0] <= before[0] + 1
    for writer in writers:
        writer.close()
    await running(site, 0)
