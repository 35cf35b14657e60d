"""Owns the rows of the event log: appending in one statement, reading in pages. Does not number events."""

import json
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from django.db import connection
from django.db.models import Max, QuerySet

from streaming.models import Response, ResponseEvent
from streaming.protocol.events import DELTAS, Event, size_bytes

from .packing import pack_ids, unpack_ids

PAGE_BYTES = 64 * 1024
PAGE_ROWS = 512

_COLUMNS = "response_id, seq, epoch, kind, payload, token_ids, token_count, at_ms"
_INSERT = f"INSERT INTO streaming_responseevent ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
_COPY = f"COPY streaming_responseevent ({_COLUMNS}) FROM STDIN"
# Walks from event to event until the page is full, so that a log of large events is never read beyond it.
# Not a join: PostgreSQL would read the whole log anew for each step.
_PAGE = """WITH RECURSIVE page(seq, size) AS (
      SELECT seq, LENGTH(CAST(payload AS text)) FROM streaming_responseevent
      WHERE response_id = %(id)s AND seq = %(first)s
    UNION ALL
      SELECT seq + 1, size + (SELECT LENGTH(CAST(e.payload AS text)) FROM streaming_responseevent e
                              WHERE e.response_id = %(id)s AND e.seq = page.seq + 1)
      FROM page WHERE size <= %(bytes)s AND seq < %(last)s)
    SELECT seq, epoch, kind, CAST(payload AS text), token_ids, token_count, at_ms FROM streaming_responseevent
    WHERE response_id = %(id)s AND seq >= %(first)s
      AND seq <= (SELECT MAX(seq) FROM page WHERE size <= %(bytes)s OR seq = %(first)s) ORDER BY seq"""


def insert(events: Iterable[tuple[str, Event]]) -> None:
    """Append events, given with their response ids. Raises IntegrityError where another owner wrote first.

    PostgreSQL takes them by COPY: not dearer for one event, a third of the time and CPU for a hundred.
    """
    rows = [
        (response_id, e.seq, e.epoch, e.kind, payload_json(e), pack_ids(e.token_ids), e.token_count, e.at_ms)
        for response_id, e in events
    ]
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            _copy(cursor, rows)
        else:
            cursor.executemany(_INSERT, rows)


def payload_json(event: Event) -> str:
    """As json.dumps writes it. A delta is its text alone, and nearly every event is one."""
    if event.kind in DELTAS:
        return f'{{"text": {quote(event.payload["text"])}}}'
    return json.dumps(event.payload)


def _copy(cursor: Any, rows: Iterable[tuple[object, ...]]) -> None:
    with connection.wrap_database_errors, cursor.copy(_COPY) as copy:
        for row in rows:
            copy.write_row(row)


def commit_without_waiting() -> None:
    """Let this transaction return before it is on disk, where the database knows of that: a crash may lose it."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")


def last_seq(response_id: str) -> int:
    """The highest stored seq, 0 for an empty log."""
    return ResponseEvent.objects.filter(response_id=response_id).aggregate(n=Max("seq"))["n"] or 0


def position(response_id: str, seq: int) -> tuple[int | None, int]:
    """The epoch that wrote an event, None where there is no such event (yet); and the last seq."""
    epoch = ResponseEvent.objects.filter(response_id=response_id, seq=seq).values_list("epoch", flat=True).first()
    return epoch, last_seq(response_id)


def holds(response_id: str, seq: int) -> bool:
    """Whether the log has an event of this seq."""
    return ResponseEvent.objects.filter(response_id=response_id, seq=seq).exists()


def is_readable(response_id: str) -> bool:
    """Whether there is such a response, and its log unless that has yet to grow: not deleted, not expired."""
    rows = Response.objects.filter(id=response_id, erased_at__isnull=True).values_list("end_state", "last_seq")
    response = rows.first()
    return response is not None and (response[0] is None or holds(response_id, response[1]))


def page(response_id: str, after_seq: int) -> list[Event]:
    """The events after a seq, in order: PAGE_BYTES of payload at most, but at least one; empty while there is none."""
    wanted: dict[str, str | int] = {
        "id": response_id,
        "first": after_seq + 1,
        "last": after_seq + PAGE_ROWS,
        "bytes": PAGE_BYTES,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAGE, wanted)
        return [
            Event(seq, epoch, kind, json.loads(payload), unpack_ids(token_ids), token_count, at_ms)
            for seq, epoch, kind, payload, token_ids, token_count, at_ms in cursor.fetchall()
        ]


def by_response(rows: QuerySet[ResponseEvent]) -> dict[str, list[Event]]:
    """These events of several responses, each response's in order; without their tokens, to be looked at."""
    logs: dict[str, list[Event]] = {}
    said = rows.order_by("response_id", "seq").values_list("response_id", "seq", "epoch", "kind", "payload")
    for response_id, *event in said:
        logs.setdefault(response_id, []).append(Event(*event))
    return logs


def first_page(events: Sequence[Event]) -> Sequence[Event]:
    """Of events in memory, those that make one page."""
    if len(events) < 2:
        return events
    page_bytes = 0
    for count, event in enumerate(events):
        page_bytes += size_bytes(event.payload)
        if count and page_bytes > PAGE_BYTES:
            return events[:count]
    return events


def read(response_id: str) -> list[Event]:
    """The whole log at once: for rebuilding a stream, never for serving a reader."""
    events: list[Event] = []
    while more := page(response_id, events[-1].seq if events else 0):
        events.extend(more)
    return events
