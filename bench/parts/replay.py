"""Owns the replay of a long answer from its rows: when it begins, when it ends, and what others feel meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator

from bench.client import StreamClient
from bench.load import Load, connect
from bench.measure import Measure, quantiles_ms
from bench.meter import Meter, others_percent
from bench.preparing import say
from bench.sides import LONG_MODEL, LONG_TOKENS, LONG_WORDS, Side
from bench.stage import Stage
from bench.window import take_latencies
from bench.wires import OpenAIWire, question, reading

PART = "replay"
NEIGHBOURS, NEIGHBOUR_TOKENS = 40, 225
CASE = f"one replay after the other beside {NEIGHBOURS} streams x 25 chunks/s"
KEEP_S = 0.5
CALM_S = REPLAYING_S = 3.0


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    """The tail is dropped early, so that rows are read and not memory."""
    async with stage.ours(TAIL_KEEP_S=str(KEEP_S)) as side:
        say(f"  {side.name}: a long answer is made")
        wire = OpenAIWire(LONG_MODEL, stage.site.headers)
        made = await long_answer(side, wire)
        say(f"  {side.name}: {CASE}")
        yield await replays(stage, side, made, wire)


async def long_answer(side: Side, wire: OpenAIWire) -> StreamClient:
    """Somebody who has read one to its end."""
    client = StreamClient(wire, question(wire, LONG_TOKENS, side.address), LONG_WORDS)
    await connect(client, side.address)
    await client.ended.wait()
    await asyncio.sleep(4 * KEEP_S)
    return client


async def replays(stage: Stage, side: Side, made: StreamClient, wire: OpenAIWire) -> Measure:
    load = Load(side.address, side.wire, streams=NEIGHBOURS, tokens=NEIGHBOUR_TOKENS)
    meter = Meter(stage.engine, None)
    await load.start()
    await load.all_streaming()
    await asyncio.sleep(CALM_S)
    calm_s = take_latencies(load.records)
    before = await meter.read()
    again = await read_again(side, made, wire)
    disturbed_s = take_latencies(load.records)
    values = {
        "replays": len(again),
        **quantiles_ms("first_text", [first_s for first_s, _ in again], (50,)),
        **quantiles_ms("replay_end", [end_s for _, end_s in again], (50,)),
        **quantiles_ms("calm", calm_s, (50, 99)),
        **quantiles_ms("disturbed", disturbed_s, (50, 99)),
        **others_percent(before, await meter.read()),
    }
    await load.all_ended(20)
    return Measure(PART, CASE, side.name, values, (*load.failures(), *filter(None, [made.record.failure])))


async def read_again(side: Side, made: StreamClient, wire: OpenAIWire) -> list[tuple[float, float]]:
    """One replay after the other for a while: the seconds to the first text and to the end of each whole one."""
    request = reading(wire, made.record.last_event_id, side.address, from_start=True)
    give_up_s = time.perf_counter() + REPLAYING_S
    seconds = []
    while time.perf_counter() < give_up_s:
        client = StreamClient(wire, request, LONG_WORDS)
        await connect(client, side.address)
        await client.ended.wait()
        record = client.record
        if record.failure is None and record.first_content_s is not None:
            seconds.append((record.first_content_s - record.started_s, time.perf_counter() - record.started_s))
        else:
            made.record.failure = f"a replay: {record.failure}"
    return seconds
