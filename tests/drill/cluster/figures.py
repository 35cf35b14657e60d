"""Owns what the cluster costs and how fast it is while nothing dies: doorbells, rows, connections, lag, stops."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from tests.drill import client
from tests.drill.cluster.up import STEADY_TOKENS, Up
from tests.drill.cluster.wire import Heard, ask, follow

#: Stop through any process: so long may the answer take, with the engine's proof.
STOP_S = 1.0
LAG_P95_MS = 50.0
MESSAGES_PER_TOKEN = 0.1
BEGUN_AT_SEQ = 4


@dataclass(slots=True)
class Figures:
    """Measured; aims that were missed stand in ``missed``, laws that were broken in ``broken``."""

    streams: int = 0
    per_process: list[int] = field(default_factory=list)
    tokens_per_s: float = 0.0
    rows_per_s: float = 0.0
    connections: int = 0
    messages_per_token: float = 0.0
    messages_per_token_followed: float = 0.0
    lag_ms: list[float] = field(default_factory=list)
    stop_ms: list[float] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        p50, p95 = _quantiles(self.lag_ms)
        load = f"{self.tokens_per_s:.0f} tokens/s, {self.rows_per_s:.0f} rows/s, {self.connections} connections"
        rung = f"{self.messages_per_token:.4f} with nobody elsewhere, {self.messages_per_token_followed:.3f} followed"
        slowest, usual = max(self.stop_ms), statistics.median(self.stop_ms)
        return [
            f"  {self.streams} streams at once through nginx, {self.per_process} by process: {load} of the database",
            f"  Valkey messages per token: {rung} by one reader elsewhere each",
            f"  follower lag {p50:.0f} ms p50, {p95:.0f} ms p95 of {len(self.lag_ms)} events",
            f"  {len(self.stop_ms)} stops through any process: {usual:.0f} ms median, {slowest:.0f} ms longest",
            *(f"  aim missed: {line}" for line in self.missed),
        ]


async def measure(up: Up, streams: int, followed: int) -> Figures:
    """All of it, one after the other, on a cluster where nothing else happens."""
    figures = Figures(streams=streams)
    async with client.session(up.stack.key) as web:
        await _steady(up, web, streams, figures)
        await _followers(up, web, followed, figures)
        await _stops(up, web, figures)
    _compare(figures)
    return figures


def _compare(figures: Figures) -> None:
    p95 = _quantiles(figures.lag_ms)[1]
    if p95 > LAG_P95_MS:
        figures.missed.append(f"follower lag {p95:.0f} ms p95, above {LAG_P95_MS:.0f}")
    if figures.messages_per_token > MESSAGES_PER_TOKEN:
        figures.missed.append(f"{figures.messages_per_token:.3f} messages per token, above {MESSAGES_PER_TOKEN}")
    if max(figures.stop_ms) > STOP_S * 1000:
        figures.broken.append(f"a stop took {max(figures.stop_ms):.0f} ms, more than {STOP_S:.0f} s")


async def _steady(up: Up, web: aiohttp.ClientSession, streams: int, figures: Figures) -> None:
    """Everybody reads where it runs."""
    heard = [Heard() for _ in range(streams)]
    rung, began_at = await asyncio.to_thread(up.stack.valkey.messages), time.monotonic()
    async with asyncio.TaskGroup() as group:
        for one in heard:
            group.create_task(ask(web, up.stack.url, "steady", one))
        await asyncio.sleep(STEADY_TOKENS * 0.04 / 2)
        figures.connections, figures.per_process = await asyncio.to_thread(_database, up)
    took_s = time.monotonic() - began_at
    rung = await asyncio.to_thread(up.stack.valkey.messages) - rung
    rows = await asyncio.to_thread(_rows_of, up, [one.response_id for one in heard])
    tokens = streams * STEADY_TOKENS
    figures.tokens_per_s, figures.rows_per_s = tokens / took_s, rows / took_s
    figures.messages_per_token = rung / tokens
    if not all(one.ended for one in heard):
        figures.broken.append("a steady stream was not read to its end")


def _database(up: Up) -> tuple[int, list[int]]:
    """Connections of the site's processes, and running responses of each."""
    site = up.stack.sites[0]
    ((connections,),) = site.rows(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    owners = Counter(owner for (owner,) in site.rows("SELECT owner FROM streaming_response WHERE state = 'running'"))
    return connections, sorted(owners.values())


def _rows_of(up: Up, ids: Sequence[str]) -> int:
    sql = "SELECT count(*) FROM streaming_responseevent WHERE response_id = ANY(?)"
    return up.stack.sites[0].rows(sql, list(ids))[0][0]


async def _followers(up: Up, web: aiohttp.ClientSession, followed: int, figures: Figures) -> None:
    """Each stream has its reader where it runs, and one at the next process."""
    urls = [site.url for site in up.stack.sites]
    pairs = [(Heard(), Heard()) for _ in range(followed)]
    rung = await asyncio.to_thread(up.stack.valkey.messages)
    async with asyncio.TaskGroup() as group:
        for nth, (near, far) in enumerate(pairs):
            group.create_task(ask(web, urls[nth % len(urls)], "steady", near))
            group.create_task(_from_elsewhere(web, urls[(nth + 1) % len(urls)], near, far))
    rung = await asyncio.to_thread(up.stack.valkey.messages) - rung
    figures.messages_per_token_followed = rung / (followed * STEADY_TOKENS)
    figures.lag_ms = [lag for near, far in pairs for lag in _lags(near, far)]


async def _from_elsewhere(web: aiohttp.ClientSession, url: str, near: Heard, far: Heard) -> None:
    while not near.response_id:
        await asyncio.sleep(0.01)
    await follow(web, url, near.response_id, far)


def _lags(near: Heard, far: Heard) -> list[float]:
    """How much later the follower had an event than who reads where it runs, without the replay at its start."""
    at = iter(near.seqs)
    seq, came_at = next(at)
    lags = []
    for far_seq, far_at in far.seqs[BEGUN_AT_SEQ:]:
        while seq < far_seq:
            seq, came_at = next(at)
        lags.append(max(0.0, (far_at - came_at) * 1000))
    return lags


async def _stops(up: Up, web: aiohttp.ClientSession, figures: Figures) -> None:
    """At every process for what every process runs, and through nginx for what it gave to whom it chose."""
    urls = [site.url for site in up.stack.sites]
    for start in [*urls, up.stack.url]:
        for stop in [*urls, up.stack.url]:
            await _stop(web, start, stop, figures)


async def _stop(web: aiohttp.ClientSession, start: str, stop: str, figures: Figures) -> None:
    heard = Heard()
    reading = asyncio.create_task(ask(web, start, "endless", heard))
    while len(heard.seqs) < BEGUN_AT_SEQ and not reading.done():
        await asyncio.sleep(0.01)
    began_at = time.monotonic()
    async with web.post(f"{stop}/v1/responses/{heard.response_id}/cancel") as answer:
        told = await answer.json()
    figures.stop_ms.append((time.monotonic() - began_at) * 1000)
    await reading
    if told.get("end_state") != "cancelled" or told["stop"]["abort_proven"] is not True:
        figures.broken.append(f"a stop at {stop} of what {start} runs was told {told}")


def _quantiles(values: Sequence[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=20)
    return cuts[9], cuts[18]
