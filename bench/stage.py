"""Owns what every part finds set up: one engine, one prepared site, and fresh servers in front of them on request."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bench.engine import EngineHandle, engine
from bench.preparing import warm
from bench.sides import Side, Site, bare, ours, prepare


@dataclass(frozen=True, slots=True)
class Stage:
    engine: EngineHandle
    site: Site
    directory: Path
    rounds: int = 1
    tokens: int = 150

    @contextlib.asynccontextmanager
    async def ours(self, **settings: str) -> AsyncIterator[Side]:
        """A new server of the site, warm. It inherits the data of those before it, not their memory."""
        async with ours(self.site, self.directory, settings) as side:
            await warm(side)
            yield side

    @contextlib.asynccontextmanager
    async def bare(self) -> AsyncIterator[Side]:
        async with bare(self.engine, self.directory) as side:
            await warm(side)
            yield side

    @contextlib.asynccontextmanager
    async def rate(self, per_s: float) -> AsyncIterator[None]:
        """The engine's pace for streams that start meanwhile; afterwards its own again."""
        await self.engine.script(rate=per_s)
        try:
            yield
        finally:
            await self.engine.script()


@contextlib.asynccontextmanager
async def stage(directory: Path, *, rounds: int = 1, tokens: int = 150) -> AsyncIterator[Stage]:
    async with engine(directory) as running_engine:
        yield Stage(running_engine, await prepare(running_engine, directory), directory, rounds, tokens)
