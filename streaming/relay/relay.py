"""Owns one running response: what can end it, and its one end. Asks no engine; knows no request, reader or row."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from streaming.journal import Closing, Journal, Tail
from streaming.metrics.gaps import GAPS
from streaming.pool import Pool
from streaming.protocol import end_state
from streaming.protocol.end_state import End, decide
from streaming.protocol.events import Event
from streaming.store.responses import Ending

from .abort import OnDisowned, OnUnproven
from .asking import Asking, CarryOn, OpenStream
from .ending import ending
from .figures import Figures
from .job import Job, Limits
from .judging import judged
from .readership import ABANDONED, FollowersOf, Readership
from .rounds import Rounds, Tools
from .watch import Watch

logger = logging.getLogger(__name__)


class Relay:
    """Produces one response. ``open_stream(yields_ids)`` gives the pure state, rebuilt from ``log`` when it carries on.

    ``tools`` run the calls of the answer; without them its first call ends it.

    Whatever wants to end it early calls ``interrupt``; the first end wins. ``run`` returns when the end is
    stored, or when the response was released or taken over by another owner.
    """

    def __init__(
        self,
        job: Job,
        tail: Tail,
        *,
        journal: Journal,
        pool: Pool,
        limits: Limits,
        open_stream: OpenStream,
        carry_on: CarryOn,
        tools: Tools | None = None,
        log: Sequence[Event] = (),
        followers_of: FollowersOf | None = None,
        on_unproven: OnUnproven | None = None,
        on_disowned: OnDisowned | None = None,
    ):
        self.job = job
        self.tail = tail
        self.figures = Figures(tail.received_at)
        self._journal = journal
        self._limits = limits
        self._open_stream = open_stream
        self._on_disowned = on_disowned
        self._watch = Watch(self._expired)
        self.asking = Asking(
            job,
            tail,
            self.figures,
            self._watch,
            journal=journal,
            pool=pool,
            limits=limits,
            rounds=Rounds(tools, journal, tail, log, job.earlier_attempts),
            open_stream=open_stream,
            carry_on=carry_on,
            on_output=self._taken,
            on_unproven=on_unproven,
        )
        self._readership = Readership(
            tail,
            self._watch,
            job.policy.patience_s,
            generated=lambda: self.generated_tokens,
            on_gone=lambda: self._happened(end_state.READERS_GONE),
            followers_of=followers_of,
        )

    async def run(self) -> None:
        """Produce the response to its end."""
        self._watch.start("total", self._limits.total_s)
        self.tail.attach(self, counts=False)
        self.asking.begin()
        self._readership.begin()
        try:
            end = await self.asking.over()
            if not self.asking.fate.given_up:
                await self._finish(end)
            if self.tail.fenced and self._on_disowned:
                self._on_disowned(self.job.response_id, self.asking.account.of_epoch(self.job.epoch))
        finally:
            self._readership.close()
            self._watch.close()
            self.tail.detach(self)

    def interrupt(self, end: End) -> None:
        """End the response early: abort the engine, prove it, store this end. The first call wins."""
        if self.asking.fate.interrupted is None:
            self.asking.fate.interrupted = end
            self.figures.tokens_at_stop = self.generated_tokens
            if not self.asking.is_cut:
                self.asking.cut()

    def stop(self, end: End) -> None:
        """A person asks: as interrupt, and the time until the engine's proof is measured."""
        if self.asking.fate.interrupted is None and not self.asking.is_over:
            self.figures.stop_at = asyncio.get_running_loop().time()
        self.interrupt(end)

    def give_up(self) -> None:
        """Abort the engine and write no end: the response is somebody else's from here on."""
        self.asking.fate.given_up = True
        self.asking.cut()

    def leaving(self, grace_s: float) -> None:
        """The reader announced that it goes away: wait less for its return."""
        self._readership.leaving(grace_s)

    def wake(self) -> None:
        """The tail changed: stop working where nothing can be stored any more."""
        if self.tail.fenced and not self.asking.fate.given_up:
            logger.warning("%s is no longer ours", self.job.response_id)
            self.give_up()
        elif self.tail.storage_lost:
            self._happened(end_state.STORAGE_FAILED)

    @property
    def generated_tokens(self) -> int:
        """All that engines made so far."""
        return self.asking.tally.generated_tokens

    async def _finish(self, end: End) -> None:
        if self.figures.stop_at is not None and self.figures.proven_at is None:
            self.figures.abort_proven, self.figures.proven_at = True, asyncio.get_running_loop().time()
        # Where no engine was asked, what an earlier owner stored is the answer all the same.
        tally = self.asking.tally
        stream = tally.stream = tally.stream or self._open_stream(False)
        self._journal.append(self.tail, stream.flush(natural=end.end_state == end_state.COMPLETED))
        output_error = await judged(end, self.job, stream.output_text)

        def end_with(tail: Tail, sent_tokens: int) -> tuple[dict[str, Any], Ending]:
            tail.noted_tokens = min(tail.delivered_tokens, sent_tokens)
            counts = tally.counts(stream, sent_tokens)
            return ending(end, stream, tail, self.figures, counts, output_error, self.asking.account)

        leftover_ids, leftover_count = stream.leftover
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if await self._journal.end(self.tail, Closing(end_with, leftover_ids, leftover_count, stored)):
            GAPS.add(self.job.model, self.figures.ordered_gaps_ms)

    def _taken(self) -> None:
        if self._readership.unattended_tokens > self._limits.unattended_tokens:
            self._happened(end_state.READERS_GONE)

    def _expired(self, timer: str) -> None:
        if timer == ABANDONED:
            self._readership.patience_is_over()
            return
        message = f"Timed out: {timer} limit of {getattr(self._limits, timer + '_s'):g} s."
        end = decide(None, end_state.TIMER_FIRED, timer, message)
        if not self.asking.hung(timer, end):
            self.interrupt(end)

    def _happened(self, happening: str) -> None:
        self.interrupt(decide(None, happening))
