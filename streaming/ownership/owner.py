"""Owns a process's running responses: its relays, their tails, its sign of life, its start and its end."""

import asyncio
import contextvars
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from ulid import ULID

from streaming.admission import Admission, ReaderCaps
from streaming.journal import Journal, Tail
from streaming.models import Response
from streaming.pool import Pool
from streaming.protocol.end_state import BUG, STORAGE_FAILED, decide
from streaming.protocol.response_stream import ResponseStream
from streaming.relay import Job, Limits, Relay
from streaming.store import orphans, presence, threads

from .company import Company
from .joining import CarryOn

logger = logging.getLogger(__name__)

OpenStream = Callable[[bool], ResponseStream]


def limits() -> Limits:
    """The timers and caps of relays, from settings."""
    return Limits(
        queue_s=settings.QUEUE_TIMEOUT_S,
        ttft_s=settings.TTFT_TIMEOUT_S,
        idle_s=settings.IDLE_TIMEOUT_S,
        total_s=settings.TOTAL_TIMEOUT_S,
        stop_proof_s=settings.STOP_PROOF_S,
        unattended_tokens=settings.UNATTENDED_TOKENS,
    )


class Owner:
    """The one per web process. All methods belong to the event loop that awaited ``start``."""

    def __init__(self) -> None:
        self.id = f"web_{ULID()}"
        self.journal = Journal(patience_s=settings.STORAGE_PATIENCE_S, synchronous=settings.SYNCHRONOUS_EVENTS)
        self.pool = Pool(settings.MAX_QUEUED_PER_ENGINE, settings.WEB_PROCESSES)
        self.draining = False
        self.admission = Admission(settings.MAX_STREAMS, settings.MAX_STREAMS_PER_USER)
        self.readers = ReaderCaps(settings.MAX_READERS_PER_RESPONSE, settings.MAX_READERS_PER_USER)
        self._relays: dict[str, Relay] = {}
        #: Relays that had no slot when somebody looked last; the others need not be looked at again.
        self._queued: dict[str, Relay] = {}
        self._tails: dict[str, Tail] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._expected: dict[str, asyncio.Future[None]] = {}
        self._storing: Counter[str] = Counter()
        self._beside: list[asyncio.Task[None]] = []
        #: The other processes; None where no other can be alive.
        self.company: Company | None = None
        self._ended: list[str] = []

    async def start(self) -> None:
        """Announce the process and begin to beat."""
        await threads.write(orphans.register_process, self.id, socket.gethostname(), os.getpid())
        self.run_beside(self._beat())

    def meet(self, company: Company) -> None:
        """Other processes serve the same database."""
        self.company = company
        for work in company.work:
            self.run_beside(work)

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something for as long as this process owns anything."""
        self._beside.append(asyncio.get_running_loop().create_task(work, context=contextvars.Context()))

    def is_orphan(self, response: Response) -> bool:
        """Whether nobody runs the response: its owner is judged dead, let go of it, or is us without a relay."""
        if response.end_state is not None or response.id in self._relays or response.id in self._expected:
            return False
        return response.owner == self.id or self.company is None or self.company.judge.is_dead(response.owner)

    @contextmanager
    def expecting(self, response_id: str, user_id: int | None, model: str) -> Iterator[None]:
        """Around storing and launching a response: it has its place, and who wants to stop it waits for its relay."""
        expected = self._expected[response_id] = asyncio.get_running_loop().create_future()
        self.admission.enter(user_id)
        self._storing[model] += 1
        try:
            yield
        finally:
            self._storing[model] -= 1
            self.admission.leave(user_id)
            del self._expected[response_id]
            expected.set_result(None)

    def without_slot(self, model: str) -> int:
        """How many responses of the model are being stored here, or wait for an engine."""
        self._queued = {i: relay for i, relay in self._queued.items() if relay.figures.admitted_at is None}
        return self._storing[model] + sum(relay.job.model == model for relay in self._queued.values())

    async def launched(self, response_id: str) -> None:
        """Wait until a response that is being stored has its relay, or has failed to get one."""
        if expected := self._expected.get(response_id):
            await asyncio.shield(expected)

    def launch(
        self,
        job: Job,
        open_stream: OpenStream,
        *,
        carry_on: CarryOn,
        user_id: int | None,
        received_at: float,
        last_seq: int = 0,
        earlier_tokens: int = 0,
        is_started: bool = False,
        followers: Mapping[str, int] | None = None,
    ) -> Tail:
        """Start the relay of a stored response and return its tail; attach the first reader before you await.

        The relay runs in a fresh context: nothing of the request that asked for it reaches it.
        """
        tail = Tail(job.response_id, job.epoch, received_at, last_seq)
        tail.sent_tokens = earlier_tokens
        tail.is_started = is_started
        tail.followed(followers or {})
        tail.on_stored = self.company.stored if self.company else None
        relay = Relay(
            job,
            tail,
            journal=self.journal,
            pool=self.pool,
            limits=limits(),
            open_stream=open_stream,
            carry_on=carry_on,
            followers_of=self.company.readers_of if self.company else None,
        )
        self._relays[job.response_id] = self._queued[job.response_id] = relay
        self._tails[job.response_id] = tail
        self.admission.enter(user_id)
        task = asyncio.get_running_loop().create_task(self._run(relay, user_id), context=contextvars.Context())
        self._tasks[job.response_id] = task
        return tail

    def tail(self, response_id: str) -> Tail | None:
        """The tail of a response that is live here, or ended a moment ago."""
        return self._tails.get(response_id)

    def relay(self, response_id: str) -> Relay | None:
        """The relay of a response that runs here."""
        return self._relays.get(response_id)

    async def count_delivered_elsewhere(self) -> None:
        """Put what readers elsewhere took of the responses that ended here since the last call into their rows."""
        ended = list(self._ended)
        if ended and self.company:
            await threads.write(presence.fold, ended)
        del self._ended[: len(ended)]

    @property
    def running(self) -> Sequence[str]:
        """The ids of the responses that run here."""
        return list(self._relays)

    async def ended(self, response_id: str) -> None:
        """Wait until a response that runs here has ended."""
        if task := self._tasks.get(response_id):
            await asyncio.shield(task)

    async def drain(self, drain_s: float) -> None:
        """Let running responses end for a while, then release the rest for adoption and stop."""
        self.draining = True
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=drain_s)
        if self._relays:
            logger.info("%d responses still ran and are released for another process", len(self._relays))
        for relay in list(self._relays.values()):
            relay.tail.released = True
            relay.tail.wake()
            relay.give_up()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=2)
        for task in self._beside:
            task.cancel()
        await self.journal.close()
        await self.count_delivered_elsewhere()
        await threads.write(orphans.release, self.id)

    async def _run(self, relay: Relay, user_id: int | None) -> None:
        response_id = relay.job.response_id
        try:
            await relay.run()
        except Exception:
            logger.exception("relay of %s broke", response_id)
        try:
            if not relay.tail.ended and not relay.tail.released:
                await self._end_unended(relay)
        finally:
            del self._relays[response_id], self._tasks[response_id]
            self._queued.pop(response_id, None)
            self._ended.append(response_id)
            self.admission.leave(user_id)
            # A reader that comes back to a tail that gets no more must find the rows instead.
            keep_s = 0 if relay.tail.given_up else settings.TAIL_KEEP_S
            asyncio.get_running_loop().call_later(keep_s, self._forget, relay.tail)

    async def _end_unended(self, relay: Relay) -> None:
        """The last net: nothing stays running because of a fault of ours. No-op where another owner took over."""
        try:
            how = decide(None, STORAGE_FAILED if relay.tail.storage_lost else BUG)
            await threads.write(orphans.end_owned, relay.job.response_id, relay.job.epoch, how)
        except DatabaseError:
            logger.exception("%s could not be ended", relay.job.response_id)

    def _forget(self, tail: Tail) -> None:
        if self._tails.get(tail.response_id) is tail:
            del self._tails[tail.response_id]

    async def _beat(self) -> None:
        while True:
            try:
                await threads.write(orphans.beat, self.id)
            except DatabaseError as error:
                logger.warning("the beat of this process could not be stored: %s", error)
            await asyncio.sleep(settings.BEAT_S)


@cache
def current() -> Owner:
    """The process's owner; made at the first call, started by ``start_process``."""
    return Owner()
