"""Owns asking engines again whose abort could not be proven, and what else is only known late of an attempt."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

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
#: So many at a time: an engine that hangs may leave hundreds behind. Whoever is one too many is found in its row.
AT_A_TIME = 256
NOTE_PAUSE_S = 2.0


class Aborts:
    """Those of one process. Its end ends the tries; what was not proven by then stays unproven in its row."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._noting: set[asyncio.Task[None]] = set()
        #: How many more there were at the last look at the rows.
        self.in_rows = 0

    def __len__(self) -> int:
        return len(self._asked) + self.in_rows

    def asks(self, request_id: str) -> bool:
        """Whether the engine of this attempt is asked again and again already."""
        return request_id in self._asked

    def retry(self, left: Unproven) -> None:
        """Ask again in the background; where too many are asked already, it is left to who looks at the rows."""
        name = left.request.request_id
        if len(self._asked) < AT_A_TIME:
            task = self._asked[name] = asyncio.create_task(self._until_proven(left))
            task.add_done_callback(lambda _: self._asked.pop(name, None))

    def note_made(self, response_id: str, made: Sequence[Mapping[str, Any]]) -> None:
        """Take down what attempts of ours made of a response that is somebody else's, once that has ended it."""
        if made:
            task = asyncio.create_task(_noted(attempts.note_made, response_id, made))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)

    def close(self) -> None:
        """Ask no more."""
        for task in (*self._asked.values(), *self._noting):
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
                # In the account too, which a response that was carried on elsewhere stores at its end.
                left.account.proven_late(name, proven_ms)
                await _noted(attempts.note_abort_proven, left.response_id, name, proven_ms)
                return
        logger.error("the abort of %s could not be proven in %d tries: is its engine still at work?", name, tries)


async def _noted(note: Callable[..., bool], *args: object) -> None:
    """Until it is in the row, which it is not before the response has ended."""
    while True:
        with suppress(DatabaseError):
            if await threads.write(note, *args):
                return
        await asyncio.sleep(NOTE_PAUSE_S)
