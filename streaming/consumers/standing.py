"""Owns noticing what no wake-up told the pages of this process. Rows are the truth; a ring may be lost."""

import asyncio
import logging
from collections.abc import Iterable
from functools import cache

from django.conf import settings
from django.db import DatabaseError

from streaming import ownership
from streaming.notify import CONVERSATIONS, ENDED, STARTED, Change, Changes
from streaming.store import standing, threads
from streaming.store.standing import Stands

logger = logging.getLogger(__name__)


class Standing:
    """How the conversations of the users stand that have a page open here, and what they were told since."""

    def __init__(self, changes: Changes):
        self._changes = changes
        self._known: dict[int, Known] = {}
        changes.on_told = self._note

    async def begin(self, user_id: int) -> None:
        """Before a page that follows already asks for its lists: what changes from now on is noticed."""
        if user_id not in self._known:
            stands = await threads.run(standing.of, {user_id})
            self._known.setdefault(user_id, Known(stands[user_id]))

    async def run(self) -> None:
        """Look every LIST_POLL_S, for ever: two queries for all users."""
        while True:
            await asyncio.sleep(settings.LIST_POLL_S)
            try:
                await self.look()
            except DatabaseError as error:
                logger.warning("could not look how conversations stand: %s", error)

    async def look(self) -> None:
        """Tell the pages of users whose rows say more than they were told."""
        followed = self._changes.followed
        self._known = {user_id: self._known[user_id] for user_id in followed if user_id in self._known}
        unended = {user_id: known.unended for user_id, known in self._known.items()}
        stands = await threads.run(standing.of, self._known.keys()) if self._known else {}
        for user_id, now in stands.items():
            self._tell_what_was_missed(user_id, now, unended[user_id])

    def _tell_what_was_missed(self, user_id: int, now: Stands, unended_before: set[str]) -> None:
        known = self._known[user_id]
        missed = known.misses(now)
        for response_id in unended_before & known.unended - now.running:
            self._changes.tell_here(user_id, Change(ENDED, response=response_id))
        if missed:
            self._changes.tell_here(user_id, Change(CONVERSATIONS))
        self._known[user_id] = Known(now, awaited=known.awaited - unended_before)

    def expect(self, user_id: int, response_id: str) -> None:
        """A page waits to be told the end of this one, whether or not anybody told that it began."""
        if user_id in self._known:
            self._known[user_id].awaited.add(response_id)

    def _note(self, user_id: int, change: Change) -> None:
        if user_id in self._known:
            self._known[user_id].hear(change)


class Known:
    """One user's rows as they were at the last look, moved on by what was told since."""

    def __init__(self, stands: Stands, awaited: Iterable[str] = ()):
        self.awaited = set(awaited)
        self._running = set(stands.running)
        self._latest = stands.latest
        self._heard = False

    @property
    def unended(self) -> set[str]:
        """What runs as far as anybody here was told, or waits for its end."""
        return self._running | self.awaited

    def hear(self, change: Change) -> None:
        """The user's pages were told of this."""
        self._heard = True
        if change.response and change.kind == STARTED:
            self._running.add(change.response)
        elif change.response and change.kind == ENDED:
            self._running.discard(change.response)
            self.awaited.discard(change.response)

    def misses(self, stands: Stands) -> bool:
        """Whether the rows say something that nobody told."""
        return stands.running != self._running or (stands.latest != self._latest and not self._heard)


@cache
def current() -> Standing:
    """That of this process."""
    return Standing(ownership.current().changes)
