"""Owns the responses that one page reads by its socket alone: whose they are, how many, that each counts. No words."""

from contextlib import ExitStack

from streaming import ownership
from streaming.admission import TooMany
from streaming.models import Response
from streaming.reader import Attendance
from streaming.store import responses, threads

#: Of one socket: a page reads one answer, and those of conversations it had open before.
MOST = 16


class NotCounted(Exception):
    """The page does not count as a reader; the text is the code of why."""


class Attendant:
    """Takes nothing: there may be more, and the page reads it when somebody looks at it."""

    def wake(self) -> None:
        """What there is stays in the log."""


class Standins:
    """A page that closed its stream counts as a reader until it says otherwise, the answer ends, or its socket does.

    Owner checks and caps are those of readers. Nothing is ever delivered here.
    """

    def __init__(self, user_id: int):
        self._user_id = user_id
        self._places: dict[str, ExitStack] = {}
        self._counted: set[ExitStack] = set()

    @property
    def responses(self) -> list[str]:
        """Those that are read so, or are about to be."""
        return list(self._places)

    async def enter(self, response_id: str) -> bool:
        """Returns when the page counts, wherever the response runs; False where that is said of another call, or was
        taken back meanwhile.

        Raises NotCounted, and DatabaseError.
        """
        if response_id in self._places:
            return self._places[response_id] in self._counted
        if len(self._places) >= MOST:
            raise NotCounted("rate_limited")
        place = self._places[response_id] = ExitStack()
        try:
            await self._take(response_id, place)
        except BaseException:
            self._give_back(response_id, place)
            raise
        if self._has(response_id, place):
            self._counted.add(place)
        return self._has(response_id, place)

    def _has(self, response_id: str, place: ExitStack) -> bool:
        return self._places.get(response_id) is place

    async def _take(self, response_id: str, place: ExitStack) -> None:
        response = await threads.run(responses.get, response_id, self._user_id)
        if self._has(response_id, place):
            await self._attend(response, place).noted()

    def _attend(self, response: Response | None, place: ExitStack) -> Attendance:
        owner = ownership.current()
        if response is None or response.conversation_id is None:
            raise NotCounted("not_found")
        tail = owner.tail(response.id)
        if response.end_state is not None or (tail and tail.ended):
            raise NotCounted("ended")
        if (tail and tail.given_up) or owner.is_orphan(response):
            raise NotCounted("unavailable")  # asking for its stream takes it over
        try:
            owner.readers.check(self._user_id, response.id)
        except TooMany:
            raise NotCounted("rate_limited") from None
        presence = owner.company.presence if owner.company else None
        attendance = Attendance(Attendant(), response.id, tail=tail, presence=presence, owner=response.owner)
        place.enter_context(owner.readers.place(self._user_id, response.id))
        place.callback(attendance.leave)
        return attendance

    def leave(self, response_id: str) -> None:
        """The page reads it no longer, or by a stream again."""
        if place := self._places.get(response_id):
            self._give_back(response_id, place)

    def _give_back(self, response_id: str, place: ExitStack) -> None:
        if self._has(response_id, place):
            del self._places[response_id]
        self._counted.discard(place)
        place.close()

    def close(self) -> None:
        """The socket is gone."""
        for response_id in self.responses:
            self.leave(response_id)
