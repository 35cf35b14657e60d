"""Owns what the one worker of a batch writes: its hold on the row, the lines' answers, the end. Asks for no answer.

Every write compares the worker's name with the row's, so that of two nobody writes for the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q, Sum
from django.db.models.functions import Length
from django.utils import timezone

from streaming.models import Batch, FilePiece, StoredFile

from . import clock

Status = Batch.Status
#: How long a batch may rest between two turns.
LONGEST_REST = timedelta(minutes=5)


class LostLease(Exception):
    """The batch is somebody else's by now, or gone."""


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


def take(worker: str, slots: int, lease: timedelta) -> Batch | None:
    """The batch that has waited longest, to be worked at by this worker alone; None where no slot or no batch is free.

    Who took one and has not come back in its lease has lost it. A moment that lies further ahead than anybody puts one
    was written before the clock was set back, and has passed.
    """
    now = clock.now()
    if not Batch.objects.filter(status__in=Batch.UNFINISHED).exists():
        return None
    lost = Q(lease_until__lt=now) | Q(lease_until__gt=now + 2 * lease)
    Batch.objects.filter(lost).update(worker="", slot=None, lease_until=None)
    has_rested = Q(due_at__lte=now) | Q(due_at__gt=now + 2 * LONGEST_REST)
    due = Batch.objects.filter(has_rested, status__in=Batch.UNFINISHED, slot__isnull=True)
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
    _change(batch, lease_until=clock.now() + lease)
    now = Batch.objects.filter(id=batch.id, worker=batch.worker).first()
    if now is None:
        raise LostLease
    return now


def release(batch: Batch, rest: timedelta) -> None:
    """Let others have it, after a rest of LONGEST_REST at most; does nothing where it is lost."""
    due_at = clock.now() + min(rest, LONGEST_REST)
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


def _change(batch: Batch, **values: Any) -> None:
    if not Batch.objects.filter(id=batch.id, worker=batch.worker).update(**values):
        raise LostLease
