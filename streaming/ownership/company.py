"""Owns what a process knows of the other web processes and tells them. Rows are the truth; a ring only says: look."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from django.conf import settings
from django.db import DatabaseError

from streaming.journal import Tail
from streaming.notify import Doorbell
from streaming.presence import Presence
from streaming.protocol.liveness import Judge
from streaming.relay import Relay
from streaming.store import presence, threads

from .beside import Work

logger = logging.getLogger(__name__)


class Company:
    """The other processes that serve the same database: which live, who reads where, whom to ring.

    ``relay_of`` gives the relay of a response that runs here. Without Valkey nobody rings.
    """

    def __init__(self, process_id: str, judge: Judge, relay_of: Callable[[str], Relay | None]):
        self.judge = judge
        #: Set when others ask us to look at our rows.
        self.asked = asyncio.Event()
        self._process_id = process_id
        self._relay_of = relay_of
        self._ended: list[str] = []
        self._doorbell = Doorbell(process_id, self._rung) if settings.VALKEY_URL else None
        self.presence = Presence(process_id, on_noted=self.ring)

    @property
    def work(self) -> list[Work]:
        """What has to run beside."""
        rings = [self._doorbell.send, self._doorbell.hear] if self._doorbell else []
        return [self.presence.run, *rings]

    def living(self, readers: Mapping[str, int]) -> Mapping[str, int]:
        """Of readers by process those at processes that live."""
        return {process_id: n for process_id, n in readers.items() if not self.judge.is_dead(process_id)}

    async def readers_of(self, response_id: str) -> Mapping[str, int]:
        """Who follows the rows of a response, by process; nobody where the database cannot tell."""
        try:
            return self.living(await threads.run(presence.of, response_id))
        except DatabaseError as error:
            logger.warning("who reads %s elsewhere is not known: %s", response_id, error)
            return {}

    def ended(self, response_id: str) -> None:
        """A response that ran here has ended; its readers elsewhere may still say what they took."""
        self._ended.append(response_id)

    async def count_delivered(self) -> None:
        """Put what readers elsewhere took of the responses that ended here since the last call into their rows."""
        ended = list(self._ended)
        if ended:
            await threads.write(threads.repeatable(presence.fold), ended)
        del self._ended[: len(ended)]

    def ring(self, process_id: str | None, response_id: str, *, leaving: bool = False) -> None:
        """Tell the owner of a response that its row, or who reads it, has changed."""
        if self._doorbell and process_id and process_id != self._process_id:
            self._doorbell.ring(process_id, response_id, leaving=leaving)

    def stored(self, tail: Tail) -> None:
        """Tell who follows a response from elsewhere that it has more."""
        for process_id in tail.followers:
            if process_id == self._process_id:
                self.presence.wake(tail.response_id)
            else:
                self.ring(process_id, tail.response_id)

    def _rung(self, responses: list[str], leaving: list[str]) -> None:
        for response_id in responses:
            if relay := self._relay_of(response_id):
                self.asked.set()
                if response_id in leaving:
                    relay.leaving(settings.PAGEHIDE_GRACE_S)
            else:
                self.presence.wake(response_id)
