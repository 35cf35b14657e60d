"""Owns streams that wait for a first token that does not come: what each holds, how /healthz is beside them."""

import asyncio
from collections.abc import AsyncIterator

from bench.account import Account, Cost
from bench.load import Load
from bench.measure import Measure, quantiles_ms
from bench.meter import Meter, others_percent
from bench.preparing import say
from bench.probe import probing
from bench.sides import Side
from bench.stage import Stage

PART = "idle"
THOUSAND, MANY = 1_000, 200
PREFILL_S = 90
# Longer than the time after which the site sends its headers early: a stream waits differently before and after.
SETTLE_S = 3.0
PROBING_S = 5.0
REACH_S = 40.0


def case(streams: int) -> str:
    return f"{streams:,} streams waiting for their first token"


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    """Each on a new server: memory that one has taken and given back would hide what the next takes."""
    for streams, opened in ((THOUSAND, stage.ours), (MANY, stage.ours), (MANY, stage.bare)):
        async with opened() as side:
            say(f"  {side.name}: {case(streams)}")
            yield await idle(stage, side, streams)


async def idle(stage: Stage, side: Side, streams: int) -> Measure:
    assert side.pid is not None
    await stage.engine.script(prefill_s=PREFILL_S)
    load = Load(side.address, side.wire, streams=streams, tokens=1)
    account = Account(side.pid, side.database)
    before = account.read()
    await load.start()
    reached_s = await stage.engine.until_running(streams, timeout_s=REACH_S)
    await asyncio.sleep(SETTLE_S)
    values = held(before, account.read(), streams) | await probed(stage, side)
    wrong = load.failures()
    load.close()
    freed_s = await stage.engine.until_running(0, timeout_s=REACH_S)
    await stage.engine.script()
    if freed_s is not None:
        values["freed_s"] = freed_s
    if reached_s is None:
        wrong = (*wrong, "not all streams reached the engine")
    return Measure(PART, case(streams), side.name, values, wrong)


def held(before: Cost, during: Cost, streams: int) -> dict[str, float]:
    return {
        "threads": during.threads,
        "threads_added": during.threads - before.threads,
        "database_connections": during.database_connections,
        "kb_per_stream": (during.rss_kb - before.rss_kb) / streams,
    }


async def probed(stage: Stage, side: Side) -> dict[str, float]:
    """/healthz for some seconds; a side that has none (404) answers as well."""
    meter = Meter(stage.engine, None)
    before = await meter.read()
    async with probing(side.address) as durations_s:
        await asyncio.sleep(PROBING_S)
    return quantiles_ms("healthz", durations_s, (50, 99)) | others_percent(before, await meter.read())
