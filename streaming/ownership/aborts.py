"""Owns asking engines again whose abort could not be proven, until it is or nobody believes in it any more."""

import asyncio
import logging
import random
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError

from streaming.relay import Unproven
from streaming.relay.abort import is_proven
from streaming.relay.figures import milliseconds
from streaming.store import attempts, threads

logger = logging.getLogger(__name__)

#: The pauses between two tries double from the first to the longest; after GIVE_UP_S there is none any more.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
GIVE_UP_S = 600.0
SPREAD = 0.2
#: So many at a time: an engine that hangs may leave hundreds behind.
AT_A_TIME = 256


class Aborts:
    """Those of one process. Its end ends the tries; what was not proven by then stays unproven in its row."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def retry(self, left: Unproven) -> None:
        """Ask again in the background."""
        if len(self._tasks) >= AT_A_TIME:
            logger.error("%s: the abort is not proven, and %d others are asked for", left.response_id, AT_A_TIME)
            return
        task = asyncio.create_task(self._until_proven(left))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()

    async def _until_proven(self, left: Unproven) -> None:
        now = asyncio.get_running_loop().time
        pause_s, tries = FIRST_PAUSE_S, 0
        name = left.request.request_id
        while now() - left.left_at < GIVE_UP_S:
            await asyncio.sleep(pause_s * random.uniform(1 - SPREAD, 1 + SPREAD))
            pause_s, tries = min(2 * pause_s, LONGEST_PAUSE_S), tries + 1
            if await is_proven(left.engine.abort_again(left.request), name, settings.STOP_PROOF_S):
                proven_ms = milliseconds(now() - left.left_at)
                logger.info("the abort of %s is proven after %.0f ms and %d more tries", name, proven_ms, tries)
                await self._note(left, proven_ms)
                return
        logger.error("the abort of %s could not be proven in %d tries: is its engine still at work?", name, tries)

    @staticmethod
    async def _note(left: Unproven, proven_ms: float) -> None:
        """In the account, which a response that was carried on elsewhere stores at its end, or in the row."""
        left.account.proven_late(left.request.request_id, proven_ms)
        while True:
            with suppress(DatabaseError):
                noted = attempts.note_abort_proven
                if await threads.write(noted, left.response_id, left.request.request_id, proven_ms):
                    return
            await asyncio.sleep(LONGEST_PAUSE_S)
