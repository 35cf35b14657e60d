"""Owns reading one log's rows beside the reader that asks: a database that hangs or fails holds up no heartbeat."""

import asyncio
import logging
from collections.abc import Sequence

from django.db import DatabaseError

from streaming.protocol.events import Event
from streaming.store import log, threads

logger = logging.getLogger(__name__)


class Rows:
    """The stored events of a response. ``asked`` is what the database has not answered yet."""

    def __init__(self, response_id: str):
        self.asked: asyncio.Task[Sequence[Event]] | None = None
        self.are_gone = False
        self._response_id = response_id
        self._cursor = 0

    def after(self, cursor: int) -> Sequence[Event]:
        """What the database answered, or nothing yet."""
        if self.asked is None or self._cursor != cursor:
            self.asked = asyncio.get_running_loop().create_task(self._ask(cursor))
            self._cursor = cursor
        if not self.asked.done():
            return ()
        answer, self.asked = self.asked, None
        return answer.result()

    def close(self) -> None:
        """Nobody waits for an answer any more."""
        if self.asked:
            self.asked.cancel()

    async def _ask(self, cursor: int) -> Sequence[Event]:
        try:
            events = await threads.run(log.page, self._response_id, cursor)
            self.are_gone = not events and not await threads.run(log.is_readable, self._response_id)
        except DatabaseError as error:
            logger.debug("the log of %s cannot be read just now: %s", self._response_id, error)
            return ()
        return events
