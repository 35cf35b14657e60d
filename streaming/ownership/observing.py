"""Owns what operators are told that has to be asked for: of engines, of the rows. Asked for seldom, never by a scrape.

A scrape takes what was found last and has it found anew, so that nobody can make us ask more often, and no engine or
database that hangs makes a scrape hang.
"""

import asyncio
import contextvars
import logging
from dataclasses import dataclass, field

from django.db import DatabaseError

from streaming.engine.base import EngineError, Load
from streaming.engine.registry import engine_for
from streaming.models import Engine
from streaming.pool import Pool
from streaming.store import soundness, threads
from streaming.store.soundness import Soundness

from . import task_series
from .ledger import longest_life
from .task_series import TaskFigures

logger = logging.getLogger(__name__)

EVERY_S = 10.0
ENGINE_PATIENCE_S = 5.0


@dataclass(slots=True)
class Found:
    """``loads`` by engine's name, None of one that does not answer; ``rows`` None where the database does not.

    ``database_up`` is None before the first look.
    """

    loads: dict[str, Load | None] = field(default_factory=dict)
    rows: Soundness | None = None
    database_up: bool | None = None
    tasks: TaskFigures = field(default_factory=TaskFigures)


class Observer:
    """Of one process. ``found`` is what was found last."""

    def __init__(self, pool: Pool):
        self.found = Found()
        self._pool = pool
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")

    def look_soon(self) -> None:
        """Look, unless that was done a moment ago or is being done."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= EVERY_S and (self._looking is None or self._looking.done()):
            self._looked_at = now
            self._looking = asyncio.get_running_loop().create_task(self.look(), context=contextvars.Context())

    async def look(self) -> None:
        """Ask the database, and then all engines at once."""
        found = await self._rows()
        rows = [seat.row for seat in self._pool.seats]
        # The cache may hang as an engine may.
        tasks = asyncio.create_task(asyncio.to_thread(task_series.read))
        loads = await asyncio.gather(*(self._load(row) for row in rows))
        by_name = {row.name: load for row, load in zip(rows, loads, strict=True)}
        self.found = Found(by_name, found, found is not None, await tasks)

    async def _rows(self) -> Soundness | None:
        try:
            await self._pool.refresh()
            return await threads.run(soundness.soundness, longest_life())
        except DatabaseError as error:
            logger.warning("the figures of the rows cannot be read: %s", error)
            return None
        except Exception:
            logger.exception("the figures of the rows cannot be read")
            return None

    @staticmethod
    async def _load(row: Engine) -> Load | None:
        try:
            async with asyncio.timeout(ENGINE_PATIENCE_S):
                return await engine_for(row).load()
        except (EngineError, TimeoutError):
            return None
        except Exception:
            logger.exception("what engine %s does is not known", row.name)
            return None
