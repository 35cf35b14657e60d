"""Owns one running response: engine outputs in, events to the journal, one end out. Knows no request, reader or row."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from django.db import DatabaseError

from streaming.engine.base import EngineError, GenerateRequest
from streaming.journal import Closing, Journal, Tail
from streaming.journal.tail import PENDING_BYTES_MAX
from streaming.pool import Lease, Pool
from streaming.protocol import end_state
from streaming.protocol.end_state import End, decide
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.events import CONTINUED, STARTED, Draft
from streaming.protocol.response_stream import ResponseStream
from streaming.store.responses import Ending, Started

from .abort import OnUnproven, Unproven, count_rest, is_proven
from .account import Account, Attempt
from .attempts import Attempts, Moved
from .ending import ending
from .figures import Figures
from .job import Job, Limits
from .judging import judged
from .readership import ABANDONED, FollowersOf, Readership
from .watch import Watch

logger = logging.getLogger(__name__)

#: What an engine is waited for: each of these timers ends where another begins.
PHASES = ("queue", "ttft", "idle")


class Relay:
    """Produces one response. ``open_stream(yields_ids)`` gives the pure state, rebuilt when it carries on.

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
        open_stream: Callable[[bool], ResponseStream],
        carry_on: Callable[[bool], Awaitable[tuple[ResponseStream, Sequence[int]]]],
        followers_of: FollowersOf | None = None,
        on_unproven: OnUnproven | None = None,
    ):
        self.job = job
        self.tail = tail
        self.figures = Figures(tail.received_at)
        self._journal = journal
        self._pool = pool
        self._limits = limits
        self._open_stream = open_stream
        self._carry_on = carry_on
        self._on_unproven = on_unproven
        self._attempts = Attempts(job, pool)
        self._account = Account(job.earlier_attempts)
        self._lost_tokens = 0
        self._moved: Moved | None = None
        self._output_error: dict[str, str] | None = None
        self._woken = asyncio.Event()
        self._lease: Lease | None = None
        self._stream: ResponseStream | None = None
        self._interrupted: End | None = None
        self._given_up = False
        self._attempt_task: asyncio.Task[End] | None = None
        self._watch = Watch(self._expired)
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
        self._wait_for("queue")
        self._watch.start("total", self._limits.total_s)
        self.tail.attach(self, counts=False)
        self._attempt_task = asyncio.create_task(self._attempt())
        self._readership.begin()
        if self._interrupted or self._given_up:
            self._cancel_attempt()
        try:
            await asyncio.wait([self._attempt_task])
            if not self._given_up:
                await self._finish(self._outcome())
        finally:
            self._readership.close()
            self._watch.close()
            self.tail.detach(self)

    def interrupt(self, end: End) -> None:
        """End the response early: abort the engine, prove it, store this end. The first call wins."""
        if self._interrupted is None:
            self._interrupted = end
            self.figures.tokens_at_stop = self.generated_tokens
            # One that is left because its engine hangs is being proven already: a second cut would cut the proof.
            if self._attempt_task and not self._attempt_task.cancelling():
                self._cancel_attempt()

    def stop(self, end: End) -> None:
        """A person asks: as interrupt, and the time until the engine's proof is measured."""
        if self._interrupted is None and not (self._attempt_task and self._attempt_task.done()):
            self.figures.stop_at = asyncio.get_running_loop().time()
        self.interrupt(end)

    def leave_engine(self, engine_id: int) -> bool:
        """Go on at another engine, where one can, for this one is being drained. Whether it is left."""
        attempt, stream, task = self._account.current, self._stream, self._attempt_task
        if attempt is None or attempt.lease.row.pk != engine_id or stream is None or stream.finished:
            return False
        if not task or task.done() or task.cancelling():
            return False
        if not self._attempts.may_move(attempt.lease, self.figures.last_output_at is not None):
            return False
        self._move("drained", decide(None, end_state.ENGINE_FAILED, "upstream_lost"))
        return True

    def give_up(self) -> None:
        """Abort the engine and write no end: the response is somebody else's from here on."""
        self._given_up = True
        self._cancel_attempt()

    def _move(self, reason: str, otherwise: End) -> None:
        self._moved = Moved(reason, otherwise)
        self._cancel_attempt()

    def _cancel_attempt(self) -> None:
        if self._attempt_task:
            self._attempt_task.cancel()

    def leaving(self, grace_s: float) -> None:
        """The reader announced that it goes away: wait less for its return."""
        self._readership.leaving(grace_s)

    def wake(self) -> None:
        """The tail changed: stop working where nothing can be stored any more."""
        self._woken.set()
        if self.tail.fenced and not self._given_up:
            logger.warning("%s is no longer ours", self.job.response_id)
            self.give_up()
        elif self.tail.storage_lost:
            self._happened(end_state.STORAGE_FAILED)

    @property
    def generated_tokens(self) -> int:
        """All the engine made so far."""
        return self._lost_tokens + (self._stream.generated_tokens if self._stream else 0)

    async def _attempt(self) -> End:
        try:
            return await self._ask_engines()
        except EngineError as error:
            logger.warning("engine failed on %s: %s", self.job.response_id, error.message)
            return self._interrupted or decide(None, end_state.ENGINE_FAILED, error.reason, error.message)
        except Moved as moved:
            return self._interrupted or moved.end
        except DatabaseError as error:
            logger.warning("what is stored of %s cannot be read: %s", self.job.response_id, error)
            return decide(self._interrupted, end_state.STORAGE_FAILED)
        except Exception:
            logger.exception("relay of %s failed", self.job.response_id)
            return decide(self._interrupted, end_state.BUG)

    async def _ask_engines(self) -> End:
        """Lease and ask an engine; where it fails another, or, before the answer began, it again a moment later."""
        attempts = self._attempts
        while True:
            try:
                async with self._pool.lease(self.job.model, attempts.wish()) as lease:
                    self._admitted(lease)
                    return await self._produce(lease)
            except (EngineError, Moved) as error:
                self._moved = None
                if not attempts.may_follow(error, lease, self.figures.last_output_at is not None):
                    raise
                logger.info("asking again for %s: %s", self.job.response_id, error)
                if lease.has_output:
                    await self._continue(error.reason)
            await asyncio.sleep(attempts.pause_s(lease))
            attempts.failed(lease)
            self._wait_for("queue")

    async def _continue(self, reason: str) -> None:
        """Have it stored that the answer goes on elsewhere, behind all that was shown of it."""
        self._wait_for(None)
        self._attempts.carried_on += 1
        attempt = self._attempts.carried_on + self.job.epoch
        self._journal.append(self.tail, [Draft(CONTINUED, {"attempt": attempt, "reason": reason})])
        while not (self.tail.events and self.tail.events[-1].kind == CONTINUED and not self.tail.pending):
            self._woken.clear()
            await self._woken.wait()

    def _admitted(self, lease: Lease) -> None:
        self._lease = lease
        self._wait_for("ttft")
        if not self._attempts.carried_on:
            self.figures.admitted_at = asyncio.get_running_loop().time()
        queue_ms = self.figures.queue_ms or 0.0
        attempts = self._account.to_json()
        self._journal.note_started(Started(lease.row.pk, queue_ms, attempts, self.job.response_id, self.job.epoch))

    async def _produce(self, lease: Lease) -> End:
        engine, prompt_ids = lease.engine, self.job.prompt_ids
        if self._attempts.resume:
            made = max(self.generated_tokens, self._account.generated_tokens)
            self._stream, prompt_ids = await self._carry_on(engine.yields_ids)
            self._lost_tokens = max(0, made - self._stream.generated_tokens)
        else:
            self._stream = self._open_stream(engine.yields_ids)
        stream = self._stream
        if not stream.finished:
            request = self.job.request(stream.completion_tokens, self._attempts.number)
            await self._account_for(stream, lease, replace(request, prompt_ids=prompt_ids))
        return decide(None, end_state.FINISHED, stream.finish_reason or "")

    async def _account_for(self, stream: ResponseStream, lease: Lease, request: GenerateRequest) -> None:
        """Pump, and write down what this engine made of it, however it ends."""
        now = asyncio.get_running_loop().time
        attempt = self._account.begin(lease, request, now(), self.generated_tokens)
        ended = "internal"
        try:
            await self._pump(stream, attempt)
            ended = stream.finish_reason or ended
        except (EngineError, Moved) as error:
            ended = error.reason
            raise
        except asyncio.CancelledError:
            ended = self._interrupted.end_reason if self._interrupted else "released"
            raise
        finally:
            self._account.over(ended, now(), self.generated_tokens, stream.usage)

    async def _pump(self, stream: ResponseStream, attempt: Attempt) -> None:
        engine, request, earlier_tokens = attempt.lease.engine, attempt.request, stream.generated_tokens
        try:
            async with aclosing(engine.generate(request)) as outputs:
                async for output in outputs:
                    aborted = output.finish_reason == "abort"  # nobody here asked for it
                    attempt.is_counted = output.finish_reason is not None
                    self._take(stream, output._replace(finish_reason=None) if aborted else output)
                    if stream.finished:
                        self._wait_for(None)
                        break
                    if aborted:
                        raise EngineError("engine_aborted", "The engine gave up the answer.")
                    if self.tail.pending_bytes > PENDING_BYTES_MAX:
                        await self._room()
        except asyncio.CancelledError:
            if not self._given_up:
                await self._prove(stream, attempt, earlier_tokens)
            if self._moved is None or self._interrupted or self._given_up:
                raise
            current = asyncio.current_task()
            assert current
            current.uncancel()
            self.figures.abort_proven = self.figures.proven_at = None
            raise self._moved from None
        if not stream.finished:
            raise EngineError("upstream_lost", "The engine's stream ended before the answer did.")
        if not attempt.is_counted:
            patience_s = self._limits.stop_proof_s
            attempt.is_counted = await count_rest(stream, engine, request, patience_s, earlier_tokens)

    async def _prove(self, stream: ResponseStream, attempt: Attempt, earlier_tokens: int) -> None:
        """Wait for the engine's proof that it has stopped, as long as that may take; later it is asked again."""
        engine, request, patience_s = attempt.lease.engine, attempt.request, self._limits.stop_proof_s
        left_at = asyncio.get_running_loop().time()
        proven = await is_proven(engine.abort_proven(request), request.request_id, patience_s)
        attempt.abort_proven = self.figures.abort_proven = proven
        self.figures.proven_at = asyncio.get_running_loop().time()
        attempt.is_counted = await count_rest(stream, engine, request, patience_s, earlier_tokens)
        if not proven and engine.can_prove_aborts and self._on_unproven:
            self._on_unproven(Unproven(self.job.response_id, engine, request, self._account, left_at))

    async def _room(self) -> None:
        """Wait for the journal; the engine is not idle meanwhile, we do not ask it for more."""
        self._wait_for(None)
        await self.tail.room()
        self._wait_for("idle")

    def _wait_for(self, phase: str | None) -> None:
        """What is waited for from now on, and nothing else of the engine."""
        for name in PHASES:
            self._watch.drop(name)
        if phase:
            self._watch.start(phase, getattr(self._limits, f"{phase}_s"))

    def _take(self, stream: ResponseStream, output: EngineOutput) -> None:
        now = asyncio.get_running_loop().time()
        drafts = stream.feed(output)
        lease = self._lease
        assert lease is not None
        if lease.has_output:
            self._watch.push("idle", now + self._limits.idle_s)
        else:
            self._wait_for("idle")
            if self._account.current:
                self._account.current.first_output_at = now
        if not self.tail.is_started:
            self.tail.is_started = True
            drafts = [Draft(STARTED, {}), *drafts]
        lease.progress(now)
        self.figures.output(now)
        self._journal.append(self.tail, drafts)
        if self._readership.unattended_tokens > self._limits.unattended_tokens:
            self._happened(end_state.READERS_GONE)

    def _outcome(self) -> End:
        assert self._attempt_task
        if self._attempt_task.cancelled():
            return decide(self._interrupted, end_state.BUG)
        return self._attempt_task.result()

    async def _finish(self, end: End) -> None:
        if self.figures.stop_at is not None and self.figures.proven_at is None:
            self.figures.abort_proven, self.figures.proven_at = True, asyncio.get_running_loop().time()
        if self._stream is None:
            # No engine was asked; what an earlier owner stored is the answer all the same.
            self._stream = self._open_stream(False)
        self._journal.append(self.tail, self._stream.flush(natural=end.end_state == end_state.COMPLETED))
        self._output_error = await judged(end, self.job, self._stream.output_text)
        leftover_ids, leftover_count = self._stream.leftover
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        closing = Closing(lambda tail, sent: self._ending(end, tail, sent), leftover_ids, leftover_count, stored)
        await self._journal.end(self.tail, closing)

    def _ending(self, end: End, tail: Tail, sent_tokens: int) -> tuple[dict[str, Any], Ending]:
        stream = self._stream
        assert stream
        tail.noted_tokens = min(tail.delivered_tokens, sent_tokens)
        usage, prompt_tokens = stream.usage, self.job.prompt_tokens
        if usage and usage.prompt_tokens is not None and self._lease and self._lease.engine.renders_prompt:
            prompt_tokens = usage.prompt_tokens
        counts = {
            "prompt_tokens": prompt_tokens,
            "cached_tokens": usage.cached_tokens if usage else None,
            "generated_tokens": max(self.generated_tokens, sent_tokens),
            "completion_tokens": stream.completion_tokens,
            "sent_tokens": sent_tokens,
        }
        return ending(end, stream, tail, self.figures, counts, self._output_error, self._account)

    def _expired(self, timer: str) -> None:
        if timer == ABANDONED:
            self._readership.patience_is_over()
            return
        lease = self._lease
        if timer in ("ttft", "idle") and lease is not None:
            self._pool.hung(self.job.model, lease)
        message = f"Timed out: {timer} limit of {getattr(self._limits, timer + '_s'):g} s."
        if timer == "idle" and lease is not None and self._attempts.can_carry_on(lease):
            self._move("engine_hung", decide(None, end_state.TIMER_FIRED, timer, message))
        else:
            self._happened(end_state.TIMER_FIRED, timer, message)

    def _happened(self, happening: str, detail: str = "", message: str | None = None) -> None:
        self.interrupt(decide(None, happening, detail, message))
