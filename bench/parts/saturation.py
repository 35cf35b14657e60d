"""Owns the search for the rate at which a side is full: ever more streams until its latency runs away. Bounded."""

import asyncio
import time
from collections.abc import AsyncIterator

from bench.engine import RATE_PER_S
from bench.figures import FIGURES
from bench.load import Load
from bench.measure import Measure, quantile
from bench.preparing import say
from bench.sides import Side
from bench.stage import Stage
from bench.window import Window, look

FIRST, STEP, MOST = 100, 50, 1_000
PART, CASE = "saturation", f"{STEP} streams more x {RATE_PER_S} chunks/s every 2 s"
RAMP_S = 28
START_S, SETTLE_S, WINDOW_S = 5, 0.4, 1.2
RUNAWAY_S = 0.1
KEPT_UP = 0.9
FULL_PERCENT = 95
SAID = {"chunks_per_s", "latency_p50_ms", "cpu_percent", "busiest_thread_percent", "machine_percent"}


def held(step: Window) -> bool:
    kept_up = step.chunks_per_s >= KEPT_UP * step.streams * RATE_PER_S
    return kept_up and bool(step.latencies_s) and quantile(step.latencies_s, 50) <= RUNAWAY_S


def is_full(step: Window) -> bool:
    return max(step.busiest_thread_percent, step.machine_percent) >= FULL_PERCENT


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    for opened in (stage.ours, stage.bare):
        async with opened() as side:
            steps = await ramp(stage, side)
            yield Measure(PART, CASE, side.name, summary(steps))


async def ramp(stage: Stage, side: Side) -> list[Window]:
    steps: list[Window] = []
    loads: list[Load] = []
    give_up_s = time.monotonic() + RAMP_S
    while not steps or (held(steps[-1]) and steps[-1].streams < MOST and time.monotonic() < give_up_s):
        more = STEP if steps else FIRST
        load = Load(side.address, side.wire, streams=more, tokens=RATE_PER_S * RAMP_S * 2)
        loads.append(load)
        await load.start()
        await load.all_streaming(START_S)
        await asyncio.sleep(SETTLE_S)
        records = [record for load in loads for record in load.records]
        step = await look(stage.engine, side, records, WINDOW_S)
        if not held(step):
            step = await look(stage.engine, side, records, WINDOW_S)  # others may have taken the machine for a moment
        steps.append(step)
        say(f"  {side.name}: {line(step)}")
    for load in loads:
        load.close()
    await stage.engine.until_running(0, timeout_s=20)
    return steps


def summary(steps: list[Window]) -> dict[str, float]:
    """The last step that held is what can be carried; what is not reached in the time is missing."""
    values: dict[str, float] = {"ran_away": float(not held(steps[-1]))}
    if carried := [step for step in steps if held(step)]:
        values |= carried[-1].values()
        values |= {"sustained_streams": carried[-1].streams, "sustained_chunks_per_s": carried[-1].chunks_per_s}
    if full := [step for step in steps if is_full(step)]:
        values["full_chunks_per_s"] = full[0].chunks_per_s
    return values


def line(step: Window) -> str:
    said = {FIGURES[name]: value for name, value in step.values().items() if name in SAID}
    return f"{step.streams} streams: {', '.join(f'{label} {value:.1f}' for label, value in said.items())}"
