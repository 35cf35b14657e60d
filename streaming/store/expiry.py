"""Owns taking the logs of ended responses away, a bounded number at a time. Does not decide how old they may grow."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction

from streaming.models import Response, ResponseEvent
from streaming.models.ids import first_response_id

from . import log, remains

#: A transaction takes away about so many events: milliseconds, for which SQLite lets nobody else write.
TRANSACTION_EVENTS = 5_000


def expire_logs(older_than: datetime, batch_responses: int = 200) -> int:
    """Take away the logs of responses that began and ended before; returns how many, 0 when none is left.

    What a response object shows stays in its row. Responses that have not ended are left alone, and so are rows
    that somebody else holds just now. Any number of callers may do this at once, and again.
    """
    return sum(_expire(group) for group in _groups(_old(older_than, batch_responses)))


def _old(older_than: datetime, count: int) -> list[tuple[str, int]]:
    """The oldest that have a log, with its length. Both ids bound the look: what expired long ago is not passed again.

    Ids rise with time, so the oldest events stand at one end of their primary key.
    """
    oldest = ResponseEvent.objects.order_by("response_id", "seq").values_list("response_id", flat=True).first()
    if oldest is None:
        return []
    rows = Response.objects.filter(id__gte=oldest, id__lt=first_response_id(older_than), remains__isnull=True)
    ended = rows.filter(end_state__isnull=False, ended_at__lt=older_than)
    return list(ended.order_by("id").values_list("id", "last_seq")[:count])


def _groups(old: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    group: list[str] = []
    events = 0
    for response_id, last_seq in old:
        if group and events + last_seq > TRANSACTION_EVENTS:
            yield group
            group, events = [], 0
        group.append(response_id)
        events += last_seq
    if group:
        yield group


def _expire(response_ids: Sequence[str]) -> int:
    with transaction.atomic():
        log.commit_without_waiting()  # one that the database forgets is done again
        held = Response.objects.select_for_update(skip_locked=True, no_key=True)
        ours = list(held.filter(id__in=response_ids, remains__isnull=True).values_list("id", flat=True))
        remains.keep(ours)
        ResponseEvent.objects.filter(response_id__in=ours).delete()
    return len(ours)
