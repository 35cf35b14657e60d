"""Owns telling owners elsewhere that somebody reads here what they run. Counts no reader of what runs here."""

import asyncio
import logging
from collections import Counter

from django.db import DatabaseError

from streaming.store import presence, threads
from streaming.store.presence import Present

logger = logging.getLogger(__name__)

RETRY_S = 0.5


class Presence:
    """The readers of this process that follow another one's responses; changes of all go in one transaction."""

    def __init__(self, process_id: str):
        self._process_id = process_id
        self._readers: Counter[str] = Counter()
        self._delivered_tokens: dict[str, int] = {}
        self._changed: set[str] = set()
        self._woken = asyncio.Event()

    def enter(self, response_id: str) -> None:
        """A reader came."""
        self._readers[response_id] += 1
        self._change(response_id)

    def leave(self, response_id: str, delivered_tokens: int) -> None:
        """A reader went, having taken so many of the answer's tokens."""
        self._readers[response_id] -= 1
        self._delivered_tokens[response_id] = max(delivered_tokens, self._delivered_tokens.get(response_id, 0))
        self._change(response_id)

    def _change(self, response_id: str) -> None:
        self._changed.add(response_id)
        self._woken.set()

    async def run(self) -> None:
        """Store changes as they come, for ever; while the database is away they wait."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._store()
            except DatabaseError as error:
                logger.warning("readers of other processes' responses could not be noted: %s", error)
                await asyncio.sleep(RETRY_S)
                self._woken.set()

    async def _store(self) -> None:
        changed, self._changed = self._changed, set()
        changes = [Present(id_, self._readers[id_], self._delivered_tokens.get(id_, 0)) for id_ in changed]
        try:
            await threads.write(presence.note, self._process_id, changes)
        except DatabaseError:
            self._changed |= changed
            raise
        for response_id in changed - self._changed:
            if not self._readers[response_id]:
                del self._readers[response_id]
                self._delivered_tokens.pop(response_id, None)
