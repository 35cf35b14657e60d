"""Owns the main comparison: whole streams of ours beside a bare relay, nginx and none, from start to end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from bench.account import Account
from bench.client import StreamRecord
from bench.engine import RATE_PER_S
from bench.load import Load
from bench.measure import Measure, quantiles_ms
from bench.meter import Meter, Moment, highest_cost, others_percent, percent_of_a_core, spent, us_per_chunk
from bench.preparing import said_by, say, warm
from bench.sides import Side, direct, nginx
from bench.stage import Stage

PART = "latency"
FEW, MANY = 50, 200
STEADY_S = 1.0  # a shorter time in which all were streaming says nothing


def case(streams: int) -> str:
    return f"{streams} streams x {RATE_PER_S} chunks/s"


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    """Rounds of the two that are held against each other are interleaved; the floors are shown once."""
    async with contextlib.AsyncExitStack() as stack:
        judged = [await stack.enter_async_context(stage.ours()), await stack.enter_async_context(stage.bare())]
        passing = await stack.enter_async_context(nginx(stage.engine, stage.directory))
        floors = [*filter(None, [passing]), direct(stage.engine)]
        for side in floors:
            await warm(side)
        if passing is None:
            say("no nginx on this machine: that side is left out")
        for streams, rounds in ((FEW, max(1, stage.rounds - 1)), (MANY, stage.rounds)):
            for nth in range(rounds):
                for side in judged if nth else [*judged, *floors]:
                    yield await flow(stage, side, streams)


async def flow(stage: Stage, side: Side, streams: int) -> Measure:
    say(f"  {side.name}: {case(streams)}")
    load = Load(side.address, side.wire, streams=streams, tokens=stage.tokens)
    account = Account(side.pid, side.database) if side.pid else None
    meter = Meter(stage.engine, account)
    before = await meter.read()
    async with highest_cost(account) as highest:
        starting = asyncio.create_task(load.start())
        ending = asyncio.create_task(load.all_ended(20 + 3 * stage.tokens / RATE_PER_S))
        await load.all_streaming()
        steady_from = await meter.read()
        await load.first_ended()
        steady_to = await meter.read()
        await asyncio.gather(starting, ending)
    after = await meter.read()
    values = seen_values(load.records, before, after)
    if before.cost:
        values |= highest.values(before.cost, streams)
        values |= cost_values(before, steady_from, steady_to, after, streams)
    if failures := load.failures():
        say(f"{len(failures)} failed: {failures[0]}\n{said_by(side)}")
    return Measure(PART, case(streams), side.name, values, failures)


def seen_values(records: Sequence[StreamRecord], before: Moment, after: Moment) -> dict[str, float]:
    """What the clients saw."""
    chunks = after.chunks - before.chunks
    ttft_s = [record.first_content_s - record.started_s for record in records if record.first_content_s is not None]
    latencies_s = [latency_s for record in records for latency_s in record.latencies_s]
    values: dict[str, float] = {
        "finished": sum(record.failure is None for record in records),
        "chunks": chunks,
        "chunks_per_s": chunks / (after.at_s - before.at_s),
        **others_percent(before, after),
        **quantiles_ms("ttft", ttft_s, (50, 95)),
        **quantiles_ms("latency", latencies_s, (50, 95, 99)),
    }
    if frames := sum(record.frames for record in records):
        values["chunks_per_frame"] = chunks / frames
    return values


def cost_values(
    before: Moment, steady_from: Moment, steady_to: Moment, after: Moment, streams: int
) -> dict[str, float]:
    """What the server spent: on everything, and on a chunk alone while every stream was streaming."""
    cpu_s, chunks = spent(before, after)
    values = {"cpu_percent": percent_of_a_core(before, after)}
    if chunks:
        values["cpu_us_per_chunk"] = 1e6 * cpu_s / chunks
    is_steady = steady_to.at_s - steady_from.at_s >= STEADY_S
    if is_steady and (steady_us := us_per_chunk(steady_from, steady_to)) is not None:
        values["steady_us_per_chunk"] = steady_us
        values["cpu_ms_per_stream"] = (1e3 * cpu_s - steady_us * chunks / 1e3) / streams
    return values
