"""Owns what processes read of each other: beats, and what was done to the responses one owns. Writes nothing."""

from collections.abc import Iterable

from streaming.models import Response, WebProcess


def beats() -> dict[str, int]:
    """The counter of every process that has announced itself and not said goodbye."""
    return dict(WebProcess.objects.values_list("id", "beat"))


def owned(process_id: str) -> dict[str, str]:
    """The unended responses of a process, with the end reason that a stop asked for, empty where nobody did."""
    rows = Response.objects.filter(owner=process_id, end_state__isnull=True)
    return dict(rows.values_list("id", "stop_reason"))


def epochs(response_ids: Iterable[str]) -> dict[str, int]:
    """The epochs of these responses; one that was deleted is missing."""
    return dict(Response.objects.filter(id__in=list(response_ids)).values_list("id", "epoch"))
