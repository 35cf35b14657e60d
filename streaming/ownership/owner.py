"""Owns a process's running responses: its relays, their tails, its sign of life, its start and its end."""

import asyncio
import contextvars
import logging
import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from django.conf import settings
from django.db import DatabaseError
from ulid import ULID

from streaming.admission import Admission, QuotaBook, ReaderCaps
from streaming.journal import Journal, Tail
from streaming.metrics.delivery import Delivery
from streaming.models import Response
from streaming.notify import ENDED, STARTED, Change, Changes
from streaming.pool import Pool
from streaming.protocol.end_state import BUG, STORAGE_FAILED, decide
from streaming.protocol.events import Event
from streaming.relay import Job, Limits, Relay
from streaming.store import orphans, threads

from .aborts import Aborts
from .beginning import Beginning
from .beside import Beside, Work
from .company import Company
from .observing import Observer
from .own_tools import tools_for
from .places import Places

logger = logging.getLogger(__name__)


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
        self.observer = Observer(self.pool)
        self.aborts = Aborts()
        self.draining = False
        self.admission = Admission(settings.MAX_STREAMS, settings.MAX_STREAMS_PER_USER)
        self.quotas = QuotaBook()
        self.places = Places(self.admission)
        self.readers = ReaderCaps(settings.MAX_READERS_PER_RESPONSE, settings.MAX_READERS_PER_USER)
        #: What the open pages of users are told.
        self.changes = Changes(self.id)
        #: The other processes; None where no other can be alive.
        self.company: Company | None = None
        self._relays: dict[str, Relay] = {}
        self._tails: dict[str, Tail] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._beside = Beside()
        self._lets_go = False

    async def start(self) -> None:
        """Announce the process and begin to beat."""
        await threads.write(orphans.register_process, self.id, socket.gethostname(), os.getpid())
        self.run_beside(self._beat)
        for work in self.changes.work:
            self.run_beside(work)

    def meet(self, company: Company) -> None:
        """Other processes serve the same database."""
        self.company = company
        for work in company.work:
            self.run_beside(work)

    def run_beside(self, work: Work) -> None:
        """Run something for as long as this process owns anything."""
        self._beside.run(work)

    def is_orphan(self, response: Response) -> bool:
        """Whether nobody runs the response: its owner is judged dead, let go of it, or is us without a relay."""
        if response.end_state is not None or response.id in self._relays or self.places.expects(response.id):
            return False
        return response.owner == self.id or self.company is None or self.company.judge.is_dead(response.owner)

    def launch(
        self,
        job: Job,
        beginning: Beginning,
        events: Sequence[Event] = (),
        *,
        user_id: int | None,
        received_at: float,
        age_s: float = 0.0,
        followers: Mapping[str, int] | None = None,
    ) -> Tail:
        """Start the relay of a stored response and return its tail; attach the first reader before you await.

        ``events`` is its log so far, ``age_s`` how long before ``received_at`` its request arrived elsewhere. The
        relay runs in a fresh context: nothing of the request that asked for it reaches it.
        """
        tail = Tail(job.response_id, job.epoch, received_at, events)
        tail.began_at -= age_s
        tail.followed(followers or {})
        if not events:  # whose first content left elsewhere has a time to it that nobody knows
            tail.delivery = Delivery(job.model, job.prompt_tokens, job.stream)
        tail.on_stored = self.company.stored if self.company else None
        relay = Relay(
            job,
            tail,
            journal=self.journal,
            pool=self.pool,
            limits=limits(),
            open_stream=lambda by_ids: beginning.stream_after(events, by_ids),
            carry_on=beginning.carried_on,
            tools=tools_for(user_id, job.run_tools),
            log=events,
            followers_of=self.company.readers_of if self.company else None,
            on_unproven=self.aborts.retry,
            on_disowned=self.aborts.note_made,
        )
        self._relays[job.response_id] = relay
        self._tails[job.response_id] = tail
        self.places.take(relay, user_id)
        task = asyncio.get_running_loop().create_task(self._run(relay, user_id), context=contextvars.Context())
        self._tasks[job.response_id] = task
        self._tell_pages(STARTED, job, user_id)
        if self._lets_go:
            self._let_go(relay)
        return tail

    def tail(self, response_id: str) -> Tail | None:
        """The tail of a response that is live here, or ended a moment ago."""
        return self._tails.get(response_id)

    def relay(self, response_id: str) -> Relay | None:
        """The relay of a response that runs here."""
        return self._relays.get(response_id)

    @property
    def running(self) -> Sequence[str]:
        """The ids of the responses that run here."""
        return list(self._relays)

    @staticmethod
    def now() -> float:
        """The event loop's seconds."""
        return asyncio.get_running_loop().time()

    def running_by_model(self) -> tuple[Counter[str], Counter[str]]:
        """How many responses have an engine's slot, and how many are being stored or wait for one."""
        running = Counter(r.job.model for r in self.relays if r.figures.admitted_at is not None)
        models = {relay.job.model for relay in self.relays} | self.places.storing_models
        return running, Counter({model: self.places.without_slot(model) for model in models})

    @property
    def relays(self) -> Sequence[Relay]:
        """Those that run here."""
        return list(self._relays.values())

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
        self._lets_go = True
        for relay in self.relays:
            self._let_go(relay)
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=2)
        self._beside.close()
        self.aborts.close()
        await self.journal.close()
        if self.company:
            await self.company.count_delivered()
        await threads.write(threads.repeatable(orphans.release), self.id)

    @staticmethod
    def _let_go(relay: Relay) -> None:
        """Also of what was being stored when the others went: its row is released with theirs."""
        relay.tail.released = True
        relay.tail.wake()
        relay.give_up()

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
            if self._relays.get(response_id) is relay:
                del self._relays[response_id], self._tasks[response_id]
            self.places.leave(relay, user_id)
            self._tell_pages(ENDED, relay.job, user_id)
            if self.company:
                self.company.ended(response_id)
            # A reader that comes back to a tail that gets no more must find the rows instead.
            keep_s = 0 if relay.tail.given_up else settings.TAIL_KEEP_S
            asyncio.get_running_loop().call_later(keep_s, self._forget, relay.tail)

    def _tell_pages(self, kind: str, job: Job, user_id: int | None) -> None:
        """Only of conversations: no page lists what the API answers."""
        if job.conversation:
            self.changes.announce(user_id, Change(kind, job.conversation, job.response_id))

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
