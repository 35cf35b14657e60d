"""Owns proving that a question would be answered: a real generation of one token, at most every few seconds."""

import asyncio
import logging

from django.db import DatabaseError

from streaming.models import Response
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import COMPLETED, TIMER_FIRED, decide
from streaming.protocol.events import ENDED
from streaming.protocol.policy import BACKGROUND, Policy

from .ask import Ask, Refused
from .owner import Owner
from .start import check, start

logger = logging.getLogger(__name__)

FRESH_S = 15.0
PATIENCE_S = 10.0
QUESTION = ({"role": "user", "content": "Say yes."},)


class Probe:
    """Remembers the last proof; those who ask at the same time share one generation."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._proven_at = float("-inf")
        self._running: asyncio.Task[str] | None = None

    async def trouble(self) -> str:
        """Why no question would be answered now; empty when one would."""
        if self._owner.draining:
            return "the server is stopping"
        if asyncio.get_running_loop().time() - self._proven_at < FRESH_S:
            return ""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._generate())
        return await asyncio.shield(self._running)

    async def _generate(self) -> str:
        rows = await self._owner.pool.rows()
        if not rows:
            return "no engine is set up"
        ask = Ask(
            user_id=None,
            purpose=Response.Purpose.PROBE,
            dialect=OPENAI_CHAT,
            stream=False,
            model=rows[0].model,
            messages=QUESTION,
            policy=Policy(BACKGROUND, None),
            max_tokens=1,
        )
        try:
            response, tail = await start(self._owner, ask, await check(self._owner, ask), self._now())
            async with asyncio.timeout(PATIENCE_S):
                await self._owner.ended(response.id)
        except Refused as refused:
            return refused.message
        except TimeoutError:
            # Its slot is not kept while it goes on asking in vain: the next question makes another.
            if relay := self._owner.relay(response.id):
                relay.interrupt(decide(None, TIMER_FIRED, "total"))
            return f"no token from the engine within {PATIENCE_S:g} s"
        except DatabaseError as error:
            logger.warning("the probe could not be stored: %s", error)
            return "nothing can be stored"
        except Exception:
            logger.exception("the probe failed")
            return "the check failed"
        last = tail.events[-1] if tail.events else None
        if last is None or last.kind != ENDED or last.payload["end_state"] != COMPLETED:
            return "the engine did not answer"
        self._proven_at = self._now()
        return ""

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
