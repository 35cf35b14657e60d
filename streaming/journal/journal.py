"""Owns when events are committed: one batch at a time on one thread, at once when idle. Does not read logs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from django.db import OperationalError

from streaming.models import Response
from streaming.protocol.events import ENDED, Draft, Event
from streaming.store.responses import Delivered, Ending, NewResponse, Started

from .batch import Batch, Creation, Entry, Notes
from .commit_thread import CommitThread
from .tail import Tail

logger = logging.getLogger(__name__)

RETRY_S = 0.25
RETRY_MAX_S = 2.0
LOOK_AGAIN_S = 1.0
CLOSE_S = 2.0
#: How long a note waits for events to ride with: a commit of its own costs as much as one of twenty events.
NOTE_WAIT_S = 0.05


def no_storage() -> OperationalError:
    return OperationalError("the database takes no writes")


@dataclass(slots=True)
class Closing:
    """The end of a response, completed by the journal when it knows what was sent and delivered.

    ``finish(tail, sent_tokens)`` returns the payload of the ended event and what the row gets.
    """

    finish: Callable[[Tail, int], tuple[dict[str, Any], Ending]]
    leftover_ids: tuple[int, ...]
    leftover_count: int
    stored: asyncio.Future[bool]


class Journal:
    """The group-commit writer of a process. All methods belong to the event loop that called start.

    ``gap_s`` is the least time between the starts of two commits under load, ``patience_s`` how long
    one may fail, or hang, before the tails are told that storage is lost. Commits go on being tried after that.
    With ``synchronous`` off PostgreSQL may acknowledge events before they are on disk; ends always are.
    """

    def __init__(self, gap_s: float = 0.003, patience_s: float = 10.0, synchronous: bool = True):
        self._gap_s = gap_s
        self._patience_s = patience_s
        self._synchronous = synchronous
        self._thread: CommitThread | None = None
        self._dirty: dict[Tail, None] = {}
        self._closing: dict[Tail, Closing] = {}
        self._live: WeakSet[Tail] = WeakSet()
        self._notes = Notes()
        self._creations: dict[Creation, asyncio.Future[Response]] = {}
        self._created: dict[Creation, asyncio.Future[Response]] = {}
        self._in_flight: Batch | None = None
        self._scheduled: asyncio.TimerHandle | None = None
        self._notes_due: asyncio.TimerHandle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._taken_at = 0.0
        self._retry_s = RETRY_S
        self._written = asyncio.Event()
        self.commits = 0

    async def create(self, new: NewResponse) -> Response:
        """Store a row with the next commit: a commit of its own would cost five times as much.

        Raises what ``responses.create`` raises. Nobody waits for storage that fails or hangs.
        """
        if self._in_flight and self._in_flight.failed:
            raise no_storage()
        stored: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._creations[Creation(new)] = stored
        self._kick()
        return await stored

    def append(self, tail: Tail, drafts: Sequence[Draft]) -> None:
        """Store drafts soon; they become visible in the tail once stored."""
        if tail.given_up or not drafts:
            return
        tail.hold(drafts)
        self._dirty[tail] = None
        self._kick()

    def note_started(self, started: Started) -> None:
        """Note with the next commit that an engine took a response."""
        self._notes.started.append(started)
        self._kick_for_notes()

    def note_delivered(self, delivered: Delivered) -> None:
        """Note with the next commit what readers took of a response after its end."""
        self._notes.delivered.append(delivered)
        self._kick_for_notes()

    async def end(self, tail: Tail, closing: Closing) -> bool:
        """Store the end after everything pending. Returns False when another owner wrote first."""
        if tail.given_up:
            return False
        self._closing[tail] = closing
        self._dirty[tail] = None
        self._kick()
        return await closing.stored

    async def settled(self) -> bool:
        """Wait until nothing is pending; False when storage fails and something is."""
        while self._in_flight or self._waiting or self._notes:
            self._start()
            self._written.clear()
            await self._written.wait()
            if self._in_flight and self._in_flight.failed:
                return False
        return True

    async def close(self) -> None:
        """Commit what is pending and end the thread."""
        await self.settled()
        if self._thread:
            await self._thread.close(CLOSE_S)

    @property
    def _waiting(self) -> bool:
        return bool(self._dirty or self._creations)

    def _kick(self) -> None:
        if self._in_flight or self._scheduled:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._taken_at + self._gap_s - loop.time()
        if wait_s <= 0:
            self._start()
        else:
            self._scheduled = loop.call_later(wait_s, self._start)

    def _kick_for_notes(self) -> None:
        if not self._notes_due:
            self._notes_due = asyncio.get_running_loop().call_later(NOTE_WAIT_S, self._start)

    def _start(self) -> None:
        if self._scheduled:
            self._scheduled.cancel()
            self._scheduled = None
        if self._notes_due:
            self._notes_due.cancel()
            self._notes_due = None
        if self._in_flight or not (self._waiting or self._notes):
            return
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = CommitThread(loop, self._on_written)
        self._taken_at = loop.time()
        self._in_flight = self._take()
        self._thread.submit(self._in_flight)
        if self._alarm is None:
            self._alarm = loop.call_later(self._patience_s, self._look)

    def _take(self) -> Batch:
        dirty, self._dirty = self._dirty, {}
        notes, self._notes = self._notes, Notes()
        self._created, self._creations = self._creations, {}
        return Batch([self._entry(tail) for tail in dirty], notes, list(self._created), self._synchronous)

    def _entry(self, tail: Tail) -> Entry:
        events = tail.number()
        closing = self._closing.get(tail)
        if closing is None:
            return Entry(tail, events)
        sent_tokens = tail.sent_tokens + sum(e.token_count for e in events) + closing.leftover_count
        payload, ending = closing.finish(tail, sent_tokens)
        seq = tail.last_seq + len(events) + 1
        last = Event(seq, tail.epoch, ENDED, payload, closing.leftover_ids, closing.leftover_count)
        return Entry(tail, [*events, last], ending)

    def _on_written(self, batch: Batch, error: Exception | None) -> None:
        if error is not None:
            self._on_failed(batch, error)
            return
        if batch.failed:
            logger.warning("storing works again")
        self._retry_s = RETRY_S
        self._in_flight = None
        self.commits += 1
        self._answer(self._created)
        for entry in batch.entries:
            self._on_stored(entry)
        self._written.set()
        if self._waiting:
            self._kick()
        elif self._notes:
            self._kick_for_notes()

    @staticmethod
    def _answer(creations: dict[Creation, asyncio.Future[Response]], error: Exception | None = None) -> None:
        """Tell who asked for rows what became of them."""
        for creation, stored in creations.items():
            if stored.done():
                continue
            if creation.response and not error:
                stored.set_result(creation.response)
            else:
                stored.set_exception(error or creation.error or no_storage())
        creations.clear()

    def _on_stored(self, entry: Entry) -> None:
        tail = entry.tail
        if entry.fenced:
            tail.fenced = True
            # What has come in since must not be written behind another owner's events, or behind a hole.
            self._dirty.pop(tail, None)
            tail.wake()
        else:
            if not tail.events:
                self._live.add(tail)
            tail.publish(entry.events)
        if not (entry.fenced or entry.ending):
            return
        self._live.discard(tail)
        closing = self._closing.pop(tail, None)
        if closing and not closing.stored.done():
            closing.stored.set_result(not entry.fenced)

    def _on_failed(self, batch: Batch, error: Exception) -> None:
        """Write the same batch again later; readers see nothing of it before that."""
        if not batch.failed:
            logger.warning("storing failed, trying again: %s", error)
        self._answer(self._created, error)
        batch.write_again_later(self._live)
        assert self._thread
        asyncio.get_running_loop().call_later(self._retry_s, self._thread.submit, batch)
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        self._written.set()

    def _look(self) -> None:
        """Whether one batch has been under way for too long, be it that it fails or that nobody answers."""
        self._alarm = None
        if self._in_flight is None:
            return
        loop = asyncio.get_running_loop()
        left_s = self._taken_at + self._patience_s - loop.time()
        if left_s <= 0:
            self._lose(self._in_flight)
        self._alarm = loop.call_later(left_s if left_s > 0 else LOOK_AGAIN_S, self._look)

    def _lose(self, batch: Batch) -> None:
        """Tell everybody who waits for the journal; who has nothing to store may go on."""
        self._answer(self._creations, no_storage())
        for tail in {entry.tail for entry in batch.entries if entry.events} | set(self._dirty):
            if not tail.storage_lost:
                tail.storage_lost = True
                tail.wake()
