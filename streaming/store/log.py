"""Owns the rows of the event log: appending in one statement, reading in pages. Does not number events."""

import json
from collections.abc import Iterable

from django.db import connection
from django.db.models import Max

from streaming.models import ResponseEvent
from streaming.protocol.events import Event, size_bytes

from .packing import pack_ids, unpack_ids

PAGE_BYTES = 64 * 1024
PAGE_ROWS = 512

_INSERT = """INSERT INTO streaming_responseevent
    (response_id, seq, epoch, kind, payload, token_ids, token_count) VALUES (%s, %s, %s, %s, %s, %s, %s)"""
_COLUMNS = ("seq", "epoch", "kind", "payload", "token_ids", "token_count")


def insert(events: Iterable[tuple[str, Event]]) -> None:
    """Append events, given with their response ids. Raises IntegrityError where another owner wrote first."""
    rows = [
        (response_id, e.seq, e.epoch, e.kind, json.dumps(e.payload), pack_ids(e.token_ids), e.token_count)
        for response_id, e in events
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_INSERT, rows)


def last_seq(response_id: str) -> int:
    """The highest stored seq, 0 for an empty log."""
    return ResponseEvent.objects.filter(response_id=response_id).aggregate(n=Max("seq"))["n"] or 0


def position(response_id: str, seq: int) -> tuple[int | None, int]:
    """The epoch that wrote an event, None where there is no such event (yet); and the last seq."""
    epoch = ResponseEvent.objects.filter(response_id=response_id, seq=seq).values_list("epoch", flat=True).first()
    return epoch, last_seq(response_id)


def page(response_id: str, after_seq: int) -> list[Event]:
    """The events after a seq, in order, at most about PAGE_BYTES of payload; empty when there are none (yet)."""
    rows = (
        ResponseEvent.objects.filter(response_id=response_id, seq__gt=after_seq)
        .order_by("seq")
        .values_list(*_COLUMNS)[:PAGE_ROWS]
    )
    events: list[Event] = []
    page_bytes = 0
    for seq, epoch, kind, payload, token_ids, token_count in rows:
        page_bytes += size_bytes(payload)
        if events and page_bytes > PAGE_BYTES:
            break
        events.append(Event(seq, epoch, kind, payload, unpack_ids(token_ids), token_count))
    return events


def read(response_id: str) -> list[Event]:
    """The whole log at once: for rebuilding a stream, never for serving a reader."""
    events: list[Event] = []
    while more := page(response_id, events[-1].seq if events else 0):
        events.extend(more)
    return events
