"""Owns one generation by which an engine is looked into, or tested. Stores nothing, judges nothing."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field

from streaming.engine.base import Engine, EngineError, GenerateRequest
from streaming.protocol.engine_output import EngineOutput, EngineUsage

TIMEOUT_S = 60.0


@dataclass(slots=True)
class Trial:
    """One generation: what came, when the first of it came, and how it failed, if it did."""

    request: GenerateRequest
    leave_after: int | None = None
    timeout_s: float = TIMEOUT_S
    outputs: list[EngineOutput] = field(default_factory=list)
    first_token_ms: float | None = None
    error: EngineError | None = None
    usage: EngineUsage | None = None
    duration_ms: float | None = None
    #: Whether the engine said at the end of its work how many tokens it had made.
    is_counted: bool = False

    async def run(self, engine: Engine) -> None:
        """Generate; with ``leave_after`` only so many outputs."""
        started_at = time.monotonic()
        try:
            async with asyncio.timeout(self.timeout_s), aclosing(engine.generate(self.request)) as outputs:
                async for output in outputs:
                    if not self.outputs:
                        self.first_token_ms = round((time.monotonic() - started_at) * 1000, 1)
                    self.outputs.append(output)
                    self.usage = output.usage or self.usage
                    if self.leave_after is not None and len(self.outputs) >= self.leave_after:
                        break
            await self._count(engine)
        except EngineError as error:
            self.error = error
        except TimeoutError:
            self.error = EngineError("upstream_lost", f"no end within {self.timeout_s:g} s")
        self.duration_ms = round((time.monotonic() - started_at) * 1000, 1)

    async def _count(self, engine: Engine) -> None:
        at_abort = await engine.usage_at_abort(self.request)
        has_ended = at_abort is not None or (bool(self.outputs) and self.outputs[-1].finish_reason is not None)
        self.usage = at_abort or self.usage
        self.is_counted = has_ended and self.usage is not None and self.usage.completion_tokens is not None

    @property
    def refused(self) -> bool:
        """Whether the endpoint did not understand what it was sent."""
        return self.error is not None and self.error.status in (400, 404, 422)

    @property
    def tokens(self) -> int:
        """How many tokens came."""
        return sum(output.token_count or len(output.token_ids) for output in self.outputs)
