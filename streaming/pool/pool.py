"""Owns who may use which engine: slots as leases, the queue. Chooses no engine; knows no response row."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from streaming import models
from streaming.engine.base import EngineError
from streaming.engine.registry import close_unused
from streaming.store import engines, threads

from .choice import Choice
from .lease import Lease
from .seat import Seat
from .waiting import FairQueue, ServiceRate, Wish

REFRESH_S = 2.0


class UnknownModel(Exception):
    """No enabled engine serves the model."""


class AllDrained(Exception):
    """Every engine of the model is being drained."""


class Overloaded(Exception):
    """The model's queue is full. ``retry_after_s`` follows from how fast it has been served lately."""

    def __init__(self, retry_after_s: float, limit: int):
        super().__init__(f"{limit} requests wait already")
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class Queue:
    """A model's: who waits for it, and how fast it is served."""

    waiting: FairQueue = field(default_factory=FairQueue)
    rate: ServiceRate = field(default_factory=ServiceRate)


class Pool:
    """The engines of this process. All methods belong to one event loop, whose seconds are its times.

    ``processes`` share the engines: each has its part of every engine's slots.
    """

    def __init__(self, max_queued: int, processes: int = 1):
        self._max_queued = max_queued
        self._processes = max(1, processes)
        self._seats: dict[int, Seat] = {}
        #: Of engines that are gone or disabled while something runs there: their slots are in use if they come back.
        self._left: dict[int, Seat] = {}
        self._queues: dict[str, Queue] = {}
        self._choice = Choice()
        self._refreshed_at = float("-inf")
        self._refreshing = asyncio.Lock()

    async def refresh(self, force: bool = False) -> None:
        """Read the engine rows again if they may have changed. One that is gone or disabled gets nothing more."""
        async with self._refreshing:
            if not force and time.monotonic() - self._refreshed_at < REFRESH_S:
                return
            rows = {row.pk: row for row in await threads.run(engines.enabled)}
            self._refreshed_at = time.monotonic()
        known = self._left | self._seats
        self._left = {pk: seat for pk, seat in known.items() if pk not in rows and seat.leased}
        self._seats = {pk: known.get(pk) or Seat(row, self._processes) for pk, row in rows.items()}
        for pk, seat in self._seats.items():
            seat.learn(rows[pk], asyncio.get_running_loop().time())
        for model in list(self._queues):
            self._serve(model)
        await close_unused(rows.values())

    async def rows(self) -> list[models.Engine]:
        """The usable engines as they were at the last refresh."""
        await self.refresh()
        return [seat.row for seat in self._seats.values()]

    async def row_for(self, model: str) -> models.Engine:
        """An engine row of the model, for its tokenizer and context; raises UnknownModel."""
        for looks_again in (False, True):
            # A model that was registered a moment ago may be in the list of models already.
            await self.refresh(force=looks_again)
            for seat in self._seats.values():
                if seat.row.model == model:
                    return seat.row
        raise UnknownModel(model)

    def check_room(self, model: str, coming: int) -> None:
        """Raises Overloaded when ``coming`` take every free slot and every place in the queue; or AllDrained."""
        now = asyncio.get_running_loop().time()
        seats = self._open(model)
        if not seats and self._of(model):
            raise AllDrained(model)
        waiting = coming - sum(max(0, seat.slots - seat.leased) for seat in seats)
        limit = self._max_queued * max(1, len(seats))
        if waiting >= 0 and waiting >= limit:
            slots = sum(seat.slots for seat in seats)
            raise Overloaded(self._queue(model).rate.retry_after_s(waiting, slots, now), limit)

    def others(self, model: str, than: Collection[int]) -> list[models.Engine]:
        """The model's engines that are healthy, without those of these keys."""
        now = asyncio.get_running_loop().time()
        seats = self._open(model)
        return [seat.row for seat in seats if seat.row.pk not in than and not seat.health.is_ejected(now)]

    async def on_offer(self) -> dict[str, list[models.Engine]]:
        """The engines that take requests, by model; models of which none is healthy now come last, for they may wait.

        One of which every engine is drained is left out, like one of which all are disabled.
        """
        await self.refresh()
        names = dict.fromkeys(seat.row.model for seat in self._seats.values() if seat.takes_new)
        answering_first = sorted(names, key=lambda name: not self.others(name, ()))
        return {name: [seat.row for seat in self._open(name)] for name in answering_first}

    def drained_for(self, seconds: float) -> list[models.Engine]:
        """The engines of which this process has known for so long that they are being drained."""
        now = asyncio.get_running_loop().time()
        return [seat.row for seat in self._seats.values() if seat.is_drained_for(seconds, now)]

    def room(self, model: str) -> int:
        """How many more of the model's requests could begin now, before those who wait."""
        now = asyncio.get_running_loop().time()
        free = sum(max(0, seat.free(now)) for seat in self._open(model))
        return max(0, free - len(self._queue(model).waiting))

    def spare(self, model: str) -> int:
        """The same, less one slot that stays free for who comes next, where there is more than one."""
        is_shared = sum(seat.slots for seat in self._open(model)) > 1
        return max(0, self.room(model) - is_shared)

    @property
    def seats(self) -> Collection[Seat]:
        """The engines as this process sees them. To look at."""
        return self._seats.values()

    def was_seen_working(self, model: str, within_s: float) -> bool:
        """Whether an engine of the model gave something so lately."""
        now = asyncio.get_running_loop().time()
        return any(now - seat.output_at < within_s for seat in self._of(model))

    @asynccontextmanager
    async def lease(self, model: str, wish: Wish) -> AsyncIterator[Lease]:
        """A slot of the best engine of the model, waited for in turn with other users.

        An EngineError that leaves it is put down to the engine.
        """
        seat = await self._acquire(model, wish)
        lease = Lease(seat)
        leased_at = asyncio.get_running_loop().time()
        if seat.leased == 1:
            seat.progress_at = leased_at
        lasted_s: float | None = None
        try:
            yield lease
            lasted_s = asyncio.get_running_loop().time() - leased_at
        except EngineError as error:
            self._blame(model, lease, error)
            raise
        except asyncio.CancelledError:
            lasted_s = asyncio.get_running_loop().time() - leased_at
            raise
        finally:
            self._release(model, seat, lasted_s)

    def hung(self, model: str, lease: Lease) -> None:
        """A timer fired over an engine that gives nothing."""
        self._blame(model, lease, EngineError("upstream_lost", "nothing came"), at_once=False)

    def _blame(self, model: str, lease: Lease, error: EngineError, at_once: bool | None = None) -> None:
        if error.is_refusal:
            return
        if at_once is None:
            # An engine that is gone refuses, or closes before it says anything: there is no need to try again.
            at_once = error.reason == "upstream_lost" and not lease.has_output
        loop = asyncio.get_running_loop()
        health = lease.seat.health
        if health.failed(loop.time(), at_once):
            loop.call_at(health.ejected_until, self._serve, model)

    def _queue(self, model: str) -> Queue:
        return self._queues.setdefault(model, Queue())

    def _of(self, model: str) -> list[Seat]:
        return [seat for seat in self._seats.values() if seat.row.model == model]

    def _open(self, model: str) -> list[Seat]:
        return [seat for seat in self._of(model) if seat.takes_new]

    def _best(self, model: str, wish: Wish) -> Seat | None:
        return self._choice.best(self._open(model), wish, asyncio.get_running_loop().time())

    async def _acquire(self, model: str, wish: Wish) -> Seat:
        queue = self._queue(model)
        seat = None if len(queue.waiting) else self._best(model, wish)
        if seat is None:
            seat = await self._wait(queue, model, wish)
        else:
            seat.leased += 1
        self._choice.made(wish, seat)
        return seat

    async def _wait(self, queue: Queue, model: str, wish: Wish) -> Seat:
        place = queue.waiting.enter(wish)
        self._serve(model)  # those before it may want what this one does not
        try:
            return await place.seat
        except asyncio.CancelledError:
            if place.seat.done() and not place.seat.cancelled():
                self._release(model, place.seat.result(), None)
            else:
                queue.waiting.leave(place)
            raise

    def _release(self, model: str, seat: Seat, lasted_s: float | None) -> None:
        seat.leased -= 1
        if lasted_s is not None:
            self._queue(model).rate.served(lasted_s)
        self._serve(model)

    def _serve(self, model: str) -> None:
        waiting = self._queue(model).waiting
        while seat := waiting.serve(lambda wish: self._best(model, wish)):
            seat.leased += 1
