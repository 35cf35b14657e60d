"""Owns when events are committed: one batch at a time on one thread, at once when idle. Does not read logs."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.protocol.events import ENDED, Draft, Event
from streaming.store.responses import Delivered, Ending, Started

from .batch import Batch, Entry, Notes
from .commit_thread import CommitThread
from .tail import Tail

logger = logging.getLogger(__name__)

RETRY_S = 0.25
RETRY_MAX_S = 2.0
CLOSE_S = 2.0


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
    storage may fail before the tails are told that it is lost. Commits go on being tried after that.
    """

    def __init__(self, gap_s: float = 0.004, patience_s: float = 10.0):
        self._gap_s = gap_s
        self._patience_s = patience_s
        self._thread: CommitThread | None = None
        self._dirty: dict[Tail, None] = {}
        self._closing: dict[Tail, Closing] = {}
        self._notes = Notes()
        self._in_flight = False
        self._scheduled: asyncio.TimerHandle | None = None
        self._taken_at = 0.0
        self._retry_s = RETRY_S
        self._failing_since: float | None = None
        self._written = asyncio.Event()
        self.commits = 0

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
        self._kick()

    def note_delivered(self, delivered: Delivered) -> None:
        """Note with the next commit what readers took of a response after its end."""
        self._notes.delivered.append(delivered)
        self._kick()

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
        while self._in_flight or self._dirty or self._notes:
            self._start()
            self._written.clear()
            await self._written.wait()
            if self._failing_since is not None:
                return False
        return True

    async def close(self) -> None:
        """Commit what is pending and end the thread."""
        await self.settled()
        if self._thread:
            await self._thread.close(CLOSE_S)

    def _kick(self) -> None:
        if self._in_flight or self._scheduled:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._taken_at + self._gap_s - loop.time()
        if wait_s <= 0:
            self._start()
        else:
            self._scheduled = loop.call_later(wait_s, self._start)

    def _start(self) -> None:
        if self._scheduled:
            self._scheduled.cancel()
            self._scheduled = None
        if self._in_flight or not (self._dirty or self._notes):
            return
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = CommitThread(loop, self._on_written)
        self._taken_at = loop.time()
        self._in_flight = True
        self._thread.submit(self._take())

    def _take(self) -> Batch:
        dirty, self._dirty = self._dirty, {}
        notes, self._notes = self._notes, Notes()
        return Batch([self._entry(tail) for tail in dirty], notes)

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
        self._failing_since = None
        self._retry_s = RETRY_S
        self._in_flight = False
        self.commits += 1
        for entry in batch.entries:
            self._on_stored(entry)
        self._written.set()
        if self._dirty or self._notes:
            self._kick()

    def _on_stored(self, entry: Entry) -> None:
        tail = entry.tail
        tail.fenced = tail.fenced or entry.fenced
        closing = self._closing.pop(tail, None) if entry.ending else None
        if entry.fenced:
            tail.wake()
        else:
            tail.publish(entry.events)
        if closing and not closing.stored.done():
            closing.stored.set_result(not entry.fenced)

    def _on_failed(self, batch: Batch, error: Exception) -> None:
        """Write the same batch again later; readers see nothing of it before that."""
        loop = asyncio.get_running_loop()
        if self._failing_since is None:
            self._failing_since = loop.time()
            logger.warning("storing failed, trying again: %s", error)
        if loop.time() - self._failing_since >= self._patience_s:
            for tail in {entry.tail for entry in batch.entries} | set(self._dirty):
                if not tail.storage_lost:
                    tail.storage_lost = True
                    tail.wake()
        assert self._thread
        loop.call_later(self._retry_s, self._thread.submit, batch)
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        self._written.set()
