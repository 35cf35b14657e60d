"""Owns the rows of batches: made, found, cancelled, and what their one worker writes. Asks for no answer.

Every write of a worker compares its name with the row's, so that of two nobody writes for the other.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Sum
from django.db.models.functions import Length
from django.utils import timezone

from streaming.models import Batch, FilePiece, Response, StoredFile
from streaming.protocol import end_state

from . import files, paging, responses

ID_FORMAT = re.compile(r"batch_[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)
WINDOW = timedelta(hours=24)
Status = Batch.Status


class TooManyBatches(Exception):
    """The user has as many unfinished batches as they may."""


class InUse(Exception):
    """A file is being read by a batch; the message is its id."""


class LostLease(Exception):
    """The batch is somebody else's by now, or gone."""


@dataclass(frozen=True, slots=True)
class NewBatch:
    """What a batch is made with, checked for form. ``output_ttl_s`` is None where the site's limits are enough."""

    user_id: int
    api_key_id: int | None
    endpoint: str
    input_file_id: str
    metadata: Mapping[str, str] | None
    output_ttl_s: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One line of what a batch writes, by the number of the input's line."""

    number: int
    line: bytes
    is_error: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """How long a batch's files are kept after its end; None: those it wrote for ever, the one it read as it was."""

    written: timedelta | None
    read: timedelta | None


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
    now = timezone.now()
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


def take(worker: str, slots: int, lease: timedelta) -> Batch | None:
    """The batch that has waited longest, to be worked at by this worker alone; None where no slot or no batch is free.

    Who took one and has not come back in its lease has lost it.
    """
    now = timezone.now()
    if not Batch.objects.filter(status__in=Batch.UNFINISHED).exists():
        return None
    Batch.objects.filter(lease_until__lt=now).update(worker="", slot=None, lease_until=None)
    due = Batch.objects.filter(status__in=Batch.UNFINISHED, slot__isnull=True, due_at__lte=now)
    batch_id = due.order_by("due_at").values_list("id", flat=True).first()
    for slot in range(slots) if batch_id else ():
        try:
            with transaction.atomic():
                taken = due.filter(id=batch_id).update(worker=worker, slot=slot, lease_until=now + lease)
        except IntegrityError:
            continue  # somebody works in this slot
        return Batch.objects.get(id=batch_id) if taken else None
    return None


def renew(batch: Batch, lease: timedelta) -> Batch:
    """Its worker is still at it; the row as it is now. Raises LostLease."""
    _change(batch, lease_until=timezone.now() + lease)
    now = Batch.objects.filter(id=batch.id, worker=batch.worker).first()
    if now is None:
        raise LostLease
    return now


def release(batch: Batch, due_at: datetime) -> None:
    """Let others have it, from a time on; does nothing where it is lost."""
    mine = Batch.objects.filter(id=batch.id, worker=batch.worker)
    mine.update(worker="", slot=None, lease_until=None, due_at=due_at)


def begin(batch: Batch, total: int, no_store: bool) -> Batch:
    """Its lines are sound: make its files and go on. Raises LostLease."""
    with transaction.atomic():
        made = [_empty_file(batch, kind).id for kind in ("output", "errors")]
        changes = {"output_file_id": made[0], "error_file_id": made[1], "total": total, "no_store": no_store}
        _change(batch, **changes)
        validated = Batch.objects.filter(id=batch.id, status=Status.VALIDATING)
        validated.update(status=Status.IN_PROGRESS, in_progress_at=timezone.now())
        return Batch.objects.get(id=batch.id)


def _empty_file(batch: Batch, kind: str) -> StoredFile:
    purpose = StoredFile.Purpose.BATCH_OUTPUT
    return StoredFile.objects.create(user_id=batch.user_id, purpose=purpose, filename=f"{batch.id}_{kind}.jsonl")


def written(batch: Batch) -> set[int]:
    """The numbers of the lines that have their answer, or their error."""
    pieces = FilePiece.objects.filter(file_id__in=[batch.output_file_id, batch.error_file_id])
    return set(pieces.values_list("seq", flat=True))


def write(batch: Batch, results: Sequence[Result]) -> None:
    """Add lines to the batch's files, and count them. Raises LostLease."""
    failed = sum(result.is_error for result in results)
    with transaction.atomic():
        _change(batch, completed=F("completed") + len(results) - failed, failed=F("failed") + failed)
        FilePiece.objects.bulk_create(
            FilePiece(
                file_id=batch.error_file_id if result.is_error else batch.output_file_id,
                seq=result.number,
                data=result.line,
            )
            for result in results
        )


def finalize(batch: Batch) -> bool:
    """Every line is written: from now on nobody can cancel it. False where somebody has."""
    mine = Batch.objects.filter(id=batch.id, worker=batch.worker)
    through = mine.filter(status__in=(Status.IN_PROGRESS, Status.FINALIZING))
    return bool(through.update(status=Status.FINALIZING, finalizing_at=timezone.now()))


def finish(batch: Batch, status: Batch.Status, keep: Keep, errors: Iterable[Mapping[str, Any]] = ()) -> None:
    """Its end: files that have a line are whole, others go. Raises LostLease."""
    now = timezone.now()
    with transaction.atomic():
        _change(
            batch,
            status=status,
            **{f"{status.value}_at": now},
            errors=list(errors),
            finalizing_at=batch.finalizing_at or (now if batch.in_progress_at else None),
            output_file_id=_close(batch.output_file_id, now, keep.written),
            error_file_id=_close(batch.error_file_id, now, keep.written),
        )
        if keep.read is not None:
            StoredFile.objects.filter(id=batch.input_file_id).update(expires_at=now + keep.read)


def _close(file_id: str, now: datetime, keep: timedelta | None) -> str:
    size = FilePiece.objects.filter(file_id=file_id).aggregate(size=Sum(Length("data")))["size"]
    file = StoredFile.objects.filter(id=file_id)
    if size is None:
        file.delete()
        return ""
    # It is made now, for whoever asked that it goes so long after its making.
    file.update(size_bytes=size, is_whole=True, created_at=now, expires_at=now + keep if keep is not None else None)
    return file_id


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


def _change(batch: Batch, **values: Any) -> None:
    if not Batch.objects.filter(id=batch.id, worker=batch.worker).update(**values):
        raise LostLease
