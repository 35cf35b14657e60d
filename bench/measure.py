"""Owns one measurement of one side: a load of streams, or idle streams that wait for their first token."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from bench.account import Account, Cost, machine_busy_s
from bench.engine import RATE_PER_S, EngineHandle
from bench.load import Load, StreamRecord
from bench.sides import Side

CORES = os.cpu_count() or 1
SAMPLE_S = 0.5
PREFILL_S = 90
# Longer than the time after which the site sends its headers early: a stream waits differently before and after.
IDLE_SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class Measure:
    """What one side did once. `values` has the names of `bench/table.py`; a value that cannot be had is missing."""

    side: str
    streams: int
    failures: tuple[str, ...]
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Moment:
    at_s: float
    chunks: int
    cost: Cost | None  # of the side's server
    others_s: float  # CPU that the machine spent on what is not of this run


async def measure_load(side: Side, engine: EngineHandle, *, streams: int, tokens: int) -> Measure:
    load = Load(side.address, side.wire, streams=streams, tokens=tokens)
    account = Account(side.pid, side.database) if side.pid else None
    meter = Meter(engine, account)
    before = await meter.read()
    async with highest_cost(account) as highest:
        starting = asyncio.create_task(load.start())
        ending = asyncio.create_task(load.all_ended(20 + 3 * tokens / RATE_PER_S))
        await load.all_streaming()
        steady_from = await meter.read()
        await load.first_ended()
        steady_to = await meter.read()
        await asyncio.gather(starting, ending)
    after = await meter.read()
    values = seen_values(load.records, before, after)
    if before.cost and after.cost and steady_from.cost and steady_to.cost:
        values |= cost_values(before, steady_from, steady_to, after, streams)
        values |= {
            "kb_per_stream": (highest.rss_kb - before.cost.rss_kb) / streams,
            "threads": highest.threads,
            "database_connections": highest.database_connections,
        }
    return Measure(side.name, streams, failures(load.records), values)


async def measure_idle(side: Side, engine: EngineHandle, *, streams: int) -> Measure:
    """All streams wait for a first token that does not come, then their sockets are closed."""
    assert side.pid is not None
    await engine.script(prefill_s=PREFILL_S)
    load = Load(side.address, side.wire, streams=streams, tokens=1)
    account = Account(side.pid, side.database)
    before = account.read()
    await load.start()
    reached_s = await engine.until_running(streams, timeout_s=20)
    await asyncio.sleep(IDLE_SETTLE_S)
    during = account.read()
    wrong = failures(load.records)
    load.close()
    freed_s = await engine.until_running(0, timeout_s=20)
    await engine.script()
    values: dict[str, float] = {
        "idle_threads": during.threads,
        "idle_threads_added": during.threads - before.threads,
        "idle_database_connections": during.database_connections,
        "idle_kb_per_stream": (during.rss_kb - before.rss_kb) / streams,
    }
    if freed_s is not None:
        values["freed_s"] = freed_s
    if reached_s is None:
        wrong = (*wrong, "not all streams reached the engine")
    return Measure(side.name, streams, wrong, values)


class Meter:
    """Reads all that is counted about one side, at moments of its user's choice."""

    def __init__(self, engine: EngineHandle, account: Account | None) -> None:
        self._engine, self._account = engine, account
        self._run = Account(os.getpid())  # the driver and all that it started

    async def read(self) -> Moment:
        others_s = machine_busy_s() - self._run.read().cpu_s
        chunks = await self._engine.chunks()
        return Moment(time.perf_counter(), chunks, self._account.read() if self._account else None, others_s)


class Highest:
    """The peaks of a server while it is under load."""

    rss_kb: float = 0
    threads: int = 0
    database_connections: int = 0

    def note(self, cost: Cost) -> None:
        self.rss_kb = max(self.rss_kb, cost.rss_kb)
        self.threads = max(self.threads, cost.threads)
        self.database_connections = max(self.database_connections, cost.database_connections)


@contextlib.asynccontextmanager
async def highest_cost(account: Account | None) -> AsyncIterator[Highest]:
    highest = Highest()

    async def sample() -> None:
        while account is not None:
            highest.note(account.read())
            await asyncio.sleep(SAMPLE_S)

    sampling = asyncio.create_task(sample())
    try:
        yield highest
    finally:
        sampling.cancel()


def seen_values(records: Sequence[StreamRecord], before: Moment, after: Moment) -> dict[str, float]:
    """What the clients saw."""
    chunks = after.chunks - before.chunks
    ttft_s = [record.first_content_s - record.started_s for record in records if record.first_content_s is not None]
    latencies_s = [latency_s for record in records for latency_s in record.latencies_s]
    values: dict[str, float] = {
        "finished": sum(record.failure is None for record in records),
        "chunks": chunks,
        "chunks_per_s": chunks / (after.at_s - before.at_s),
        "others_percent": 100 * (after.others_s - before.others_s) / (after.at_s - before.at_s) / CORES,
    }
    if frames := sum(record.frames for record in records):
        values["chunks_per_frame"] = chunks / frames
    if ttft_s:
        values |= {f"ttft_p{q}_ms": 1000 * quantile(ttft_s, q) for q in (50, 95)}
    if latencies_s:
        values |= {f"latency_p{q}_ms": 1000 * quantile(latencies_s, q) for q in (50, 95, 99)}
    return values


def cost_values(
    before: Moment, steady_from: Moment, steady_to: Moment, after: Moment, streams: int
) -> dict[str, float]:
    """What the server spent: on everything, and on a chunk alone while every stream was streaming."""
    cpu_s, chunks = spent(before, after)
    steady_s, steady_chunks = spent(steady_from, steady_to)
    values = {"cpu_percent": 100 * cpu_s / (after.at_s - before.at_s)}
    if chunks:
        values["cpu_us_per_chunk"] = 1e6 * cpu_s / chunks
    if steady_chunks > 0 and steady_to.at_s > steady_from.at_s:
        steady_us = 1e6 * steady_s / steady_chunks
        values["steady_us_per_chunk"] = steady_us
        values["cpu_ms_per_stream"] = (1e3 * cpu_s - steady_us * chunks / 1e3) / streams
    return values


def spent(start: Moment, stop: Moment) -> tuple[float, int]:
    assert start.cost is not None
    assert stop.cost is not None
    return stop.cost.cpu_s - start.cost.cpu_s, stop.chunks - start.chunks


def quantile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def failures(records: Sequence[StreamRecord]) -> tuple[str, ...]:
    return tuple(record.failure for record in records if record.failure is not None)
