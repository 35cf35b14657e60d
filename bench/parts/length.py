"""Owns the cost of a chunk by its place in a long answer: nothing may grow with what has been said already."""

import asyncio
from collections.abc import AsyncIterator

from bench.account import Account
from bench.load import Load
from bench.measure import Measure
from bench.meter import Meter, Moment, others_percent, us_per_chunk
from bench.preparing import say
from bench.sides import Side
from bench.stage import Stage

PART = "length"
STREAMS, RATE_PER_S, TOKENS = 12, 400, 8_050
WINDOW_TOKENS = 600
#: Where a window of WINDOW_TOKENS begins, by the length of answer that it stands for.
POSITIONS = {100: 100, 2_000: 2_000, 8_000: 7_400}
CASE = f"{STREAMS} streams x {RATE_PER_S} chunks/s, answers of 8,000 tokens"
LOOK_S = 0.02


def figure(length: int) -> str:
    return f"us_per_chunk_at_{length}"


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    async with stage.ours() as side, stage.rate(RATE_PER_S):
        say(f"  {side.name}: {CASE}")
        yield await lengths(stage, side)


async def lengths(stage: Stage, side: Side) -> Measure:
    assert side.pid is not None
    load = Load(side.address, side.wire, streams=STREAMS, tokens=TOKENS)
    meter = Meter(stage.engine, Account(side.pid, side.database))
    before = await meter.read()
    await load.start()
    values = {}
    for length, position in POSITIONS.items():
        at = await reached(load, position, meter), await reached(load, position + WINDOW_TOKENS, meter)
        if (cost_us := us_per_chunk(*at)) is not None:
            values[figure(length)] = cost_us
    await load.all_ended(30)
    after = await meter.read()
    if (whole_us := us_per_chunk(before, after)) is not None:
        values["cpu_us_per_chunk"] = whole_us
    return Measure(PART, CASE, side.name, values | others_percent(before, after), load.failures())


async def reached(load: Load, position: int, meter: Meter) -> Moment:
    """The moment in which the streams have so many tokens on average; also when they fail before it."""
    while sum(record.tokens for record in load.records) < position * len(load.clients):
        if all(client.ended.is_set() for client in load.clients):
            break
        await asyncio.sleep(LOOK_S)
    return await meter.read()
