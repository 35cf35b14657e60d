"""Owns the rows of readers that follow what another process runs. Does not judge which processes live."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db import connection, transaction

from streaming.models import ReaderPresence

from . import responses
from .responses import Delivered


class Present(NamedTuple):
    """What a process says of its readers of one response: how many, and the most tokens any of them took."""

    response_id: str
    readers: int
    delivered_tokens: int


def note(process_id: str, changes: Sequence[Present]) -> None:
    """Store what changed; of a response that has ended only what was delivered still counts.

    In two transactions: whoever ends a response after the second looked finds what the first stored.
    """
    ordered = sorted(changes)
    rows = [(process_id, change.readers, change.delivered_tokens, change.response_id) for change in ordered]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO streaming_readerpresence (response_id, process, readers, delivered_tokens)"
            " SELECT id, %s, %s, %s FROM streaming_response WHERE id = %s AND end_state IS NULL"
            " ON CONFLICT (response_id, process) DO UPDATE SET readers = excluded.readers, delivered_tokens ="
            " CASE WHEN excluded.delivered_tokens > streaming_readerpresence.delivered_tokens"
            " THEN excluded.delivered_tokens ELSE streaming_readerpresence.delivered_tokens END",
            rows,
        )
    if taken := [Delivered(c.delivered_tokens, None, c.response_id) for c in ordered if c.delivered_tokens]:
        with transaction.atomic():
            responses.raise_delivered(taken)


def of(response_id: str) -> dict[str, int]:
    """The readers of a response by process, of processes that have not said goodbye."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.process, p.readers FROM streaming_readerpresence p"
            " JOIN streaming_webprocess w ON w.id = p.process WHERE p.response_id = %s AND p.readers > 0",
            [response_id],
        )
        return dict(cursor.fetchall())


def fold(response_ids: Iterable[str]) -> None:
    """Count what was delivered elsewhere into rows that have ended, and forget who read them.

    One that was only released is somebody else's now, and goes on for those readers.
    """
    with transaction.atomic():
        present = ReaderPresence.objects.filter(response_id__in=list(response_ids), response__end_state__isnull=False)
        held = present.select_for_update(of=("self",)).order_by("response_id", "process")
        if taken := list(held):
            responses.raise_delivered([Delivered(p.delivered_tokens, None, p.response_id) for p in taken])
            ReaderPresence.objects.filter(pk__in=[p.pk for p in taken]).delete()


def leave(process_id: str) -> None:
    """The process goes: nobody reads there any more; how far they came still counts."""
    rows = ReaderPresence.objects.filter(process=process_id)
    with transaction.atomic():
        list(rows.select_for_update(no_key=True).order_by("response_id"))
        rows.update(readers=0)
