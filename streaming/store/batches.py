"""Owns the rows of batches: made, found, cancelled, removed. What their worker writes is batch_work's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from streaming.models import Batch, Response, StoredFile
from streaming.protocol import end_state

from . import clock, files, paging, responses

ID_FORMAT = re.compile(r"batch_[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)
WINDOW = timedelta(hours=24)
Status = Batch.Status


class TooManyBatches(Exception):
    """The user has as many unfinished batches as they may."""


class InUse(Exception):
    """A file is being read by a batch; the message is its id."""


@dataclass(frozen=True, slots=True)
class NewBatch:
    """What a batch is made with, checked for form. ``output_ttl_s`` is None where the site's limits are enough."""

    user_id: int
    api_key_id: int | None
    endpoint: str
    input_file_id: str
    metadata: Mapping[str, str] | None
    output_ttl_s: int | None = None


def create(new: NewBatch, unfinished_max: int) -> Batch:
    """Store it, to be worked at. Raises TooManyBatches, StoredFile.DoesNotExist, User.DoesNotExist."""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=new.user_id)  # two at once are counted one after the other
        if Batch.objects.filter(user_id=new.user_id, status__in=Batch.UNFINISHED).count() >= unfinished_max:
            raise TooManyBatches
        # Nobody removes the file before its batch is there to keep it.
        list(StoredFile.objects.select_for_update().filter(id=new.input_file_id))
        file = files.get(new.input_file_id, new.user_id)
        if file is None or file.purpose != StoredFile.Purpose.BATCH:
            raise StoredFile.DoesNotExist
        now = timezone.now()
        return Batch.objects.create(
            user_id=new.user_id,
            api_key_id=new.api_key_id,
            endpoint=new.endpoint,
            input_file_id=new.input_file_id,
            metadata=new.metadata,
            output_ttl_s=new.output_ttl_s,
            created_at=now,
            expires_at=now + WINDOW,
            due_at=clock.now(),
        )


def get(batch_id: str, user_id: int) -> Batch | None:
    """The user's batch, or None for an unknown one and somebody else's alike."""
    if not ID_FORMAT.fullmatch(batch_id):
        return None
    return Batch.objects.filter(id=batch_id, user_id=user_id).first()


def page(user_id: int, after: str | None, limit: int) -> tuple[list[Batch], bool]:
    """The user's batches behind an id, latest first, and whether there are more."""
    return paging.page(Batch.objects.filter(user_id=user_id), after, limit, latest_first=True)


def cancel(batch_id: str, reason: str) -> bool:
    """Have it end: what runs of it is stopped, what has not begun never does. False where it has ended already.

    ``reason`` is the end reason of what is stopped.
    """
    now = clock.now()
    running = Batch.objects.filter(id=batch_id, status__in=(Status.VALIDATING, Status.IN_PROGRESS))
    is_running = bool(running.update(status=Status.CANCELLING, cancelling_at=now, due_at=now))
    if is_running:
        stop_lines(batch_id, reason)
    return is_running


def _answers(batch_id: str) -> QuerySet[Response]:
    return Response.objects.filter(purpose=Response.Purpose.BATCH, idempotency_key__startswith=f"{batch_id}.")


def stop_lines(batch_id: str, reason: str) -> int:
    """Ask for a stop of every answer of the batch that has not ended; its owner looks each STOP_POLL_S.

    One by one: who holds several would be in the way of a journal that ends them in another order.
    """
    running = _answers(batch_id).filter(end_state__isnull=True, stop_requested_at__isnull=True)
    ids = list(running.values_list("id", flat=True))
    for response_id in ids:
        responses.request_stop(response_id, reason)
    return len(ids)


def has_running_lines(batch_id: str) -> bool:
    """Whether an answer of the batch has not ended: it may yet end well."""
    return _answers(batch_id).filter(end_state__isnull=True).exists()


def answered_lines(batch_id: str) -> dict[int, str]:
    """The ids of the batch's answers that ended well, written to its file or not, by their lines' numbers."""
    ended_well = _answers(batch_id).filter(end_state=end_state.COMPLETED)
    return {int(key.split(".")[1]): id_ for id_, key in ended_well.values_list("id", "idempotency_key") if key}


def remove_file(file_id: str) -> None:
    """Remove a file, unless an unfinished batch reads it: then raises InUse."""
    file = StoredFile.objects.filter(id=file_id)
    with transaction.atomic():
        list(file.select_for_update())
        reading = Batch.objects.filter(input_file_id=file_id, status__in=Batch.UNFINISHED)
        if batch_id := reading.values_list("id", flat=True).first():
            raise InUse(batch_id)
        files.remove(file)


def remove_old(since: datetime) -> int:
    """Batches that were made before, have ended, and whose files have gone. Returns how many."""
    written = StoredFile.objects.filter(id__in=[OuterRef("output_file_id"), OuterRef("error_file_id")])
    old = Batch.objects.exclude(status__in=Batch.UNFINISHED).filter(~Exists(written), created_at__lt=since)
    return old.delete()[0]
