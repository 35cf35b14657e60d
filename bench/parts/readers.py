"""Owns what readers cost: responses that nobody, one or sixteen read. Sixteen readers must cost one relay."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from bench.account import Account
from bench.client import StreamClient
from bench.load import Load, connect
from bench.measure import Measure
from bench.meter import Meter, others_percent, us_per_chunk
from bench.preparing import say
from bench.sides import MODEL, Side
from bench.stage import Stage
from bench.wires import OpenAIWire, reading

PART = "readers"
COUNTS = 0, 1, 16
RESPONSES, TOKENS = 20, 150
START_S, WINDOW_S = 0.5, 4.0


def case(readers: int) -> str:
    return f"{RESPONSES} responses x 25 chunks/s, readers of each: {readers}"


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    async with stage.ours() as side:
        background = OpenAIWire(MODEL, {**stage.site.headers, "X-Disconnect-Policy": "background"})
        for readers in COUNTS:
            say(f"  {side.name}: {case(readers)}")
            yield await read_by(stage, replace(side, wire=background), readers)


async def read_by(stage: Stage, side: Side, readers: int) -> Measure:
    assert side.pid is not None
    meter = Meter(stage.engine, Account(side.pid, side.database))
    requests = await stage.engine.requests()
    load = Load(side.address, side.wire, streams=RESPONSES, tokens=TOKENS)
    await load.start()
    await load.all_streaming()
    more = [other for client in load.clients for other in joining(side, client, readers - 1)]
    for other in more:
        await connect(other, side.address)
    if not readers:
        load.close()
    await asyncio.sleep(START_S)
    before = await meter.read()
    await asyncio.sleep(WINDOW_S)
    after = await meter.read()
    wrong = await ended(stage, [*load.clients, *more] if readers else [])
    values = {"relays_per_response": (await stage.engine.requests() - requests) / RESPONSES}
    if (cost_us := us_per_chunk(before, after)) is not None:
        values["cpu_us_per_chunk"] = cost_us
    return Measure(PART, case(readers), side.name, values | others_percent(before, after), wrong)


def joining(side: Side, client: StreamClient, count: int) -> list[StreamClient]:
    """Others who read the same response, from its start."""
    request = reading(side.wire, client.record.last_event_id, side.address, from_start=True)
    return [StreamClient(side.wire, request, client.tokens) for _ in range(count)]


async def ended(stage: Stage, readers: list[StreamClient]) -> tuple[str, ...]:
    """Every reader has the whole answer; also those that nobody read have ended at the engine."""
    for reader in readers:
        await reader.ended.wait()
    wrong = tuple(reader.record.failure for reader in readers if reader.record.failure is not None)
    return wrong if await stage.engine.until_running(0, timeout_s=20) is not None else (*wrong, "a response runs on")
