"""Owns who may use which engine: slots as leases, a bounded queue in order of arrival. Knows no response row."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from streaming import models
from streaming.engine.base import Engine
from streaming.engine.registry import engine_for
from streaming.store import engines, threads

REFRESH_S = 2.0
FIRST_GUESS_S = 5.0
SMOOTHING = 0.2


class UnknownModel(Exception):
    """No enabled engine serves the model."""


class Overloaded(Exception):
    """The model's queue is full. ``retry_after_s`` follows from how fast it has been served lately."""

    def __init__(self, retry_after_s: float, limit: int):
        super().__init__(f"{limit} requests wait already")
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class Seat:
    """One engine and how many of its slots are leased."""

    row: models.Engine
    leased: int = 0

    @property
    def free(self) -> int:
        return self.row.slots - self.leased

    @property
    def engine(self) -> Engine:
        return engine_for(self.row)


@dataclass(slots=True)
class Queue:
    """Those who wait for a model, and how long its leases last (exponentially smoothed)."""

    waiting: deque[asyncio.Future[Seat]] = field(default_factory=deque)
    lease_s: float = FIRST_GUESS_S


class Pool:
    """The engines of this process. All methods belong to one event loop."""

    def __init__(self, max_queued: int):
        self._max_queued = max_queued
        self._seats: dict[int, Seat] = {}
        self._queues: dict[str, Queue] = {}
        self._refreshed_at = float("-inf")
        self._refreshing = asyncio.Lock()

    async def refresh(self, force: bool = False) -> None:
        """Read the engine rows again if they may have changed."""
        async with self._refreshing:
            if not force and time.monotonic() - self._refreshed_at < REFRESH_S:
                return
            rows = {row.pk: row for row in await threads.run(engines.enabled)}
            self._refreshed_at = time.monotonic()
        for pk in self._seats.keys() - rows.keys():
            del self._seats[pk]
        for pk, row in rows.items():
            self._seats.setdefault(pk, Seat(row)).row = row
        for model in list(self._queues):
            self._serve(model)

    async def rows(self) -> list[models.Engine]:
        """The usable engines as they were at the last refresh."""
        await self.refresh()
        return [seat.row for seat in self._seats.values()]

    async def row_for(self, model: str) -> models.Engine:
        """An engine row of the model, for its tokenizer and context; raises UnknownModel."""
        for row in await self.rows():
            if row.model == model:
                return row
        raise UnknownModel(model)

    def check_room(self, model: str, coming: int) -> None:
        """Raises Overloaded when ``coming`` take every free slot and every place in the queue."""
        seats = self._of(model)
        waiting = coming - sum(max(0, seat.free) for seat in seats)
        limit = self._max_queued * max(1, len(seats))
        if waiting >= 0 and waiting >= limit:
            lease_s = self._queues.setdefault(model, Queue()).lease_s
            slots = sum(seat.row.slots for seat in seats) or 1
            raise Overloaded(max(1.0, (waiting + 1) * lease_s / slots), limit)

    @asynccontextmanager
    async def lease(self, model: str) -> AsyncIterator[Seat]:
        """A slot of the least loaded engine of the model, waited for in order of arrival."""
        seat = await self._acquire(model)
        leased_at = time.monotonic()
        try:
            yield seat
        finally:
            self._release(model, seat, time.monotonic() - leased_at)

    def _of(self, model: str) -> list[Seat]:
        return [seat for seat in self._seats.values() if seat.row.model == model]

    def _best(self, model: str) -> Seat | None:
        free = [seat for seat in self._of(model) if seat.free > 0]
        return min(free, key=lambda seat: seat.leased / seat.row.slots, default=None)

    async def _acquire(self, model: str) -> Seat:
        queue = self._queues.setdefault(model, Queue())
        seat = None if queue.waiting else self._best(model)
        if seat:
            seat.leased += 1
            return seat
        place: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        queue.waiting.append(place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._release(model, place.result(), None)
            elif place in queue.waiting:
                queue.waiting.remove(place)
            raise

    def _release(self, model: str, seat: Seat, lasted_s: float | None) -> None:
        seat.leased -= 1
        queue = self._queues[model]
        if lasted_s is not None:
            queue.lease_s += SMOOTHING * (lasted_s - queue.lease_s)
        self._serve(model)

    def _serve(self, model: str) -> None:
        queue = self._queues[model]
        while queue.waiting and (seat := self._best(model)):
            place = queue.waiting.popleft()
            if not place.done():
                seat.leased += 1
                place.set_result(seat)
