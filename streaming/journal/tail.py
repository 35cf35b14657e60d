"""Owns the newest part of a response's log in memory: what is stored, what waits to be, who reads. Stores nothing."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from streaming.metrics.delivery import Delivery
from streaming.protocol.events import AT_MS_MAX, ENDED, EVENT_BYTES_MAX, STARTED, Draft, Event, cut, merge, size_bytes

KEEP_EVENTS = 64
KEEP_ENDED_EVENTS = 16
#: Of payloads, for an engine may say in one output what others say in a thousand.
KEEP_BYTES = 256 * 1024
KEEP_ENDED_BYTES = 64 * 1024
PENDING_BYTES_MAX = 256 * 1024


class Listener(Protocol):
    """A reader of the tail, woken when there is more to read or the tail is given up."""

    def wake(self) -> None: ...


class Tail:
    """The log of one live response in this process.

    ``log`` is what an earlier owner stored of it. Events become part of ``events`` only after they are stored.
    Between KEEP_EVENTS and twice as many stay in memory, few once it has ended, and between KEEP_BYTES and twice as
    many where those are fewer events; what is older is read from rows.
    """

    def __init__(self, response_id: str, epoch: int, received_at: float, log: Sequence[Event] = ()):
        self.response_id = response_id
        self.epoch = epoch
        self.received_at = received_at
        #: When the request arrived, also where that was at another process: what events' times count from.
        self.began_at = received_at
        self.last_seq = log[-1].seq if log else 0
        self.first_seq = self.last_seq + 1
        self.events: list[Event] = []
        self._kept_bytes = 0
        self.is_started = any(event.kind == STARTED for event in log)
        self.pending: list[Draft] = []
        self.pending_bytes = 0
        self.sent_tokens = sum(event.token_count for event in log)
        self.delivered_tokens = 0
        self.noted_tokens = 0
        self.first_delivery_at: float | None = None
        self.released = False
        self.fenced = False
        self.storage_lost = False
        self.on_readers: Callable[[], None] | None = None
        self._listeners: dict[Listener, bool] = {}
        self.on_stored: Callable[[Tail], None] | None = None
        #: What counts the response's delivery for operators; None where nobody does.
        self.delivery: Delivery | None = None
        self._followers: Mapping[str, int] = {}
        self._stored = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether the log is complete."""
        return bool(self.events) and self.events[-1].kind == ENDED

    @property
    def given_up(self) -> bool:
        """Whether this process will append nothing more although the response has not ended."""
        return self.released or self.fenced

    @property
    def readers(self) -> int:
        """How many readers count as somebody reading, here and at other processes."""
        return sum(self._listeners.values()) + sum(self._followers.values())

    @property
    def followers(self) -> Mapping[str, int]:
        """How many readers follow the rows, by process."""
        return self._followers

    def followed(self, followers: Mapping[str, int]) -> None:
        """So many readers follow the rows, by process."""
        if followers != self._followers:
            self._followers = followers
            self._readers_changed()

    def attach(self, listener: Listener, counts: bool = True) -> None:
        """Add a reader; one that does not count (staff watching) never keeps a response alive."""
        self._listeners[listener] = counts
        self._readers_changed()

    def detach(self, listener: Listener) -> None:
        """Take a reader away."""
        if self._listeners.pop(listener, None) is not None:
            self._readers_changed()

    def _readers_changed(self) -> None:
        if self.on_readers:
            self.on_readers()

    def since(self, cursor: int) -> Sequence[Event] | None:
        """The stored events after a cursor; None when the oldest of them is no longer in memory."""
        if cursor + 1 < self.first_seq:
            return None
        return self.events[cursor + 1 - self.first_seq :]

    def hold(self, drafts: Sequence[Draft]) -> None:
        """Keep drafts until the next commit."""
        self.pending.extend(drafts)
        for draft in drafts:
            self.pending_bytes += size_bytes(draft.payload)

    def at_ms(self, now: float) -> int:
        """A moment of the event loop's clock as an event's time."""
        return min(AT_MS_MAX, int((now - self.began_at) * 1000))

    def number(self, now: float) -> list[Event]:
        """Take all that is pending as events numbered on from the last stored one; merges adjacent deltas."""
        drafts = merge(self.pending)
        if self.pending_bytes > EVENT_BYTES_MAX:
            drafts = cut(drafts)
        self.pending, self.pending_bytes = [], 0
        seq, at_ms = self.last_seq, self.at_ms(now)
        events = []
        for draft in drafts:
            seq += 1
            events.append(Event(seq, self.epoch, draft.kind, draft.payload, draft.token_ids, draft.token_count, at_ms))
        return events

    def publish(self, events: Sequence[Event]) -> None:
        """Make stored events visible and wake the readers."""
        if not events:
            return
        self.events.extend(events)
        self.last_seq = events[-1].seq
        for event in events:
            self.sent_tokens += event.token_count
            self._kept_bytes += size_bytes(event.payload)
        if self.ended:
            self._keep(KEEP_ENDED_EVENTS, KEEP_ENDED_BYTES)
        elif len(self.events) > 2 * KEEP_EVENTS or self._kept_bytes > 2 * KEEP_BYTES:
            self._keep(KEEP_EVENTS, KEEP_BYTES)
        self.wake()

    def _keep(self, count: int, most_bytes: int) -> None:
        """Forget all but the newest events: so many, of so many bytes together, and the last one in any case."""
        kept = kept_bytes = 0
        for event in reversed(self.events[-count:]):
            size = size_bytes(event.payload)
            if kept and kept_bytes + size > most_bytes:
                break
            kept, kept_bytes = kept + 1, kept_bytes + size
        surplus = len(self.events) - kept
        del self.events[:surplus]
        self.first_seq += surplus
        self._kept_bytes = kept_bytes

    def wake(self) -> None:
        """Tell every reader to look again, and a relay that waits for room."""
        for listener in self._listeners:
            listener.wake()
        if self._followers and self.on_stored:
            self.on_stored(self)
        self._stored.set()

    async def stored(self, is_last: Callable[[Event], bool]) -> None:
        """Wait until what was appended last, an event of which this is true, is stored, with all before it."""
        while self.pending or not self.events or not is_last(self.events[-1]):
            self._stored.clear()
            await self._stored.wait()

    async def room(self) -> None:
        """Wait until the journal has taken what is pending: what bounds memory when storage is slow."""
        while self.pending_bytes > PENDING_BYTES_MAX and not self.given_up and not self.storage_lost:
            self._stored.clear()
            await self._stored.wait()

    def delivered(self, tokens: int, now: float) -> None:
        """A reader handed content to its socket: up to that many tokens of the answer."""
        if tokens > self.delivered_tokens:
            self.delivered_tokens = tokens
            if self.first_delivery_at is None:
                self.first_delivery_at = now
                if self.delivery:
                    self.delivery.began(now - self.received_at)

    def delivered_elsewhere(self, tokens: int) -> None:
        """A reader at another process took up to that many tokens; when the first of them left is not known."""
        self.delivered_tokens = max(tokens, self.delivered_tokens)

    def note_delivered(self) -> bool:
        """After the end: whether readers took more than its row, or a note to it, says by now."""
        more = self.delivered_tokens - self.noted_tokens
        if more <= 0:
            return False
        self.noted_tokens = self.delivered_tokens
        if self.delivery:
            self.delivery.rose(more)
        return True

    @property
    def ttft_ms(self) -> float | None:
        """From the request's arrival to the first content handed to a socket; None without a reader."""
        if self.first_delivery_at is None:
            return None
        return round((self.first_delivery_at - self.received_at) * 1000, 2)
