"""Owns proving that questions would be answered: by outputs seen lately, else by a real generation of one token."""

import asyncio
import logging
from dataclasses import dataclass

from django.db import DatabaseError

from streaming.models import Engine, Response
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.end_state import COMPLETED, TIMER_FIRED, decide
from streaming.protocol.events import ENDED
from streaming.protocol.policy import BACKGROUND, Policy

from .ask import Ask, Refused
from .owner import Owner
from .start import check, start

logger = logging.getLogger(__name__)

FRESH_S = 15.0
#: A model that did not answer is asked again after this at the earliest, however often somebody wants to know.
ASK_AGAIN_S = 2.0
PATIENCE_S = 10.0
#: A database that says nothing for so long would keep a question waiting.
DATABASE_PATIENCE_S = 3.0
QUESTION = ({"role": "user", "content": "Say yes."},)


@dataclass(slots=True)
class Finding:
    """What was found out of one model, and when, in the event loop's seconds; ``trouble`` is empty where it answers."""

    trouble: str
    at: float

    def is_fresh(self, now: float) -> bool:
        """Whether it need not be found out again."""
        return now - self.at < (ASK_AGAIN_S if self.trouble else FRESH_S)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Why no question would be answered now, empty when one would; how many models there are and answer."""

    trouble: str
    models: int = 0
    answering: int = 0


class Probe:
    """Remembers the last proof of each model; those who ask at the same time share one generation."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._found: dict[str, Finding] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._reading: asyncio.Task[list[Engine]] | None = None

    async def readiness(self) -> Readiness:
        """One model that answers is enough: a dead one is dead for every process, and the others are to be served."""
        if self._owner.draining:
            return Readiness("the server is stopping")
        # An engine that gave something a moment ago is of no use where nothing can be read or stored any more.
        if self._owner.journal.is_failing:
            return Readiness("nothing can be stored")
        if (rows := await self._rows()) is None:
            return Readiness("the database does not answer")
        models = list(dict.fromkeys(row.model for row in rows))
        if not models:
            return Readiness("no engine is set up")
        asking = {task for model in models if (task := self._asked(model))}
        while asking and not self._answering(models):
            _, asking = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        answering = self._answering(models)
        trouble = "" if answering else next(self._found[model].trouble for model in models if model in self._found)
        return Readiness(trouble, len(models), answering)

    async def _rows(self) -> list[Engine] | None:
        """The engines, from a database that answers now; one question for all who ask meanwhile."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._owner.pool.rows())
            # Who asked may have gone by the time that it fails.
            self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(DATABASE_PATIENCE_S):
                return await asyncio.shield(self._reading)
        except (DatabaseError, TimeoutError):
            return None

    def _answering(self, models: list[str]) -> int:
        return sum(model in self._found and not self._found[model].trouble for model in models)

    def _asked(self, model: str) -> asyncio.Task[None] | None:
        """The generation that finds out, where one is needed."""
        finding = self._found.get(model)
        if self._owner.pool.was_seen_working(model, FRESH_S):
            self._found[model] = Finding("", self._now())
        elif not (finding and finding.is_fresh(self._now())):
            if finding and not finding.trouble:
                del self._found[model]
            if model not in self._running or self._running[model].done():
                self._running[model] = asyncio.create_task(self._find_out(model))
            return self._running[model]
        return None

    async def _find_out(self, model: str) -> None:
        trouble = await self._generate(model)
        if trouble:
            logger.warning("model %s would answer nothing: %s", model, trouble)
        self._found[model] = Finding(trouble, self._now())

    async def _generate(self, model: str) -> str:
        ask = Ask(
            user_id=None,
            purpose=Response.Purpose.PROBE,
            dialect=OPENAI_CHAT,
            stream=False,
            model=model,
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
        return ""

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
