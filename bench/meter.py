"""Owns reading all that is counted about one side at chosen moments, and the peaks between them. It starts no load."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bench.account import Account, Cost, machine_busy_s
from bench.engine import EngineHandle

CORES = os.cpu_count() or 1
SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Moment:
    at_s: float
    chunks: int
    cost: Cost | None  # of the side's server
    busy_s: float  # CPU of the whole machine
    others_s: float  # what of it is not of this run


class Meter:
    """One side's: the engine's chunks, the server's cost, the machine's."""

    def __init__(self, engine: EngineHandle, account: Account | None) -> None:
        self._engine, self._account = engine, account
        self._run = Account(os.getpid())  # the driver and all that it started

    async def read(self) -> Moment:
        busy_s = machine_busy_s()
        others_s = busy_s - self._run.read().cpu_s
        chunks = await self._engine.chunks()
        cost = self._account.read() if self._account else None
        return Moment(time.perf_counter(), chunks, cost, busy_s, others_s)


class Highest:
    """The peaks of a server while it is under load."""

    rss_kb: float = 0
    threads: int = 0
    database_connections: int = 0

    def note(self, cost: Cost) -> None:
        self.rss_kb = max(self.rss_kb, cost.rss_kb)
        self.threads = max(self.threads, cost.threads)
        self.database_connections = max(self.database_connections, cost.database_connections)

    def values(self, before: Cost, streams: int) -> dict[str, float]:
        return {
            "kb_per_stream": (self.rss_kb - before.rss_kb) / streams,
            "threads": self.threads,
            "database_connections": self.database_connections,
        }


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


def spent(start: Moment, stop: Moment) -> tuple[float, int]:
    """CPU seconds of the server, and chunks of the engine."""
    assert start.cost is not None
    assert stop.cost is not None
    return stop.cost.cpu_s - start.cost.cpu_s, stop.chunks - start.chunks


def us_per_chunk(start: Moment, stop: Moment) -> float | None:
    cpu_s, chunks = spent(start, stop)
    return 1e6 * cpu_s / chunks if chunks > 0 else None


def percent_of_a_core(start: Moment, stop: Moment) -> float:
    return 100 * spent(start, stop)[0] / (stop.at_s - start.at_s)


def others_percent(start: Moment, stop: Moment) -> dict[str, float]:
    """Of the machine: what took part of the wall time from us."""
    return {"others_percent": 100 * (stop.others_s - start.others_s) / (stop.at_s - start.at_s) / CORES}
