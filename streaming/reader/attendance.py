"""Owns one place among those who keep a response alive, wherever it runs. Reads nothing and delivers nothing."""

from typing import Protocol

from streaming.journal import Tail
from streaming.presence import Presence


class Attendant(Protocol):
    """Who has the place: woken when there may be more."""

    def wake(self) -> None: ...


class Attendance:
    """Counted from its making until ``leave``: at the tail where the response runs here, else by word to ``owner``.

    Who does not ``count`` keeps nothing alive. ``presence`` is None where no other process can run anything.
    """

    def __init__(
        self,
        attendant: Attendant,
        response_id: str,
        *,
        tail: Tail | None,
        presence: Presence | None,
        owner: str | None,
        counts: bool = True,
    ):
        self._attendant = attendant
        self._response_id = response_id
        self._tail = tail
        self._presence = presence if counts and not tail else None
        if tail:
            tail.attach(attendant, counts)
        elif self._presence:
            self._presence.enter(attendant, response_id, owner)

    async def noted(self) -> None:
        """Wait until whoever runs the response can see it: here at once, elsewhere when it stands in the rows."""
        if self._presence:
            await self._presence.noted(self._response_id)

    def leave(self, delivered_tokens: int = 0) -> None:
        """Give the place back, having taken so many of the answer's tokens."""
        if self._presence:
            self._presence.leave(self._attendant, self._response_id, delivered_tokens)
        if self._tail:
            self._tail.detach(self._attendant)
