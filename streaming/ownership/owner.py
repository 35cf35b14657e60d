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

from streaming.admission import Admission
from streaming.journal import Journal, Tail
from streaming.models import Response
from streaming.pool import Pool
from streaming.presence import Presence
from streaming.protocol.end_state import BUG, decide
from streaming.protocol.liveness import Judge
from streaming.protocol.response_stream import ResponseStream
from streaming.relay import Job, Limits, Relay
from streaming.store import orphans, presence, threads

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
        self.journal = Journal()
        self.pool = Pool(settings.MAX_QUEUED_PER_ENGINE)
        self.draining = False
        self.admission = Admission(settings.MAX_STREAMS, settings.MAX_STREAMS_PER_USER)
        self._relays: dict[str, Relay] = {}
        self._tails: dict[str, Tail] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._expected: dict[str, asyncio.Future[None]] = {}
        self._storing: Counter[str] = Counter()
        self._beside: list[asyncio.Task[None]] = []
        #: Judges the other processes, and tells them who reads here; None where no other can be alive.
        self.judge: Judge | None = None
        self.presence: Presence | None = None
        self._ended: list[str] = []

    async def start(self) -> None:
        """Announce the process and begin to beat."""
        await threads.write(orphans.register_process, self.id, socket.gethostname(), os.getpid())
        self.run_beside(self._beat())

    def has_company(self, judge: Judge) -> None:
        """Other processes serve the same database: their readers count, ours are told to them."""
        self.judge = judge
        self.presence = Presence(self.id)
        self.run_beside(self.presence.run())

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something for as long as this process owns anything."""
        self._beside.append(asyncio.get_running_loop().create_task(work, context=contextvars.Context()))

    def is_orphan(self, response: Response) -> bool:
        """Whether nobody runs the response: its owner is judged dead, let go of it, or is us without a relay."""
        if response.end_state is not None or response.id in self._relays or response.id in self._expected:
            return False
        return response.owner == self.id or self.judge is None or self.judge.is_dead(response.owner)

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
        queued = sum(r.job.model == model and r.figures.admitted_at is None for r in self._relays.values())
        return self._storing[model] + queued

    async def launched(self, response_id: str) -> None:
        """Wait until a response that is being stored has its relay, or has failed to get one."""
        if expected := self._expected.get(response_id):
            await asyncio.shield(expected)

    def launch(
        self,
        job: Job,
        open_stream: OpenStream,
        *,
        user_id: int | None,
        received_at: float,
        last_seq: int = 0,
        earlier_tokens: int = 0,
        is_started: bool = False,
        readers_elsewhere: int = 0,
    ) -> Tail:
        """Start the relay of a stored response and return its tail; attach the first reader before you await.

        The relay runs in a fresh context: nothing of the request that asked for it reaches it.
        """
        tail = Tail(job.response_id, job.epoch, received_at, last_seq)
        tail.sent_tokens = earlier_tokens
        tail.is_started = is_started
        tail.read_elsewhere(readers_elsewhere)
        relay = Relay(
            job,
            tail,
            journal=self.journal,
            pool=self.pool,
            limits=limits(),
            open_stream=open_stream,
            readers_elsewhere=self.readers_elsewhere if self.judge else None,
        )
        self._relays[job.response_id] = relay
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

    def living(self, readers: Mapping[str, int]) -> int:
        """How many of these readers, by process, are at processes that live."""
        return sum(n for process_id, n in readers.items() if self.judge and not self.judge.is_dead(process_id))

    async def readers_elsewhere(self, response_id: str) -> int:
        """How many readers follow the rows of a response; none where the database cannot tell."""
        try:
            return self.living(await threads.run(presence.of, response_id)) if self.judge else 0
        except DatabaseError as error:
            logger.warning("who reads %s elsewhere is not known: %s", response_id, error)
            return 0

    async def count_delivered_elsewhere(self) -> None:
        """Put what readers elsewhere took of the responses that ended here since the last call into their rows."""
        ended = list(self._ended)
        if ended and self.judge:
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
            self._ended.append(response_id)
            self.admission.leave(user_id)
            # A reader that comes back to a tail that gets no more must find the rows instead.
            keep_s = 0 if relay.tail.given_up else settings.TAIL_KEEP_S
            asyncio.get_running_loop().call_later(keep_s, self._forget, relay.tail)

    async def _end_unended(self, relay: Relay) -> None:
        """The last net: nothing stays running because of a fault of ours. No-op where another owner took over."""
        try:
            await threads.write(orphans.end_owned, relay.job.response_id, relay.job.epoch, decide(None, BUG))
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
