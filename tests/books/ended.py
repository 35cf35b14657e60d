"""Owns one answer of the counting matrix from its question to its row. Does not know what happens to it, nor judge."""

import asyncio
from contextlib import AsyncExitStack

from streaming.models import Conversation, Response
from streaming.ownership.ask import Ask
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.policy import parse_policy
from streaming.store import threads
from tests.books.happenings import CUT, MOST, Asked, Happening, full, reads
from tests.fault_engine import FaultEngine
from tests.stream.conftest import DEADLINE_S, Bench, until_stored

LONG_S = 60.0


def set_timers(settings, happening: Happening) -> None:
    """Those that are to fire are short, the others long."""
    for name in ("QUEUE_TIMEOUT_S", "TTFT_TIMEOUT_S", "IDLE_TIMEOUT_S", "TOTAL_TIMEOUT_S"):
        setattr(settings, name, happening.timers.get(name, LONG_S))


async def ended_row(bench: Bench, server: FaultEngine, happening: Happening, streamed: bool, **fields) -> Response:
    """Ask model ``m``, let it happen, read to the end. ``fields`` of the question go beside those of the matrix."""
    server.set_control(happening.control)
    ask = await _ask(bench, happening, stream=streamed, **fields)
    engine = await check(bench.owner, ask)
    async with AsyncExitStack() as around:
        if happening.is_full:
            await around.enter_async_context(full(bench, "m"))
        response, tail = await start(bench.owner, ask, engine, asyncio.get_running_loop().time())
        reader = bench.reader(response, tail)
        reading = asyncio.ensure_future(reads(reader, streamed))
        if happening.deed:
            await until_stored(tail, lambda tail: tail.sent_tokens >= CUT)
            await _until(lambda: not streamed or tail.delivered_tokens >= CUT)
            await happening.deed(Asked(bench, server, response, reader, streamed))
        async with asyncio.timeout(DEADLINE_S):
            await reading
    row = await bench.ended(response)
    assert await bench.owner.journal.settled()
    return await bench.row(row)


async def _ask(bench: Bench, happening: Happening, text: str = "hi", **fields) -> Ask:
    if happening.in_conversation:
        made = await threads.write(lambda: Conversation.objects.create(user=bench.user, model="m"))
        fields |= {"conversation_id": made.id, "question": text}
    return Ask(
        user_id=bench.user.pk,
        purpose="chat" if happening.in_conversation else "api",
        dialect=OPENAI_CHAT,
        model="m",
        messages=[{"role": "user", "content": text}],
        policy=parse_policy("abort", 3600),
        **{"max_tokens": MOST} | fields,
    )


async def _until(true) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            await asyncio.sleep(0.001)
