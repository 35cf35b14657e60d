"""Owns the way from a log to one connection: cursor, frames, heartbeats. Never queues: the log is the queue."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from streaming.journal import Journal, Tail
from streaming.presence import Presence
from streaming.protocol.cursor import format_event_id
from streaming.protocol.dialects.base import Encoder
from streaming.protocol.events import ENDED, Event
from streaming.protocol.sse import HEARTBEAT
from streaming.store import log, threads
from streaming.store.responses import Delivered

from .attendance import Attendance
from .heart import Heart
from .rows import Rows

logger = logging.getLogger(__name__)

SLICE_BYTES = 256 * 1024


class Reader:
    """Reads one response's log for one connection, from ``cursor`` on, in its dialect.

    ``tail`` is the response's tail when it is live in this process, None when rows are all there is: then
    ``presence`` tells ``owner``, the process that runs it, where there may be one. A reader that does not
    ``count`` keeps nothing alive.
    The reader's presence is registered at once, so a policy counts it before anything is sent.
    """

    def __init__(
        self,
        response_id: str,
        encoder: Encoder,
        *,
        tail: Tail | None,
        journal: Journal,
        heartbeat_s: float,
        presence: Presence | None = None,
        owner: str | None = None,
        follow_poll_s: float = 0.3,
        cursor: int = 0,
        counts: bool = True,
    ):
        self.response_id = response_id
        self.cursor = cursor
        self.finished = False
        self._encoder = encoder
        self._loop = asyncio.get_running_loop()
        self._tail = tail
        self._journal = journal
        self._heart = Heart(heartbeat_s, on_due=self.wake)
        self._rows = Rows(response_id)
        self._follow_poll_s = follow_poll_s
        self._epoch = tail.epoch if tail else 0
        self._tokens = 0
        self._folded = 0
        self._closed = False
        self._dismissed = False
        self._waiter: asyncio.Future[None] | None = None
        self._reads_rows = tail is None
        self._attendance = Attendance(self, response_id, tail=tail, presence=presence, owner=owner, counts=counts)

    def wake(self) -> None:
        """There may be more to read."""
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def dismiss(self) -> None:
        """Whoever reads may not stay here: say ``detached``; coming back takes a credential that is good."""
        self._dismissed = True
        self.wake()

    def close(self) -> None:
        """The connection is gone, or was never opened: leave the tail, end ``frames``."""
        if self._closed:
            return
        self._closed = True
        self._heart.stop()
        self._rows.close()
        self._attendance.leave(self._tokens)
        if self._tail and self._tail.ended and self._tail.note_delivered():
            self._note_delivered(self._tail)
        self.wake()

    def _note_delivered(self, tail: Tail) -> None:
        self._journal.note_delivered(Delivered(tail.delivered_tokens, tail.ttft_ms, self.response_id))

    async def first(self) -> Event | None:
        """Wait for the first stored event and return it; None when the reader was closed or detached before."""
        events = await self._next(0)
        return events[0] if events else None

    async def all(self) -> list[Event]:
        """Wait for the end and return the whole log; empty when closed or detached before."""
        events: list[Event] = []
        while not (events and events[-1].kind == ENDED):
            more = await self._next(events[-1].seq if events else 0)
            if not more:
                return []
            events.extend(more)
        return events

    async def frames(self, is_silent: bool = False) -> AsyncIterator[bytes]:
        """Yield frames from the cursor on: merged events, heartbeats while silent, ``detached`` when given up.

        Where it ``is_silent`` so far, a heartbeat comes at once, so that the headers leave.
        What is yielded counts as handed to the socket when the next frame is asked for.
        A fault of ours in the middle is ``detached`` too: the log is whole, so the reader may come back.
        """
        try:
            if is_silent:
                yield HEARTBEAT
            await self._fold()
            if not self._closed:
                self._heart.start()
            while not self._closed and not self.finished:
                events = await self._next(self.cursor, may_beat=True)
                if events:
                    for frames in self._encoded(events):
                        yield frames
                    self._advance(events)
                elif self._gone:
                    yield self._encoder.detached(self.last_event_id)
                    return
                elif self._heart.is_due:
                    yield HEARTBEAT
                    self._heart.sent(self._loop.time())
        except Exception:
            logger.exception("a stream of %s failed in the middle", self.response_id)
            yield self._encoder.detached(self.last_event_id)

    def _encoded(self, events: Sequence[Event]) -> Iterable[bytes]:
        if events[-1].kind == ENDED:
            return self._ending(events)
        frames = self._encoder.encode(events)
        return (frames,) if frames else ()

    def _ending(self, events: Sequence[Event]) -> Iterator[bytes]:
        """The last frames, at most SLICE_BYTES at a time: what a socket does not take is copied."""
        for frames in self._encoder.ending(events):
            for at in range(0, len(frames), SLICE_BYTES):
                yield frames[at : at + SLICE_BYTES]

    @property
    def last_event_id(self) -> str:
        """Where a next reader goes on."""
        return format_event_id(self.response_id, self._epoch, self.cursor)

    def delivered_all(self, events: Sequence[Event]) -> None:
        """The whole answer was handed to the socket at once (a non-streaming call)."""
        self._tokens = 0
        self._advance(events)

    @property
    def _gone(self) -> bool:
        tail = self._tail
        is_lost = tail is not None and (tail.given_up or (tail.storage_lost and not tail.ended))
        return is_lost or self._rows.are_gone or self._dismissed

    def _advance(self, events: Sequence[Event]) -> None:
        now = self._loop.time()
        self._heart.sent(now)
        self.cursor = events[-1].seq
        self._epoch = events[-1].epoch
        self.finished = events[-1].kind == ENDED
        for event in events:
            self._tokens += event.token_count
        if self._tail and self._tokens:
            self._tail.delivered(self._tokens, now)

    async def _fold(self) -> None:
        """Tell the encoder silently what lies before the cursor; who has read the end gets it again."""
        while self._folded < self.cursor:
            known = self._tail.since(self._folded) if self._tail else None
            page = await threads.run(log.page, self.response_id, self._folded) if known is None else known
            events = [e for e in page if e.seq <= self.cursor]
            if events and events[-1].kind == ENDED:
                self.cursor = events.pop().seq - 1
            if not events:
                return
            self._encoder.fold(events)
            self._folded = events[-1].seq
            self._epoch = events[-1].epoch
            self._tokens += sum(event.token_count for event in events)

    async def _next(self, cursor: int, may_beat: bool = False) -> Sequence[Event]:
        """The next stored events; empty when closed, given up, or (may_beat) when a heartbeat is due."""
        while not self._closed:
            events = self._page(cursor)
            if events:
                return events
            if self._gone or (may_beat and self._heart.is_due):
                return ()
            await self._wait()
        return ()

    def _page(self, cursor: int) -> Sequence[Event]:
        events = self._tail.since(cursor) if self._tail else None
        self._reads_rows = events is None or (not events and self._tail is not None and self._tail.ended)
        if events is None or self._reads_rows:
            return self._rows.after(cursor)
        return log.first_page(events)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        if self._rows.asked:
            either: list[asyncio.Future[Any]] = [self._waiter, self._rows.asked]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        elif self._reads_rows:
            await asyncio.wait([self._waiter], timeout=self._follow_poll_s)
        else:
            await self._waiter
