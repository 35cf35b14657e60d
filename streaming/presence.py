"""Owns the readers of this process that follow what other processes run, and telling the owners. Judges nobody."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from django.db import DatabaseError

from streaming.store import presence, threads
from streaming.store.presence import Present

logger = logging.getLogger(__name__)

RETRY_S = 0.5


class Follower(Protocol):
    """A reader that follows the rows, woken when there may be more."""

    def wake(self) -> None: ...


@dataclass(slots=True)
class _Followed:
    """Who follows one response here, and the most tokens any of them took."""

    owner: str | None = None
    followers: set[Follower] = field(default_factory=set)
    delivered_tokens: int = 0


class Presence:
    """Notes who comes and goes, all changes in one transaction; ``on_noted(owner, response_id)`` follows it."""

    def __init__(self, process_id: str, on_noted: Callable[[str | None, str], None]):
        self._process_id = process_id
        self._on_noted = on_noted
        self._followed: defaultdict[str, _Followed] = defaultdict(_Followed)
        self._changed: set[str] = set()
        self._being_stored: set[str] = set()
        self._stored = asyncio.Event()
        self._woken = asyncio.Event()

    def enter(self, follower: Follower, response_id: str, owner: str | None) -> None:
        """A reader came to a response that the process ``owner`` runs."""
        followed = self._followed[response_id]
        followed.owner = owner
        followed.followers.add(follower)
        self._change(response_id)

    def leave(self, follower: Follower, response_id: str, delivered_tokens: int) -> None:
        """A reader went, having taken so many of the answer's tokens."""
        followed = self._followed[response_id]
        followed.followers.discard(follower)
        followed.delivered_tokens = max(delivered_tokens, followed.delivered_tokens)
        self._change(response_id)

    async def noted(self, response_id: str) -> None:
        """Wait until the rows say who reads a response here."""
        while response_id in self._changed | self._being_stored:
            self._stored.clear()
            await self._stored.wait()

    def wake(self, response_id: str) -> None:
        """There is more of a response."""
        if followed := self._followed.get(response_id):
            for follower in followed.followers:
                follower.wake()

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
        self._being_stored = changed
        try:
            await threads.write(presence.note, self._process_id, [self._present(id_) for id_ in changed])
        except Exception:
            self._changed |= changed
            self._woken.set()
            raise
        finally:
            self._being_stored = set()
        self._stored.set()
        for response_id in changed:
            self._on_noted(self._followed[response_id].owner, response_id)
            if response_id not in self._changed and not self._followed[response_id].followers:
                del self._followed[response_id]

    def _present(self, response_id: str) -> Present:
        followed = self._followed[response_id]
        return Present(response_id, len(followed.followers), followed.delivered_tokens)
