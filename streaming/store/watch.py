"""Owns what processes read of each other: beats, and what was done to the responses one owns. Writes nothing."""

from collections.abc import Iterable
from typing import NamedTuple

from streaming.models import Response, WebProcess


class Watched(NamedTuple):
    """An own response as its row stands."""

    response_id: str
    epoch: int
    stop_reason: str


def beats() -> dict[str, int]:
    """The counter of every process that has announced itself and not said goodbye."""
    return dict(WebProcess.objects.values_list("id", "beat"))


def owned(process_id: str) -> list[Watched]:
    """The unended responses of a process; ``stop_reason`` is empty where nobody asked to stop."""
    rows = Response.objects.filter(owner=process_id, end_state__isnull=True)
    return [Watched(*row) for row in rows.values_list("id", "epoch", "stop_reason")]


def epochs(response_ids: Iterable[str]) -> dict[str, int]:
    """The epochs of these responses; one that was deleted is missing."""
    return dict(Response.objects.filter(id__in=list(response_ids)).values_list("id", "epoch"))
