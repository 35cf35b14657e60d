"""Owns one attempt: an engine's outputs into the log, and the proof when it is left. Does not choose engines."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from streaming.engine.base import EngineError, GenerateRequest
from streaming.journal import Journal, Tail
from streaming.journal.tail import PENDING_BYTES_MAX
from streaming.pool import Lease
from streaming.protocol.engine_output import EngineOutput
from streaming.protocol.events import STARTED, Draft
from streaming.protocol.response_stream import ResponseStream

from .abort import OnUnproven, Unproven, count_rest, is_proven
from .account import Account, Attempt
from .fate import Fate, Moved
from .figures import Figures
from .watch import Phases


class Pump:
    """The attempts of one response, one after the other. ``on_output`` is called after each output was taken."""

    def __init__(
        self,
        tail: Tail,
        figures: Figures,
        phases: Phases,
        account: Account,
        fate: Fate,
        *,
        journal: Journal,
        stop_proof_s: float,
        on_output: Callable[[], None],
        on_unproven: OnUnproven | None,
    ):
        self._tail = tail
        self._figures = figures
        self._phases = phases
        self._account = account
        self._fate = fate
        self._journal = journal
        self._stop_proof_s = stop_proof_s
        self._on_output = on_output
        self._on_unproven = on_unproven
        #: Kept: to ask which loop runs costs a system call, and an output needs to know the time.
        self._now = asyncio.get_running_loop().time

    async def run(self, stream: ResponseStream, lease: Lease, request: GenerateRequest, lost_tokens: int) -> None:
        """Pump, and write down what this engine made of it, however it ends. Raises EngineError and Moved.

        ``lost_tokens`` are those that engines made before and that are no part of ``stream``.
        """
        attempt = self._account.begin(lease, request, self._now(), lost_tokens + stream.generated_tokens)
        ended = "internal"
        try:
            await self._pump(stream, attempt)
            ended = stream.finish_reason or ended
        except (EngineError, Moved) as error:
            ended = error.reason
            raise
        except asyncio.CancelledError:
            ended = self._fate.interrupted.end_reason if self._fate.interrupted else "released"
            raise
        finally:
            self._account.over(ended, self._now(), lost_tokens + stream.generated_tokens, stream.usage)

    async def _pump(self, stream: ResponseStream, attempt: Attempt) -> None:
        engine, request, earlier_tokens = attempt.lease.engine, attempt.request, stream.generated_tokens
        try:
            async with aclosing(engine.generate(request)) as outputs:
                async for output in outputs:
                    aborted = output.finish_reason == "abort"  # nobody here asked for it
                    attempt.is_counted = output.finish_reason is not None
                    self._take(stream, attempt, output._replace(finish_reason=None) if aborted else output)
                    if stream.finished:
                        self._phases.wait_for(None)
                        break
                    if aborted:
                        raise EngineError("engine_aborted", "The engine gave up the answer.")
                    if self._tail.pending_bytes > PENDING_BYTES_MAX:
                        await self._room()
        except asyncio.CancelledError:
            await self._see_off(stream, attempt, earlier_tokens)
            if self._fate.moved is None or self._fate.interrupted or self._fate.given_up:
                raise
            current = asyncio.current_task()
            assert current
            current.uncancel()
            self._figures.abort_proven = self._figures.proven_at = None
            raise self._fate.moved from None
        if not stream.finished:
            raise EngineError("upstream_lost", "The engine's stream ended before the answer did.")
        if not attempt.is_counted:
            patience_s = self._stop_proof_s
            attempt.is_counted = await count_rest(stream, engine, request, patience_s, earlier_tokens)

    async def _see_off(self, stream: ResponseStream, attempt: Attempt, earlier_tokens: int) -> None:
        """We have left the engine: have it prove that, or at least say what it made."""
        if not self._fate.given_up:
            await self._prove(stream, attempt, earlier_tokens)
        elif self._tail.fenced:  # who took the response over cannot know what was made meanwhile
            engine, request = attempt.lease.engine, attempt.request
            attempt.is_counted = await count_rest(stream, engine, request, self._stop_proof_s, earlier_tokens)

    async def _prove(self, stream: ResponseStream, attempt: Attempt, earlier_tokens: int) -> None:
        """Wait for the engine's proof that it has stopped, as long as that may take; later it is asked again."""
        engine, request, patience_s = attempt.lease.engine, attempt.request, self._stop_proof_s
        left_at = self._now()
        proven = await is_proven(engine.abort_proven(request), request.request_id, patience_s)
        attempt.abort_proven = self._figures.abort_proven = proven
        self._figures.proven_at = self._now()
        attempt.is_counted = await count_rest(stream, engine, request, patience_s, earlier_tokens)
        if not proven and engine.can_prove_aborts and self._on_unproven:
            self._on_unproven(Unproven(self._tail.response_id, engine, request, self._account, left_at))

    async def _room(self) -> None:
        """Wait for the journal; the engine is not idle meanwhile, we do not ask it for more."""
        self._phases.wait_for(None)
        await self._tail.room()
        self._phases.wait_for("idle")

    def _take(self, stream: ResponseStream, attempt: Attempt, output: EngineOutput) -> None:
        now = self._now()
        drafts = stream.feed(output)
        if attempt.lease.has_output:
            self._phases.output(now)
        else:
            self._phases.wait_for("idle")
            attempt.first_output_at = now
        if not self._tail.is_started:
            self._tail.is_started = True
            drafts = [Draft(STARTED, {}), *drafts]
        attempt.lease.progress(now)
        self._figures.output(now)
        self._journal.append(self._tail, drafts)
        self._on_output()
