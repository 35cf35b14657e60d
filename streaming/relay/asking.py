"""Owns asking engines for one response, one after the other: which, when, why not. Stores no end, knows no reader."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from django.db import DatabaseError

from streaming.engine.base import EngineError
from streaming.journal import Journal, Tail
from streaming.pool import Lease, Pool
from streaming.protocol import end_state
from streaming.protocol.end_state import End, decide
from streaming.protocol.events import CONTINUED, Draft
from streaming.protocol.response_stream import ResponseStream
from streaming.store.responses import Started

from .abort import OnUnproven
from .account import Account
from .attempts import Attempts
from .fate import Fate, Moved
from .figures import Figures
from .job import Job, Limits, Outset
from .pump import Pump
from .rounds import Rounds
from .tally import Tally
from .watch import Phases, Watch

logger = logging.getLogger(__name__)

OpenStream = Callable[[bool], ResponseStream]
CarryOn = Callable[[bool], Awaitable[Outset]]


class Asking:
    """Has engines produce one response. ``open_stream(yields_ids)`` gives the pure state, ``carry_on`` it rebuilt.

    Between its ``rounds`` no engine is asked, and none is waited for.
    ``on_output`` is called after each output was taken.
    """

    def __init__(
        self,
        job: Job,
        tail: Tail,
        figures: Figures,
        watch: Watch,
        *,
        journal: Journal,
        pool: Pool,
        limits: Limits,
        rounds: Rounds,
        open_stream: OpenStream,
        carry_on: CarryOn,
        on_output: Callable[[], None],
        on_unproven: OnUnproven | None,
    ):
        self.fate = Fate()
        self.account = Account(job.earlier_attempts)
        self.tally = Tally(self.account, rounds.over, job.prompt_tokens)
        self._job = job
        self._tail = tail
        self._figures = figures
        self._phases = Phases(watch, limits)
        self._journal = journal
        self._pool = pool
        self._open_stream = open_stream
        self._carry_on = carry_on
        self._pump = Pump(
            tail,
            figures,
            self._phases,
            self.account,
            self.fate,
            journal=journal,
            stop_proof_s=limits.stop_proof_s,
            on_output=on_output,
            on_unproven=on_unproven,
        )
        self._rounds = rounds
        self._attempts = Attempts(job, pool, rounds.is_begun)
        self._lease: Lease | None = None
        self._task: asyncio.Task[End] | None = None

    def begin(self) -> None:
        """Ask for an engine, unless it was over before it began."""
        self._task = asyncio.create_task(self._attempt())
        if self.fate.interrupted or self.fate.given_up:
            self._task.cancel()

    async def over(self) -> End:
        """Wait until no engine is asked any more; how that ended."""
        assert self._task
        await asyncio.wait([self._task])
        return decide(self.fate.interrupted, end_state.BUG) if self._task.cancelled() else self._task.result()

    @property
    def is_over(self) -> bool:
        """Whether no engine will be asked any more."""
        return self._task is not None and self._task.done()

    @property
    def is_cut(self) -> bool:
        """Whether it is being left already. A second cut would cut the engine's proof."""
        return self._task is None or bool(self._task.cancelling())

    def cut(self) -> None:
        """Leave the engine that works on it."""
        if self._task:
            self._task.cancel()

    def leave(self, engine_id: int) -> bool:
        """Go on at another engine, where one can, for this one is being drained. Whether it is left."""
        attempt, stream = self.account.current, self.tally.stream
        if attempt is None or attempt.lease.row.pk != engine_id or stream is None or stream.finished:
            return False
        if self.is_over or self.is_cut:
            return False
        if not self._attempts.may_move(attempt.lease, self._figures.last_output_at is not None):
            return False
        self._move("drained", decide(None, end_state.ENGINE_FAILED, "upstream_lost"))
        return True

    def hung(self, timer: str, otherwise: End) -> bool:
        """The engine gave nothing for too long. Whether another goes on; ``otherwise`` is the end if that fails too."""
        if timer not in ("ttft", "idle") or self._lease is None:
            return False
        self._pool.hung(self._job.model, self._lease)
        if timer != "idle" or not self._attempts.can_carry_on(self._lease):
            return False
        self._move("engine_hung", otherwise)
        return True

    def _move(self, reason: str, otherwise: End) -> None:
        self.fate.moved = Moved(reason, otherwise)
        self.cut()

    async def _attempt(self) -> End:
        try:
            return await self._ask_rounds()
        except EngineError as error:
            logger.warning("engine failed on %s: %s", self._job.response_id, error.message)
            return self.fate.interrupted or decide(None, end_state.ENGINE_FAILED, error.reason, error.message)
        except Moved as moved:
            return self.fate.interrupted or moved.end
        except DatabaseError as error:
            logger.warning("what is stored of %s cannot be read: %s", self._job.response_id, error)
            return decide(self.fate.interrupted, end_state.STORAGE_FAILED)
        except Exception:
            logger.exception("relay of %s failed", self._job.response_id)
            return decide(self.fate.interrupted, end_state.BUG)

    async def _ask_rounds(self) -> End:
        """One after the other, as long as a round ends with calls that may be run."""
        rounds = self._rounds
        await rounds.answer_left()
        while not rounds.are_spent:
            end = await self._ask_engines()
            stream = self.tally.stream
            assert stream
            if not rounds.goes_on(end.finish_reason, stream):
                return end
            self._round_is_over(stream)
            await rounds.answer(stream)
        return decide(None, end_state.FINISHED, "tool_calls")

    def _round_is_over(self, stream: ResponseStream) -> None:
        self._phases.wait_for(None)
        self._figures.pause()
        self.tally.round_is_over(stream)
        self._attempts.next_round()
        assert self._lease
        # So that whoever takes over from here knows that the engine has ended it.
        self._note_attempts(self._lease)

    async def _ask_engines(self) -> End:
        """Lease and ask an engine; where it fails another, or, before the round began, it again a moment later."""
        attempts = self._attempts
        while True:
            self._phases.wait_for("queue")
            try:
                async with self._pool.lease(self._job.model, attempts.wish()) as lease:
                    self._admitted(lease)
                    return await self._produce(lease)
            except (EngineError, Moved) as error:
                self.fate.moved = None
                if not attempts.may_follow(error, lease, self._figures.last_output_at is not None):
                    raise
                logger.info("asking again for %s: %s", self._job.response_id, error)
                if lease.has_output:
                    await self._continue(error.reason)
            await asyncio.sleep(attempts.pause_s(lease))
            attempts.failed(lease)

    async def _continue(self, reason: str) -> None:
        """Have it stored that the answer goes on elsewhere, behind all that was shown of it."""
        self._phases.wait_for(None)
        self._attempts.carry_on()
        attempt = self._attempts.carried_on + self._job.epoch
        self._journal.append(self._tail, [Draft(CONTINUED, {"attempt": attempt, "reason": reason})])
        await self._tail.stored(lambda event: event.kind == CONTINUED)

    def _admitted(self, lease: Lease) -> None:
        self._lease = lease
        self._phases.wait_for("ttft")
        if self._figures.admitted_at is None or not (self._attempts.carried_on or self._rounds.over):
            self._figures.admitted_at = asyncio.get_running_loop().time()
        self._note_attempts(lease)

    def _note_attempts(self, lease: Lease) -> None:
        queue_ms = self._figures.queue_ms or 0.0
        attempts = self.account.to_json()
        self._journal.note_started(Started(lease.row.pk, queue_ms, attempts, self._job.response_id, self._job.epoch))

    async def _produce(self, lease: Lease) -> End:
        by_ids, resumes = lease.engine.yields_ids, self._attempts.resume
        outset = await self._carry_on(by_ids) if resumes else self._job.outset(self._open_stream(by_ids))
        stream = self.tally.begin(outset, lease.engine.renders_prompt, resumes)
        if not stream.finished:
            request = self._job.request(outset, self._attempts.number)
            await self._pump.run(stream, lease, request, self.tally.lost_tokens)
        return decide(None, end_state.FINISHED, stream.finish_reason or "")
