"""Owns the scripted engine of a run: `tests.fault_engine` as a process, its counters and its script."""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from bench.processes import running
from bench.wires import Address

RATE_PER_S = 25
SLOTS = 1200
CONTEXT = 16_384  # tokens; an answer of 8,000 fits


class EngineHandle:
    def __init__(self, address: Address, session: aiohttp.ClientSession) -> None:
        self.address = address
        self.url = f"http://{address.host}:{address.port}"
        self._session = session

    async def counter(self, name: str) -> int:
        async with self._session.get(f"{self.url}/metrics") as answer:
            match = re.search(rf"^\S*{name}(?:\{{[^}}]*\}})? (\d+)", await answer.text(), re.MULTILINE)
        if match is None:
            raise LookupError(f"the engine's /metrics has no {name}")
        return int(match[1])

    async def chunks(self) -> int:
        return await self.counter("chunks_total")

    async def script(self, **script: float) -> None:
        """Faults and delays for the requests that come after; none clears them."""
        async with self._session.post(f"{self.url}/_control", json=script) as answer:
            answer.raise_for_status()

    async def requests(self) -> int:
        return await self.counter("requests_total")

    async def until_running(self, count: int, timeout_s: float) -> float | None:
        """Seconds until exactly `count` streams run there, or None when they never did."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        while loop.time() - started_s < timeout_s:
            if await self.counter("running") == count:
                return loop.time() - started_s
            await asyncio.sleep(0.05)
        return None


@contextlib.asynccontextmanager
async def engine(directory: Path) -> AsyncIterator[EngineHandle]:
    pace = ["--rate", str(RATE_PER_S), "--slots", str(SLOTS), "--context", str(CONTEXT)]
    command = [sys.executable, "-m", "tests.fault_engine", "--port", "0", *pace]
    async with (
        running(command, log=directory / "engine.log", env=os.environ) as process,
        aiohttp.ClientSession() as session,
    ):
        yield EngineHandle(process.address, session)
