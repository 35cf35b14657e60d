"""Owns a look at streams in full flow for some seconds: pace, latency, who is busy. It starts and ends none of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bench.account import Account, threads_cpu_s
from bench.client import StreamRecord
from bench.engine import EngineHandle
from bench.measure import quantiles_ms
from bench.meter import CORES, Meter, others_percent, percent_of_a_core, us_per_chunk
from bench.sides import Side


@dataclass(frozen=True, slots=True)
class Window:
    streams: int
    chunks_per_s: float  # of the engine
    latencies_s: tuple[float, ...]
    us_per_chunk: float | None
    cpu_percent: float
    busiest_thread_percent: float
    machine_percent: float
    others_percent: float

    def values(self) -> dict[str, float]:
        values = {
            "chunks_per_s": self.chunks_per_s,
            "cpu_percent": self.cpu_percent,
            "busiest_thread_percent": self.busiest_thread_percent,
            "machine_percent": self.machine_percent,
            "others_percent": self.others_percent,
            **quantiles_ms("latency", self.latencies_s, (50, 95, 99)),
        }
        return values if self.us_per_chunk is None else values | {"steady_us_per_chunk": self.us_per_chunk}


async def look(engine: EngineHandle, side: Side, records: Sequence[StreamRecord], seconds: float) -> Window:
    assert side.pid is not None
    meter = Meter(engine, Account(side.pid, side.database))
    take_latencies(records)
    before, threads_before = await meter.read(), threads_cpu_s(side.pid)
    await asyncio.sleep(seconds)
    after, threads_after = await meter.read(), threads_cpu_s(side.pid)
    passed_s = after.at_s - before.at_s
    busy_s = [sum(now) - sum(threads_before.get(thread, (0, 0))) for thread, now in threads_after.items()]
    return Window(
        streams=len(records),
        chunks_per_s=(after.chunks - before.chunks) / passed_s,
        latencies_s=tuple(take_latencies(records)),
        us_per_chunk=us_per_chunk(before, after),
        cpu_percent=percent_of_a_core(before, after),
        busiest_thread_percent=100 * max(busy_s) / passed_s,
        machine_percent=100 * (after.busy_s - before.busy_s) / passed_s / CORES,
        others_percent=others_percent(before, after)["others_percent"],
    )


def take_latencies(records: Sequence[StreamRecord]) -> list[float]:
    """Those since the last call."""
    found = [latency_s for record in records for latency_s in record.latencies_s]
    for record in records:
        record.latencies_s.clear()
    return found
