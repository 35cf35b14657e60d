"""Owns the reconnect storm: all sockets of a load are reset at once, and every client comes back as the page does."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace

from bench.account import Account
from bench.client import StreamClient
from bench.load import Load, connect
from bench.measure import Measure, quantile, quantiles_ms
from bench.meter import Meter, highest_cost, others_percent, spent
from bench.preparing import say
from bench.probe import probing
from bench.sides import MODEL, Side
from bench.stage import Stage
from bench.wires import OpenAIWire, reading

PART = "storm"
STREAMS, RATE_PER_S, TOKENS = 1_000, 2, 70
CASE = f"{STREAMS:,} streams x {RATE_PER_S} chunks/s, all sockets reset"
# As frontend/src/lib/stream/backoff.ts: anything between nothing and a cap that doubles with each try.
FIRST_CAP_S, LAST_CAP_S = 0.5, 15.0
TRY_AGAIN = (429, 503)
GIVE_UP_S = 60


class Returner:
    """A client who was cut off: comes back with Last-Event-ID until the rest of its answer has arrived."""

    def __init__(self, client: StreamClient, side: Side) -> None:
        self.client = client
        self.settled = asyncio.Event()  # there is text again, or there will never be
        self.again_s: float | None = None
        self.refused = 0
        self.is_whole = False
        self._side = side

    async def come_back(self) -> None:
        """Done when its whole answer is there, or when what it was told is a failure."""
        cap_s = FIRST_CAP_S
        while True:
            await asyncio.sleep(random.uniform(0, cap_s))
            cap_s = min(LAST_CAP_S, 2 * cap_s)
            await self._connect()
            if self.client.status not in TRY_AGAIN:
                break
            self.refused += 1
        self.is_whole = self.client.record.failure is None
        self.settled.set()

    async def _connect(self) -> None:
        seen = self.client.record
        request = reading(self._side.wire, seen.last_event_id, self._side.address, from_start=False)
        client = StreamClient(self._side.wire, request, self.client.tokens - seen.tokens)
        client.record.last_event_id = seen.last_event_id
        await connect(client, self._side.address)
        await client.streaming.wait()
        if client.record.first_content_s is not None:
            self.again_s = client.record.first_content_s
            self.settled.set()
        await client.ended.wait()
        self.client = client


async def measure(stage: Stage) -> AsyncIterator[Measure]:
    async with stage.ours() as side, stage.rate(RATE_PER_S):
        say(f"  {side.name}: {CASE}")
        patient = OpenAIWire(MODEL, {**stage.site.headers, "X-Disconnect-Policy": f"grace={GIVE_UP_S}"})
        yield await storm(stage, replace(side, wire=patient), STREAMS, TOKENS)


async def storm(stage: Stage, side: Side, streams: int, tokens: int) -> Measure:
    """Up to the last text again for the figures, up to the last end for the proof that nothing was lost or doubled."""
    assert side.pid is not None
    account = Account(side.pid, side.database)
    meter = Meter(stage.engine, account)
    load = Load(side.address, side.wire, streams=streams, tokens=tokens)
    new = await meter.read()
    await load.start()
    await load.all_streaming()
    wrong = load.failures()
    before = await meter.read()
    returners = [Returner(client, side) for client in load.clients if not client.ended.is_set()]
    async with probing(side.address) as healthz_s, highest_cost(account) as highest:
        for returner in returners:
            returner.client.reset()
        reset_s = time.perf_counter()
        coming = [asyncio.create_task(returner.come_back()) for returner in returners]
        await all_settled(returners)
        after = await meter.read()
    await until_done(coming)
    again_s = [returner.again_s - reset_s for returner in returners if returner.again_s is not None]
    assert before.cost is not None
    values = {
        "again": len(again_s),
        "not_again": streams - len(again_s),
        **({"again_p50_s": quantile(again_s, 50), "all_again_s": max(again_s)} if again_s else {}),
        "refused": sum(returner.refused for returner in returners),
        "cpu_ms_per_return": 1e3 * spent(before, after)[0] / max(1, len(returners)),
        "cpu_ms_per_start": 1e3 * spent(new, before)[0] / streams,
        **highest.values(before.cost, streams),
        **quantiles_ms("healthz", healthz_s, (50, 99)),
        **others_percent(before, after),
    }
    return Measure(PART, CASE, side.name, values, (*wrong, *failures(returners)))


async def all_settled(returners: list[Returner]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GIVE_UP_S):
            for returner in returners:
                await returner.settled.wait()


async def until_done(coming: list[asyncio.Task[None]]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GIVE_UP_S):
            await asyncio.gather(*coming)


def failures(returners: list[Returner]) -> tuple[str, ...]:
    """Of those who came back with less or more than the rest, or not in time."""
    return tuple(
        returner.client.record.failure or "not back in time" for returner in returners if not returner.is_whole
    )
