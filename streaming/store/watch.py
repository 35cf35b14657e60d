"""Owns what processes read of each other: beats, and what was done to the responses one owns. Writes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db import connection

from streaming.models import Response, WebProcess


@dataclass(slots=True)
class Owned:
    """What others did to a response that a process runs.

    ``stop_reason`` is the end reason that a stop asked for, or empty; ``readers`` are those elsewhere, by process.
    """

    stop_reason: str
    readers: dict[str, int] = field(default_factory=dict)
    delivered_tokens: int = 0


def beats() -> dict[str, int]:
    """The counter of every process that has announced itself and not said goodbye."""
    return dict(WebProcess.objects.values_list("id", "beat"))


def owned(process_id: str) -> dict[str, Owned]:
    """The unended responses of a process, and what others did to them: one query."""
    responses: dict[str, Owned] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.id, r.stop_reason, w.id, p.readers, p.delivered_tokens FROM streaming_response r"
            " LEFT JOIN streaming_readerpresence p ON p.response_id = r.id"
            " LEFT JOIN streaming_webprocess w ON w.id = p.process"
            " WHERE r.owner = %s AND r.end_state IS NULL",
            [process_id],
        )
        for response_id, stop_reason, reading_process, readers, delivered_tokens in cursor.fetchall():
            response = responses.setdefault(response_id, Owned(stop_reason))
            if reading_process and readers:
                response.readers[reading_process] = readers
            response.delivered_tokens = max(response.delivered_tokens, delivered_tokens or 0)
    return responses


def epochs(response_ids: Iterable[str]) -> dict[str, int]:
    """The epochs of these responses; one that was deleted is missing."""
    return dict(Response.objects.filter(id__in=list(response_ids)).values_list("id", "epoch"))
