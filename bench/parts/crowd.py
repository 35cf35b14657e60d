"""Owns many streams, and few fast ones: what a chunk costs and how late it is while all of them are in full flow."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from bench.account import Account
from bench.load import Load
from bench.measure import Measure
from bench.meter import highest_cost
from bench.preparing import say
from bench.sides import Side
from bench.stage import Stage
from bench.window import look

PART = "crowd"
MOST_TOKENS = 8_000  # nothing ends by itself
START_S, WINDOW_S = 40, 4


@dataclass(frozen=True, slots=True)
class Shape:
    streams: int
    rate_per_s: int

    @property
    def name(self) -> str:
        return f"{self.streams:,} streams x {self.rate_per_s} chunks/s"


SHAPES = SLOW_1000, SLOW_500, FAST_500, FAST_20 = Shape(1_000, 5), Shape(500, 5), Shape(500, 25), Shape(20, 200)


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    async with stage.ours() as side:
        for shape in SHAPES:
            async with stage.rate(shape.rate_per_s):
                say(f"  {side.name}: {shape.name}")
                yield await in_flow(stage, side, shape)


async def in_flow(stage: Stage, side: Side, shape: Shape) -> Measure:
    """Whether all ends arrive is asked by other parts; here the sockets are closed in the middle."""
    assert side.pid is not None
    account = Account(side.pid, side.database)
    before = account.read()
    load = Load(side.address, side.wire, streams=shape.streams, tokens=MOST_TOKENS)
    async with highest_cost(account) as highest:
        await load.start()
        silent = await load.all_streaming(START_S)
        window = await look(stage.engine, side, load.records, WINDOW_S)
    wrong = load.failures()
    load.close()
    if await stage.engine.until_running(0, timeout_s=START_S) is None:
        wrong = (*wrong, "the engine works on for closed sockets")
    values = window.values() | highest.values(before, shape.streams) | {"without_text": silent}
    return Measure(PART, shape.name, side.name, values, wrong)
