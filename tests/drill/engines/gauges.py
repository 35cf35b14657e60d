"""Owns what an engine says of itself over HTTP: how much runs and waits there, what it made. Asks for no answer."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from streaming.engine.metrics_text import totals

POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that the engine works on, and that wait in it."""

    running: int
    waiting: int


class Gauges:
    """Those of one engine; ``kind`` is ``llamacpp`` or ``vllm``."""

    def __init__(self, web: aiohttp.ClientSession, kind: str, url: str):
        self._web = web
        self._kind = kind
        self._url = url

    async def load(self) -> Load:
        values = await self._metrics()
        if self._kind == "vllm":
            return Load(int(values["vllm:num_requests_running"]), int(values["vllm:num_requests_waiting"]))
        # The slots themselves, not the counter beside them.
        slots = json.loads(await self._get("/slots"))
        return Load(sum(slot["is_processing"] for slot in slots), int(values["llamacpp:requests_deferred"]))

    async def generated_tokens(self) -> int:
        """All that it ever made, by its own account."""
        name = "vllm:generation_tokens_total" if self._kind == "vllm" else "llamacpp:tokens_predicted_total"
        return int((await self._metrics())[name])

    async def until(self, reached: Callable[[Load], bool], timeout_s: float = 30.0) -> float:
        """Ask until it is so; returns when that was seen, by the monotonic clock."""
        give_up_at = time.monotonic() + timeout_s
        while not reached(load := await self.load()):
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"the engine still has {load} after {timeout_s:g} s")
            await asyncio.sleep(POLL_S)
        return time.monotonic()

    async def _metrics(self) -> dict[str, float]:
        return totals(await self._get("/metrics"))

    async def _get(self, path: str) -> str:
        async with self._web.get(self._url + path, timeout=aiohttp.ClientTimeout(total=20)) as answer:
            return await answer.text()


async def until(reached: Callable[[], Awaitable[bool]], timeout_s: float, what: str) -> float:
    """Ask for something that only polling shows; returns when that was seen, by the monotonic clock."""
    give_up_at = time.monotonic() + timeout_s
    while not await reached():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{what} did not become what it should within {timeout_s:g} s")
        await asyncio.sleep(POLL_S)
    return time.monotonic()
