"""Owns when events are committed: one batch at a time on one thread, at once when idle. Does not read logs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakSet

from streaming.metrics.storing import COMMIT, COMMIT_FAILURES
from streaming.models import Response
from streaming.protocol.events import ENDED, Draft, Event
from streaming.store.creation import NewResponse
from streaming.store.responses import Delivered, Ending, Started

from .batch import Batch, Entry, Notes
from .commit_thread import CommitThread
from .creation import Creation, no_storage
from .tail import Tail

logger = logging.getLogger(__name__)

RETRY_S = 0.25
RETRY_MAX_S = 2.0
LOOK_AGAIN_S = 1.0
CLOSE_S = 2.0
#: How long a note waits for events to ride with: a commit of its own costs as much as one of twenty events.
NOTE_WAIT_S = 0.05


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

    def __init__(self, gap_s: float = 0.005, patience_s: float = 10.0, synchronous: bool = True):
        self._gap_s = gap_s
        self._patience_s = patience_s
        self._synchronous = synchronous
        self._thread: CommitThread | None = None
        self._dirty: dict[Tail, None] = {}
        self._closing: dict[Tail, Closing] = {}
        self._live: WeakSet[Tail] = WeakSet()
        self._notes = Notes()
        self._creations: list[Creation] = []
        self._in_flight: Batch | None = None
        self._due: asyncio.TimerHandle | None = None
        self._due_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._taken_at = 0.0
        self._retry_s = RETRY_S
        self._written = asyncio.Event()
        self.commits = 0

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The one of all methods. Kept: to ask which one runs costs a system call, and each output would."""
        return asyncio.get_running_loop()

    async def create(self, new: NewResponse) -> Response:
        """Store a row with the next commit: a commit of its own would cost five times as much.

        Raises what ``creation.create`` raises. Nobody waits for storage that fails or hangs.
        """
        if self._in_flight and self._in_flight.failed:
            raise no_storage()
        creation = Creation(new, self._loop.create_future())
        self._creations.append(creation)
        self._kick()
        return await creation.stored

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

    @property
    def is_failing(self) -> bool:
        """Whether storing fails, or hangs for so long that it might as well."""
        return self._in_flight is not None and (self._in_flight.failed or self.lag_s > self._patience_s)

    @property
    def lag_s(self) -> float:
        """How long the batch that is under way has been; 0 where none is."""
        return 0.0 if self._in_flight is None else self._loop.time() - self._taken_at

    @property
    def pending_bytes(self) -> int:
        """Of payloads that wait for the next batch."""
        return sum(tail.pending_bytes for tail in self._dirty)

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
        if self._in_flight is None:
            self._start_at(self._taken_at + self._gap_s)

    def _kick_for_notes(self) -> None:
        self._start_at(self._loop.time() + NOTE_WAIT_S)

    def _start_at(self, when: float) -> None:
        """Commit then, unless that is due earlier anyway."""
        loop = self._loop
        if when <= loop.time():
            self._start()
        elif self._due is None or when < self._due_at:
            self._not_due()
            # The handle could not always be asked: what is due within uvloop's millisecond has no time.
            self._due, self._due_at = loop.call_at(when, self._start), when

    def _not_due(self) -> None:
        if self._due:
            self._due.cancel()
            self._due = None

    def _start(self) -> None:
        self._not_due()
        if self._in_flight or not (self._waiting or self._notes):
            return
        loop = self._loop
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
        creations, self._creations = self._creations, []
        return Batch([self._entry(tail) for tail in dirty], notes, creations, self._synchronous)

    def _entry(self, tail: Tail) -> Entry:
        events = tail.number(self._taken_at)
        closing = self._closing.get(tail)
        if closing is None:
            return Entry(tail, events)
        sent_tokens = tail.sent_tokens + sum(e.token_count for e in events) + closing.leftover_count
        payload, ending = closing.finish(tail, sent_tokens)
        seq = tail.last_seq + len(events) + 1
        at_ms = tail.at_ms(self._taken_at)
        last = Event(seq, tail.epoch, ENDED, payload, closing.leftover_ids, closing.leftover_count, at_ms)
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
        COMMIT.observe(self._loop.time() - self._taken_at)
        for creation in batch.creations:
            creation.answer()
        for entry in batch.entries:
            self._on_stored(entry)
        self._written.set()
        if self._waiting:
            self._kick()
        elif self._notes:
            self._kick_for_notes()

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
        COMMIT_FAILURES.inc()
        if not batch.failed:
            logger.warning("storing failed, trying again: %s", error)
        for creation in batch.creations:
            creation.answer(error)
        batch.write_again_later(self._live)
        assert self._thread
        self._loop.call_later(self._retry_s, self._thread.submit, batch)
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        self._written.set()

    def _look(self) -> None:
        """Whether one batch has been under way for too long, be it that it fails or that nobody answers."""
        self._alarm = None
        if self._in_flight is None:
            return
        loop = self._loop
        left_s = self._taken_at + self._patience_s - loop.time()
        if left_s <= 0:
            self._lose(self._in_flight)
        self._alarm = loop.call_later(left_s if left_s > 0 else LOOK_AGAIN_S, self._look)

    def _lose(self, batch: Batch) -> None:
        """Tell everybody who waits for the journal; who has nothing to store may go on."""
        for creation in (*batch.creations, *self._creations):
            creation.answer(no_storage())
        self._creations.clear()
        for tail in {entry.tail for entry in batch.entries if entry.events} | set(self._dirty):
            if not tail.storage_lost:
                tail.storage_lost = True
                tail.wake()
