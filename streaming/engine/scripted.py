"""Owns the engine that plays scripts in process: waits, gates, faults, what tests see of it. Has no socket or model."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from streaming.engine.base import Engine, EngineError, GenerateRequest, Load
from streaming.engine.script import (
    Fault,
    Script,
    ScriptError,
    Step,
    answered_rounds,
    echo,
    last_user_text,
    script_in,
)
from streaming.engine.tokenizer import TokenizerBundle
from streaming.protocol.engine_output import EngineOutput, EngineUsage

FAULT_REASONS = {
    "error": ("upstream_error", "the engine reported an error"),
    "lost": ("upstream_lost", "the engine's stream broke off"),
    "protocol": ("upstream_protocol", "the engine sent something that makes no sense"),
}


class ScriptedEngine(Engine):
    """Plays the script that the last user message is, else ``options["script"]``, else an echo.

    ``options["mode"]`` is "ids" (default) or "text"; ``options["abort_proof"]`` false makes every
    proof of an abort wait for ever. The public counts and ``until`` are for tests.
    """

    can_continue = True
    can_constrain = True

    #: How often each response was made to fail, by any scripted engine of this process.
    _faults: ClassVar[Counter[str]] = Counter()

    def __init__(self, bundle: TokenizerBundle, options: Mapping[str, Any]):
        self.yields_ids = options.get("mode", "ids") == "ids"
        self.proves_aborts: bool = options.get("abort_proof", True)
        self.is_healthy = True
        self.requests: list[GenerateRequest] = []
        self.running: Counter[str] = Counter()
        self.closed = 0
        self.finished = 0
        self.outputs_given = 0
        self._bundle = bundle
        self._script = Script.from_json(options["script"]) if options.get("script") else None
        self._open_gates: set[str] = set()
        self._waiting: list[asyncio.Future[None]] = []

    def open_gate(self, name: str) -> None:
        """Let every request go on that waits, or will wait, at this gate."""
        self._open_gates.add(name)
        self._changed()

    async def until(self, reached: Callable[["ScriptedEngine"], bool]) -> None:
        """Wait until something is true of this engine."""
        while not reached(self):
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            await change

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[EngineOutput, None]:
        self.requests.append(request)
        self.running[request.request_id] += 1
        self._changed()
        try:
            text = last_user_text(request.messages)
            script = (script_in(text) or self._script or echo(text)).in_round(answered_rounds(request.messages))
            async with aclosing(self._play(script, request)) as outputs:
                async for output in outputs:
                    self.outputs_given += 1
                    self.finished += output.finish_reason is not None
                    self._changed()
                    yield output
        except ScriptError as error:
            raise EngineError("upstream_error", str(error)) from error
        finally:
            self.running -= Counter([request.request_id])
            self.closed += 1
            self._changed()

    async def _play(self, script: Script, request: GenerateRequest) -> AsyncGenerator[EngineOutput, None]:
        given = produced = 0
        delay_s = script.first_delay_s
        max_tokens = request.sampling.max_tokens
        for step in script.steps(self._bundle, self.yields_ids, request.produced_tokens, max_tokens):
            if step.gate is not None:
                await self._pass_gate(step.gate)
                continue
            await asyncio.sleep(delay_s)
            delay_s = script.delay_s
            usage = EngineUsage(len(request.prompt_ids), produced, 0)
            if script.fault is not None and script.fault.after == given and self._is_due(script.fault, request):
                await self._break(script.fault)
                yield EngineOutput(finish_reason="abort", usage=usage)
                return
            given += 1
            produced += len(step.tokens)
            yield self._output(step, usage)

    async def _pass_gate(self, name: str) -> None:
        await self.until(lambda engine: name in engine._open_gates)

    def _output(self, step: Step, usage: EngineUsage) -> EngineOutput:
        if step.finish_reason is not None:
            return EngineOutput(finish_reason=step.finish_reason, usage=usage)
        if self.yields_ids:
            return EngineOutput(token_ids=tuple(token.token_id for token in step.tokens if token.token_id is not None))
        return EngineOutput(text="".join(token.text for token in step.tokens), token_count=len(step.tokens))

    def _is_due(self, fault: Fault, request: GenerateRequest) -> bool:
        response_id = request.request_id.rpartition("-")[0] or request.request_id
        self._faults[response_id] += 1
        return self._faults[response_id] <= fault.times

    async def _break(self, fault: Fault) -> None:
        """Fail as the fault says; returns only for "abort", which the engine reports in its stream."""
        if fault.kind == "stall":
            await asyncio.get_running_loop().create_future()
        if fault.kind == "raise":
            raise RuntimeError("scripted bug")
        if fault.kind in FAULT_REASONS:
            raise EngineError(*FAULT_REASONS[fault.kind])

    async def abort_proven(self, request: GenerateRequest) -> bool:
        await self.until(lambda engine: engine.proves_aborts and request.request_id not in engine.running)
        return True

    @property
    def is_idle(self) -> bool:
        return not self.running

    async def healthy(self) -> bool:
        return self.is_healthy

    async def load(self) -> Load:
        return Load(running=self.running.total(), waiting=0)
